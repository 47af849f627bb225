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
from jitgrad.ops.table import Op
from jitgrad.runtime.engine.run.request import BackwardRequest
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.numbers import is_number

__all__ = ["Level", "active_levels", "level", "without"]


class Level:
    """A level; see Note [Levels].

    Attributes:
        below: the recorder under this one, or None for eager execution.
        tid: the stamp of the trace that handles of this level answer to; no tensor's, without a trace.
        base_tid: the stamp of the compiled step at the bottom.
    """

    is_hot = False  # native hits may not answer for it
    stays_on_thread = True  # the engine runs all nodes here, also those of devices

    def __init__(self) -> None:
        self.below = state.handler
        bottom = self.below
        while isinstance(bottom, Level):
            bottom = bottom.below
        self.bottom = bottom
        if bottom is not None:
            bottom.must_record = True
        self.base_tid = -1 if bottom is None else bottom.tid
        self.tid = -1 if self.below is None else self.below.tid

    def close(self) -> None:
        """The level has ended."""

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

    # everything else that is asked of a recorder
    def _tell(self, name: str, *args: Any) -> Any:
        """Ask the level below; None if there is nobody."""
        return None if self.below is None else self.beneath(getattr(self.below, name), *args)

    def set_grad_mode(self, enabled: bool) -> None:
        self._tell("set_grad_mode", enabled)

    def set_default_dtype(self, dtype: Any) -> None:
        self._tell("set_default_dtype", dtype)

    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        self._tell("set_requires_grad", tensor, requires_grad)

    def add_hooks(self, tensor: Any) -> None:
        self._tell("add_hooks", tensor)

    def read(self, tensor: Any) -> None:
        self._tell("read", tensor)

    def flush(self) -> None:
        self._tell("flush")

    def forget(self, tensor: Any) -> None:
        self._tell("forget", tensor)

    def replace_data(self, tensor: Any, value: Any) -> None:
        self._tell("replace_data", tensor, value)

    def note_data(self, source: Any, tensor: Any) -> None:
        self._tell("note_data", source, tensor)

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        """A tensor takes the place of its own view; of a handle, the level's side of it does."""
        above = getattr(tensor, "_level", None)
        if above is not None:
            above.replace(tensor, make(tensor))
        else:
            self.beneath(take_own_view, tensor, make, name)

    def grad_fn_of(self, tensor: Any) -> Any:
        return self._tell("grad_fn_of", tensor)

    def go_outside(self) -> None:
        self._tell("go_outside")

    def come_inside(self) -> None:
        self._tell("come_inside")

    def leave(self) -> Any:
        return self._tell("leave")

    def come_back(self, versions: Any) -> None:
        self._tell("come_back", versions)

    def join_outer(self, tensor: Any, node: Any, output_nr: int) -> None:
        if self.below is not None:
            self._tell("join_outer", tensor, node, output_nr)
        else:
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, output_nr

    def twin(self, tensor: Any) -> Any:
        return tensor if self.below is None else self._tell("twin", tensor)

    def note_write(self, tensor: Any) -> None:
        self._tell("note_write", tensor)

    def saved_hooks_changed(self) -> None:
        self._tell("saved_hooks_changed")

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        return False

    def record_backward(self, request: BackwardRequest) -> Any:
        """A backward under levels; ``transforms.backward`` says how. Here: one level down."""
        raise AssertionError("a level without a backward")

    def __getattr__(self, name: str) -> Any:
        """What only some recorders have is the bottom's affair."""
        below = self.__dict__.get("below")
        if below is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(below, name)


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
    above = top
    while above.below is not left_out:
        above = above.below
    above.below = left_out.below
    before = switch_handler(top)
    try:
        yield
    finally:
        switch_handler(before)
        above.below = left_out


def active_levels() -> list[Level]:
    """This thread's levels, the topmost first."""
    found, at = [], state.handler
    while isinstance(at, Level):
        found.append(at)
        at = at.below
    return found
