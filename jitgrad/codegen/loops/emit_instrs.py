"""Printing a kernel's instructions, wherever the loops are.

Owns: ``InstrPrinter``: what depends on what; masks, indices, scalars, and the call of ``vmath`` for the rest.
Must not know: memory (``emit_memory``), loop structure (``emit_loops``), matrix tiles (``gemm/emit``).
In: ``kernel_ir.KernelInstr``s. Out: instructions in a ``FnBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.codegen.llvm import dtype_text as dt
from jitgrad.codegen.llvm.text import vector_type
from jitgrad.codegen.loops.emit_memory import MemoryPrinter, Scope
from jitgrad.codegen.scalars.family import lanes_text
from jitgrad.codegen.scalars.lanes import result_type
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, KernelInstr, classes
from jitgrad.codegen.vmath.pointwise import emit_cast, emit_pointwise

__all__ = ["InstrPrinter"]


class InstrPrinter(MemoryPrinter):
    """Prints instructions into scopes."""

    def find_dependencies(self, reduced: int, kept: int = 0) -> None:
        """Fill ``deps``.

        Args:
            reduced: the bits of dims that a reduction's result does not depend on.
            kept: the bits of dims that every reduction's result depends on: its accumulator has a lane for each index.
        """
        for instr in self.instrs:
            bits = 0
            for s in instr.srcs:
                bits |= self.deps[s]
            bits |= _OWN_BITS.get(instr.op, _no_bits)(instr)
            if instr.op in COMBINING:  # n times the same sum to the same place is not once
                bits |= (2 << self.vec) - 1
            self.deps.append(bits & ~reduced | kept if instr.op.startswith("reduce_") else bits)

    # printing
    def emit(self, scope: Scope, n: int) -> None:
        """Print instruction ``n``, which is no reduction, into the scope."""
        instr = self.instrs[n]
        reg = _PRINT.get(instr.op, InstrPrinter._pointwise)(self, scope, n, instr)
        if reg is not None:
            scope.regs[n] = reg
            if n in self.spread:
                self._spread(scope, n, reg)

    def spread_early(self) -> None:
        """Numbers that vectors are computed of are spread where they are computed."""
        wide = {s for n, i in enumerate(self.instrs) if self.lanes(n) > 1 and i.op not in _OWN_BITS for s in i.srcs}
        self.spread = frozenset(s for s in wide if self.lanes(s) == 1 and self.instrs[s].op not in ("const", "mask"))

    def _pointwise(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        lanes = self.lanes(n)
        regs = [self.operand(scope, s, lanes) for s in instr.srcs]
        dtype = self.instrs[instr.srcs[-1]].dtype
        return emit_pointwise(self.b, instr.op, dt.of(dtype), lanes, *regs)

    def _where(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        """A load under a mask has zeros outside of it already: with 0 elsewhere, it is what is asked for."""
        mask, load, other = (self.instrs[s] for s in instr.srcs)
        is_padded = load.op == "load" and load.srcs == instr.srcs[:1] and mask.op == "mask" and other.op == "const"
        if is_padded and other.static[0] in _ZEROS and 1 < self.lanes(n) == self.lanes(instr.srcs[1]):
            return self.operand(scope, instr.srcs[1], self.lanes(n))
        return self._pointwise(scope, n, instr)

    def _cast(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        lanes = self.lanes(n)
        source = self.instrs[instr.srcs[0]].dtype
        return emit_cast(self.b, dt.of(source), dt.of(instr.dtype), lanes, self.operand(scope, instr.srcs[0], lanes))

    def _fma(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        lanes = self.lanes(n)
        x, y, z = (self.operand(scope, s, lanes) for s in instr.srcs)
        kind = vector_type(lanes, dt.register(instr.dtype))
        if instr.static[0]:
            x = self.b.op(f"fneg {kind} {x}")
        if instr.static[1]:
            z = self.b.op(f"fneg {kind} {z}")
        return self.fma(instr.dtype, lanes, x, y, z)

    def fma(self, dtype: str, lanes: int, x: str, y: str, z: str) -> str:
        kind = vector_type(lanes, dt.register(dtype))
        name = f"llvm.fma.{dt.suffix(dtype, lanes)}"
        return self.b.call(kind, name, f"{kind} {x}", f"{kind} {y}", f"{kind} {z}")

    def _call(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        """One component of a function of scalars; those that are computed together share one call."""
        b, lanes = self.b, self.lanes(n)
        function, components, own = instr.static
        count = len(function.kinds)
        regs = [self.operand(scope, s, lanes) for s in instr.srcs[:count]]
        on = self._lanes_that_count(scope, lanes, instr.srcs[count] if len(instr.srcs) > count else None)
        mask = b.const(1, "i1", lanes) if on is None else on
        key = (function, components, *regs, mask)
        total = scope.find_call(key)
        kind = result_type(len(components), lanes)
        if total is None:
            name, head, definition = lanes_text(function, components, lanes, b.isa)
            for line in (*head.splitlines(), definition):
                b.declare(line)
            typed = [f"{vector_type(lanes, k)} {reg}" for k, reg in zip(function.kinds, regs, strict=True)]
            operands = ", ".join(["ptr %bufs", f"{vector_type(lanes, 'i1')} {mask}", *typed])
            total = scope.calls[key] = b.op(f"call {kind} @{name}({operands})")
        return b.op(f"extractvalue {kind} {total}, {own}")

    def _nothing(self, scope: Scope, n: int, instr: KernelInstr) -> str | None:
        return None

    def _scalar(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        at = self.b.op(f"getelementptr i64, ptr %bufs, i64 {self.word(instr.word)}")
        source = "float64" if instr.static else "int64"
        raw = self.b.op(f"load {dt.register(source)}, ptr {at}")
        return raw if source == instr.dtype else emit_cast(self.b, dt.of(source), dt.of(instr.dtype), 1, raw)

    def _number(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        if instr.dtype == "int64":
            return self.word(instr.word)
        if instr.dtype == "int32":
            return self.b.op(f"trunc i64 {self.word(instr.word)} to i32")
        value = self.b.op(f"bitcast i64 {self.word(instr.word)} to double")
        return value if instr.dtype == "float64" else self.b.op(f"fptrunc double {value} to float")

    def _iota(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        total, word = self.word(instr.word), instr.word + 1
        lanes = self.lanes(n)
        step = None
        for dim, kind in enumerate(instr.static):
            if kind == "0":
                continue
            if dim == self.vec:
                step = self.word(word)
            term = self.b.op(f"mul i64 {self._index(scope, dim)}, {self.word(word)}")
            total = self.b.op(f"add i64 {total}, {term}")
            word += 1
        if lanes > 1 and step is not None:
            kind = vector_type(lanes, "i64")
            stride = self.b.splat(step, "i64", lanes)
            moved = self.b.op(f"mul {kind} {stride}, {dt.steps(lanes)}")
            total = self.b.op(f"add {kind} {self.b.splat(total, 'i64', lanes)}, {moved}")
        return total if instr.dtype == "int64" else emit_cast(self.b, dt.of("int64"), dt.of(instr.dtype), lanes, total)

    def _mask(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        lanes = self.lanes(n)
        found: list[str] = []
        for dim, sides, at in instr.static:
            for side, word in zip("lh", (at, at + 1), strict=True):
                if side in sides:
                    inside = self._inside(scope, dim, side, self.word(word))
                    wide = lanes > 1 and dim != self.vec
                    found.append(self.b.splat(inside, "i1", lanes) if wide else inside)
        result = found[0]
        for other in found[1:]:
            result = self.b.op(f"and {vector_type(lanes, 'i1')} {result}, {other}")
        return result

    def _inside(self, scope: Scope, dim: int, side: str, bound: str) -> str:
        """Whether a dim's index is at or above a lower bound, or below an upper one."""
        b, index = self.b, self._index(scope, dim)
        compare = "sge" if side == "l" else "slt"
        if dim != self.vec or self.width == 1:
            return b.op(f"icmp {compare} i64 {index}, {bound}")
        # relative to the vector's first lane, in 32 bits: half the registers of 64
        rest = b.op(f"sub i64 {bound}, {index}")
        rest = b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {self.width}")
        rest = b.call("i64", "llvm.smax.i64", f"i64 {rest}", "i64 0")
        short = b.splat(b.op(f"trunc i64 {rest} to i32"), "i32", self.width)
        return b.op(f"icmp {compare} {vector_type(self.width, 'i32')} {dt.short_steps(self.width)}, {short}")


