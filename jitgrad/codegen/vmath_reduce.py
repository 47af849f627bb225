"""Arguments of trigonometric functions, brought to [-pi/4, pi/4].

Owns: ``reduce_pi_half``, for every finite argument.
Must not know: what is computed from the result.

Method: Cody and Waite's subtraction of n pi/2 in parts for moderate arguments. If some lane is larger, a branch does
M. Payne and R. Hanek's reduction (SIGNUM Newsletter 18(1), 1983) in integers: of the product of x's mantissa with the
bits of 2/pi only those around the binary point are formed.
"""

from __future__ import annotations

import math
from fractions import Fraction

from jitgrad.codegen.vmath_core import Lanes, quick_two_sum, select, split_constant, two_product, two_sum
from jitgrad.codegen.vmath_exp import nearest_int

__all__ = ["PI_HALF", "reduce_pi_half"]

PI_HALF = Fraction("1.5707963267948966192313216916397514420985846996875529104874722961539082031431")
# The fraction bits of 2/pi, 64 a word, after a word of zeros: the bits that the largest float64 needs end the table.
TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)
LARGEST_DIRECT = {"float": 2.0**15, "double": 2.0**20}
Reduced = tuple[Lanes, Lanes, Lanes]


def reduce_pi_half(x: Lanes) -> Reduced:
    """(n, r, low) with x = n pi/2 + r + low and |r| <= pi/4; n is right modulo 4, an integer of x's size.

    NaN and infinities give r = NaN.
    """
    b = x.b
    direct = _direct(x)
    slow, done = b.label("reduce"), b.label("reduce")
    large = x.abs() > LARGEST_DIRECT[x.scalar]
    before = b.block
    b.do(f"br i1 {large.any()}, label %{slow}, label %{done}")
    b.start(slow)
    exact = tuple(select(large, e, d) for e, d in zip(_PAYNE_HANEK[x.scalar](x), direct, strict=True))
    after = b.block
    b.do(f"br label %{done}")
    b.start(done)
    n, r, low = (
        d.new(f"phi {d.type} [ {d.reg}, %{before} ], [ {e.reg}, %{after} ]")
        for d, e in zip(direct, exact, strict=True)
    )
    return n, r, low


def _direct(x: Lanes) -> Reduced:
    """Cody and Waite. The first parts of pi/2 are so short that n times them is exact."""
    n, n_bits = nearest_int(x * (2 / math.pi))
    return (n_bits, *_DIRECT[x.scalar](x, n))


def _direct32(x: Lanes, n: Lanes) -> tuple[Lanes, Lanes]:
    """Three full parts and exact fma: x - n * part is exact the first time."""
    high, middle, low = split_constant(PI_HALF, 24, 24)
    r = n.fma(-low, n.fma(-middle, n.fma(-high, x)))
    return r, r.const(0.0)


def _direct64(x: Lanes, n: Lanes) -> tuple[Lanes, Lanes]:
    """Four parts of 33, 33, 33 and 53 bits; n has at most 20 bits."""
    a, b, c, d = split_constant(PI_HALF, 33, 33, 33)
    r, error1 = two_sum(x - n * a, n * -b)
    r, error2 = two_sum(r, n * -c)
    return quick_two_sum(r, n.mad(-d, error1 + error2))


def _payne_hanek32(x: Lanes) -> Reduced:
    """|x| = m 2^e with a 24-bit m: m times 96 bits of 2/pi modulo 4, in 64-bit lanes."""
    bits = x.bits().convert("i64", "zext")
    skip = _first_bit((bits >> 23) & 0xFF, 127 + 23)
    m = (bits & 0x7FFFFF) | 0x800000
    index = skip >> 6
    words = [bits.const(_signed(w)) for w in TWO_OVER_PI[:5]]
    near = [select(index.eq(0), words[i], select(index.eq(1), words[i + 1], words[i + 2])) for i in range(3)]
    first, second = (near[i]._intrinsic("fshl", near[i + 1], skip & 63) for i in range(2))
    turn = m * first + (m * second.lshr(32)).lshr(32)  # in units of 2^-62 quarter turns
    quarter = (turn + (1 << 61)).lshr(62)
    r = ((turn << 2).convert("double") * (math.ldexp(math.pi, -65))).convert("float")
    return _with_sign(x, quarter.convert("i32"), r, r.const(0.0))


def _payne_hanek64(x: Lanes) -> Reduced:
    """The same with a 53-bit m and 192 bits of 2/pi, in 128-bit lanes, and the fraction as a pair."""
    bits = x.bits()
    skip = _first_bit((bits >> 52) & 0x7FF, 1023 + 52)
    m = ((bits & ((1 << 52) - 1)) | (1 << 52)).convert("i128", "zext")
    words = [_load_word((skip >> 6) + i) for i in range(4)]
    parts = [words[i]._intrinsic("fshl", words[i + 1], skip & 63).convert("i128", "zext") for i in range(3)]
    turn = ((m * parts[0]) << 64) + m * parts[1] + (m * parts[2]).lshr(64)
    quarter = (turn + (1 << 125)).lshr(126).convert("i64", "trunc")
    fraction = turn << 2
    upper, lower = fraction.lshr(64).convert("i64", "trunc"), fraction.convert("i64", "trunc")
    high, error = two_sum(
        (upper & -(1 << 32)).convert("double") * 2.0**-64, (upper & 0xFFFFFFFF).convert("double") * 2.0**-64
    )
    high, low = two_sum(high, error + lower.lshr(1).convert("double") * 2.0**-127)
    c, c_rest = split_constant(PI_HALF, 53)
    r, error = two_product(high, high.const(c))
    r, low = quick_two_sum(r, low.mad(c, high.mad(c_rest, error)))
    return _with_sign(x, quarter, r, low)


def _first_bit(exponent: Lanes, bias: int) -> Lanes:
    """The place in TWO_OVER_PI of the first bit that is not a whole number of turns; 0 for small lanes."""
    place = exponent - (bias + 2 - 64)
    return select(place > 0, place, 0)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _load_word(index: Lanes) -> Lanes:
    """TWO_OVER_PI[index] per lane."""
    b, width = index.b, index.width
    table = ", ".join(f"i64 {_signed(w)}" for w in TWO_OVER_PI)
    b.declare(f"@two_over_pi = private unnamed_addr constant [{len(TWO_OVER_PI)} x i64] [{table}]")
    if width == 1:
        address = b.op(f"getelementptr i64, ptr @two_over_pi, {index.typed}")
        return index.new(f"load i64, ptr {address}")
    result = f"{index.type} poison"
    for lane in range(width):
        at = b.op(f"extractelement {index.typed}, i64 {lane}")
        address = b.op(f"getelementptr i64, ptr @two_over_pi, i64 {at}")
        word = b.op(f"load i64, ptr {address}")
        result = f"{index.type} " + b.op(f"insertelement {result}, i64 {word}, i64 {lane}")
    return Lanes(b, "i64", width, result.rsplit(" ", 1)[1])


def _with_sign(x: Lanes, n: Lanes, r: Lanes, low: Lanes) -> Reduced:
    negative = x < 0.0
    r = select(x.abs().eq(math.inf), math.nan, select(negative, -r, r))
    return select(negative, -n, n), r, select(negative, -low, low)


_DIRECT = {"float": _direct32, "double": _direct64}
_PAYNE_HANEK = {"float": _payne_hanek32, "double": _payne_hanek64}
