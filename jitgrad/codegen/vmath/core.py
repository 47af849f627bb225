"""Lanes: a small vocabulary for writing vector arithmetic as LLVM IR.

Owns: ``Lanes`` (an SSA register with its type, and the operators on it), the float formats, and what to do where the
target lacks an instruction (Note [Targets]).
Must not know: any mathematical function.
In: a ``FnBuilder``. Out: instructions in it.

# Note [Targets]
# ~~~~~~~~~~~~~~
# Our IR goes straight to instruction selection, where an operation without an instruction becomes a call to libm,
# which nobody links. Two matter: ``llvm.fma`` (x86 before 2013) and ``llvm.floor``, ``trunc``, ``roundeven`` (x86
# before SSE4.1). ``FnBuilder.isa`` says what the target has.
# ``mad`` is a*b + c, fused where that is one instruction. ``fma`` is always exact: without the instruction it is
# emulated, float32 in float64 (the product is exact there), float64 by Dekker's product. Algorithms call ``fma`` only
# where their error bound needs it.
# Example: sin's argument reduction needs x - n * pi/2 exact (``fma``); its polynomial does not (``mad``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from jitgrad.codegen.llvm.text import FnBuilder, float_literal, vector_type

__all__ = [
    "FORMATS",
    "Format",
    "Lanes",
    "quick_two_sum",
    "select",
    "split_constant",
    "two_product",
    "two_sum",
]


@dataclass(frozen=True)
class Format:
    """An IEEE format: its integer twin, mantissa bits (without the hidden one), bias, and LLVM's overload name."""

    scalar: str
    int_scalar: str
    mantissa: int
    bias: int
    suffix: str

    @property
    def min_normal(self) -> float:
        return math.ldexp(1.0, 1 - self.bias)

    @property
    def round_magic(self) -> float:
        """1.5 * 2^mantissa: adding it leaves an integer in the low bits of the sum (|x| < 2^(mantissa-1))."""
        return math.ldexp(1.5, self.mantissa)


FORMATS = {
    "float": Format("float", "i32", 23, 127, "f32"),
    "double": Format("double", "i64", 52, 1023, "f64"),
}


def _joined(low: Lanes, high: Lanes) -> Lanes:
    """The lanes of one, then those of the other."""
    places = ", ".join([f"i32 {i}" for i in range(2 * low.width)])
    text = f"shufflevector {low.typed}, {high.typed}, <{2 * low.width} x i32> <{places}>"
    return Lanes(low.b, low.scalar, 2 * low.width, low.b.op(text))


