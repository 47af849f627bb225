"""One formula as the lowering and the NumPy rule of an operation.

Owns: ``Formula``.
Must not know: any formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import float32, float64
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formula_arrays import ARRAYS
from jitgrad.ops.shapes import float_dtype, np_operand, operand

__all__ = ["Formula"]


class Formula:
    """``function(*operands, is_single, *params)`` of float64 expressions, in the floating dtype of the operands.

    Attributes:
        function: the formula; ``is_single`` says that the result is rounded to float32.
        count: how many operands it takes; they broadcast.
    """

    __slots__ = ("count", "function")

    def __init__(self, function: Callable[..., Expression], count: int = 1) -> None:
        self.function, self.count = function, count

    def lower(self, b: Any, *args: Any) -> Any:
        """The lowering, over a builder of primitives."""
        dtype = float_dtype(*args[: self.count])
        operands = [operand(b, x, dtype) for x in args[: self.count]]
        wide = [Expression(b, b.cast(x, float64)) for x in operands]
        out = self.function(*wide, operands[0].dtype is float32, *args[self.count :])
        return b.cast(out.value, operands[0].dtype)

    def numpy(self, *args: Any) -> Any:
        """The NumPy rule."""
        dtype = float_dtype(*args[: self.count])
        operands = [np_operand(x, dtype) for x in args[: self.count]]
        shape = np.broadcast_shapes(*map(np.shape, operands))
        if 0 in shape:
            return np.empty(shape, operands[0].dtype)
        with np.errstate(all="ignore"):
            wide = [Expression(ARRAYS, np.asarray(x, np.float64)) for x in operands]
            out = self.function(*wide, dtype is float32, *args[self.count :])
            return np.asarray(out.value, np.float64).astype(operands[0].dtype)
