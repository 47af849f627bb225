"""log and its family, and pow, as inline vector code.

Owns: log, log1p, log2, log10, pow.
Must not know: kernels.

Method: x = 2^k m. float32 takes m in [2/3, 4/3) and a polynomial in f = m - 1; float64 takes m in
[sqrt(1/2), sqrt(2)) and 2 atanh(s), s = f / (2 + f), as in FDLIBM's e_log.c (Sun Microsystems, 1993). k comes from
subtracting the bits of the lower end of m's interval, so that no comparison is needed.
"""

from __future__ import annotations

import math
from fractions import Fraction

from jitgrad.codegen.vmath.coefs import COEFS
from jitgrad.codegen.vmath.core import Lanes, quick_two_sum, select, split_constant, two_product, two_sum
from jitgrad.codegen.vmath.exp import LN2, RANGES, exp_unscaled, nearest_int, power_of_two, scale_by_power
from jitgrad.codegen.vmath.round import round_mode

__all__ = ["log", "log1p", "log2", "log10", "pow"]

LOWEST_M = {"float": 2 / 3, "double": math.sqrt(0.5)}
INV_LN2 = Fraction("1.4426950408889634073599246810018921374266459541529859341354494069311092")
INV_LN10 = Fraction("0.4342944819032518276511289189166050822943970058036665661144537831658646")
LOG10_2 = Fraction("0.3010299956639811952137388947244930267681898814621085413104274611271081")


def _exponent_field(x: Lanes) -> Lanes:
    """k in the exponent's place, for x = 2^k m with m in [LOWEST_M, 2 LOWEST_M); x positive and normal."""
    lowest = x.const(LOWEST_M[x.scalar]).bits()
    return (x.bits() - lowest) & (-1 << x.fmt.mantissa)


def _split(x: Lanes) -> tuple[Lanes, Lanes]:
    """(k as a float, m - 1); x positive, subnormals too."""
    fmt = x.fmt
    subnormal = x < fmt.min_normal
    x = select(subnormal, x * math.ldexp(1.0, fmt.mantissa), x)
    field = _exponent_field(x)
    k = (field >> x.fmt.mantissa).convert(x.scalar)
    return select(subnormal, k - float(fmt.mantissa), k), (x.bits() - field).as_float() - 1.0


def _log_of(k: Lanes, f: Lanes) -> Lanes:
    """k ln 2 + log1p(f)."""
    ln2_hi, ln2_lo = RANGES[f.scalar].ln2_hi, RANGES[f.scalar].ln2_lo
    if f.scalar == "float":
        tail = (f * f) * f.poly(COEFS["LOG", "float"])
        return k.mad(ln2_hi, k.mad(ln2_lo, tail) + f)
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * f * f
    series = z * z.poly(COEFS["ATANH", "double"])
    return k.mad(ln2_hi, f - (half_square - s.mad(half_square + series, k * ln2_lo)))


def _with_poles(x: Lanes, result: Lanes, distance: Lanes) -> Lanes:
    """log's special values, by the distance from the pole: 0 -> -inf, below -> NaN; inf and NaN of x are kept."""
    special = select(distance < 0.0, x.const(math.nan), select(distance.eq(0.0), x.const(-math.inf), x))
    normal = (distance > 0.0) & (x < math.inf)
    return select(normal, result, special)


def log(x: Lanes) -> Lanes:
    return _with_poles(x, _log_of(*_split(x)), x)


def log1p(x: Lanes) -> Lanes:
    """With 1 + x ~ 2^k: f = x 2^-k + (2^-k - 1), which rounds once; f = x while k = 0."""
    u = x + 1.0
    field = _exponent_field(u)
    k = (field >> x.fmt.mantissa).convert(x.scalar)
    quarter = (x.const(4.0).bits() - field).as_float() * 0.25  # 2^-k, which may itself be subnormal
    scaled = select(field.eq(0), x, (x.bits() - field).as_float())
    result = _log_of(k, scaled + (quarter - 1.0))
    tiny = x.abs() < x.const(math.ldexp(1.0, -x.fmt.mantissa - 2))
    return _with_poles(x, select(tiny, x, result), u)


def _log_scaled(x: Lanes, per_ln: Fraction, per_k: Fraction) -> Lanes:
    """k per_k + log1p(f) per_ln, with log1p and the product in twice the precision."""
    k, f = _split(x)
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * f * f
    high, low = quick_two_sum(f, s * (half_square + z * z.poly(COEFS["ATANH", f.scalar])) - half_square)
    c, c_rest = split_constant(per_ln, f.fmt.mantissa + 1)
    product, error = two_product(high, f.const(c))
    error = low.mad(c, high.mad(c_rest, error))
    k_part, k_rest = split_constant(per_k, f.fmt.mantissa - 11)
    total, rounding = quick_two_sum(k * k_part, product)  # in order also for k = 0: then it is exact
    return total + (rounding + k.mad(k_rest, error))


