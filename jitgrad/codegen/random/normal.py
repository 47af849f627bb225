"""Normal numbers from uniform ones, as LLVM IR, rounded as PyTorch rounds them on x86 with AVX2.

Owns: ``normals32``, ``normals64`` (blocks of 16), ``pairs`` (two by two), ``exponentials``, ``map_libm``.
Must not know: the generator, but for ``words``.

Source: Box and Muller, "A note on the generation of random normal deviates", 1958. The float logarithm, sine and cosine
are those of the Cephes library (Moshier, 1992), with multiplications fused into the additions that follow them where
PyTorch's compiler fuses them; one rounding more or less would be another number. Doubles go through the C library.
"""

from __future__ import annotations

import math

from jitgrad.abi import RANDOM_CACHED, RANDOM_HAS_CACHED, RANDOM_LIBM, RANDOM_LIBM_NAMES
from jitgrad.codegen.llvm.text import FnBuilder, Isa
from jitgrad.codegen.random.twister import load, pointer, store
from jitgrad.codegen.vmath.core import Lanes, select

__all__ = ["exponentials", "map_libm", "normals32", "normals64", "pairs"]

_HALF_BLOCK = 8
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LN2_LOW, _LN2_HIGH = -2.12194440e-4, 0.693359375
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def _horner(x: Lanes, coefs: tuple[float, ...]) -> Lanes:
    """From the highest power down, each step rounded once."""
    total = x.const(coefs[0])
    for c in coefs[1:]:
        total = total.fma(x, c)
    return total


def _log(x: Lanes) -> Lanes:
    """The logarithm of floats in (0, 1]."""
    exponent = (x.bits().lshr(23) - 126).convert("float")
    x = ((x.bits() & 0x007FFFFF) | 0x3F000000).as_float()  # in [0.5, 1)
    is_low = x < math.sqrt(0.5)
    exponent = exponent - select(is_low, x.const(1.0), 0.0)
    x = (x - 1.0) + select(is_low, x, 0.0)
    square = x * x
    tail = (_horner(x, _LOG) * x).fma(square, exponent * _LN2_LOW)
    return exponent.fma(_LN2_HIGH, x + (tail - square * 0.5))


def _sin_cos(x: Lanes) -> tuple[Lanes, Lanes]:
    """Sine and cosine of floats in [0, 2 pi)."""
    octant = ((x * (4 / math.pi)).convert("i32", "fptosi") + 1) & -2
    turns = octant.convert("float")
    for part in _QUARTER_PI:
        x = turns.fma(part, x)
    square = x * x
    sine = (_horner(square, _SIN) * square).fma(x, x)
    cosine = (_horner(square, _COS) * square).fma(square, -(square * 0.5)) + 1.0
    is_plain = (octant & 2).eq(0)
    sine_sign, cosine_sign = (octant & 4) << 29, ((octant - 2).invert() & 4) << 29
    sine, cosine = select(is_plain, sine, cosine), select(is_plain, cosine, sine)
    return (sine.bits() ^ sine_sign).as_float(), (cosine.bits() ^ cosine_sign).as_float()


def normals32(isa: Isa) -> FnBuilder:
    """``normals32(data, count, mean, std)``: uniform floats become normal ones; ``count`` is a multiple of 16."""
    b = FnBuilder("normals32", "ptr %data, i64 %count, float %mean, float %std", isa)
    mean, std = (Lanes(b, "float", _HALF_BLOCK, b.splat(x, "float", _HALF_BLOCK)) for x in ("%mean", "%std"))
    with b.loop("0", "%count", 2 * _HALF_BLOCK) as index:
        second = b.op(f"add i64 {index}, {_HALF_BLOCK}")
        radius = (_log(1.0 - load(b, "float", "%data", index, _HALF_BLOCK)) * -2.0).sqrt()
        sine, cosine = _sin_cos(load(b, "float", "%data", second, _HALF_BLOCK) * (2 * math.pi))
        store((radius * cosine).fma(std, mean), "%data", index)
        store((radius * sine).fma(std, mean), "%data", second)
    return b


def _libm(x: Lanes, name: str) -> Lanes:
    """The C library's function of that name, whose address is in the state."""
    function = x.b.op(f"load ptr, ptr {pointer(x.b, 'i64', '%state', RANDOM_LIBM + RANDOM_LIBM_NAMES.index(name))}")
    return x.new(f"call double {function}(double {x.reg})")


