"""Arguments of trigonometric functions, brought to [-pi/4, pi/4] or [-pi/2, pi/2].

Owns: ``reduce_pi_half`` and ``reduce_pi``, for every finite argument.
Must not know: what is computed from the result.

Method: Cody and Waite's subtraction of n pi/2 in parts for moderate arguments. If some lane is larger, a branch does
M. Payne and R. Hanek's reduction (SIGNUM Newsletter 18(1), 1983) in integers: of the product of x's mantissa with the
bits of 2/pi only those around the binary point are formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise

from jitgrad.codegen.llvm.text import FnBuilder, Isa
from jitgrad.codegen.vmath.core import Lanes, quick_two_sum, select, split_constant, two_product, two_sum
from jitgrad.codegen.vmath.exp import nearest_int

__all__ = ["PI_HALF", "reduce_pi", "reduce_pi_half"]

PI_HALF = Fraction("1.5707963267948966192313216916397514420985846996875529104874722961539082031431")
# The fraction bits of 2/pi, 64 a word, after a word of zeros: the bits that the largest float64 needs end the table.
TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
LARGEST_DIRECT = {"float": 2.0**15, "double": 2.0**20}
Reduced = tuple[Lanes, Lanes, Lanes]


def reduce_pi_half(x: Lanes) -> Reduced:
    """(n, r, low) with x = n pi/2 + r + low and |r| <= pi/4; n is right modulo 4, an integer of x's size.

    NaN and infinities give r = NaN.
    """
    n, n_bits = nearest_int(x * (2 / math.pi))
    return _exact_where_large(x, (n_bits, *_without(x, n, PI_HALF)), _payne_hanek)


def reduce_pi(x: Lanes, quarter_turns: int) -> Reduced:
    """(n, r, low) with x + quarter_turns pi/2 = n pi + r + low and |r| <= pi/2; n is right modulo 2.

    Args:
        quarter_turns: 0 or 1.
    """
    turns = x.mad(1 / math.pi, 0.5) if quarter_turns else x * (1 / math.pi)
    n, n_bits = nearest_int(turns)
    if quarter_turns:
        n = n - 0.5
    direct = (n_bits, *_without(x, n, 2 * PI_HALF))
    return _exact_where_large(x, direct, lambda one: _in_half_turns(*_payne_hanek(one), quarter_turns))


def _in_half_turns(n: Lanes, r: Lanes, low: Lanes, more: int) -> Reduced:
    """(n + more) pi/2 + r + low, in half turns: the odd quarter turn goes to r, away from what r is."""
    n = n + more if more else n
    is_odd, is_negative = (n & 1).ne(0), r < 0.0
    high, rest = split_constant(PI_HALF, r.fmt.mantissa + 1)
    moved, error = two_sum(r, select(is_negative, r.const(high), -high))
    error = error + select(is_negative, r.const(rest), -rest) + low
    half_turns = (n >> 1) + select(is_negative, n.const(0), 1)
    return select(is_odd, half_turns, n >> 1), select(is_odd, moved, r), select(is_odd, error, low)


def _exact_where_large(x: Lanes, direct: Reduced, exact: Callable[[Lanes], Reduced]) -> Reduced:
    """``direct``, but ``exact`` of each lane that is too large for it."""
    b = x.b
    slow, done = b.label("reduce"), b.label("reduce")
    large = x.abs() > LARGEST_DIRECT[x.scalar]
    before = b.block
    b.do(f"br i1 {large.any()}, label %{slow}, label %{done}")
    b.start(slow)
    found = tuple(select(large, e, d) for e, d in zip(_each_lane(x, direct, exact), direct, strict=True))
    after = b.block
    b.do(f"br label %{done}")
    b.start(done)
    n, r, low = (d.phi((d.reg, before), (e.reg, after)) for d, e in zip(direct, found, strict=True))
    return n, r, low


def _each_lane(x: Lanes, start: Reduced, exact: Callable[[Lanes], Reduced]) -> Reduced:
    """``exact`` lane by lane in a loop: rare work should cost little code, for code costs compile time."""
    if x.width == 1:
        return exact(x)
    b = x.b
    head, done = b.label("lane"), b.label("lane")
    before = b.block
    b.do(f"br label %{head}")
    b.start(head)
    lane = b.op(f"phi i64 [ 0, %{before} ], [ %{head}.next, %{head} ]")
    carried = [v.phi((v.reg, before), (f"%{head}.{k}", head)) for k, v in enumerate(start)]
    one = Lanes(b, x.scalar, 1, b.op(f"extractelement {x.typed}, i64 {lane}"))
    for k, (vector, value) in enumerate(zip(carried, exact(one), strict=True)):
        b.do(f"%{head}.{k} = insertelement {vector.typed}, {value.typed}, i64 {lane}")
    b.do(f"%{head}.next = add i64 {lane}, 1")
    b.do(f"%{head}.more = icmp ult i64 %{head}.next, {x.width}")
    b.do(f"br i1 %{head}.more, label %{head}, label %{done}")
    b.start(done)
    n, r, low = (Lanes(b, v.scalar, x.width, f"%{head}.{k}") for k, v in enumerate(start))
    return n, r, low


def _without(x: Lanes, n: Lanes, turn: Fraction) -> tuple[Lanes, Lanes]:
    """x - n turn as a pair, by Cody and Waite's method; n is a multiple of 1/2."""
    has_exact = x.scalar == "float" or x.b.isa.fma
    return (_direct_fma if has_exact else _direct64)(x, n, turn)


