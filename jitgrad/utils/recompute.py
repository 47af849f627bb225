"""Recomputing what a checkpointed function saved for its backward.

Owns: ``Frame``, one call of a checkpointed function: what stands for its saved tensors, and how they come back.
Must not know: how a call is set up (``checkpoint.py``), the engine, traces.
In: the tensors that Nodes want to save, as they come. Out: the same tensors, when Nodes ask for them.

# Note [Recomputation]
# ~~~~~~~~~~~~~~~~~~~~
# While a checkpointed function runs, saved-tensor hooks put a ``Holder`` in the place of every tensor that a Node
# saves, so the tensors themselves are freed. The first holder that backward unpacks makes the function run again, with
# grad mode on, under hooks that count: the n-th tensor saved in the second run belongs into the n-th holder. When the
# last one is filled the run is stopped (by an exception: what would come after it is not needed).
# A value is for one backward, and is given away once: nothing recomputed lives longer than its use. A holder whose Node
# is gone is skipped. A checkpoint inside a checkpoint saves its arguments under the hooks of the outer one, so
# unpacking them recomputes the outer function first. (PyTorch's notes are in torch/utils/checkpoint.py, which this
# follows; here a holder keeps its values itself.)
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.autograd.saved_tensors import saved_tensors_hooks
from jitgrad.grad_mode import enable_grad
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.py_node import without_trace
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable, pack
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import user_line

__all__ = ["CheckpointError", "Frame"]

_NO_NODE: Any = None
"""Saves the arguments: a saved input, other than an output, does not ask its node for anything."""

_next_lone_id = itertools.count(-1, -1).__next__

_TIP = (
    "\nTip: To see a more detailed error message, either pass `debug=True` to "
    "`jitgrad.utils.checkpoint.checkpoint(...)` or wrap the code block with "
    "`with jitgrad.utils.checkpoint.set_checkpoint_debug_enabled(True):` to enable checkpoint-debug mode globally."
)


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not do what the first did."""


class _StopRecomputation(Exception):
    """Every tensor that is needed has been recomputed."""


class Holder:
    """Stands for one saved tensor.

    Attributes:
        values: the recomputed tensor, for each backward that recomputed it; None once it was given away.
    """

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}


