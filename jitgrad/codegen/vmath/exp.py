"""exp and its family as inline vector code.

Owns: exp, exp2, expm1, sigmoid, tanh, sinh, cosh, erf; ``scale_by_power`` and the reduction they share.
Must not know: dtypes' storage, kernels.

Method: Cody and Waite's reduction (*Software Manual for the Elementary Functions*, 1980, ch. 6): n = rint(x / ln 2),
r = x - n ln 2 with ln 2 in two parts, a polynomial in r, then the exponent. ``n`` is found by adding 1.5 * 2^mantissa,
which leaves it in the low bits of the sum: no conversion between floats and integers is needed.

erf is x + x p(x^2) below 1; above, 1 - exp(-q(x)) with q a polynomial for -log(erfc(x)), which is smooth and whose
error counts only in proportion to erfc (the idea is N. Juffa's, for CUDA's erff).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from jitgrad.codegen.vmath.coefs import COEFS
from jitgrad.codegen.vmath.core import FORMATS, Lanes, select, split_constant
from jitgrad.codegen.vmath.pieces import by_pieces, has_pieces

__all__ = ["LN2", "RANGES", "cosh", "erf", "exp", "exp2", "exp_unscaled", "expm1", "scale_by_power", "sigmoid", "sinh",
           "tanh"]  # fmt: skip


@dataclass(frozen=True)
class ExpRange:
    """Where a format's exp ends.

    Attributes:
        ln2_hi, ln2_lo: ln 2 with enough trailing zeros in the high part that n * ln2_hi is exact, and the rest.
        overflow: exp of it is infinite, and 2^(n - 1) is not.
        underflow: exp of it rounds to 0.
        saturate: expm1(-saturate) rounds to -1, tanh(saturate) to 1.
    """

    ln2_hi: float
    ln2_lo: float
    overflow: float
    underflow: float
    saturate: float


def _range(high_bits: int, overflow: float, underflow: float, saturate: float) -> ExpRange:
    high, low = split_constant(LN2, high_bits)
    return ExpRange(high, low, overflow, underflow, saturate)


LN2 = Fraction("0.6931471805599453094172321214581765680755001343602552541206800094933936")
RANGES = {
    "float": _range(15, 89.0, -105.0, 18.0),
    "double": _range(41, 710.0, -746.0, 38.0),
}


def nearest_int(x: Lanes) -> tuple[Lanes, Lanes]:
    """rint(x) as a float, and as an integer in the low bits of an integer register (above it: a constant)."""
    shifted = x + x.fmt.round_magic
    return _as_float(shifted), shifted.bits()


def _as_float(shifted: Lanes) -> Lanes:
    """The integer that a number has in its low bits."""
    return shifted - shifted.fmt.round_magic


def _reduce(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """x = n ln 2 + r, |r| <= ln 2 / 2: (a number with n in its low bits, high, tail) with expm1(r) = high + tail.

    ``high`` = x - n ln2_hi is exact, and n ln2_lo goes to the tail with the polynomial: r itself, which is rounded, is
    only the polynomial's argument.
    """
    limits = RANGES[x.scalar]
    shifted = x.mad(1 / math.log(2), x.fmt.round_magic)
    n = _as_float(shifted)
    high, low = n.mad(-limits.ln2_hi, x), n * -limits.ln2_lo
    r = high + low
    return shifted, high, (r * r).mad(r.poly(COEFS["EXP", x.scalar]), low)


def power_of_two(n_bits: Lanes, plus: int = 0) -> Lanes:
    """2^(n + plus), a normal number; n in the low bits."""
    fmt = FORMATS["float" if n_bits.scalar == "i32" else "double"]
    return ((n_bits << fmt.mantissa) + (fmt.bias + plus << fmt.mantissa)).as_float()


def scale_by_power(x: Lanes, shifted: Lanes, plus: int = 0) -> Lanes:
    """x * 2^(n + plus), n in the low bits of ``shifted``. A subnormal result is rounded once, overflow gives infinity.

    In two steps, where no instruction does it; the bits are the same.
    """
    if x.can_scale:
        n = _as_float(shifted)
        return x.scaled(n + float(plus) if plus else n)
    n_bits = shifted.bits() + plus if plus else shifted.bits()
    mantissa = x.fmt.mantissa
    one = x.fmt.bias << mantissa
    half = (n_bits << (mantissa - 1)) & (-1 << mantissa)  # (n >> 1) in the exponent field
    rest = (n_bits << mantissa) - half
    return (x * (half + one).as_float()) * (rest + one).as_float()


def scale_down(x: Lanes, shifted: Lanes) -> Lanes:
    """``scale_by_power`` for x near 1 and n <= 0: cheaper."""
    if x.can_scale:
        return x.scaled(_as_float(shifted))
    spare = x.fmt.mantissa + 2
    return (x * power_of_two(shifted.bits(), spare)) * math.ldexp(1.0, -spare)


def exp_unscaled(x: Lanes) -> tuple[Lanes, Lanes]:
    """(exp(r), a number with n in its low bits) with exp(x) = exp(r) 2^n; x within a range that does not overflow n."""
    shifted, high, tail = _reduce(x)
    return (high + tail) + 1.0, shifted


def _clamped(x: Lanes) -> Lanes:
    limits = RANGES[x.scalar]
    return x.at_most(limits.overflow).at_least(limits.underflow)


def exp(x: Lanes) -> Lanes:
    """Where the result is zero, it is computed from 0: cores may take a hundred cycles for a product that underflows.

    A softmax under a mask of -inf took three times as long as one under a mask of -3. Under its mask VSCALEF leaves
    such lanes alone.
    """
    if x.scalar == "double" and x.b.isa.lookup:
        return x.in_registers(8, _exp_by_table)
    vanishes = x < RANGES[x.scalar].underflow
    if x.can_scale:
        return select(vanishes, 0.0, scale_by_power(*exp_unscaled(x.at_most(RANGES[x.scalar].overflow))))
    return select(vanishes, 0.0, scale_by_power(*exp_unscaled(_clamped(select(vanishes, 0.0, x)))))


_STEPS = 16
_POWERS = [2.0 ** (j / _STEPS) for j in range(_STEPS)]


def _exp_by_table(x: Lanes) -> Lanes:
    """exp of a register of float64: n counts sixteenths, so |r| <= ln 2 / 32, and half the degree will do.

    Its last four bits find 2^(n mod 1) in a table, and VSCALEF takes the whole part of n.
    """
    limits = RANGES["double"]
    vanishes = x < limits.underflow
    x = x.at_most(limits.overflow)
    magic = x.fmt.round_magic / _STEPS
    shifted = x.mad(1 / math.log(2), magic)
    n = shifted - magic
    r = n.mad(-limits.ln2_lo, n.mad(-limits.ln2_hi, x))
    power = shifted.bits().lookup(_POWERS)
    tail = (r * r).mad(r.poly(COEFS["EXP_STEP", "double"]), r)
    return select(vanishes, 0.0, tail.mad(power, power).scaled(n))


def exp2(x: Lanes) -> Lanes:
    """2^x: r = x - n is exact, and ln 2 is in the polynomial. What vanishes is computed as in ``exp``."""
    bias = x.fmt.bias
    lowest = -bias - x.fmt.mantissa - 2.0
    vanishes = x < lowest
    x = (x if x.can_scale else select(vanishes, 0.0, x).at_least(lowest)).at_most(bias + 2.0)
    shifted = x + x.fmt.round_magic
    r = x - _as_float(shifted)
    return select(vanishes, 0.0, scale_by_power(r.mad(r.poly(COEFS["EXP2", x.scalar]), 1.0), shifted))


def _expm1_half(x: Lanes) -> Lanes:
    """expm1(x) / 2 for x in [-saturate, overflow]: the half keeps 2^n finite. Wrong for subnormal x.

    2^n (1 + high + tail) - 1 is summed as (2^n - 1 + 2^n high) + 2^n tail.
    """
    shifted, high, tail = _reduce(x)
    scale = power_of_two(shifted.bits(), -1)
    return scale.mad(tail, scale.mad(high, scale - 0.5))


def expm1(x: Lanes) -> Lanes:
    limits = RANGES[x.scalar]
    half = _expm1_half(x.at_most(limits.overflow).at_least(-2.5 * limits.saturate))
    tiny = x.abs() < x.const(math.ldexp(1.0, -x.fmt.mantissa - 2))
    return select(tiny, x, half + half)


def _logistic(numerator: Lanes, e: Lanes, may_be_large: bool) -> Lanes:
    """numerator / (1 + e), corrected for the rounding of 1 + e and of the quotient.

    With D = 1 + e rounded and d its error, q is off by (numerator - q D - q d) / (1 + e). The factor 1 / (1 + e) is
    1 - q for the numerator e; for the numerator 1 it is q, which is larger: the correction goes only part of the way.
    d is exact for e < 2^mantissa, and not needed for large e.
    """
    whole = e + 1.0
    error = e - (whole - 1.0)
    if may_be_large:
        error = select(e < math.ldexp(1.0, e.fmt.mantissa - 3), error, 0.0)
    q = numerator / whole
    rest = (-q).mad(error, (-q).fma(whole, numerator))
    return rest.mad(1.0 - q, q)


def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = exp(-|x|): small results keep their precision."""
    size, least = -x.abs(), RANGES[x.scalar].underflow
    if x.can_scale:
        e = select(size < least, 0.0, scale_down(*exp_unscaled(size)))
    else:
        e = scale_down(*exp_unscaled(size.at_least(least)))
    return _logistic(select(x < 0.0, e, 1.0), e, may_be_large=False)


