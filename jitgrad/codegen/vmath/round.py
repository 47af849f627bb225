"""Rounding to integers, and what is built on it: quotients and remainders.

Owns: floor, ceil, trunc, round (half to even), fmod, mod and floordiv of floats.
Must not know: the functions above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgrad.codegen.vmath.core import Lanes, select

__all__ = ["floordiv", "fmod", "mod", "round_mode"]


def round_mode(x: Lanes, mode: str) -> Lanes:
    """``mode``: floor, ceil, trunc or roundeven. Signed zeros, infinities and NaN as IEEE has them."""
    return x.intrinsic(mode) if x.b.isa.round else _ROUND[mode](x)


def _roundeven(x: Lanes) -> Lanes:
    """Adding and subtracting 2^mantissa rounds to even at the units; larger numbers are integers already."""
    magic = x.const(math.ldexp(1.0, x.fmt.mantissa))
    size = x.abs()
    rounded = ((size + magic) - magic).copysign(x)
    return select(size < magic, rounded, x)


def _corrected(x: Lanes, predicate: str, step: float) -> Lanes:
    """The even rounding, moved by ``step`` where it went past ``x``."""
    near = _roundeven(x)
    return select(near.cmp(predicate, x), near + step, near).copysign(x)


_ROUND: dict[str, Callable[[Lanes], Lanes]] = {
    "roundeven": _roundeven,
    "floor": lambda x: _corrected(x, "ogt", -1.0),
    "ceil": lambda x: _corrected(x, "olt", 1.0),
    "trunc": lambda x: _corrected(x.abs(), "ogt", -1.0).copysign(x),
}


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """The exact remainder, with x's sign.

    While some lane has |r| >= |y|: r -= trunc(r / y) y. The rounded quotient may be one too large, or lack its low
    bits, but the subtraction is exact with fma: its result is a multiple of ulp(y) ulp(q), and at most |y| ulp(q). So
    r shrinks by 2^mantissa a turn, and ends one correction away.
    """
    b, size = x.b, y.abs()
    valid = (x.abs() < math.inf) & (size > 0.0)
    start = select(valid, x.abs(), 0.0)
    head, body, done = b.label("fmod"), b.label("fmod"), b.label("fmod")
    before, latch = b.block, f"%{body}.next"
    b.do(f"br label %{head}")
    b.start(head)
    rest = x.phi((start.reg, before), (latch, body))
    active = rest.abs() >= size
    b.do(f"br i1 {active.any()}, label %{body}, label %{done}")
    b.start(body)
    following = _fmod_step(rest, size)
    b.do(f"{latch} = select {active.typed}, {following.typed}, {rest.typed}")
    b.do(f"br label %{head}")
    b.start(done)
    rest = select(rest < 0.0, rest + size, rest).copysign(x)
    return select(valid, rest, math.nan)


def _fmod_step(rest: Lanes, size: Lanes) -> Lanes:
    """rest - trunc(rest / size) size, by a multiple of ``size`` where the quotient would overflow."""
    limit = rest.fmt.bias * 7 // 8
    for _ in range(2):  # the largest ratio of all has 2.2 times the bias as its exponent
        too_small = rest.abs() * math.ldexp(1.0, -limit) > size
        size = select(too_small, size * math.ldexp(1.0, limit * 3 // 4), size)
    return (-round_mode(rest / size, "trunc")).fma(size, rest)


def mod(x: Lanes, y: Lanes) -> Lanes:
    """``torch.remainder``: fmod moved to the divisor's sign."""
    rest = fmod(x, y)
    crossed = rest.ne(0.0) & (y < 0.0).cmp("ne", rest < 0.0)
    return select(crossed, rest + y, rest)


def floordiv(x: Lanes, y: Lanes) -> Lanes:
    """``torch.floor_divide``: exact floor where x / y itself would round up (c10/util/generic_math.h)."""
    rest = fmod(x, y)
    quotient = (x - rest) / y
    crossed = rest.ne(0.0) & (y < 0.0).cmp("ne", rest < 0.0)
    quotient = select(crossed, quotient - 1.0, quotient)
    floor = round_mode(quotient, "floor")
    floor = select(quotient - floor > 0.5, floor + 1.0, floor)
    true_quotient = x / y
    floor = select(quotient.eq(0.0), floor.const(0.0).copysign(true_quotient), floor)
    return select(y.eq(0.0), true_quotient, floor)