class Frame:
    """One call of a checkpointed function.

    Attributes:
        is_complete: the function has returned.
    """

    def __init__(
        self,
        recompute: Callable[..., Any],
        args: tuple[Any, ...],
        describe: Callable[[Any], Any],
        early_stop: bool,
        debug: bool,
    ) -> None:
        """What a call needs to be repeated.

        Args:
            recompute: the function, in the surroundings that it had.
            args: its arguments; tensors among them are saved, under the hooks of the moment.
            describe: what must be equal of a tensor and the recomputed one.
            early_stop: stop the second run after the last saved tensor.
            debug: collect, for an error message, where tensors were saved.
        """
        self.is_complete = False
        self._recompute = recompute
        self._args = [_Argument(x) for x in args]
        self._describe = describe
        self._early_stop = early_stop
        self._holders: list[weakref.ref[Holder]] = []
        self._descriptions: list[Any] = []
        self._lines: list[str] | None = [] if debug else None
        self._recomputed: set[int] = set()
        self._is_mismatch_fine = False

    def pack(self, x: Any) -> Holder:
        """Take a tensor that a Node wants to save, and keep nothing of it."""
        holder = Holder()
        self._holders.append(weakref.ref(holder))
        self._descriptions.append(self._describe(x))
        if self._lines is not None:
            self._lines.append(_line_of(x))
        return holder

    def unpack(self, holder: Holder) -> Any:
        """The tensor that a holder stands for; the first call of a backward recomputes all of them."""
        task = current.graph_task
        key = task.id if task is not None else _next_lone_id()
        if key not in self._recomputed:
            self._run_again(key)
        if key not in holder.values:
            raise AssertionError("internal error: a tensor was saved outside its checkpointed function")
        value, holder.values[key] = holder.values[key], None
        if value is None:
            raise CheckpointError(
                "jitgrad.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If "
                "you are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an "
                "issue with details on your use case."
            )
        return value

    def _run_again(self, key: int) -> None:
        args = [x.get() for x in self._args]
        run = _Run(self, key)
        try:
            with saved_tensors_hooks(run.pack, _as_it_is), enable_grad():
                self._recompute(*args)
        except _StopRecomputation:
            pass
        self._recomputed.add(key)
        self._check(run)

    def refill(self, run: _Run, x: Any) -> Any:
        """Put a recomputed tensor into its holder."""
        x = x.detach() if x.requires_grad else x
        number = run.count
        run.count += 1
        if run.lines is not None:
            run.lines.append(_line_of(x))
        if number >= len(self._holders):
            if self.is_complete:
                raise CheckpointError(
                    "jitgrad.utils.checkpoint: trying to save more tensors during recomputation than during the "
                    f"original forward pass.\n{self._hint(run)}"
                )
            self._is_mismatch_fine = True  # a backward inside the function, which goes on after it
            return x
        holder = self._holders[number]()
        if holder is not None:
            holder.values[run.key] = x
        if self._early_stop and run.count == len(self._holders):
            raise _StopRecomputation
        return x

    def new_lines(self) -> list[str] | None:
        """Where a run's lines are collected, if they are."""
        return None if self._lines is None else []

    def _check(self, run: _Run) -> None:
        """CheckpointError unless the run has saved what the first run did."""
        if self._is_mismatch_fine:
            return
        if run.count != len(self._holders):
            raise CheckpointError(
                "jitgrad.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self._holders)}\n"
                f"Number of tensors saved during recomputation: {run.count}.\n{self._hint(run)}"
            )
        different = []
        for number, (reference, saved) in enumerate(zip(self._holders, self._descriptions, strict=True)):
            holder = reference()
            again = self._describe(holder.values[run.key]) if holder is not None else saved
            if again != saved:
                different.append(
                    f"tensor at position {number}:\nsaved metadata: {saved}\nrecomputed metadata: {again}\n"
                )
        if different:
            raise CheckpointError(
                "jitgrad.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{''.join(different)}.\n{self._hint(run)}"
            )

    def _hint(self, run: _Run) -> str:
        if self._lines is None or run.lines is None:
            return _TIP
        first = "\n".join(f"  {i}: {line}" for i, line in enumerate(self._lines))
        second = "\n".join(f"  {i}: {line}" for i, line in enumerate(run.lines))
        return f"Tensors saved by the original forward:\n{first}\nTensors saved by the recomputation:\n{second}"


class _Run:
    """One repetition of a call.

    Attributes:
        key: the backward that it is for.
        count: tensors saved so far.
        lines: where they were saved, or None.
    """

    def __init__(self, frame: Frame, key: int) -> None:
        self._frame = frame
        self.key = key
        self.count = 0
        self.lines = frame.new_lines()

    def pack(self, x: Any) -> Any:
        """Hand a saved tensor to the frame; the Nodes of this run keep it too, for a backward inside the function."""
        return self._frame.refill(self, x)


class _Argument:
    """An argument of the call; a tensor is saved like any other."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value
        if isinstance(value, TensorBase):
            saved = SavedVariable(without_trace(value))
            hooks = state.saved_tensor_hooks
            self._value = pack(saved, _NO_NODE, hooks[-1]) if hooks else saved

    def get(self) -> Any:
        """The argument; RuntimeError if it has been overwritten."""
        value = self._value
        return value.unpack(_NO_NODE, True) if isinstance(value, SavedVariable) else value


def _as_it_is(x: Any) -> Any:
    return x


def _line_of(x: Any) -> str:
    return f"{x._aval!r} at {user_line()}"
