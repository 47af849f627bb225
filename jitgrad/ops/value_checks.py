"""What operations demand of the values of their integer operands, so that this can be checked before they run.

Owns: ``demands``, the table behind it, and what a demand is.
Must not know: kernels, traces. The operations' own rules raise the errors; this only says whether they could. A demand
that is too strict costs time, one that is too weak moves an error away from its statement.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval
from jitgrad.ops.shapes import wrap_dim
from jitgrad.ops.table import Op
from jitgrad.structs import value

__all__ = ["AtMost", "Demand", "NonZero", "Within", "demands"]


@value
class Within:
    """Every value lies in ``range(low, high)``, or is ``allowed``."""

    low: int
    high: int
    allowed: int | None = None

    def __call__(self, values: Any) -> bool:
        if not values.size:
            return True
        if not self.low and values.dtype == np.int64:  # unsigned, a negative number is large: one comparison
            is_met = int(np.maximum.reduce(values.view(np.uint64), axis=None)) < self.high
        else:
            is_met = bool(values.min() >= self.low and values.max() < self.high)
        if is_met or self.allowed is None:
            return is_met
        return Within(self.low, self.high)(values[values != self.allowed])


@value
class NonZero:
    """No value is zero."""

    def __call__(self, values: Any) -> bool:
        return bool(np.all(values))


@value
class AtMost:
    """No more than ``count`` values are true."""

    count: int

    def __call__(self, values: Any) -> bool:
        return int(np.count_nonzero(values)) <= self.count


Demand = tuple[int, Within | NonZero | AtMost]
"""The position of an operand, and what is asked of its values."""


def demands(op: Op, avals: tuple[Aval | None, ...], params: tuple[Any, ...]) -> tuple[Demand, ...]:
    """What ``op`` demands of its operands. KeyError for an operation that checks none.

    Args:
        avals: of the operands; None for a Python number.
    """
    return _DEMANDS[op.name](avals, params)


def _extent(x: Any, dim: int) -> int:
    return x.shape[wrap_dim(dim, x.ndim)] if x.ndim else 1


def _positions(first: int) -> Callable[..., tuple[Demand, ...]]:
    """Index tensors from operand ``first`` on, one per dimension of the last parameter."""

    def rule(avals: Any, params: Any) -> tuple[Demand, ...]:
        shape = avals[0].shape
        return tuple((first + k, Within(-shape[d], shape[d])) for k, d in enumerate(params[-1]))

    return rule


def _along(dim: int, wraps: bool = False) -> Callable[..., tuple[Demand, ...]]:
    """One index tensor, along the dimension that is parameter ``dim``."""

    def rule(avals: Any, params: Any) -> tuple[Demand, ...]:
        if not avals[0].ndim and wraps:
            return ()
        extent = _extent(avals[0], params[dim])
        return ((1, Within(-extent if wraps else 0, extent)),)

    return rule


def _flat(avals: Any, params: Any) -> tuple[Demand, ...]:
    return ((1, Within(-avals[0].numel, avals[0].numel)),)


def _classes(avals: Any, params: Any) -> tuple[Demand, ...]:
    return ((1, Within(0, avals[0].shape[1], params[-1])),)


def _masked(avals: Any, params: Any) -> tuple[Demand, ...]:
    x, mask, source = avals
    repeats = int(np.prod(np.broadcast_shapes(x.shape, mask.shape))) // max(mask.numel, 1)
    return ((1, AtMost(source.numel // max(repeats, 1))),)


def _divisor(avals: Any, params: Any) -> tuple[Demand, ...]:
    is_integer = all(a is None or not a.dtype.is_floating_point for a in avals)
    return ((1, NonZero()),) if is_integer else ()


def _sequences(avals: Any, params: Any) -> tuple[Demand, ...]:
    """Labels, lengths of inputs and of targets."""
    time, _, classes = avals[0].shape
    longest = avals[1].shape[-1]
    return ((1, Within(0, classes)), (2, Within(0, time + 1)), (3, Within(0, longest + 1)))


_DEMANDS: dict[str, Callable[..., tuple[Demand, ...]]] = {
    "_ctc_loss": _sequences,
    "embedding": lambda avals, params: ((1, Within(0, avals[0].shape[0])),),
    "gather": _along(0),
    "index_add": _along(0),
    "index_copy": _along(0),
    "index_fill": _along(0, wraps=True),
    "index_select": _along(0),
    "linalg_lu_solve": lambda avals, params: ((1, Within(1, avals[0].shape[-1] + 1)),),
    "lu_exchanges": lambda avals, params: ((0, Within(1, params[0] + 1)),),
    "lu_permutation": lambda avals, params: ((0, Within(1, params[0] + 1)),),
    "masked_scatter": _masked,
    "max_unpool2d": lambda avals, params: ((1, Within(0, prod(params[0]))),),
    "max_unpool3d": lambda avals, params: ((1, Within(0, prod(params[0]))),),
    "nll_loss": _classes,
    "nll_loss_weighted": _classes,
    "one_hot": lambda avals, params: ((0, Within(0, params[0])),),
    "put": _flat,
    "scatter": _along(0),
    "scatter_add": _along(0),
    "scatter_reduce": _along(0),
    "take": _flat,
}
_DEMANDS |= dict.fromkeys("floor_divide div_floor div_trunc remainder fmod".split(), _divisor)
_DEMANDS |= {f"index{k}": _positions(1) for k in range(1, 7)}
_DEMANDS |= {f"index_{name}{k}": _positions(2) for name in ("put", "put_accumulate") for k in range(1, 7)}