def log2(x: Lanes) -> Lanes:
    return _with_poles(x, _log_scaled(x, INV_LN2, Fraction(1)), x)


def log10(x: Lanes) -> Lanes:
    return _with_poles(x, _log_scaled(x, INV_LN10, LOG10_2), x)


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x^y with C's special cases (C17 F.10.4.4)."""
    magnitude = _PRODUCT_EXP[x.scalar](x.abs(), y)
    return _pow_special_cases(x, y, magnitude)


def _pow32(x: Lanes, y: Lanes) -> Lanes:
    """float32 x^y for x >= 0, by way of float64: 2^(y log2 x) with a relative error of 2^-40 in the logarithm."""
    x, y = x.convert("double"), y.convert("double")
    field = _exponent_field(x)
    k, f = (field >> x.fmt.mantissa).convert(x.scalar), (x.bits() - field).as_float() - 1.0
    s = f / (f + 2.0)
    z = s * s
    log2_m = s * z.mad(z.poly(COEFS["POW_LOG2", "double"]), 2 * float(INV_LN2))
    power = (y * (k + log2_m)).at_most(300.0).at_least(-300.0)
    n, n_bits = nearest_int(power)
    r = power - n
    return (r.mad(r.poly(COEFS["POW_EXP2", "double"]), 1.0) * power_of_two(n_bits)).convert("float")


def _pow64(x: Lanes, y: Lanes) -> Lanes:
    """float64 x^y for x >= 0: log x to about 2^-66 as a pair, times y as a pair, exp of the pair.

    log m = 2s + (2/3) s^3 + ..., where s = f / (2 + f), s^3 and 2/3 are pairs; only later terms are rounded once.
    """
    y = y.at_most(2.0**80).at_least(-(2.0**80))  # a larger one changes no result, but overflows products
    log_hi, log_lo = _log_as_pair(*_split(x))
    high, low = two_product(y, log_hi)
    low = y.mad(log_lo, low)
    clamped = high.at_most(720.0).at_least(-760.0)
    low = select(clamped.eq(high), low, 0.0)
    p, shifted = exp_unscaled(clamped)
    return scale_by_power(p.mad(low, p), shifted)


def _log_as_pair(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    u = f + 2.0
    u_low = f - (u - 2.0)
    s = f / u
    s_low = (s.fma(-u, f) - s * u_low) / u
    z, z_low = two_product(s, s)
    z_low = (s + s).mad(s_low, z_low)
    third, third_low = split_constant(Fraction(2, 3), 53)
    g, g_low = quick_two_sum(z.const(third), z * z.poly(COEFS["POW_LOG", "double"]))
    g_low = g_low + third_low
    t, t_low = two_product(z, g)  # log m = s (2 + t)
    t_low = z.mad(g_low, z_low.mad(g, t_low))
    t, t_low = quick_two_sum(t.const(2.0), t)[0], quick_two_sum(t.const(2.0), t)[1] + t_low
    m, m_low = two_product(s, t)
    m_low = s.mad(t_low, s_low.mad(t, m_low))
    ln2_hi, ln2_mid, ln2_lo = split_constant(LN2, 41, 41)
    total, error = quick_two_sum(k * ln2_hi, m)
    middle, rest = two_sum(error, k * ln2_mid)
    low = middle + (rest + k.mad(ln2_lo, m_low))
    return quick_two_sum(total, low)


_PRODUCT_EXP = {"float": _pow32, "double": _pow64}


def _pow_special_cases(x: Lanes, y: Lanes, magnitude: Lanes) -> Lanes:
    """From |x|^y for finite positive |x| to all cases, the later selects winning."""
    size, y_size = x.abs(), y.abs()
    whole = round_mode(y_size, "trunc").eq(y_size)
    half = y_size * 0.5
    odd = whole & round_mode(half, "trunc").ne(half)
    negative = x.bits() < 0
    is_pole = size.eq(0.0) | size.eq(math.inf)
    at_pole = select(size.eq(0.0).cmp("eq", y < 0.0), size.const(math.inf), size.const(0.0))
    result = select(is_pole, at_pole, magnitude)
    grows = (size > 1.0).cmp("eq", y > 0.0)
    result = select(y_size.eq(math.inf), select(grows, result.const(math.inf), result.const(0.0)), result)
    result = select(negative & odd, -result, result)
    bad = negative & whole.invert() & (size > 0.0) & (size < math.inf) & (y_size < math.inf)
    result = select(bad | x.isnan() | y.isnan(), result.const(math.nan), result)
    one = x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & y_size.eq(math.inf))
    return select(one, result.const(1.0), result)
