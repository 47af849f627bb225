"""Where an operation goes: to the active recorder, or to eager execution.

Owns: ``apply`` and ``apply_inplace``, the only two doors to an operation.
In: an ``Op``, then its inputs (Tensors and Python numbers), then its static params. Out: Tensors.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops import dispatch_hook
from jitgrad.ops.table import Op
from jitgrad.runtime.eager import apply_eager, apply_inplace_eager, split_args
from jitgrad.state import state

__all__ = ["apply", "apply_inplace"]


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


dispatch_hook.install(apply)
