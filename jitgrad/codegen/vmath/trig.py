"""Trigonometric functions and their inverses as inline vector code.

Owns: sin, cos, tan, asin, acos, atan, atan2.
Must not know: kernels. The reduction of the argument is in ``reduce``.

sin is one odd polynomial on [-pi/2, pi/2], tan one on [-pi/4, pi/4], with the reduced argument as a pair where that is
needed for its relative error. The others are in the form of FDLIBM (Sun Microsystems, 1993).
"""

from __future__ import annotations

import math

from jitgrad.codegen.vmath.coefs import COEFS
from jitgrad.codegen.vmath.core import Lanes, quick_two_sum, select, split_constant
from jitgrad.codegen.vmath.reduce import PI_HALF, reduce_pi, reduce_pi_half
from jitgrad.codegen.vmath.root import sqrt

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]


def _sin_of_half_turn(n: Lanes, r: Lanes, low: Lanes) -> Lanes:
    """sin(n pi + r + low) for |r| <= pi/2: r + r z p(z), with z = r^2, and low times nearly cos(r).

    The second term is up to 0.57. In float32 the errors of z and of z p(z) would be one ULP of the result.
    """
    z = r * r
    p = z.poly(COEFS["SIN_TURN", r.scalar])
    part = z * p
    rest = low.mad(z * z.mad(1 / 24, -0.5), low)
    if r.scalar == "float":
        rest = r.mad(p.mad(r.fma(r, -z), z.fma(p, -part)), rest)
    sign = n << (31 if r.scalar == "float" else 63)
    return ((r + r.mad(part, rest)).bits() ^ sign).as_float()


def sin(x: Lanes) -> Lanes:
    return select(x.eq(0.0), x, _sin_of_half_turn(*reduce_pi(x, 0)))


def cos(x: Lanes) -> Lanes:
    """sin(x + pi/2)."""
    return _sin_of_half_turn(*reduce_pi(x, 1))


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
    s = select(small, size, sqrt(z))
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