def _class_bits(instr: KernelInstr) -> int:
    return sum(1 << d for d, kind in enumerate(classes(instr)) if kind != "0")


def _mask_bits(instr: KernelInstr) -> int:
    return sum({1 << dim for dim, _, _ in instr.static})


def _iota_bits(instr: KernelInstr) -> int:
    return sum(1 << d for d, kind in enumerate(instr.static) if kind != "0")


def _no_bits(instr: KernelInstr) -> int:
    return 0


_OWN_BITS: dict[str, Callable[[KernelInstr], int]] = {
    **dict.fromkeys(ACCESSES, _class_bits),
    "acc": lambda instr: 0b111,  # (batch, row, column)
    "mask": _mask_bits,
    "iota": _iota_bits,
}
_ZEROS = frozenset({"0", "0.0", "False"})
_PRINT: dict[str, Callable[[InstrPrinter, Scope, int, KernelInstr], str | None]] = {
    "const": InstrPrinter._nothing,
    "where": InstrPrinter._where,
    "number": InstrPrinter._number,
    "scalar": InstrPrinter._scalar,
    "iota": InstrPrinter._iota,
    "mask": InstrPrinter._mask,
    "load": InstrPrinter._load,
    "gather": InstrPrinter._gather_at,
    "check": InstrPrinter._check,
    "store": InstrPrinter._store,
    **dict.fromkeys(COMBINING, InstrPrinter._combine),
    "call": InstrPrinter._call,
    "cast": InstrPrinter._cast,
    "fma": InstrPrinter._fma,
}
