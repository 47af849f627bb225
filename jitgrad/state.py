"""Per-thread state: the active recorder, the grad mode, and what else a thread may have switched on.

One ``threading.local`` holds it all, because every operation looks at the first two. Anomaly mode belongs to the
process, as in PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jitgrad.handler import Handler

__all__ = [
    "Anomaly",
    "State",
    "anomaly",
    "autocasts",
    "engine_watchers",
    "modes_in_use",
    "native_cell",
    "override_classes",
    "plain_tensors",
    "state",
    "switch_handler",
    "without_overrides",
    "write_checks",
]


class Anomaly:
    """Anomaly mode, of the whole process.

    Attributes:
        enabled: nodes remember where they were made, and a node's error says so.
        check_nan: a gradient with NaN in it is an error.
    """

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


anomaly = Anomaly()

modes_in_use: list[str] = []
"""One entry for every block that is open, on any thread, of a mode that operations must look out for (inference mode,
saved-tensor hooks, mutation of saved tensors). Empty nearly always: hot paths test it before they look at ``state``."""

write_checks: list[Callable[[Any], None]] = []
"""Each is called with a tensor before it is written in place, and may raise. Empty nearly always."""


engine_watchers: list[Any] = []
"""The traces of the engine that are being taken, on any thread. Empty nearly always: hot paths test it."""


autocasts: list[Any] = []
"""One entry for every ``autocast`` block that is open, on any thread. Empty nearly always: functions that such a block
changes test it before they look at ``State.autocast``."""

override_classes: list[type] = []
"""Subclasses of Tensor that override functions, Note [Overrides]. Empty nearly always: hot paths test it."""


plain_tensors: set[type] = set()
"""Classes of tensors that were arguments and do not override functions."""


class State(threading.local):
    """What a thread is doing.

    Attributes:
        autocast: the dtype that products are computed in (``amp.autocast``); None = the operands' own.
        autocast_casts: in such a block, what leaves were cast to: by id, (leaf, version, cast); None = none is kept.
        handler: what applies operations (Note [One door]): a recorder, for instance; None = they run now.
        grad_enabled: whether operations join the graph.
        eager_depth: how many ``eager()`` blocks the thread is in.
        default_device: of new tensors; None = the CPU.
        saved_tensor_hooks: the default hooks of tensors that Nodes save, outermost first.
        saved_tensor_hooks_disabled: why there must be none, or None.
        mutation_guard: the object that copies saved tensors before they are written, or None.
        inference_mode: whether new tensors are inference tensors.
        pretends_grad: what ``is_grad_enabled`` says inside inference mode, where nothing joins the graph.
        multithreading_enabled: whether backward may use the threads of devices.
        overrides_off: how many blocks the thread is in where subclasses are plain tensors, Note [Overrides].
    """

    autocast: Any = None
    autocast_casts: dict[int, tuple[Any, int, Any]] | None = None
    handler: Handler | None = None
    grad_enabled: bool = True
    eager_depth: int = 0
    default_device: Any = None
    saved_tensor_hooks: tuple[Any, ...] = ()
    saved_tensor_hooks_disabled: str | None = None
    mutation_guard: Any = None
    inference_mode: bool = False
    pretends_grad: bool = False
    multithreading_enabled: bool = True
    overrides_off: int = 0

    @property
    def anomaly_enabled(self) -> bool:
        """Whether ``detect_anomaly`` is on."""
        return anomaly.enabled


state = State()


def without_overrides(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``, where subclasses of Tensor are plain tensors, Note [Overrides]."""
    if not override_classes:
        return function(*args)
    overrides_off = state.overrides_off
    try:
        state.overrides_off = overrides_off + 1
        return function(*args)
    finally:
        state.overrides_off = overrides_off


def _ignore(recorder: Any) -> None:
    """There are no native hits to tell."""


class NativeCell:
    """The door to the native hits, see Note [Native hits].

    Attributes:
        activate: tells them which recorder's hits they may do, on the calling thread; None for nobody's.
        is_installed: whether there are any.
        waiting: what asks whether a builder has made native code, these hits or other, Note [Builders]. Changed by
            ``append`` and ``remove`` alone: threads may do so at the same time.
    """

    activate: Any = staticmethod(_ignore)
    is_installed = False

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []


native_cell = NativeCell()


def switch_handler(handler: Handler | None) -> Handler | None:
    """Make ``handler`` (or None) this thread's; returns the one before. The only way to change ``state.handler``, but
    for ``switch`` of ``call_hits.py``, which is the same for a call that is a hit."""
    before = state.handler
    state.handler = handler
    native_cell.activate(handler if handler is not None and handler.is_hot else None)
    return before
