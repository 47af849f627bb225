"""What plain Python does with the results of compiled calls: losses and optimizers' steps, each as a compiled call.

Owns: which of them are compiled, and the functions that do them.
Must not know: what compiled functions do.

``optimizer.step()`` in plain Python, after a backward that was a program (Note [Backward from outside]), is the same
event as in a compiled step, recorded by a function that does nothing else. Parameters whose gradients come from NumPy
are updated by NumPy: a process that compiles nothing loads no compiler. In the same way, a loss of what a compiled
model has returned is a compiled call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.compile import CompiledFunction
from jitgrad.dispatch import compiled_losses, program_leaves, update_now
from jitgrad.ops.table import Op
from jitgrad.state import compiled_updates, modes_in_use, override_classes

__all__ = ["note_leaf"]

_MAX_FUNCTIONS = 64

_functions: dict[Any, Any] = {}
_losses: dict[Callable[..., Any], Any] = {}


def note_leaf(leaf: Any) -> None:
    """A program has computed the gradient of a leaf: updates of it, and of what is updated with it, are compiled."""
    if id(leaf) not in program_leaves:
        program_leaves[id(leaf)] = leaf
        if not compiled_updates:
            compiled_updates.append(_update)
            compiled_losses.append(_loss)


def _loss(loss: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a loss function of a result; compiled, if that can still be differentiated."""
    graph = input._graph
    kinds = {type(x) for x in (input, *args, *kwargs.values())} if override_classes else set()
    overrides = not kinds.isdisjoint(override_classes)
    if graph.recorder is not None or not graph.saves or overrides or modes_in_use:
        return loss(input, *args, **kwargs)
    function = _losses.get(loss)
    if function is None:
        function = _losses[loss] = CompiledFunction(loss)
    return function(input, *args, **kwargs)


def _update(
    op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: tuple[Any, ...]
) -> bool:
    """Do an update as one program; False if it is for NumPy."""
    if not any(id(row[0]) in program_leaves for row in rows):
        return False
    key = (op, len(rows), params)
    function = _functions.get(key)
    if function is None:
        if len(_functions) >= _MAX_FUNCTIONS:
            _functions.clear()
        function = _functions[key] = CompiledFunction(update_now)
    function(op, rows, writes, numbers, params)
    return True
