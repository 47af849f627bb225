"""Kernels of Hurwitz's zeta function and of polygamma, as formulas.

Owns: ``FORMULAS``.
Must not know: derivatives.

All are computed in float64. The sum over (q + k)^-s takes at least nine terms and those up to 9, as in S. L. Moshier's
library Cephes; the rest is Euler and Maclaurin's formula (Abramowitz and Stegun 23.1.30). For a negative q, whose
exponent is whole, terms below zero are a difference of two such sums, so that no loop walks from q to zero. Polygamma
is 6.4.10 there: ``(-1)^(n + 1) n! zeta(n + 1, x)``.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula
from jitgrad.ops.formulas.gamma_formulas import FORMULAS as GAMMA
from jitgrad.ops.formulas.iterations import Iteration

__all__ = ["FORMULAS"]

_EPS = 2.0**-53
_FROM, _LEAST_TERMS = 9.0, 9.0
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
_EULER = tuple([number / math.factorial(2 * k) for k, number in enumerate(_BERNOULLI, 1)])
"""B(2k) / (2k)!"""
_LAST_FACTORIAL = 170
"""170! is the last one that a double holds."""


def _first_term(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """(Where the last term is, the last term, their sum)."""
    s, q, _ = arguments
    term = q.pow(-s)
    return q, term, term


def _counts(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> Any:
    y, term, total = state
    return arguments[2].gt(0.0).and_(k.lt(_LEAST_TERMS).or_(y.le(_FROM))).and_(term.gt(total * _EPS))


def _next_term(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, ...]:
    y, _, total = state
    after = y + 1.0
    term = after.pow(-arguments[0])
    return after, term, total + term


_POWERS = Iteration("powers", _first_term, _counts, _next_term, 16)


def _of_positive(s: Expression, q: Expression, is_asked: Expression) -> Expression:
    """For s above 1 and q above 0, where it is asked for: elsewhere a power of 1, which takes less time than NaN's."""
    q = is_asked.where(q, 1.0)
    y, term, total = s.iterate(_POWERS, q, is_asked.where(s.like(1.0), 0.0))
    inverse = 1.0 / y
    square = inverse * inverse
    rest = y / (s - 1.0) - 0.5
    factor = s * inverse
    for k, coefficient in enumerate(_EULER):
        rest = rest + factor * coefficient
        factor = factor * (s + (2.0 * k + 1.0)) * (s + (2.0 * k + 2.0)) * square
    return term.gt(total * _EPS).where(total + term * rest, total)


def _zeta(s: Expression, q: Expression, is_single: bool) -> Expression:
    is_inside = s.gt(1.0)
    is_negative = q.lt(0.0).and_(is_inside)
    fraction = -q - (-q).floor()
    sign = (s - 2.0 * (s * 0.5).floor()).eq(1.0).where(-1.0, s.like(1.0))
    exponent = is_inside.where(s, 2.0)
    below = _of_positive(exponent, fraction, is_negative) - _of_positive(exponent, 1.0 - q, is_negative)
    above = _of_positive(exponent, is_negative.where(1.0 - fraction, q), is_inside)
    out = is_negative.where(above + sign * below, above)
    is_whole = q.eq(q.floor())
    out = q.le(0.0).where(is_whole.where(math.inf, s.eq(s.floor()).where(out, math.nan)), out)
    return s.lt(1.0).where(math.nan, s.eq(1.0).where(math.inf, s.eq(s).or_(out.eq(math.inf)).where(out, s)))


def _polygamma(x: Expression, is_single: bool, n: int) -> Expression:
    if n < 2:
        formula = GAMMA["trigamma" if n else "digamma"]
        return formula.function(x, is_single)
    factorial = math.factorial(n) if n <= _LAST_FACTORIAL else math.inf
    return _zeta(x.like(n + 1.0), x, is_single) * (factorial if n % 2 else -factorial)


FORMULAS = {"special_zeta": Formula(_zeta, 2), "polygamma": Formula(_polygamma)}
"""Name -> its kernel and NumPy rule."""
