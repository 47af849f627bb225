"""Where an operation goes: to the active recorder, or to eager execution.

Owns: ``apply`` and ``apply_inplace``, the only two doors to an operation.
In: an ``Op``, then its inputs (Tensors and Python numbers), then its static params. Out: Tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgrad.door import door
from jitgrad.errors import SparseOperandError
from jitgrad.events import bump_outside
from jitgrad.lazy import LazyModule
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.direct import apply_many, apply_one, apply_two, tick
from jitgrad.runtime.eager.eager import apply_inplace_eager, split_args
from jitgrad.runtime.engine.graph.call_node import join_call
from jitgrad.state import state, write_checks
from jitgrad.version_counter import check_inference_write, inference_tensors

__all__ = [
    "apply", "apply_elsewhere", "apply_inplace", "apply_update", "install_sparse",
]  # fmt: skip


def _no_sparse(*args: Any) -> Any:
    raise SparseOperandError


_apply_sparse: Callable[..., Any] = _no_sparse
_apply_inplace_sparse: Callable[..., Any] = _no_sparse


def install_sparse(function: Callable[..., Any], inplace: Callable[..., Any]) -> None:
    """What to do with sparse operands, see Note [Sparse operands]; ``jitgrad.sparse`` says so at import."""
    global _apply_sparse, _apply_inplace_sparse
    _apply_sparse, _apply_inplace_sparse = function, inplace


def apply(op: Op, *args: Any) -> Any:
    """Apply ``op`` to its inputs and params; returns a Tensor, or a tuple of them for several outputs."""
    recorder = state.handler
    try:
        if recorder is not None:
            return recorder.apply(op, args)
        num_inputs = op.num_inputs
        if num_inputs == 1:
            return door.run_one(op, args[0], args[1:])
        if num_inputs == 2:
            return door.run_two(op, args[0], args[1], args[2:])
        inputs, params = split_args(op, args)
        return door.run_many(op, inputs, params)
    except SparseOperandError:
        pass  # and let go of the error, whose frames hold operands
    return _apply_sparse(op, args)


def apply_elsewhere(op: Op, *args: Any) -> Any:
    """``apply`` for operands or results that are not on the CPU: a trace does not record it, it runs now."""
    inputs, params = split_args(op, args)
    recorder = state.handler
    if recorder is None:
        return door.run_many(op, inputs, params)
    bump_outside(op.name)
    if op.is_view:
        inputs[0]._sync()  # a view reads no value, but shares the memory
    recorder.go_outside()
    try:
        return door.run_many(op, inputs, params)
    finally:
        recorder.come_inside()


def apply_inplace(op: Op, targets: tuple[Any, ...], *args: Any) -> tuple[Any, ...]:
    """Compute ``op(*args)`` and write its outputs into ``targets``: one event of a trace, one write each.

    Returns ``targets``. Raises what PyTorch raises for in-place forms: a result that does not fit the target's shape
    or dtype, or a leaf that requires grad while grad mode is on.
    """
    if write_checks or inference_tensors:
        check_writes(targets)
    recorder = state.handler
    try:
        if recorder is not None:
            return recorder.apply_inplace(op, targets, args)
        tick()
        inputs, params = split_args(op, args)
        return door.run_inplace(op, targets, inputs, params)
    except SparseOperandError:
        pass
    return _apply_inplace_sparse(op, targets, args)


def check_writes(targets: Iterable[Any]) -> None:
    """Ask each part that may refuse a write, or that must copy what the write replaces."""
    for target in targets:
        if inference_tensors:
            check_inference_write(target)
        for check in tuple(write_checks):
            check(target)


def apply_update(
    op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: tuple[Any, ...]
) -> None:
    """An optimizer's step: ``op(*row, *numbers, *params)`` for every row, written back in place; one event of a trace.

    Args:
        rows: the tensor inputs, one row per parameter; no tensor may be written by one row and used by another.
        writes: which inputs of a row receive the outputs, in order.
        numbers: the number inputs, which may change at every call at no cost.
        params: the static parameters.
    """
    if not rows:
        return
    if write_checks or inference_tensors:
        check_writes([row[i] for row in rows for i in writes])
    recorder = state.handler
    if recorder is not None:
        recorder.apply_update(op, rows, writes, numbers, params)
        return
    tick(len(rows))
    for row in rows:
        door.run_inplace(op, tuple(row[i] for i in writes), (*row, *numbers), params)


_PLAIN = LazyModule("jitgrad.runtime.engine.run.plain_graph")


def _first_backward(tensor: Any, gradient: Any, keep_graph: bool) -> bool:
    """``door.backward``, until a process runs its first backward."""
    door.backward = _PLAIN.backward_plainly
    return door.backward(tensor, gradient, keep_graph)


door.apply, door.apply_inplace, door.apply_update = apply, apply_inplace, apply_update
door.backward, door.join_call = _first_backward, join_call
door.run_one, door.run_two, door.run_many, door.run_inplace = apply_one, apply_two, apply_many, apply_inplace_eager