def tanh(x: Lanes) -> Lanes:
    """h / (h + 1) with h = expm1(2|x|) / 2; or Note [Functions by pieces]."""
    if has_pieces(x):
        return by_pieces("TANH", x)
    size = x.abs()
    h = _expm1_half((size + size).at_most(2.0 * RANGES[x.scalar].saturate))
    return _logistic(h, h, may_be_large=True).copysign(x)


def _half_exp(size: Lanes) -> Lanes:
    """exp(size) / 2 up to where twice that overflows; size >= 0."""
    p, shifted = exp_unscaled(size.at_most(RANGES[size.scalar].overflow + 1.0))
    return scale_by_power(p, shifted, -1)


def cosh(x: Lanes) -> Lanes:
    half = _half_exp(x.abs())
    return half + 0.25 / half


def sinh(x: Lanes) -> Lanes:
    """(e^x - e^-x) / 2 above 1, an odd polynomial below."""
    size = x.abs()
    half = _half_exp(size)
    z = x * x
    small = (x * z).mad(z.poly(COEFS["SINH", x.scalar]), x)
    return select(size < 1.0, small, (half - 0.25 / half).copysign(x))


_ERF_LARGE = {"float": ("ERF_LARGE32", 4.0), "double": ("ERF_LARGE64", 6.0)}  # (polynomial, where erf rounds to 1)


def erf(x: Lanes) -> Lanes:
    if has_pieces(x):
        return by_pieces("ERF", x)
    name, last = _ERF_LARGE[x.scalar]
    size = x.abs()
    z = x * x
    small = x.mad(z.poly(COEFS["ERF_SMALL", x.scalar]), x)
    p, shifted = exp_unscaled(-size.at_most(last).poly(COEFS[name, x.scalar]))
    large = (1.0 - p * power_of_two(shifted.bits())).copysign(x)
    return select(size < 1.0, small, large)
