"""Kernels of lgamma, digamma, trigamma, erfc and erfinv, as formulas over primitives.

Owns: ``FORMULAS``; ``lgamma_of``, ``erfc_of`` and ``erfc_parts`` for other formulas.
Must not know: derivatives.

All are computed in float64. The gamma function's family moves its argument up by eight, where Stirling's series and its
derivatives (Abramowitz and Stegun 6.1.40, 6.3.18, 6.4.11) have fallen to the last bit: with the rising factorial
``p(x) = x (x + 1) .. (x + 7)`` it is ``lgamma(x) = lgamma(x + 8) - log p(x)``, and so ``digamma(x) = digamma(x + 8) -
p'(x) / p(x)``. Below zero they are reflected (6.1.17, 6.3.7, 6.4.7).

erfc is ``t exp(-x^2 + c(t))`` with ``t = 2 / (2 + |x|)`` and a Chebyshev series c (W. H. Press et al., "Numerical
Recipes", 3rd edition, 6.2.2); its coefficients were computed anew with 60 digits. ``x^2`` is split, so that the
exponent is exact. erfinv is two polynomials over the variables of M. Giles ("Approximating the erfinv function", GPU
Computing Gems, 2011), fitted with 50 digits; in float64 one step of Halley's method trebles their digits.
"""

from __future__ import annotations

import math

from jitgrad.dtypes import float32, float64
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula

__all__ = ["FORMULAS", "erfc_of", "erfc_parts", "lgamma_of"]

_SHIFT = 8
_RISING = (0.0, 5040.0, 13068.0, 13132.0, 6769.0, 1960.0, 322.0, 28.0, 1.0)
"""x (x + 1) .. (x + 7), from the lowest power up."""
_RISING_SLOPE = tuple([k * c for k, c in enumerate(_RISING)][1:])
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_STIRLING = tuple([number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI, 1)])
_STIRLING_SLOPE = tuple([number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)])
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

_ERFC = (
    -1.3026537197817094, 0.64196979235649026, 0.019476473204185836, -0.0095615147868086316, -0.00094659534448203687,
    0.00036683949785276145, 4.2523324806907772e-05, -2.0278578112534243e-05, -1.6242900046470255e-06,
    1.3036558355805232e-06, 1.5626441722066143e-08, -8.5238095914926543e-08, 6.5290544390988515e-09,
    5.0593434955514689e-09, -9.9136415649303309e-10, -2.2736512229318358e-10, 9.6467911020155268e-11,
    2.3940380830391147e-12, -6.8860275264975534e-12, 8.9448792730907257e-13, 3.1309213993429581e-13,
    -1.1270822361367252e-13, 3.8109052551892321e-16, 7.106097613609237e-15, -1.5230282014571043e-15,
    -9.4574945712912340e-17, 1.2102371892242790e-16, -2.8166630877471770e-17,
)  # fmt: skip
"""Of log(erfc(x) exp(x^2) / t), over t from 0 to 1."""
_ERFC_TERMS_32 = 13
_ERFC_END = 28.0
"""From here on erfc is 0."""
_INVERSE_NEAR = (
    1.501409360450329, 0.24664027905463662, -0.004177392875203149, -0.001252726391773229, 0.00021834938623976644,
    -4.9724196894547514e-06, -3.4639852676333717e-06, 4.6813134805534123e-07, 2.3335967195708108e-08,
    -8.931925970244222e-09,
)  # fmt: skip
_INVERSE_FAR_32 = (
    2.8329768011588836, 1.0016752853175022, 0.009445322998191417, -0.0076437457320701185, 0.005687687558257992,
    -0.0035616784594681124, 0.0014737455981858327, -0.00013131994271710926, -0.0002722671058703768,
    0.00016854158453274745, -3.457579213452002e-05,
)  # fmt: skip
_INVERSE_FAR = (
    3.839784047050243, 1.009495855811992, 0.0012540860218820025, -0.0008843413463016279, 0.0003427050334128816,
    -9.397925937176974e-05, 2.5474941280803756e-05, -4.5404929347635456e-05, 3.747473046158618e-05,
    -7.974918596785028e-06, -2.060066053249463e-06, 7.325156822633578e-07,
)  # fmt: skip
"""erfinv(x) / x over w - 2.5 where w = -log(1 - x^2) is below 5 (right to 7e-9); above, over sqrt(w) - 3 up to the
largest float32 below 1 (4e-9), and over sqrt(w) - 4 up to the largest float64 (3e-7)."""


def _moved(x: Expression) -> tuple[Expression, Expression, Expression]:
    """(Whether a positive argument is moved up by eight, where it then is, its reciprocal)."""
    is_small = x.lt(float(_SHIFT))
    y = is_small.where(x + float(_SHIFT), x)
    return is_small, y, 1.0 / y


