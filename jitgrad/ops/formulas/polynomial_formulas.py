"""Kernels of orthogonal polynomials whose degree is an operand, as formulas.

Owns: ``FORMULAS``.
Must not know: anything of their names in ``torch.special`` but those.

All are computed in float64 by their recurrences (Abramowitz and Stegun, table 22.7): p[0] is 1, and 0 for a negative
degree; p[k + 1] comes from p[k] and p[k - 1]. Chebyshev polynomials of a high degree inside of [-1, 1] are functions of
t = acos(x) (22.3.15 and 22.3.16).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formula_arrays import OutsideError
from jitgrad.ops.formulas.formulas import Formula
from jitgrad.ops.formulas.iterations import Iteration

__all__ = ["FORMULAS"]

_Following = Callable[[Any, Any, Any, Any], Any]


def _doubled(k: Any, x: Any, p: Any, q: Any) -> Any:
    return 2.0 * x * p - q


_RECURRENCES: dict[str, tuple[Callable[[Any], Any], _Following]] = {
    "chebyshev_polynomial_t": (lambda x: x, _doubled),
    "chebyshev_polynomial_u": (lambda x: 2.0 * x, _doubled),
    "chebyshev_polynomial_v": (lambda x: 2.0 * x - 1.0, _doubled),
    "chebyshev_polynomial_w": (lambda x: 2.0 * x + 1.0, _doubled),
    "hermite_polynomial_h": (lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * (x * p - k * q)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1.0 - x, lambda k, x, p, q: ((2.0 * k + 1.0 - x) * p - k * q) / (k + 1.0)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0)),
}
"""Name -> (p[1], the recurrence)."""
_CLOSED: dict[str, Callable[[Any, Any], Any]] = {
    "chebyshev_polynomial_t": lambda n, t: (n * t).cos(),
    "chebyshev_polynomial_u": lambda n, t: ((n + 1.0) * t).sin() / t.sin(),
    "chebyshev_polynomial_v": lambda n, t: ((n + 0.5) * t).cos() / (t * 0.5).cos(),
    "chebyshev_polynomial_w": lambda n, t: ((n + 0.5) * t).sin() / (t * 0.5).sin(),
}
_CLOSED_FROM = 4096.0
_TOO_HIGH = 2.0**63
"""A degree that 64 bits do not hold becomes a negative one, as in PyTorch."""
_MOST_TURNS = 1 << 20
_OVERFLOWS_BEFORE = 1 << 14
"""NumPy's rule takes what has not overflowed after so many turns for bounded."""


def _iteration(name: str, most: int) -> Iteration:
    first, following = _RECURRENCES[name]

    def goes_on(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> Any:
        """Up to the degree, while it is still a number."""
        return (k + 1.0).lt(arguments[1]).and_(state[1].eq(state[1]))

    def step(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, ...]:
        return state[1], following(k + 1.0, arguments[0], state[1], state[0])

    return Iteration(name, lambda arguments: (1.0, first(arguments[0])), goes_on, step, most)


def _polynomial(name: str, is_shifted: bool, most: int) -> Callable[[Expression, Expression, bool], Expression]:
    iteration, closed = _iteration(name, most), _CLOSED.get(name)

    def formula(x: Expression, n: Expression, is_single: bool) -> Expression:
        degree = n.abs().lt(_TOO_HIGH).where(n.trunc(), -1.0)
        z = 2.0 * x - 1.0 if is_shifted else x
        is_closed = degree.gt(_CLOSED_FROM).and_(z.abs().lt(1.0)) if closed else degree.gt(math.inf)
        out = z.iterate(iteration, is_closed.where(-1.0, degree))[1]
        is_left = is_closed.not_().and_(degree.gt(_MOST_TURNS + 1.0)).and_(out.eq(out))
        out = degree.ge(1.0).where(out, degree.eq(0.0).where(1.0, z.like(0.0)))
        if closed is not None:
            out = is_closed.where(closed(degree, z.acos()), out)
        return out + is_left.checked()

    return formula


class _Polynomial(Formula):
    """A polynomial whose NumPy rule says which one takes too long.

    Attributes:
        name: of the polynomial.
        begin: the same, but with fewer turns.
    """

    __slots__ = ("begin", "name")

    def __init__(self, name: str, prefix: str) -> None:
        super().__init__(_polynomial(name, bool(prefix), _MOST_TURNS), 2)
        self.name, self.begin = prefix + name, Formula(_polynomial(name, bool(prefix), _OVERFLOWS_BEFORE), 2)

    def numpy(self, *args: Any) -> Any:
        """The NumPy rule.

        Raises:
            RuntimeError: a degree is higher than anybody waits for.
        """
        try:
            if np.any(np.asarray(args[1]) > _MOST_TURNS + 1):
                self.begin.numpy(*args)
            return super().numpy(*args)
        except OutsideError:
            raise RuntimeError(
                f"special.{self.name}: a degree takes too long; degrees are computed up to {_MOST_TURNS + 1}"
            ) from None


FORMULAS = {
    prefix + name: _Polynomial(name, prefix)
    for name in _RECURRENCES
    for prefix in (("", "shifted_") if name in _CLOSED else ("",))
}
"""Name without ``special_`` -> its kernel and NumPy rule."""
