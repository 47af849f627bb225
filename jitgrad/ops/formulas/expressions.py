"""Formulas of lowerings, written with operators.

Owns: ``Expression``.
Must not know: any formula, primitives' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import float64, int64

__all__ = ["Expression"]


class Expression:
    """A value of a lowering's builder. Python numbers on either side of an operator become constants.

    Attributes:
        b: the builder.
        value: the value.
    """

    __slots__ = ("b", "value")

    def __init__(self, b: Any, value: Any) -> None:
        self.b, self.value = b, value

    def __getattr__(self, name: str) -> Any:
        """``x.exp()``, ``x.gt(1.0)``: the primitive of that name."""
        primitive = getattr(self.b, name)
        return lambda *others: Expression(self.b, primitive(self.value, *map(_value, others)))

    def __add__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.add(self.value, _value(other)))

    def __sub__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.sub(self.value, _value(other)))

    def __mul__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.mul(self.value, _value(other)))

    def __truediv__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.div(self.value, _value(other)))

    def __radd__(self, other: float) -> Expression:
        return self + other

    def __rmul__(self, other: float) -> Expression:
        return self * other

    def __rsub__(self, other: float) -> Expression:
        return Expression(self.b, self.b.sub(other, self.value))

    def __rtruediv__(self, other: float) -> Expression:
        return Expression(self.b, self.b.div(other, self.value))

    def __neg__(self) -> Expression:
        return Expression(self.b, self.b.neg(self.value))

    def __ge__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.ge(self.value, _value(other)))

    def __gt__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.gt(self.value, _value(other)))

    def __lt__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.lt(self.value, _value(other)))

    def __and__(self, other: Any) -> Expression:
        return Expression(self.b, self.b.and_(self.value, _value(other)))

    def where(self, yes: Any, no: Any) -> Expression:
        """This condition's choice between two expressions or numbers, of which one is an expression."""
        return Expression(self.b, self.b.where(self.value, _value(yes), _value(no)))

    def like(self, number: float) -> Expression:
        """A number as an expression of float64."""
        return Expression(self.b, self.b.const(number, float64))

    def checked(self) -> Expression:
        """0; where this condition holds the operation raises what its NumPy rule raises."""
        index = self.b.check(self.b.cast(self.value, int64), 1)
        return Expression(self.b, self.b.cast(index, float64))

    def iterate(self, iteration: Any, *others: Any) -> tuple[Expression, ...]:
        """The last state of an ``Iteration`` whose arguments are this and ``others``."""
        found = self.b.iterate(iteration, self.value, *map(_value, others))
        return tuple([Expression(self.b, x) for x in found])

    def poly(self, coefficients: Sequence[float]) -> Expression:
        """``c0 + c1 x + c2 x^2 ...`` by Horner's rule."""
        total = self * coefficients[-1]
        for coefficient in coefficients[-2:0:-1]:
            total = (total + coefficient) * self
        return total + coefficients[0]

    def chebyshev(self, coefficients: Sequence[float]) -> Expression:
        """``c0 / 2 + c1 T1(x) + c2 T2(x) ...`` for x from -1 to 1, by Clenshaw's recurrence."""
        twice = self * 2.0
        total: Any = twice * 0.0 + coefficients[-1]
        before: Any = 0.0
        for coefficient in coefficients[-2:0:-1]:
            total, before = twice * total - before + coefficient, total
        return 0.5 * (twice * total + coefficients[0]) - before


def _value(x: Any) -> Any:
    return x.value if type(x) is Expression else x