def _direct_fma(x: Lanes, n: Lanes, turn: Fraction) -> tuple[Lanes, Lanes]:
    """Three full parts and exact fma: x - n * high is exact, and the product n * middle is kept as a pair.

    Where x - n * high is the smaller, the sum's error is itself rounded: half an ULP of r at most.
    """
    bits = x.fmt.mantissa + 1
    high, middle, low = split_constant(turn, bits, bits)
    r = n.fma(-high, x)
    product, error = two_product(n, n.const(-middle))
    r, rounding = quick_two_sum(r, product)
    return r, rounding + n.mad(-low, error)


def _direct64(x: Lanes, n: Lanes, turn: Fraction) -> tuple[Lanes, Lanes]:
    """Without fma: four parts of 33, 33, 33 and 53 bits, whose products with n of at most 20 bits are exact."""
    a, b, c, d = split_constant(turn, 33, 33, 33)
    r, error1 = two_sum(x - n * a, n * -b)
    r, error2 = two_sum(r, n * -c)
    return quick_two_sum(r, n.mad(-d, error1 + error2))


def _payne_hanek(x: Lanes) -> Reduced:
    """One lane: a call of the module's one copy of ``_payne_hanek64``, cold code that would weigh on every sin."""
    b = x.b
    declarations, definition = _helper(b.isa)
    for line in (*declarations, definition):
        b.declare(line)
    wide = x.convert("double")
    result = b.op(f"call {HELPER_RESULT} @jg_reduce_pi_half({wide.typed})")
    n, r, low = (
        Lanes(b, scalar, 1, b.op(f"extractvalue {HELPER_RESULT} {result}, {k}"))
        for k, scalar in enumerate(("i64", "double", "double"))
    )
    if x.scalar == "double":
        return n, r, low
    rounded = r.convert("float")
    return n.convert("i32"), rounded, (r - rounded.convert("double")).convert("float")


HELPER_RESULT = "{ i64, double, double }"


@cache
def _helper(isa: Isa) -> tuple[tuple[str, ...], str]:
    """What ``jg_reduce_pi_half`` needs declared, and its definition."""
    b = FnBuilder("jg_reduce_pi_half", "double %x", isa)
    result = f"{HELPER_RESULT} poison"
    for k, value in enumerate(_payne_hanek64(Lanes(b, "double", 1, "%x"))):
        result = f"{HELPER_RESULT} " + b.op(f"insertvalue {result}, {value.typed}, {k}")
    declarations = tuple(b.declarations)
    b.declarations.clear()
    return declarations, b.finish(f"ret {result}", f"private {HELPER_RESULT}").strip()


def _payne_hanek64(x: Lanes) -> Reduced:
    """|x| = m 2^e with a 53-bit m: m times 192 bits of 2/pi modulo 4, as a 128-bit fraction of 4."""
    bits = x.bits()
    place = ((bits >> 52) & 0x7FF) - (1023 + 52 + 2 - 64)  # the first bit of the table that is not a whole turn
    skip = select(place > 0, place, 0)
    m = ((bits & ((1 << 52) - 1)) | (1 << 52)).convert("i128", "zext")
    words = [_load_word((skip >> 6) + i) for i in range(4)]
    parts = [near.fshl(far, skip & 63).convert("i128", "zext") for near, far in pairwise(words)]
    turn = ((m * parts[0]) << 64) + m * parts[1] + (m * parts[2]).lshr(64)
    quarter = (turn + (1 << 125)).lshr(126).convert("i64", "trunc")
    r, low = _fraction(turn << 2)
    negative = x < 0.0
    r = select(x.abs().eq(math.inf), math.nan, select(negative, -r, r))
    return select(negative, -quarter, quarter), r, select(negative, -low, low)


def _fraction(quarter_turns: Lanes) -> tuple[Lanes, Lanes]:
    """A signed 128-bit fraction of a quarter turn as radians, in a pair. The top may cancel: all parts are exact."""
    upper, lower = quarter_turns.lshr(64).convert("i64", "trunc"), quarter_turns.convert("i64", "trunc")
    first = (upper & -(1 << 32)).convert("double") * 2.0**-64
    second = (upper & 0xFFFFFFFF).convert("double") * 2.0**-64
    high, error = two_sum(first, second)
    high, low = two_sum(high, error + lower.lshr(1).convert("double") * 2.0**-127)
    c, c_rest = split_constant(PI_HALF, 53)
    r, error = two_product(high, high.const(c))
    return quick_two_sum(r, low.mad(c, high.mad(c_rest, error)))


def _load_word(index: Lanes) -> Lanes:
    """TWO_OVER_PI[index]."""
    b = index.b
    table = ", ".join(f"i64 {w}" for w in TWO_OVER_PI)
    b.declare(f"@two_over_pi = private unnamed_addr constant [{len(TWO_OVER_PI)} x i64] [{table}]")
    address = b.op(f"getelementptr i64, ptr @two_over_pi, {index.typed}")
    return index.new(f"load i64, ptr {address}")