def normals64(isa: Isa) -> FnBuilder:
    """``normals64(state, data, count, mean, std)``: ``normals32`` for doubles, number by number."""
    b = FnBuilder("normals64", "ptr %state, ptr %data, i64 %count, double %mean, double %std", isa)
    mean, std = (Lanes(b, "double", 1, x) for x in ("%mean", "%std"))
    with b.loop("0", "%count", 2 * _HALF_BLOCK) as block, b.loop("0", str(_HALF_BLOCK)) as number:
        index = b.op(f"add i64 {block}, {number}")
        second = b.op(f"add i64 {index}, {_HALF_BLOCK}")
        radius = (_libm(1.0 - load(b, "double", "%data", index), "log") * -2.0).sqrt()
        angle = load(b, "double", "%data", second) * (2 * math.pi)
        store((radius * _libm(angle, "cos")).fma(std, mean), "%data", index)
        store((radius * _libm(angle, "sin")).fma(std, mean), "%data", second)
    return b


def pairs(isa: Isa, kind: str) -> FnBuilder:
    """``pairs_float(state, out, count, mean, std)``: normal doubles two by two, the cached one first if there is one,
    written as numbers of the kind."""
    b = FnBuilder(f"pairs_{kind}", "ptr %state, ptr %out, i64 %count, double %mean, double %std", isa)
    mean, std = (Lanes(b, "double", 1, x) for x in ("%mean", "%std"))
    b.do("%drawn = alloca [2 x double]")
    cached, has = (pointer(b, "i64", "%state", word) for word in (RANDOM_CACHED, RANDOM_HAS_CACHED))
    with b.loop("0", "%count") as index:
        keeps, draws, done = b.label("keeps"), b.label("draws"), b.label("done")
        is_kept = b.op(f"icmp ne i64 {load(b, 'i64', has, 0).reg}, 0")
        b.do(f"br i1 {is_kept}, label %{keeps}, label %{draws}")
        b.start(keeps)
        store(load(b, "double", cached, 0).fma(std, mean).convert(kind), "%out", index)
        b.do(f"store i64 0, ptr {has}")
        b.do(f"store i64 0, ptr {cached}")
        b.do(f"br label %{done}")
        b.start(draws)
        b.do("call void @words(ptr %state, ptr %drawn, i64 4)")
        zero, one = b.const(0.0, "double"), b.const(1.0, "double")
        b.do(f"call void @fractions64(ptr %drawn, i64 2, double {zero}, double {one})")
        radius = (_libm(-load(b, "double", "%drawn", 1), "log1p") * -2.0).sqrt()
        angle = load(b, "double", "%drawn", 0) * (2 * math.pi)
        store((radius * _libm(angle, "cos")).fma(std, mean).convert(kind), "%out", index)
        store(radius * _libm(angle, "sin"), cached, 0)
        b.do(f"store i64 1, ptr {has}")
        b.do(f"br label %{done}")
        b.start(done)
    return b


def exponentials(isa: Isa, kind: str) -> FnBuilder:
    """``exponentials_float(state, out, drawn, count, factor)``: log1p(-u) * factor of doubles that were drawn."""
    b = FnBuilder(f"exponentials_{kind}", "ptr %state, ptr %out, ptr %drawn, i64 %count, double %factor", isa)
    factor = Lanes(b, "double", 1, "%factor")
    with b.loop("0", "%count") as index:
        store((_libm(-load(b, "double", "%drawn", index), "log1p") * factor).convert(kind), "%out", index)
    return b


def map_libm() -> FnBuilder:
    """``map_libm(state, data, count, which)``: a function of the C library in place of each double."""
    b = FnBuilder("map_libm", "ptr %state, ptr %data, i64 %count, i64 %which")
    place = b.op(f"add i64 %which, {RANDOM_LIBM}")
    function = b.op(f"load ptr, ptr {pointer(b, 'i64', '%state', place)}")
    with b.loop("0", "%count") as index:
        x = load(b, "double", "%data", index)
        store(x.new(f"call double {function}(double {x.reg})"), "%data", index)
    return b
