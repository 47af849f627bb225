"""The pointwise primitives that are one instruction, or a few: arithmetic, comparisons, logic, integers, casts.

Owns: these primitives for all dtypes, and ``cast``.
Must not know: transcendental functions, kernels.

Integers wrap. A quotient by zero traps on x86, so divisors are guarded: x // 0 and x % 0 are 0, as in NumPy; the lowest
integer by -1 wraps to itself.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.round import floordiv as float_floordiv
from jitgrad.codegen.vmath.round import fmod as float_fmod
from jitgrad.codegen.vmath.round import mod as float_mod

__all__ = ["absolute", "arithmetic", "cast", "comparison", "div", "floordiv", "fmod", "int_pow", "isnan", "maximum",
           "minimum", "mod", "sign"]  # fmt: skip

BOOL_ARITHMETIC = {"add": "or", "sub": "xor", "mul": "and"}


def arithmetic(name: str) -> Callable[[Lanes, Lanes], Lanes]:
    """add, sub or mul; of masks: or, xor, and."""

    def emit(x: Lanes, y: Lanes) -> Lanes:
        if x.scalar == "i1":
            return x.binary(BOOL_ARITHMETIC[name], y)
        return x.binary(("f" if x.is_float else "") + name, y)

    return emit


def comparison(name: str) -> Callable[[Lanes, Lanes], Lanes]:
    """lt, le, gt, ge, eq or ne; false against NaN, but for ne."""
    ordered = {"eq": "eq", "ne": "ne"}
    by_scalar = {
        "i1": ordered.get(name, "u" + name),
        "i32": ordered.get(name, "s" + name),
        "i64": ordered.get(name, "s" + name),
    }
    for_float = "une" if name == "ne" else "o" + name
    return lambda x, y: x.cmp(by_scalar.get(x.scalar, for_float), y)


def isnan(x: Lanes) -> Lanes:
    return x.isnan() if x.is_float else x.ne(x)


def maximum(x: Lanes, y: Lanes) -> Lanes:
    """The larger; NaN if either is; of two zeros the second, as ``torch.maximum``."""
    return _extreme(x, y, "or", "smax", "gt")


def minimum(x: Lanes, y: Lanes) -> Lanes:
    """The smaller; NaN if either is; of two zeros the second, as ``torch.minimum``."""
    return _extreme(x, y, "and", "smin", "lt")


def _extreme(x: Lanes, y: Lanes, for_bool: str, for_int: str, for_float: str) -> Lanes:
    if x.scalar == "i1":
        return x.binary(for_bool, y)
    if not x.is_float:
        return x.intrinsic(for_int, y)
    if y.is_literal:  # unordered or x wins: x, unless the NaN is y's, which is known
        return select(y.isnan(), y, select(x.cmp("u" + for_float, y), x, y))
    # what x86's own instruction does: y, unless x wins, or is NaN
    return select(x.isnan(), x, select(x.cmp("o" + for_float, y), x, y))


def absolute(x: Lanes) -> Lanes:
    if x.is_float:
        return x.abs()
    return x if x.scalar == "i1" else select(x < 0, -x, x)


def sign(x: Lanes) -> Lanes:
    """-1, 0 or 1, and 0 for NaN, as ``torch.sign``."""
    if x.scalar == "i1":
        return x
    return (x > 0).convert(x.scalar) - (x < 0).convert(x.scalar)


def _quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y of integers, truncated. It cannot trap: by 0 it is 0, by -1 it wraps.

    No vector unit divides integers. 32-bit lanes divide in float64, which is exact enough: x / y is at least 1 / |y|
    away from the next integer, and its rounding error is at most 2^-21 / |y|. 64-bit lanes do so twice, as a long
    division does: what the first quotient leaves of x is at most 3072 + |y|, so the second one is right, or one too far
    from 0 where |y| > 2^53; what is left then has the other sign than x.
    """
    zero, minus_one = y.eq(0), y.eq(-1)
    if x.width == 1:
        result = x.binary("sdiv", select(zero | minus_one, 1, y))
    elif x.scalar == "i32":
        result = _rough_quotient(x, select(zero | minus_one, 1, y))
    else:
        one = y.eq(1)
        result = select(one, x, _long_quotient(x, select(zero | minus_one | one, 2, y)))
    return select(zero, 0, select(minus_one, -x, result))


