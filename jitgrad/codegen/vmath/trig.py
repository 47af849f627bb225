"""Trigonometric functions and their inverses as inline vector code.

Owns: sin, cos, tan, asin, acos, atan, atan2.
Must not know: kernels. The reduction of the argument is in ``reduce``.

Kernels on [-pi/4, pi/4] in the form of FDLIBM (k_sin.c, k_cos.c; Sun Microsystems, 1993), with the reduced argument
as a pair where that is needed for its relative error.
"""

from __future__ import annotations

import math

from jitgrad.codegen.vmath.coefs import COEFS
from jitgrad.codegen.vmath.core import Lanes, quick_two_sum, select, split_constant
from jitgrad.codegen.vmath.reduce import PI_HALF, reduce_pi_half

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]


def _sin_kernel(r: Lanes, low: Lanes, z: Lanes) -> Lanes:
    """sin(r + low)."""
    cube = r * z
    tail = cube.mad(z.poly(COEFS["SIN", r.scalar]), low.mad(z * -0.5, low))
    return r + tail


def _cos_kernel(r: Lanes, low: Lanes, z: Lanes) -> Lanes:
    """cos(r + low): 1 - z/2 is rounded, and its error goes into the tail."""
    half = z * 0.5
    head = 1.0 - half
    error = (1.0 - head) - half
    tail = (z * z).mad(z.poly(COEFS["COS", r.scalar][1:]), error - r * low)
    return head + tail


def _sin_or_cos(x: Lanes, quarter_turns: int) -> Lanes:
    n, r, low = reduce_pi_half(x)
    if quarter_turns:
        n = n + quarter_turns
    z = r * r
    even = (n & 1).eq(0)
    value = select(even, _sin_kernel(r, low, z), _cos_kernel(r, low, z))
    sign = (n & 2) << (8 * (4 if x.scalar == "float" else 8) - 2)
    return (value.bits() ^ sign).as_float()


def sin(x: Lanes) -> Lanes:
    result = _sin_or_cos(x, 0)
    return select(x.eq(0.0), x, result)


def cos(x: Lanes) -> Lanes:
    return _sin_or_cos(x, 1)


def tan(x: Lanes) -> Lanes:
    """tan(r) as a pair; every other quarter turn -1 / tan(r), by one corrected division."""
    n, r, low = reduce_pi_half(x)
    z = r * r
    tail = (r * z).mad(z.poly(COEFS["TAN", r.scalar]), low.mad(z, low))
    head = r + tail
    error = (r - head) + tail
    inverse = -1.0 / head
    correction = inverse.fma(head, 1.0) + inverse * error
    inverse = inverse.mad(correction, inverse)
    result = select((n & 1).eq(0), head, inverse)
    return select(x.eq(0.0), x, result)


def _asin_parts(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """(mask |x| < 0.5625, s, tail): s + tail is asin(|x|) there, and elsewhere asin(sqrt((1 - |x|) / 2))."""
    size = x.abs()
    small = size < 0.5625
    z = select(small, size * size, size.mad(-0.5, 0.5))
    s = select(small, size, z.sqrt())
    return small, s, (s * z) * z.poly(COEFS["ASIN", x.scalar])


def asin(x: Lanes) -> Lanes:
    """asin |x| = pi/2 - 2 asin(sqrt((1 - |x|) / 2)) in the upper half."""
    high, low = split_constant(PI_HALF, x.fmt.mantissa + 1)
    small, s, tail = _asin_parts(x)
    upper, error = quick_two_sum(x.const(high), s * -2.0)
    upper = upper + (error - (tail + tail - low))
    return select(small, s + tail, upper).copysign(x)


def acos(x: Lanes) -> Lanes:
    high, low = split_constant(PI_HALF, x.fmt.mantissa + 1)
    small, s, tail = _asin_parts(x)
    inner = high - ((s + tail).copysign(x) - low)
    twice, tail_twice = s + s, tail + tail
    outer = select(x < 0.0, (2 * high - twice) - (tail_twice - 2 * low), twice + tail_twice)
    return select(small, inner, outer)


def _atan_unit(t: Lanes) -> Lanes:
    """atan for t in [0, 1]."""
    z = t * t
    return (t * z).mad(z.poly(COEFS["ATAN", t.scalar]), t)


def atan(x: Lanes) -> Lanes:
    high, low = split_constant(PI_HALF, x.fmt.mantissa + 1)
    size = x.abs()
    big = size > 1.0
    p = _atan_unit(select(big, 1.0 / size, size))
    return select(big, (high - p) + low, p).copysign(x)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of (x, y) with C's special cases (C17 F.10.1.4)."""
    high, low = split_constant(PI_HALF, x.fmt.mantissa + 1)
    x_size, y_size = x.abs(), y.abs()
    steep = y_size > x_size
    over, under = select(steep, x_size, y_size), select(steep, y_size, x_size)
    ratio = over / under
    ratio = select(under.eq(0.0), over, ratio)
    ratio = select(over.eq(math.inf), 1.0, ratio)
    p = _atan_unit(ratio)
    p = select(steep, (high - p) + low, p)
    p = select(x.bits() < 0, (2 * high - p) + 2 * low, p)
    p = select(x.isnan() | y.isnan(), p.const(math.nan), p)
    return p.copysign(y)
