"""Printing LLVM IR text.

Owns: ``FnBuilder``, the one way kernels are written: registers, blocks, loops, constants, declarations.
Must not know: what a kernel computes.

Printing text is several times cheaper than building ``llvmlite.ir`` objects (measured: 7 ms for one GEMM).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["FnBuilder", "Isa", "float_literal", "vector_type"]


@dataclass(frozen=True)
class Isa:
    """What the emitters must know about the target, see Note [Targets].

    Attributes:
        fma: has a fused multiply-add instruction.
        round: has floor, ceil, trunc and round-to-even instructions.
        half: converts between float16 and float32 in one instruction.
        scale: multiplies a vector by powers of two in one instruction (AVX-512's VSCALEF).
        lookup: takes each lane from one of 32 numbers in two registers (AVX-512's VPERMT2PS).
    """

    fma: bool = True
    round: bool = True
    half: bool = False
    scale: bool = False
    lookup: bool = False


def float_literal(value: float, llvm_type: str) -> str:
    """An LLVM constant of exactly ``value`` rounded to ``float`` or ``double`` (both are spelled as double bits)."""
    if llvm_type == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def vector_type(width: int, scalar: str) -> str:
    """``<16 x float>``; the scalar type itself for width 1."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


class FnBuilder:
    """One LLVM function under construction.

    Use: ``reg = b.op("fadd <16 x float> %a, %b")`` defines a register; ``b.do("store ...")`` defines none.
    ``b.loop(begin, end, step)`` is a context manager that yields the induction register. ``b.block`` is the label of
    the block being written, which phi nodes need. Modules are self-contained: ``b.declare`` adds to ``declarations``.
    """

    __slots__ = ("_lines", "_next", "block", "declarations", "isa", "name", "signature")

    def __init__(
        self, name: str, signature: str = "ptr %bufs, ptr %args, i64 %begin, i64 %end", isa: Isa = Isa()
    ) -> None:
        self.name = name
        self.signature = signature
        self.isa = isa
        self.declarations: dict[str, None] = {}
        self.block = "entry"
        self._lines: list[str] = ["entry:"]
        self._next = 0

    def op(self, text: str) -> str:
        """Emit an instruction with a result; returns its register."""
        reg = f"%v{self._next}"
        self._next += 1
        self._lines.append(f"  {reg} = {text}")
        return reg

    def do(self, text: str) -> None:
        """Emit an instruction without a result."""
        self._lines.append(f"  {text}")

    def label(self, hint: str = "b") -> str:
        """A fresh block name (not started yet)."""
        self._next += 1
        return f"{hint}{self._next}"

    def start(self, label: str) -> None:
        """Start a block. The one before must have ended with a branch."""
        self._lines.append(f"{label}:")
        self.block = label

    def declare(self, text: str) -> None:
        """Add a ``declare ...`` (or any global line) to the module, once."""
        self.declarations[text] = None

    def call(self, result_type: str, function: str, *typed_args: str) -> str:
        """Call a function or intrinsic, e.g. ``b.call(T, "llvm.fma.v16f32", f"{T} {x}", ...)``; declares it."""
        types = ", ".join(_type_of(a) for a in typed_args)
        self.declare(f"declare {result_type} @{function}({types})")
        return self.op(f"call {result_type} @{function}({', '.join(typed_args)})")

    def splat(self, value: str, scalar: str, width: int) -> str:
        """A vector of ``width`` copies of the scalar register or literal ``value``."""
        if width == 1:
            return value
        vec = vector_type(width, scalar)
        one = self.op(f"insertelement {vec} poison, {scalar} {value}, i64 0")
        return self.op(f"shufflevector {vec} {one}, {vec} poison, <{width} x i32> zeroinitializer")

    def const(self, value: float, scalar: str, width: int = 1) -> str:
        """A (vector) constant as an operand; ``scalar`` is float, double or an integer type."""
        literal = float_literal(float(value), scalar) if scalar in ("float", "double") else str(int(value))
        if width == 1:
            return literal
        return "<" + ", ".join([f"{scalar} {literal}"] * width) + ">"

    @contextmanager
    def loop(self, begin: str, end: str, step: str | int = 1, hint: str = "loop") -> Iterator[str]:
        """``for (i64 i = begin; i < end; i += step)``. Yields the register of i."""
        with self.fold(begin, end, step, [], hint) as (index, _):
            yield index

    @contextmanager
    def fold(
        self, begin: str, end: str, step: str | int, inits: list[tuple[str, str]], hint: str = "loop"
    ) -> Iterator[tuple[str, list[str]]]:
        """``loop`` that carries values: ``inits`` are (type, register). Yields (i, values).

        The body replaces the list's items by the next values; after the loop they are the final ones.
        """
        head, body, done = self.label(hint), self.label(hint), self.label(hint)
        index = f"%i{self._next}"
        phis = [f"%p{self._next}.{n}" for n in range(len(inits))]
        self._next += 1
        before = self.block
        self.do(f"br label %{head}")
        self.start(head)
        patch = len(self._lines)
        self._lines.append("")
        cond = self.op(f"icmp slt i64 {index}, {end}")
        self.do(f"br i1 {cond}, label %{body}, label %{done}")
        self.start(body)
        values = list(phis)
        yield index, values
        following = self.op(f"add i64 {index}, {step}")
        count = f"  {index} = phi i64 [ {begin}, %{before} ], [ {following}, %{self.block} ]"
        self._lines[patch] = "\n".join([count, *self._carried(phis, inits, before, values)])
        self.do(f"br label %{head}")
        self.start(done)
        values[:] = phis

    def _carried(self, phis: list[str], inits: list[tuple[str, str]], before: str, values: list[str]) -> list[str]:
        """The phis of a loop's head: ``inits`` where it is entered from ``before``, ``values`` from its body's end."""
        return [
            f"  {phi} = phi {kind} [ {init}, %{before} ], [ {value}, %{self.block} ]"
            for phi, (kind, init), value in zip(phis, inits, values, strict=True)
        ]

    @contextmanager
    def repeat(
        self, inits: list[tuple[str, str]], go_on: Callable[[list[str]], str], hint: str = "repeat"
    ) -> Iterator[list[str]]:
        """``while``: ``go_on`` of the carried values prints the i1 condition. ``inits`` are (type, register).

        The body replaces the list's items by the next values; after the loop they are the final ones.
        """
        head, body, done = self.label(hint), self.label(hint), self.label(hint)
        phis = [f"%p{self._next}.{n}" for n in range(len(inits))]
        self._next += 1
        before = self.block
        self.do(f"br label %{head}")
        self.start(head)
        patch = len(self._lines)
        self._lines.append("")
        cond = go_on(phis)
        self.do(f"br i1 {cond}, label %{body}, label %{done}")
        self.start(body)
        values = list(phis)
        yield values
        self._lines[patch] = "\n".join(self._carried(phis, inits, before, values))
        self.do(f"br label %{head}")
        self.start(done)
        values[:] = phis

    @contextmanager
    def when_fold(self, cond: str, inits: list[tuple[str, str]], hint: str = "if") -> Iterator[list[str]]:
        """``when`` that may replace values: yields the list of registers, which afterwards holds the merged ones."""
        body, done = self.label(hint), self.label(hint)
        before = self.block
        self.do(f"br i1 {cond}, label %{body}, label %{done}")
        self.start(body)
        values = [init for _, init in inits]
        yield values
        after = self.block
        self.do(f"br label %{done}")
        self.start(done)
        for n, (kind, init) in enumerate(inits):
            values[n] = self.op(f"phi {kind} [ {init}, %{before} ], [ {values[n]}, %{after} ]")

    @contextmanager
    def when(self, cond: str, hint: str = "if") -> Iterator[None]:
        """Run the body only if the i1 register is true. Values leave it through memory, or not at all."""
        body, done = self.label(hint), self.label(hint)
        self.do(f"br i1 {cond}, label %{body}, label %{done}")
        self.start(body)
        yield
        self.do(f"br label %{done}")
        self.start(done)

    def finish(self, ret: str = "ret void", result_type: str = "void") -> str:
        """The whole module as text."""
        self.do(ret)
        head = "\n".join(self.declarations)
        body = "\n".join(self._lines)
        return f"{head}\n\ndefine {result_type} @{self.name}({self.signature}) nounwind {{\n{body}\n}}\n"


def _type_of(typed_arg: str) -> str:
    """The type in ``<16 x float> %v1`` or ``float 0x...`` (types may hold spaces, operands may be vector literals)."""
    if typed_arg.startswith("<"):
        return typed_arg[: typed_arg.index(">") + 1]
    return typed_arg.split(" ", 1)[0]
