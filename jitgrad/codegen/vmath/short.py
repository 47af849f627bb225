"""Short dtypes in registers and in memory.

Owns: what rounds a register to a short dtype, and the conversions of loads and stores.
Must not know: kernels, arithmetic.

A register of a short dtype is one of its compute dtype, whose value the short dtype holds (Note [Compute dtypes]):
float32 for float16 and bfloat16, 32-bit integers for the others. In memory they are integers of their own size.

Source of the integer forms, for processors that do not convert float16: F. Giesen, "float->half variants", 2012; they
round to even, and keep subnormals, infinities and NaN.
"""

from __future__ import annotations

from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.dtypes import DType, bfloat16, bool_, float16, uint8

__all__ = ["from_memory", "narrowed", "to_memory"]


def narrowed(x: Lanes, dtype: DType) -> Lanes:
    """A register of the compute dtype, rounded (halves) or wrapped (integers) to what ``dtype`` holds."""
    if dtype is float16:
        return _half_to_float(_float_to_half(x))
    if dtype is bfloat16:
        return (_rounded_to_bfloat16(x) & -0x10000).as_float()
    unused = 32 - 8 * dtype.itemsize
    return x & 0xFF if dtype is uint8 else (x << unused) >> unused


def from_memory(b: FnBuilder, dtype: DType, lanes: int, reg: str) -> str:
    """What was loaded, as a register."""
    if dtype is bool_:
        return b.op(f"icmp ne {vector_type(lanes, 'i8')} {reg}, {b.const(0, 'i8', lanes)}")
    if not dtype.is_short:
        return reg
    stored = Lanes(b, f"i{8 * dtype.itemsize}", lanes, reg)
    if dtype is float16:
        return _half_to_float(stored).reg
    if dtype is bfloat16:
        return (stored.convert("i32", "zext") << 16).as_float().reg
    return stored.convert("i32", "zext" if dtype is uint8 else "sext").reg


def to_memory(b: FnBuilder, dtype: DType, lanes: int, reg: str) -> str:
    """A register, as what is stored."""
    if dtype is bool_:
        return b.op(f"zext {vector_type(lanes, 'i1')} {reg} to {vector_type(lanes, 'i8')}")
    if not dtype.is_short:
        return reg
    if dtype is float16:
        return _float_to_half(Lanes(b, "float", lanes, reg)).reg
    if dtype is bfloat16:
        return Lanes(b, "float", lanes, reg).bits().lshr(16).convert("i16", "trunc").reg
    return Lanes(b, "i32", lanes, reg).convert(f"i{8 * dtype.itemsize}", "trunc").reg


def _rounded_to_bfloat16(x: Lanes) -> Lanes:
    """Bits of which the upper half is the nearest bfloat16, ties to even; NaN stays one."""
    bits = x.bits()
    even = (bits.lshr(16) & 1) + 0x7FFF
    return select(x.isnan(), bits | 0x400000, bits + even)


def _float_to_half(x: Lanes) -> Lanes:
    """The bits of the nearest float16, in lanes of i16."""
    if x.b.isa.half:
        half = x.new(f"fptrunc {x.typed} to {vector_type(x.width, 'half')}", "half")
        return half.new(f"bitcast {half.typed} to {vector_type(x.width, 'i16')}", "i16")
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    sign = (bits ^ size).lshr(16)
    # adding 0.5 moves a subnormal's bits to the lower end of the fraction, rounded
    subnormal = (size.as_float() + 0.5).bits() - (126 << 23)
    normal = (size - (112 << 23) + 0xFFF + (size.lshr(13) & 1)).lshr(13)
    finite = select(size < (113 << 23), subnormal, normal)
    special = select(size > 0x7F800000, size.const(0x7E00), size.const(0x7C00))
    return (select(size >= 0x47800000, special, finite) | sign).convert("i16", "trunc")


def _half_to_float(h: Lanes) -> Lanes:
    """The float32 of a float16's bits."""
    if h.b.isa.half:
        half = h.new(f"bitcast {h.typed} to {vector_type(h.width, 'half')}", "half")
        return half.new(f"fpext {half.typed} to {vector_type(h.width, 'float')}", "float")
    bits = h.convert("i32", "zext")
    size = bits & 0x7FFF
    sign = (bits ^ size) << 16
    scaled = ((size << 13).as_float() * 2.0**112).bits()  # exact; subnormals become normal
    special = (size << 13) | 0x7F800000
    return (select(size >= 0x7C00, special, scaled) | sign).as_float()
