"""Where an operation goes: to the active recorder, or to eager execution.

Owns: ``apply`` and ``apply_inplace``, the only two doors to an operation.
In: an ``Op``, then its inputs (Tensors and Python numbers), then its static params. Out: Tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ops import dispatch_hook
from jitgrad.ops.table import Op
from jitgrad.runtime.eager import apply_eager, apply_inplace_eager, split_args
from jitgrad.state import state

__all__ = ["apply", "apply_inplace", "apply_update"]


def apply(op: Op, *args: Any) -> Any:
    """Apply ``op`` to its inputs and params; returns a Tensor, or a tuple of them for several outputs."""
    recorder = state.recorder
    if recorder is not None:
        return recorder.apply(op, args)
    inputs, params = split_args(op, args)
    return apply_eager(op, inputs, params)


def apply_inplace(op: Op, targets: tuple[Any, ...], *args: Any) -> tuple[Any, ...]:
    """Compute ``op(*args)`` and write its outputs into ``targets``: one event of a trace, one write each.

    Returns ``targets``. Raises what PyTorch raises for in-place forms: a result that does not fit the target's shape
    or dtype, or a leaf that requires grad while grad mode is on.
    """
    recorder = state.recorder
    if recorder is not None:
        return recorder.apply_inplace(op, targets, args)
    inputs, params = split_args(op, args)
    return apply_inplace_eager(op, targets, inputs, params)


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
    recorder = state.recorder
    if recorder is not None:
        recorder.apply_update(op, rows, writes, numbers, params)
        return
    for row in rows:
        apply_inplace_eager(op, tuple(row[i] for i in writes), (*row, *numbers), params)


dispatch_hook.install(apply)