def _long_quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y of 64-bit integers, truncated; y is at least 2, or at most -2."""
    first = _rough_quotient(x, y)
    rest = x - first * y
    second = _rough_quotient(rest, y)
    rest = rest - second * y
    too_far = rest.ne(0) & ((rest ^ x) < 0)
    return first + second - select(too_far, select((x ^ y) < 0, x.const(-1), 1), 0)


def _rough_quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y of integers, rounded as float64 does, truncated."""
    return (x.convert("double") / y.convert("double")).convert(x.scalar, "fptosi")


def _remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y trunc(x / y); 0 for y = 0."""
    return select(y.eq(0), 0, x - _quotient(x, y) * y)


def div(x: Lanes, y: Lanes) -> Lanes:
    """True quotient of floats; of integers, truncated."""
    return x / y if x.is_float else _quotient(x, y)


def _crossed(rest: Lanes, y: Lanes) -> Lanes:
    """A remainder not 0 and of the other sign than the divisor."""
    return rest.ne(0) & ((rest ^ y) < 0)


def floordiv(x: Lanes, y: Lanes) -> Lanes:
    if x.is_float:
        return float_floordiv(x, y)
    quotient = _quotient(x, y)
    rest = x - quotient * y
    return select(y.eq(0), 0, select(_crossed(rest, y), quotient - 1, quotient))


def fmod(x: Lanes, y: Lanes) -> Lanes:
    return float_fmod(x, y) if x.is_float else _remainder(x, y)


def mod(x: Lanes, y: Lanes) -> Lanes:
    if x.is_float:
        return float_mod(x, y)
    rest = _remainder(x, y)
    return select(_crossed(rest, y), rest + y, rest)


def int_pow(x: Lanes, y: Lanes) -> Lanes:
    """x^y by squaring, wrapping; a negative power is 0 but for x = 1 and -1, as in PyTorch."""
    b = x.b
    negative = y < 0
    start = select(negative, select(x.eq(1), 1, select(x.eq(-1), select((y & 1).eq(0), x.const(1), x), 0)), 1)
    exponent = select(negative, 0, y)
    head, body, done = b.label("pow"), b.label("pow"), b.label("pow")
    before = b.block
    b.do(f"br label %{head}")
    b.start(head)
    result, base, left = (
        v.phi((v.reg, before), (f"%{body}.{name}", body))
        for v, name in ((start, "result"), (x, "base"), (exponent, "left"))
    )
    b.do(f"br i1 {left.ne(0).any()}, label %{body}, label %{done}")
    b.start(body)
    factor = select((left & 1).ne(0), base, 1)
    b.do(f"%{body}.result = mul {result.typed}, {factor.reg}")
    b.do(f"%{body}.base = mul {base.typed}, {base.reg}")
    b.do(f"%{body}.left = lshr {left.typed}, {left.const(1).reg}")
    b.do(f"br label %{head}")
    b.start(done)
    return result


def cast(x: Lanes, to: str) -> Lanes:
    """To bool: != 0, so NaN is true. Float to integer: truncated; what does not fit, NaN too, is the least integer."""
    if to == x.scalar:
        return x
    if to == "i1":
        return x.ne(0)
    if x.is_float and to.startswith("i"):
        return _truncated(x, to)
    return x.convert(to)


def _truncated(x: Lanes, to: str) -> Lanes:
    """As x86's conversions, and so NumPy's and PyTorch's there; LLVM's is undefined for what does not fit."""
    bound = 2.0 ** (int(to[1:]) - 1)
    fits = (x >= -bound) & (x < bound)
    return select(fits, x.convert(to, "fptosi"), x.const(-int(bound), to))
