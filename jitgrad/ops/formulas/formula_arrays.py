"""Formulas over NumPy's arrays: what a NumPy rule is where a kernel's formula is the one source.

Owns: ``ARRAYS``, which takes the place of a lowering's builder.
Must not know: any formula, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import DType
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.iterations import Iteration
from jitgrad.ops.formulas.special import np_erf

__all__ = ["ARRAYS", "OutsideError"]

_UFUNCS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "copysign": np.copysign, "sqrt": np.sqrt, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "acos": np.arccos, "erf": np_erf, "floor": np.floor, "trunc": np.trunc, "round": np.rint, "isnan": np.isnan,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and_": np.logical_and, "or_": np.logical_or, "not_": np.logical_not, "where": np.where,
}  # fmt: skip
"""Primitive -> what NumPy calls it."""


class OutsideError(Exception):
    """An index that a formula checks is out of range."""


class _Arrays:
    """The primitives that formulas use, over float64 arrays; they are computed at once."""

    def __getattr__(self, name: str) -> Any:
        try:
            return _UFUNCS[name]
        except KeyError:
            raise AttributeError(name) from None

    def cast(self, x: Any, dtype: DType) -> Any:
        return np.asarray(x).astype(dtype.np)

    def const(self, number: float, dtype: DType) -> Any:
        return dtype.np.type(number)

    def check(self, index: Any, extent: int) -> Any:
        if ((index < -extent) | (index >= extent)).any():
            raise OutsideError
        return index

    def iterate(self, iteration: Iteration, *arguments: Any) -> tuple[Any, ...]:
        """The last state: elements that are done are left out of the next turn."""
        given = [np.ascontiguousarray(x).ravel() for x in np.broadcast_arrays(*[np.asarray(a) for a in arguments])]
        shape = np.broadcast_shapes(*map(np.shape, arguments))
        begin = iteration.start(_expressions(given))
        state = [np.full(given[0].shape, x.value if isinstance(x, Expression) else x) for x in begin]
        left = np.arange(given[0].size)
        for k in range(iteration.most):
            count, own = Expression(self, np.float64(k)), _expressions([x[left] for x in given])
            goes_on = iteration.goes_on(count, own, _expressions([x[left] for x in state])).value
            left = left[goes_on]
            if not left.size:
                break
            own, now = _expressions([x[left] for x in given]), _expressions([x[left] for x in state])
            for at, new in zip(state, iteration.step(count, own, now), strict=True):
                at[left] = new.value
        return tuple([x.reshape(shape) for x in state])


ARRAYS = _Arrays()


def _expressions(arrays: list[Any]) -> tuple[Expression, ...]:
    return tuple([Expression(ARRAYS, x) for x in arrays])
