"""Printing the tiles of a kernel that reads across its lanes, see Note [Tiles].

Owns: ``Tiles``: which loads are staged, their buffers, the transposes.
Must not know: loop structure (``emit_loops``), arithmetic.
In: ``kernel_ir.KernelInstr``s. Out: instructions in a ``FnBuilder``.

# Note [Tiles]
# ~~~~~~~~~~~~
# Where a result's rows are an operand's columns, lanes along the result's rows are strided in the operand: each lane
# fetches a cache line, which is evicted before its neighbours are read. A kernel of the form "tile" takes as many rows
# as a vector has lanes: it reads the operand's own contiguous vectors, transposes them in registers, and keeps the
# square in a buffer on the stack. The loop over the rows then loads its lanes from there.
# Example: ``x.t() + y`` with 16 lanes reads squares of 16 x 16 elements of x, 16 lines in all instead of 256.
"""

from __future__ import annotations

from jitgrad.codegen.llvm import dtype_text as dt
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.loops.emit_instrs import InstrPrinter
from jitgrad.codegen.loops.emit_memory import Scope
from jitgrad.codegen.schedule.kernel_ir import NestKey, classes
from jitgrad.codegen.vmath.short import from_memory

__all__ = ["Tiles"]


class Tiles:
    """The staged loads of one kernel.

    Attributes:
        staged: their numbers. They are contiguous along the tile's dim (the last sequential one), strided along lanes.
    """

    def __init__(self, b: FnBuilder, key: NestKey, printer: InstrPrinter) -> None:
        self.b, self.key, self.printer = b, key, printer
        self.dim = key.vec - 1
        self.staged = [
            n
            for n, instr in enumerate(key.instrs)
            if key.form == "tile" and instr.op == "load" and not instr.srcs and instr.dtype != "bool"
            if classes(instr)[self.dim :][:2] == "1x"
        ]
        self._buffers: dict[int, str] = {}

    def reserve(self) -> None:
        """Stack space for the squares; in the entry block."""
        for n in self.staged:
            self._buffers[n] = self.b.op(f"alloca [{self.key.width} x {self._kind(n)}], align 64")

    def fill(self, corner: Scope, last: str, mask: str) -> None:
        """Transpose the square at ``corner`` of every staged load.

        Args:
            corner: knows the tile's dim and the lanes' dim.
            last: the last lane that counts; those after it read its vector again.
            mask: which of the tile's rows exist, as lanes.
        """
        b = self.b
        lanes = [b.call("i64", "llvm.smin.i64", f"i64 {j}", f"i64 {last}") for j in range(self.key.width)]
        for n in self.staged:
            instr = self.key.instrs[n]
            at = self.printer.address(corner, n)
            stride = self.printer.word(instr.word + 2 + classes(instr)[: self.key.vec].count("x"))
            vectors = []
            for lane in lanes:
                place = b.op(f"getelementptr i8, ptr {at}, i64 {b.op(f'mul i64 {lane}, {stride}')}")
                loaded = self.printer.plain_load(instr, self.key.width, place, mask)
                vectors.append(from_memory(b, dt.of(instr.dtype), self.key.width, loaded))
            scalar = dt.register(instr.dtype)
            for row, vector in enumerate(_transposed(b, scalar, vectors)):
                place = b.op(f"getelementptr {self._kind(n)}, ptr {self._buffers[n]}, i64 {row}")
                b.do(f"store {self._kind(n)} {vector}, ptr {place}, align {self._align(n)}")

    def recall(self, scope: Scope, row: str) -> None:
        """Load a row of every square into ``scope``."""
        for n in self.staged:
            place = self.b.op(f"getelementptr {self._kind(n)}, ptr {self._buffers[n]}, i64 {row}")
            scope.regs[n] = self.b.op(f"load {self._kind(n)}, ptr {place}, align {self._align(n)}")

    def _kind(self, n: int) -> str:
        return vector_type(self.key.width, dt.register(self.key.instrs[n].dtype))

    def _align(self, n: int) -> int:
        return min(64, self.key.width * dt.of(self.key.instrs[n].dtype).itemsize)


def _transposed(b: FnBuilder, scalar: str, rows: list[str]) -> list[str]:
    """A square, transposed by log2(n) rounds of interleaving each row of the first half with one of the second."""
    n = len(rows)
    kind = vector_type(n, scalar)
    orders = [", ".join(f"i32 {base + i // 2 + (n if i % 2 else 0)}" for i in range(n)) for base in (0, n // 2)]
    for _ in range(n.bit_length() - 1):
        rows = [
            b.op(f"shufflevector {kind} {rows[i]}, {kind} {rows[i + n // 2]}, <{n} x i32> <{order}>")
            for i in range(n // 2)
            for order in orders
        ]
    return rows