def _all_joined(parts: list[Lanes]) -> Lanes:
    """The lanes of all, whose number is a power of 2."""
    while len(parts) > 1:
        parts = [_joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def split_constant(value: Fraction, *bits: int) -> list[float]:
    """``value`` as a sum: parts truncated to ``bits`` significant bits each, then the rest.

    A part of b bits times an integer of (mantissa + 1 - b) bits is exact.
    """
    parts = []
    for count in bits:
        _, exponent = math.frexp(float(value))
        unit = Fraction(2) ** (exponent - count)
        part = int(value / unit) * unit
        parts.append(float(part))
        value -= part
    return [*parts, float(value)]


class Lanes:
    """A register (or literal) of ``width`` lanes of ``scalar``. Python numbers on either side become constants."""

    __slots__ = ("b", "reg", "scalar", "width")

    def __init__(self, b: FnBuilder, scalar: str, width: int, reg: str) -> None:
        self.b, self.scalar, self.width, self.reg = b, scalar, width, reg

    # -- plumbing
    @property
    def type(self) -> str:
        return vector_type(self.width, self.scalar)

    @property
    def typed(self) -> str:
        return f"{self.type} {self.reg}"

    @property
    def fmt(self) -> Format:
        return FORMATS[self.scalar]

    def new(self, text: str, scalar: str = "") -> Lanes:
        """The result of an instruction, as lanes of ``scalar`` (own type unless given)."""
        return Lanes(self.b, scalar or self.scalar, self.width, self.b.op(text))

    def phi(self, *incoming: tuple[str, str]) -> Lanes:
        """A phi node of this type over (register, block) pairs."""
        return self.new(f"phi {self.type} " + ", ".join(f"[ {reg}, %{block} ]" for reg, block in incoming))

    def const(self, value: float, scalar: str = "") -> Lanes:
        scalar = scalar or self.scalar
        return Lanes(self.b, scalar, self.width, self.b.const(value, scalar, self.width))

    def like(self, value: Lanes | float) -> Lanes:
        return value if isinstance(value, Lanes) else self.const(value)

    def binary(self, name: str, other: Lanes | float) -> Lanes:
        """The two-operand instruction ``name``."""
        return self.new(f"{name} {self.type} {self.reg}, {self.like(other).reg}")

    def intrinsic(self, name: str, *others: Lanes) -> Lanes:
        """``llvm.name`` over operands that are all of this type."""
        lanes = "" if self.width == 1 else f"v{self.width}"
        suffix = self.fmt.suffix if self.is_float else self.scalar
        operands = (self.typed, *(o.typed for o in others))
        return Lanes(self.b, self.scalar, self.width, self.b.call(self.type, f"llvm.{name}.{lanes}{suffix}", *operands))

    @property
    def is_float(self) -> bool:
        return self.scalar in FORMATS

    @property
    def is_literal(self) -> bool:
        """Whether its lanes stand in the text."""
        return not self.reg.startswith("%")

    # -- arithmetic
    def __add__(self, other: Lanes | float) -> Lanes:
        return self.binary("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self.binary("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self.binary("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self.binary("fdiv", other)

    def __radd__(self, other: float) -> Lanes:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Lanes:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Lanes:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Lanes:
        return self.like(other) / self

    def __neg__(self) -> Lanes:
        return self.new(f"fneg {self.typed}") if self.is_float else self.const(0) - self

    def mad(self, times: Lanes | float, plus: Lanes | float) -> Lanes:
        """``self * times + plus``, fused where that is one instruction. Note [Targets]."""
        if self.b.isa.fma:
            return self.intrinsic("fma", self.like(times), self.like(plus))
        return self * times + plus

    def fma(self, times: Lanes | float, plus: Lanes | float) -> Lanes:
        """``self * times + plus`` with one rounding (at most a double rounding where emulated). Note [Targets]."""
        times, plus = self.like(times), self.like(plus)
        if self.b.isa.fma:
            return self.intrinsic("fma", times, plus)
        if self.scalar == "float":
            return (self.convert("double") * times.convert("double") + plus.convert("double")).convert("float")
        return _dekker_fma(self, times, plus)

    def scaled(self, power: Lanes) -> Lanes:
        """``self`` * 2^power by VSCALEF: rounded once if subnormal, else exact. ``power`` is integral, or NaN.

        Call it only where ``isa.scale``, of vectors.
        """
        lanes = 512 // (32 if self.scalar == "float" else 64)
        if self.width <= lanes:
            return self._scaled(power)
        starts = range(0, self.width, lanes)
        places = [range(at, at + lanes) for at in starts]
        return _all_joined([self._places(some)._scaled(power._places(some)) for some in places])

    def _scaled(self, power: Lanes) -> Lanes:
        """``scaled`` of one register."""
        kind, bits = ("ps", 32) if self.scalar == "float" else ("pd", 64)
        size = self.width * bits
        operands = [self.typed, power.typed, self.typed, f"i{max(self.width, 8)} -1"]
        if size == 512:
            operands.append("i32 4")  # rounding as the thread has it
        name = f"llvm.x86.avx512.mask.scalef.{kind}.{size}"
        return Lanes(self.b, self.scalar, self.width, self.b.call(self.type, name, *operands))

    def in_registers(self, lanes: int, function: Callable[[Lanes], Lanes]) -> Lanes:
        """The number at place ``self``, an integer modulo 32, of up to 32 floats; 16 lanes, with ``isa.lookup``."""
        if self.width == lanes:
            return function(self)
        if self.width < lanes:
            wide = self.b.splat(self.reg, self.scalar, lanes) if self.width == 1 else self._places(range(lanes)).reg
            found = function(Lanes(self.b, self.scalar, lanes, wide))
            if self.width > 1:
                return found._places(range(self.width))
            return Lanes(self.b, found.scalar, 1, self.b.op(f"extractelement {found.typed}, i64 0"))
        return _all_joined([function(self._places(range(at, at + lanes))) for at in range(0, self.width, lanes)])

    def _places(self, places: range) -> Lanes:
        """The lanes at some places; where there are none, the first one."""
        text = ", ".join([f"i32 {i if i < self.width else 0}" for i in places])
        mask = f"<{len(places)} x i32> <{text}>"
        reg = self.b.op(f"shufflevector {self.typed}, {self.type} poison, {mask}")
        return Lanes(self.b, self.scalar, len(places), reg)

    def lookup(self, table: Sequence[float]) -> Lanes:
        """The number at place ``self``, an integer modulo the table's length; of one register, with ``isa.lookup``.

        The table has up to 32 numbers for 16 lanes of 32 bits, and 16 for 8 lanes of 64.
        """
        scalar, kind = ("float", "ps") if self.scalar == "i32" else ("double", "pd")
        numbers = [*table, *[0.0] * (2 * self.width - len(table))]
        parts = [numbers[: self.width], numbers[self.width :]]
        of_table = vector_type(self.width, scalar)
        low, high = (
            f"{of_table} <{', '.join([f'{scalar} {float_literal(x, scalar)}' for x in part])}>" for part in parts
        )
        found = self.b.call(of_table, f"llvm.x86.avx512.vpermi2var.{kind}.512", low, self.typed, high)
        return Lanes(self.b, scalar, self.width, found)

    @property
    def can_scale(self) -> bool:
        """Whether ``scaled`` is an instruction for these lanes."""
        return self.b.isa.scale and self.width * (32 if self.scalar == "float" else 64) >= 128

    def poly(self, coefs: Sequence[float]) -> Lanes:
        """``c0 + c1 x + c2 x^2 ...`` by Horner's rule."""
        acc = self.const(coefs[-1])
        for c in reversed(coefs[:-1]):
            acc = acc.mad(self, c)
        return acc

    def sqrt(self) -> Lanes:
        return self.intrinsic("sqrt")

    def abs(self) -> Lanes:
        return self.intrinsic("fabs")

    def copysign(self, sign: Lanes) -> Lanes:
        return self.intrinsic("copysign", sign)

    # -- bits
    def __and__(self, other: Lanes | int) -> Lanes:
        return self.binary("and", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self.binary("or", other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self.binary("xor", other)

    def __lshift__(self, count: Lanes | int) -> Lanes:
        return self.binary("shl", count)

    def __rshift__(self, count: Lanes | int) -> Lanes:
        """Arithmetic shift."""
        return self.binary("ashr", count)

    def lshr(self, count: Lanes | int) -> Lanes:
        return self.binary("lshr", count)

    def invert(self) -> Lanes:
        return self ^ (1 if self.scalar == "i1" else -1)

    def bits(self) -> Lanes:
        """The integer of the same bits."""
        to = self.fmt.int_scalar
        return self.new(f"bitcast {self.typed} to {vector_type(self.width, to)}", to)

    def as_float(self) -> Lanes:
        """The float of the same bits."""
        to = "float" if self.scalar == "i32" else "double"
        return self.new(f"bitcast {self.typed} to {vector_type(self.width, to)}", to)

    def convert(self, to: str, how: str = "") -> Lanes:
        """A value conversion; ``how`` names the LLVM instruction where the types leave a choice (zext, fptosi ...)."""
        if to == self.scalar:
            return self
        if self.scalar == "i1" and self.width > 1 and not how:  # of zext, LLVM makes a chain of moves from masks
            return select(self, self.const(1, to), self.const(0, to))
        name = how or _CONVERSIONS[self.scalar, to]
        return self.new(f"{name} {self.typed} to {vector_type(self.width, to)}", to)

    def fshl(self, low: Lanes, count: Lanes) -> Lanes:
        """The upper half of (self : low) << count."""
        return self.intrinsic("fshl", low, count)

    # -- masks
    def cmp(self, predicate: str, other: Lanes | float) -> Lanes:
        """Lane-wise ``fcmp``/``icmp`` with LLVM's predicate; i1 lanes."""
        name = "fcmp" if self.is_float else "icmp"
        return self.new(f"{name} {predicate} {self.type} {self.reg}, {self.like(other).reg}", "i1")

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self.cmp("olt" if self.is_float else "slt", other)

    def __le__(self, other: Lanes | float) -> Lanes:
        return self.cmp("ole" if self.is_float else "sle", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self.cmp("ogt" if self.is_float else "sgt", other)

    def __ge__(self, other: Lanes | float) -> Lanes:
        return self.cmp("oge" if self.is_float else "sge", other)

    def eq(self, other: Lanes | float) -> Lanes:
        return self.cmp("oeq" if self.is_float else "eq", other)

    def ne(self, other: Lanes | float) -> Lanes:
        return self.cmp("une" if self.is_float else "ne", other)

    def isnan(self) -> Lanes:
        return self.cmp("uno", self)

    def at_most(self, limit: float) -> Lanes:
        """min(self, limit), NaN kept; shaped as x86's MINPS."""
        bound = self.const(limit)
        return select(bound < self, bound, self)

    def at_least(self, limit: float) -> Lanes:
        """max(self, limit), NaN kept; shaped as x86's MAXPS."""
        bound = self.const(limit)
        return select(bound > self, bound, self)

    def any(self) -> str:
        """The i1 register that is true if any lane of a mask is."""
        if self.width == 1:
            return self.reg
        as_int = self.b.op(f"bitcast {self.typed} to i{self.width}")
        return self.b.op(f"icmp ne i{self.width} {as_int}, 0")


_CONVERSIONS = {
    ("float", "double"): "fpext",
    ("double", "float"): "fptrunc",
    ("i32", "i64"): "sext",
    ("i64", "i32"): "trunc",
    ("i32", "float"): "sitofp",
    ("i32", "double"): "sitofp",
    ("i64", "float"): "sitofp",
    ("i64", "double"): "sitofp",
    ("i1", "i32"): "zext",
    ("i1", "i64"): "zext",
    ("i1", "float"): "uitofp",
    ("i1", "double"): "uitofp",
}


def select(mask: Lanes, yes: Lanes | float, no: Lanes | float) -> Lanes:
    """``mask ? yes : no`` per lane; at least one of the two is Lanes."""
    if not isinstance(yes, Lanes):
        assert isinstance(no, Lanes)
        yes = no.like(yes)
    return yes.new(f"select {mask.typed}, {yes.typed}, {yes.like(no).typed}")


def two_sum(x: Lanes, y: Lanes) -> tuple[Lanes, Lanes]:
    """x + y as a rounded sum and its exact error, in any order of magnitude (Knuth, TAOCP 2, 4.2.2)."""
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def quick_two_sum(big: Lanes, small: Lanes) -> tuple[Lanes, Lanes]:
    """The same for |big| >= |small| (Dekker 1971)."""
    total = big + small
    return total, small - (total - big)


def two_product(x: Lanes, y: Lanes) -> tuple[Lanes, Lanes]:
    """x * y as a rounded product and its exact error."""
    product = x * y
    if x.b.isa.fma or x.scalar == "float":
        return product, x.fma(y, -product)
    return product, _dekker_error(x, y, product)


def _dekker_error(x: Lanes, y: Lanes, product: Lanes) -> Lanes:
    """x * y - product without FMA (Dekker 1971, Veltkamp's split at 27 bits); |x|, |y| < 2^996."""
    (xh, xl), (yh, yl) = _veltkamp(x), _veltkamp(y)
    return ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _veltkamp(x: Lanes) -> tuple[Lanes, Lanes]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _dekker_fma(x: Lanes, y: Lanes, plus: Lanes) -> Lanes:
    """Emulated fma for float64. Operands beyond 2^900 are scaled down, so that the split cannot overflow."""
    huge = plus.abs() > 2.0**900
    scale = select(huge, plus.const(2.0**-128), plus.const(1.0))
    y, plus = y * scale, plus * scale
    product = x * y
    total, error = two_sum(product, plus)
    result = total + (error + _dekker_error(x, y, product))
    return result * select(huge, plus.const(2.0**128), plus.const(1.0))
