"""Per-thread state: the active recorder and the grad mode.

One ``threading.local`` holds both, because every operation looks at both.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["State", "native_cell", "state", "switch_recorder"]


class State(threading.local):
    """What a thread is doing.

    Attributes:
        recorder: the ``tracer.recorder.Recorder`` of the compiled step being called, or None.
        grad_enabled: whether operations join the graph.
        eager_depth: how many ``eager()`` blocks the thread is in.
    """

    recorder: Any = None
    grad_enabled: bool = True
    eager_depth: int = 0


state = State()


def _ignore(recorder: Any) -> None:
    """There are no native hits to tell."""


class NativeCell:
    """The door to the native hits, see Note [Native hits].

    Attributes:
        activate: tells them which recorder's hits they may do, on the calling thread; None for nobody's.
        is_installed: whether there are any.
    """

    activate: Any = staticmethod(_ignore)
    is_installed = False


native_cell = NativeCell()


def switch_recorder(recorder: Any) -> Any:
    """Make ``recorder`` (or None) this thread's; returns the one before. The only way to change ``state.recorder``."""
    before = state.recorder
    state.recorder = recorder
    native_cell.activate(recorder if recorder is not None and recorder.is_hot else None)
    return before
