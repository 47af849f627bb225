"""Kernels of the regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), as formulas.

Owns: ``FORMULAS``.
Must not know: derivatives.

All are computed in float64. Where what is computed is chosen as in PyTorch: the series of P (Abramowitz and Stegun
6.5.29) for x below a or 1, the series of Q (DLMF 8.7.3) for small x, else Q's continued fraction (6.5.31) by Lentz's
method. For a from 12 on and x within a factor of two it is Temme's uniform expansion with the recurrence of A. Gil, J.
Segura and N. Temme ("Efficient and accurate algorithms for the computation and inversion of the incomplete gamma
function ratios", 2012, section 2.4): ``Q = erfc(eta sqrt(a / 2)) / 2 + R`` with ``eta^2 / 2 = m - log(1 + m)``,
m = (x - a) / a. It takes the same time for any a.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula
from jitgrad.ops.formulas.gamma_formulas import erfc_of, lgamma_of
from jitgrad.ops.formulas.iterations import Iteration

__all__ = ["FORMULAS"]

_EPS = 2.0**-53
_MOST = 2000

# --- the series of P, that of Q, the continued fraction of Q ---


def _first_of_p(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return arguments[1] * 0.0 + 1.0, 1.0


def _p_counts(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> Any:
    term, total = state
    return term.gt(total * _EPS)


def _next_of_p(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, ...]:
    (a, x), (term, total) = arguments, state
    after = term * (x / (a + (k + 1.0)))
    return after, total + after


_P_SERIES = Iteration("igamma_series", _first_of_p, _p_counts, _next_of_p, _MOST)
"""(Last term, sum) of x^k / ((a + 1) ... (a + k)); an x that is NaN takes no turn."""


def _first_of_q(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return 1.0, arguments[1] * 0.0 + 1.0, 0.0


def _q_counts(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> Any:
    _, term, total = state
    return term.abs().gt(total.abs() * _EPS)


def _next_of_q(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, ...]:
    (a, x), (power, _, total) = arguments, state
    n = k + 1.0
    power = power * (-x / n)
    term = power / (a + n)
    return power, term, total + term


_Q_SERIES = Iteration("igammac_series", _first_of_q, _q_counts, _next_of_q, _MOST)
"""(A power over a factorial, last term, sum) of (-x)^n / (n! (a + n)) for n from 1 on."""


def _first_of_fraction(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    a, x = arguments
    b = x + 1.0 - a
    return b, 1e300, 1.0 / b, 1.0 / b, b * 0.0 + 2.0


def _fraction_moves(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> Any:
    return (state[4] - 1.0).abs().gt(4 * _EPS)  # less is not told from 1 by all


def _next_of_fraction(k: Any, arguments: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, ...]:
    a, (b, c, d, h, _) = arguments[0], state
    n = k + 1.0
    factor = n * (a - n)
    b = b + 2.0
    d = 1.0 / (factor * d + b)
    c = b + factor / c
    return b, c, d, h * (c * d), c * d


_FRACTION = Iteration("igammac_fraction", _first_of_fraction, _fraction_moves, _next_of_fraction, _MOST)
"""(b, c, d, the fraction, its last factor)."""

# --- the uniform expansion ---

_UNIFORM_FROM = 12.0
_ETA = (
    1.0, -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
    0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
    -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    -5.830772132550426e-11, 2.4361948020667415e-11, -5.0276692801141755e-12, 1.1004392031956135e-13,
    3.371763262400985e-13, -1.392388722418162e-13, 2.8534893807047445e-14, -5.139111834242572e-16,
    -1.9752288294349442e-15, 8.099521156704561e-16,
)  # fmt: skip
"""eta / m as a series in eta."""
_ATANH = tuple([1 / (2 * k + 3) for k in range(18)])
_LGAMMA_1P = (
    0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
    9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
    4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
    1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
    5.731367241678862e-10, -2.7595228851242334e-10, 1.330476437424449e-10,
)  # fmt: skip
"""(lgamma(1 + a) + log(1 + a)) / a over a: Abramowitz and Stegun 6.1.33."""


def _below_log(m: Expression) -> Expression:
    """m - log(1 + m) for m from -1/2 to 1, as exact where it is small: the series of atanh(m / (2 + m))."""
    s = m / (m + 2.0)
    square = s * s
    return s * (m - 2.0 * square * square.poly(_ATANH))


def _remainder(a: Expression, eta: Expression) -> Expression:
    """S of the expansion: the coefficients of its powers of eta, from the highest down, and their sum."""
    inverse = 1.0 / a
    later, coefficient = eta * 0.0 + _ETA[-1], eta * 0.0 + _ETA[-2]
    total = later * eta + coefficient
    for k in range(len(_ETA) - 3, 0, -1):
        later, coefficient = coefficient, later * ((k + 1.0) * inverse) + _ETA[k]
        total = total * eta + coefficient
    return total / (1.0 + later * inverse)


def _uniform(a: Expression, m: Expression) -> tuple[Expression, Expression]:
    """(P, Q) for a large a, m = (x - a) / a."""
    half_square = _below_log(m)
    eta = (half_square * 2.0).sqrt().copysign(m)
    scale = (-(a * half_square)).exp() / (a * (2 * math.pi)).sqrt()
    rest = scale * _remainder(a, eta)
    z = eta * (a * 0.5).sqrt()
    return 0.5 * erfc_of(-z, False) - rest, 0.5 * erfc_of(z, False) + rest


# --- where which of them is used ---


def _lgamma_1p(a: Expression) -> Expression:
    """lgamma(1 + a), as exact where a is small."""
    return a.lt(0.75).where(a * a.poly(_LGAMMA_1P) - a.log1p(), lgamma_of(a + 1.0, False))


def _if(condition: Expression, x: Expression) -> Expression:
    """An argument of a series that takes no turn elsewhere."""
    return condition.where(x, math.nan)


def _both(a: Expression, x: Expression) -> tuple[Expression, Expression]:
    """(P, Q) of positive finite arguments."""
    m = (x - a) / a
    is_uniform = a.ge(_UNIFORM_FROM).and_(m.gt(-0.5)).and_(m.lt(1.0))
    from_p = x.le(0.5).where((-0.4 / x.log()).lt(a), x.le(1.1).where((x * 1.1).lt(a), x.lt(a)))
    is_p, is_q = is_uniform.not_().and_(from_p), is_uniform.or_(from_p).not_()
    has_series = is_q.and_(x.le(1.1))
    exponent = a * x.log() - _lgamma_1p(a)
    low = (exponent - x).exp() * a.iterate(_P_SERIES, _if(is_p, x))[1]
    rest = a.iterate(_Q_SERIES, _if(has_series, x))[2]
    near = -(exponent.expm1()) - a * exponent.exp() * rest
    far = a * (exponent - x).exp() * a.iterate(_FRACTION, _if(is_q.and_(x.gt(1.1)), x))[3]
    high = has_series.where(near, far)
    p, q = _uniform(is_uniform.where(a, _UNIFORM_FROM), is_uniform.where(m, 0.0))
    return (
        is_uniform.where(p, is_p.where(low, 1.0 - high)),
        is_uniform.where(q, is_p.where(1.0 - low, high)),
    )


def _regularised(a: Expression, x: Expression, at_zero: float) -> Expression:
    """At edges in PyTorch's order, in which some of them come before a NaN; ``at_zero`` is the value at x = 0."""
    is_usual = a.gt(0.0).and_(x.gt(0.0)).and_(a.lt(math.inf)).and_(x.lt(math.inf))
    p, q = _both(is_usual.where(a, 1.0), is_usual.where(x, 1.0))
    out = is_usual.where(q if at_zero else p, x.eq(math.inf).where(a.like(1.0 - at_zero), math.nan))
    out = a.eq(math.inf).where(x.eq(math.inf).where(a.like(math.nan), at_zero), out)
    out = x.eq(0.0).where(at_zero, out)
    out = a.eq(0.0).where(x.gt(0.0).where(a.like(1.0 - at_zero), math.nan), out)
    return a.lt(0.0).or_(x.lt(0.0)).where(math.nan, out)


FORMULAS = {
    "igamma": Formula(lambda a, x, is_single: _regularised(a, x, 0.0), 2),
    "igammac": Formula(lambda a, x, is_single: _regularised(a, x, 1.0), 2),
}
"""Name -> its kernel and NumPy rule."""
