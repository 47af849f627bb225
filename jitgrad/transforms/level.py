"""``Level``: an interpreter of operations that stands on another one.

Owns: what every level does the same way: it passes on to the recorder below, or to eager execution, whatever it has
nothing to say about.
Must not know: tangents, batches (``dual`` and ``batch`` are levels).
In: everything that is asked of ``state.handler``. Out: the same questions, one level down.

# Note [Levels]
# ~~~~~~~~~~~~~
# Forward-mode derivatives and ``vmap`` reinterpret operations, so each is a *level*: an object in the place of the
# thread's recorder, which does an operation by doing others on the level below it. At the bottom is the recorder of a
# compiled step, or nothing: eager execution. Levels nest in any order, cost nothing when there are none, and what they
# do inside a compiled step is recorded like anything else. A level works with ``state.handler`` set to the one below
# (``beneath``), so the operations of its rules are seen by the levels under it, and by no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad import dispatch
from jitgrad.functions.inplace_views import take_own_view
from jitgrad.handler import ForwardingHandler, Handler
from jitgrad.ops.table import Op
from jitgrad.runtime.engine.run.request import BackwardRequest
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.numbers import is_number

__all__ = ["Level", "active_levels", "level", "without"]


class Level(ForwardingHandler):
    """A level; see Note [Levels].

    Attributes:
        below: the recorder under this one, or None for eager execution.
        tid: the stamp of the trace that handles of this level answer to; no tensor's, without a trace.
        base_tid: the stamp of the compiled step at the bottom.
    """

    reinterprets = True
    stays_on_thread = True

    def __init__(self) -> None:
        self.below: Handler | None = state.handler
        bottom = self.below
        while isinstance(bottom, Level):
            bottom = bottom.below
        self.bottom = bottom
        if bottom is not None:
            bottom.carries_level()
        self.base_tid = -1 if bottom is None else bottom.tid
        self.tid = -1 if self.below is None else self.below.tid

    def close(self) -> None:
        """The level has ended."""

    def is_idle(self) -> bool:
        """Whether no tensor is known to this level."""
        return False

    def beneath(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function(*args)`` one level down."""
        before = switch_handler(self.below)
        try:
            return function(*args)
        finally:
            switch_handler(before)

    # operations
    def binary(self, op: Op, a: Any, b: Any) -> Any:
        """``a op b`` from an operator of Tensor."""
        if not isinstance(b, TensorBase):
            if not is_number(b):
                return NotImplemented
            b = b.item() if hasattr(b, "item") else b
        return self.apply(op, (a, b))

    def reflected(self, op: Op, number: int | float, x: Any) -> Any:
        return self.apply(op, (number.item() if hasattr(number, "item") else number, x))

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        return self.beneath(dispatch.apply, op, *args)

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        result: tuple[Any, ...] = self.beneath(dispatch.apply_inplace, op, targets, *args)
        return result

    def concerns(self, tensor: Any) -> bool:
        """Whether this level has something to say about a tensor."""
        return False

    def apply_update(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        if not any(self.concerns(x) for row in rows for x in row):
            self.beneath(dispatch.apply_update, op, rows, writes, numbers, params)
            return
        for row in rows:
            self.apply_inplace(op, tuple(row[i] for i in writes), (*row, *numbers, *params))

    # everything else that is asked of a handler
    def pass_on(self, name: str, *args: Any) -> Any:
        """Ask the level below; None if there is nobody: eager execution keeps no account."""
        return None if self.below is None else self.beneath(getattr(self.below, name), *args)

    def saved_hooks_changed(self) -> None:
        """What records at the bottom may have another handler in front of it from here on, or none any more."""
        if self.below is None:
            return
        before = switch_handler(self.below)
        try:
            self.below.saved_hooks_changed()
            self.below = state.handler
        finally:
            switch_handler(before)

    def custom_function(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return NotImplemented if self.below is None else self.pass_on("custom_function", cls, args, kwargs)

    def draws(self, draw: Callable[[tuple[int, ...]], Any]) -> Any:
        return self.beneath(draw, ()) if self.below is None else self.pass_on("draws", draw)

    def data_source(self, tensor: Any) -> Any:
        return tensor

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        """A tensor takes the place of its own view; of a handle, the level's side of it does."""
        above = getattr(tensor, "_level", None)
        if above is not None:
            above.replace(tensor, make(tensor))
        else:
            self.beneath(take_own_view, tensor, make, name)

    def join_outer(self, tensor: Any, node: Any, output_nr: int) -> None:
        if self.below is not None:
            self.pass_on("join_outer", tensor, node, output_nr)
        else:
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, output_nr

    def twin(self, tensor: Any) -> Any:
        return tensor if self.below is None else self.pass_on("twin", tensor)

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        return False

    def record_backward(self, request: BackwardRequest) -> Any:
        """A backward under levels; ``transforms.backward`` says how. Here: one level down."""
        raise AssertionError("a level without a backward")


@contextmanager
def level(new: Any) -> Iterator[Any]:
    """Run the block with one more level on top."""
    before = switch_handler(new)
    try:
        yield new
    finally:
        switch_handler(before)
        new.close()


@contextmanager
def without(top: Level, left_out: Level) -> Iterator[None]:
    """Run the block on ``top``, as if ``left_out``, somewhere below it, were not there."""
    above = next(one for one in active_levels(top) if one.below is left_out)
    above.below = left_out.below
    before = switch_handler(top)
    try:
        yield
    finally:
        switch_handler(before)
        above.below = left_out


def active_levels(top: Handler | None = None) -> list[Level]:
    """The levels from ``top`` (None: this thread's handler) down."""
    found, at = [], state.handler if top is None else top
    while isinstance(at, Level):
        found.append(at)
        at = at.below
    return found