def _distance(x: Expression) -> Expression:
    """From the nearest integer."""
    return x - x.round()


def lgamma_of(x: Expression, is_single: bool) -> Expression:
    """At its zeros 1 and 2 it is exact; beside them the error is one of 1e-15, not one of the value."""
    is_negative = x.lt(0.5)
    a = is_negative.where(1.0 - x, x)
    is_small, y, z = _moved(a)
    out = (y - 0.5) * (y.log() - 1.0) + (_HALF_LOG_2PI - 0.5) + z * (z * z).poly(_STIRLING)
    sine = (_distance(x) * math.pi).sin().abs() * 2.0**64  # of what is subnormal, too
    last = (is_negative.where(sine, 1.0) / is_small.where(a.poly(_RISING), 1.0)).log()
    out = is_negative.where(math.log(math.pi) + 64 * math.log(2) - out - last, out + last)
    out = x.eq(1.0).or_(x.eq(2.0)).where(0.0, out)
    return x.abs().eq(math.inf).where(math.inf, out)


def _digamma(x: Expression, is_single: bool) -> Expression:
    is_reflected = x.le(0.0)
    a = is_reflected.where(1.0 - x, x)
    is_small, y, z = _moved(a)
    square = z * z
    out = y.log() - 0.5 * z - square * square.poly(_STIRLING_SLOPE)
    out = out - is_small.where(a.poly(_RISING_SLOPE) / is_small.where(a.poly(_RISING), 1.0), 0.0)
    reflected = out - math.pi / (_distance(x) * math.pi).tan()
    pole = x.eq(0.0).where((x * 0.0 + math.inf).copysign(-x), math.nan)
    return is_reflected.where(x.eq(x.floor()).where(pole, reflected), out)


def _trigamma(x: Expression, is_single: bool) -> Expression:
    is_reflected = x.lt(0.5)
    a = is_reflected.where(1.0 - x, x)
    is_small, _, z = _moved(a)
    square = z * z
    out = z + 0.5 * square + z * square * square.poly(_BERNOULLI)
    for k in range(_SHIFT):
        part = 1.0 / (a + float(k))
        out = out + is_small.where(part * part, 0.0)
    sine = (_distance(x) * math.pi).sin()
    return is_reflected.where(math.pi**2 / (sine * sine) - out, out)


def _erfc_of_size(size: Expression, is_single: bool) -> Expression:
    """Of an argument from 0 to ``_ERFC_END``."""
    t, series = erfc_parts(size, is_single)
    if is_single:  # the square of a float32 is exact
        return t * (series - size * size).exp()
    high = size.cast(float32).cast(float64)
    return t * (-(high * high)).exp() * ((high - size) * (high + size) + series).exp()


def erfc_parts(size: Expression, is_single: bool) -> tuple[Expression, Expression]:
    """(t, c) of an argument from 0 on: its erfc is t exp(-x^2 + c)."""
    t = 2.0 / (size + 2.0)
    return t, (t * 2.0 - 1.0).chebyshev(_ERFC[: _ERFC_TERMS_32 if is_single else None])


def erfc_of(x: Expression, is_single: bool) -> Expression:
    """1 - erf(x) in float64; ``is_single``: with as many terms as float32 needs."""
    out = _erfc_of_size(x.abs().min(_ERFC_END), is_single)
    return x.lt(0.0).where(2.0 - out, out)


def _erfinv(x: Expression, is_single: bool) -> Expression:
    """Above 1/2 the error is that of erfc, where erf has lost what tells it from 1."""
    size = x.abs()
    rest = 1.0 - size
    w = -(rest * (size + 1.0)).log()
    root = w.sqrt()
    far = (root - 3.0).poly(_INVERSE_FAR_32) if is_single else (root - 4.0).poly(_INVERSE_FAR)
    y = size * w.lt(5.0).where((w - 2.5).poly(_INVERSE_NEAR), far)
    if not is_single:
        error = size.gt(0.5).where(rest - _erfc_of_size(y.min(_ERFC_END), False), y.erf() - size)
        y = y - error / (2 / math.sqrt(math.pi) * (-(y * y)).exp() + y * error)
    return size.eq(1.0).where(math.inf, y).copysign(x)


FORMULAS = {
    "lgamma": Formula(lgamma_of),
    "digamma": Formula(_digamma),
    "trigamma": Formula(_trigamma),
    "erfc": Formula(erfc_of),
    "erfinv": Formula(_erfinv),
}
"""Name -> its kernel and NumPy rule."""
