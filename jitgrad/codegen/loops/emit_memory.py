"""Printing what touches memory: addresses, loads, stores, gathers, index checks.

Owns: ``Scope``, ``MemoryPrinter``.
Must not know: arithmetic (``emit_instrs``), loop structure (``emit_loops``).
In: ``kernel_ir.KernelInstr``s. Out: instructions in a ``FnBuilder``.

# Note [Lanes in other order]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Lanes that are strided are loaded one by one, 16 of them in some 20 cycles. Common strides need not be: -1, of what is
# flipped, is one vector that is turned round; 2, of every second element (pooling, ``x[::2]``, pairs), is every second
# element of two vectors, loaded under a mask: the element behind the last one may not be there; -2 is both.
# Such a load's text depends on its stride. The stride is an argument word all the same: ``verify`` computes from the
# words which bytes an instruction touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.codegen.llvm import dtype_text as dt
from jitgrad.codegen.llvm.shuffle import shuffle
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, KernelInstr, classes
from jitgrad.codegen.vmath.pointwise import emit_cast, emit_pointwise
from jitgrad.codegen.vmath.short import from_memory, to_memory

__all__ = ["MemoryPrinter", "Scope"]


class Scope:
    """Where instructions are being printed.

    Attributes:
        index: register of each dim's index (dims that are not known here are missing).
        mask: register of the lanes that count, None = all.
        regs: instruction's number -> register, of those printed in this scope.
        outer: the enclosing scope.
        splats: instruction's number -> a vector of it, of those that are numbers.
        calls: function of scalars, components and operands -> register of all its results.
        addresses: access's number -> pointer, with the dims of this scope and the enclosing ones added in.
        moves: access's number -> by how much the dims of this scope move it and what is ``like`` it; "": not at all.
    """

    __slots__ = ("addresses", "calls", "index", "mask", "moves", "outer", "regs", "splats")

    def __init__(
        self, outer: Scope | None = None, index: dict[int, str] | None = None, mask: str | None = None
    ) -> None:
        self.outer, self.index, self.mask = outer, index or {}, mask
        self.regs: dict[int, str] = {}
        self.splats: dict[int, str] = {}
        self.addresses: dict[int, str] = {}
        self.moves: dict[int, str] = {}
        self.calls: dict[tuple[Any, ...], str] = {}

    def find(self, n: int) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if n in scope.regs:
                return scope.regs[n]
            scope = scope.outer
        return None

    def find_splat(self, n: int) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if n in scope.splats:
                return scope.splats[n]
            scope = scope.outer
        return None

    def find_call(self, key: tuple[Any, ...]) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if key in scope.calls:
                return scope.calls[key]
            scope = scope.outer
        return None


class MemoryPrinter:
    """Operands and memory of a kernel's instructions.

    Attributes:
        deps: per instruction, the dims its value depends on, as bits.
        ahead: per gather of rows, where the row of a later unit begins; it is asked for while this unit's is read.
        spread: the numbers that become vectors as soon as they are known: outside of the loops that read them, where
            LLVM would do it at each turn.
    """

    def __init__(self, b: FnBuilder, instrs: Sequence[KernelInstr], vec: int, width: int, first_word: int = 0) -> None:
        self.b, self.instrs, self.vec, self.width = b, instrs, vec, width
        self.first_word = first_word
        self.deps: list[int] = []
        self.ahead: dict[int, str] = {}
        self.spread: frozenset[int] = frozenset()
        self._words: dict[int, str] = {}

    # argument words are loaded in the entry block, which dominates everything
    def load_words(self, count: int) -> None:
        """Load all words; must be called in the entry block."""
        for n in range(count):
            at = self.b.op(f"getelementptr i64, ptr %args, i64 {self.first_word + n}")
            self._words[n] = self.b.op(f"load i64, ptr {at}")

    def word(self, n: int) -> str:
        return self._words[n]

    def lanes(self, n: int) -> int:
        """How wide instruction ``n``'s register is."""
        return self.width if self.deps[n] >> self.vec & 1 else 1

    # operands
    def operand(self, scope: Scope, n: int, lanes: int) -> str:
        """Instruction ``n``'s register, as a vector if the reader is one."""
        instr = self.instrs[n]
        if instr.op == "const":
            return self._const(instr, lanes)
        reg = scope.find(n)
        assert reg is not None, instr
        if lanes == self.lanes(n) or lanes == 1:
            return reg
        splat = scope.find_splat(n)
        if splat is None:
            splat = self._spread(scope, n, reg)
        return splat

    def _spread(self, scope: Scope, n: int, reg: str) -> str:
        """Instruction ``n``'s number in every lane."""
        splat = scope.splats[n] = self.b.splat(reg, dt.register(self.instrs[n].dtype), self.width)
        return splat

    def _const(self, instr: KernelInstr, lanes: int) -> str:
        kind = dt.register(instr.dtype)
        return self.b.const(dt.number(instr.static[0], instr.dtype), kind, lanes)

    # addresses
    def base_addresses(self, scope: Scope) -> None:
        """Pointers of all accesses at index 0; in the entry block."""
        for n, instr in enumerate(self.instrs):
            if instr.op in ACCESSES:
                slot, offset = self.word(instr.word), self.word(instr.word + 1)
                at = self.b.op(f"getelementptr i64, ptr %bufs, i64 {slot}")
                base = self.b.op(f"load ptr, ptr {at}")
                scope.addresses[n] = self.b.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def advance(self, scope: Scope, only: Iterable[int] | None = None) -> None:
        """Pointers in ``scope``: those of the enclosing scope, moved by the dims that ``scope`` knows."""
        assert scope.outer is not None
        for n in scope.outer.addresses if only is None else only:
            scope.addresses[n] = self._moved(scope, n, scope.outer.addresses[n])

    def _moved(self, scope: Scope, n: int, at: str) -> str:
        instr = self.instrs[n]
        move = scope.moves.get(instr.like)
        if move is None:
            move = scope.moves[instr.like] = self._move(scope, self.instrs[instr.like])
        if move:
            at = self.b.op(f"getelementptr i8, ptr {at}, i64 {move}")
        for dim, kind in enumerate(classes(instr)):
            index = scope.index.get(dim)
            if kind == "1" and index is not None:
                at = self.b.op(f"getelementptr {dt.memory(instr.dtype)}, ptr {at}, i64 {index}")
        return at

    def _move(self, scope: Scope, instr: KernelInstr) -> str:
        """By how many bytes the dims that ``scope`` knows move an access, those aside that it is contiguous in."""
        move, word = "", instr.word + 2
        for dim, kind in enumerate(classes(instr)):
            if kind == "x":
                index = scope.index.get(dim)
                if index is not None:
                    step = self.b.op(f"mul i64 {index}, {self.word(word)}")
                    move = self.b.op(f"add i64 {move}, {step}") if move else step
                word += 1
        return move

    def _index(self, scope: Scope, dim: int) -> str:
        at: Scope | None = scope
        while at is not None:
            if dim in at.index:
                return at.index[dim]
            at = at.outer
        raise KeyError(dim)

    def _lanes_that_count(self, scope: Scope, lanes: int, mask_instr: int | None) -> str | None:
        """Which lanes count: those of the tail's mask and of the instruction's own mask; None = all."""
        tail = scope.mask if lanes == self.width else None
        if mask_instr is None:
            return tail
        own = self.operand(scope, mask_instr, lanes)
        return own if tail is None else self.b.op(f"and {vector_type(lanes, 'i1')} {own}, {tail}")

    def _own_mask(self, instr: KernelInstr, others: int) -> int | None:
        return instr.srcs[others] if len(instr.srcs) > others else None

    def _load(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        lanes = self.lanes(n)
        mask = self._lanes_that_count(scope, lanes, self._own_mask(instr, 0))
        at = self.address(scope, n)
        if lanes > 1 and classes(instr)[self.vec] == "x":
            if isinstance(instr.static, tuple):
                return self._from_memory(instr, lanes, self._shuffled(instr, lanes, at, mask))
            offsets = self._vector_offsets(scope, instr)
            return self._from_memory(instr, lanes, self._gather(instr, lanes, at, offsets, mask))
        if lanes > 1 and classes(instr)[self.vec] == "0":  # only its mask varies along the lanes
            return self._from_memory(instr, lanes, self._gather(instr, lanes, at, _zeros(lanes), mask))
        return self._from_memory(instr, lanes, self.plain_load(instr, lanes, at, mask))

    def address(self, scope: Scope, n: int) -> str:
        """The pointer of access ``n`` in this scope; with strided lanes: of lane 0."""
        found = scope.addresses.get(n)
        if found is None:
            outer = scope.outer
            assert outer is not None
            found = scope.addresses[n] = self._moved(scope, n, self.address(outer, n))
        return found

    def plain_load(self, instr: KernelInstr, lanes: int, at: str, mask: str | None) -> str:
        scalar = dt.memory(instr.dtype)
        kind = vector_type(lanes, scalar)
        align = dt.of(instr.dtype).itemsize
        if mask is None:
            return self.b.op(f"load {kind}, ptr {at}, align {align}")
        if lanes == 1:  # a load that must not happen reads the word table instead; its value is not used
            safe = self.b.op(f"select i1 {mask}, ptr {at}, ptr %bufs")
            return self.b.op(f"load {kind}, ptr {safe}, align {align}")
        name = f"llvm.masked.load.{dt.suffix(instr.dtype, lanes, memory=True)}.p0"
        self.b.declare(f"declare {kind} @{name}(ptr, i32 immarg, <{lanes} x i1>, {kind})")
        return self.b.op(f"call {kind} @{name}(ptr {at}, i32 {align}, <{lanes} x i1> {mask}, {kind} zeroinitializer)")

    def _shuffled(self, instr: KernelInstr, lanes: int, at: str, mask: str | None) -> str:
        """Lanes that lie in other order, the first one at ``at``, see Note [Lanes in other order]."""
        b, scalar, stride = self.b, dt.memory(instr.dtype), instr.static[1]
        step, order = abs(stride), list(range(lanes))
        if stride < 0:
            at = b.op(f"getelementptr {scalar}, ptr {at}, i64 {stride * (lanes - 1)}")
            order.reverse()
            mask = mask and shuffle(b, "i1", mask, mask, lanes, order)
        if step > 1:
            flags, none = mask or b.const(1, "i1", lanes), b.const(0, "i1", lanes)
            read = [lanes if n % step else n // step for n in range(step * lanes)]
            mask = shuffle(b, "i1", flags, none, lanes, read)
        loaded = self.plain_load(instr, step * lanes, at, mask)
        return shuffle(b, scalar, loaded, loaded, step * lanes, [step * n for n in order])

    def _vector_offsets(self, scope: Scope, instr: KernelInstr) -> str:
        """Byte offsets of strided lanes from lane 0."""
        word = instr.word + 2 + classes(instr)[: self.vec].count("x")
        stride = self.b.splat(self.word(word), "i64", self.width)
        return self.b.op(f"mul {vector_type(self.width, 'i64')} {stride}, {dt.steps(self.width)}")

    def _pointers(self, lanes: int, at: str, offsets: str) -> str:
        return self.b.op(f"getelementptr i8, ptr {at}, {vector_type(lanes, 'i64')} {offsets}")

    def _gather(self, instr: KernelInstr, lanes: int, at: str, offsets: str, mask: str | None) -> str:
        kind, align = vector_type(lanes, dt.memory(instr.dtype)), dt.of(instr.dtype).itemsize
        pointers = self._pointers(lanes, at, offsets)
        name = f"llvm.masked.gather.{dt.suffix(instr.dtype, lanes, memory=True)}.v{lanes}p0"
        self.b.declare(f"declare {kind} @{name}(<{lanes} x ptr>, i32 immarg, <{lanes} x i1>, {kind})")
        on = mask or self.b.const(1, "i1", lanes)
        return self.b.op(
            f"call {kind} @{name}(<{lanes} x ptr> {pointers}, i32 {align}, <{lanes} x i1> {on}, {kind} zeroinitializer)"
        )

    def _from_memory(self, instr: KernelInstr, lanes: int, reg: str) -> str:
        return from_memory(self.b, dt.of(instr.dtype), lanes, reg)

    def _to_memory(self, dtype: str, lanes: int, reg: str) -> str:
        return to_memory(self.b, dt.of(dtype), lanes, reg)

    def _store(self, scope: Scope, n: int, instr: KernelInstr) -> None:
        lanes = self.lanes(n)
        value = self._to_memory(instr.dtype, lanes, self.operand(scope, instr.srcs[0], lanes))
        mask = scope.mask if lanes == self.width else None
        at = self.address(scope, n)
        if lanes > 1 and classes(instr)[self.vec] == "x":
            pointers = self._pointers(lanes, at, self._vector_offsets(scope, instr))
            self._scatter(instr, lanes, value, pointers, mask)
        else:
            self._plain_store(instr, lanes, value, at, mask)

    def _plain_store(self, instr: KernelInstr, lanes: int, value: str, at: str, mask: str | None) -> None:
        """Store to neighbouring elements, those of the mask."""
        kind, align = vector_type(lanes, dt.memory(instr.dtype)), dt.of(instr.dtype).itemsize
        if mask is None or lanes == 1:
            self.b.do(f"store {kind} {value}, ptr {at}, align {align}")
            return
        name = f"llvm.masked.store.{dt.suffix(instr.dtype, lanes, memory=True)}.p0"
        self.b.declare(f"declare void @{name}({kind}, ptr, i32 immarg, <{lanes} x i1>)")
        self.b.do(f"call void @{name}({kind} {value}, ptr {at}, i32 {align}, <{lanes} x i1> {mask})")

    def _scatter(self, instr: KernelInstr, lanes: int, value: str, pointers: str, mask: str | None) -> None:
        """Store each lane of the mask through its own pointer."""
        kind, align = vector_type(lanes, dt.memory(instr.dtype)), dt.of(instr.dtype).itemsize
        name = f"llvm.masked.scatter.{dt.suffix(instr.dtype, lanes, memory=True)}.v{lanes}p0"
        self.b.declare(f"declare void @{name}({kind}, <{lanes} x ptr>, i32 immarg, <{lanes} x i1>)")
        on = mask or self.b.const(1, "i1", lanes)
        self.b.do(f"call void @{name}({kind} {value}, <{lanes} x ptr> {pointers}, i32 {align}, <{lanes} x i1> {on})")

    # indexed access
    def _check(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        """Wrap a negative index, unless there is to be none; report one that is out of range; give one that is safe."""
        b, lanes = self.b, self.lanes(n)
        kind, flags = vector_type(lanes, "i64"), vector_type(lanes, "i1")
        index = self.operand(scope, instr.srcs[0], lanes)
        source = self.instrs[instr.srcs[0]].dtype
        if source != "int64":
            index = emit_cast(b, dt.of(source), dt.of("int64"), lanes, index)
        extent, zero = b.splat(self.word(instr.word), "i64", lanes), b.const(0, "i64", lanes)
        if instr.static != (False,):
            wrapped = b.op(f"add {kind} {index}, {extent}")
            negative = b.op(f"icmp slt {kind} {index}, {zero}")
            index = b.op(f"select {flags} {negative}, {kind} {wrapped}, {kind} {index}")
        bad = b.op(f"icmp uge {kind} {index}, {extent}")
        safe = b.op(f"select {flags} {bad}, {kind} {zero}, {kind} {index}")
        on = self._lanes_that_count(scope, lanes, self._own_mask(instr, 1))
        if on is not None:
            bad = b.op(f"and {flags} {bad}, {on}")
        if lanes > 1:
            bad = b.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", f"{flags} {bad}")
        with b.when(bad):
            b.do(f"store atomic i64 {self.word(instr.word + 1)}, ptr %bufs monotonic, align 8")
        return safe

    def _indexed(self, scope: Scope, n: int, instr: KernelInstr, lanes: int, indices: Sequence[int]) -> str:
        """Byte offsets that the index values add."""
        kind = vector_type(lanes, "i64")
        word = instr.word + 2 + classes(instr).count("x")
        total = self.b.const(0, "i64", lanes)
        for k, s in enumerate(indices):
            stride = self.b.splat(self.word(word + k), "i64", lanes)
            step = self.b.op(f"mul {kind} {self.operand(scope, s, lanes)}, {stride}")
            total = self.b.op(f"add {kind} {total}, {step}")
        return total

    def _gather_at(self, scope: Scope, n: int, instr: KernelInstr) -> str:
        count = instr.static[1]
        lanes, at = self.lanes(n), self.address(scope, n)
        mask = self._lanes_that_count(scope, lanes, self._own_mask(instr, count))
        indices = instr.srcs[:count]
        varying = any(self.lanes(s) > 1 for s in indices)
        if lanes == 1 or (not varying and classes(instr)[self.vec] == "1"):
            at = self.b.op(f"getelementptr i8, ptr {at}, i64 {self._indexed(scope, n, instr, 1, indices)}")
            if n in self.ahead:
                self._prefetch(self._moved(scope, n, self.ahead[n]))
            return self._from_memory(instr, lanes, self.plain_load(instr, lanes, at, mask))
        offsets = self._lane_offsets(scope, instr, lanes, self._indexed(scope, n, instr, lanes, indices))
        return self._from_memory(instr, lanes, self._gather(instr, lanes, at, offsets, mask))

    def is_row(self, n: int) -> bool:
        """Whether gather ``n`` reads a row per unit of work: one index, and along the lanes neighbours."""
        instr = self.instrs[n]
        is_unit_s = instr.static[1] == 1 and self.deps[instr.srcs[0]] == 1
        return is_unit_s and self.width > 1 and classes(instr)[self.vec] == "1"

    def look_ahead(self, scope: Scope, n: int, index: int) -> None:
        """Note where the row ``index`` begins, an unchecked one: asking for memory that does not exist does no harm."""
        instr = self.instrs[n]
        step = self.word(instr.word + 2 + classes(instr).count("x"))
        moved = self.b.op(f"mul i64 {self.operand(scope, index, 1)}, {step}")
        self.ahead[n] = self.b.op(f"getelementptr i8, ptr {self.address(scope, n)}, i64 {moved}")

    def _prefetch(self, at: str) -> None:
        self.b.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")
        self.b.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def _lane_offsets(self, scope: Scope, instr: KernelInstr, lanes: int, offsets: str) -> str:
        """Add the lanes' own stride to index offsets."""
        along = classes(instr)[self.vec]
        if along == "0":
            return offsets
        kind = vector_type(lanes, "i64")
        if along == "x":
            own = self._vector_offsets(scope, instr)
        else:
            size = self.b.const(dt.of(instr.dtype).itemsize, "i64", lanes)
            own = self.b.op(f"mul {kind} {dt.steps(lanes)}, {size}")
        return self.b.op(f"add {kind} {offsets}, {own}")

    def _combine(self, scope: Scope, n: int, instr: KernelInstr) -> None:
        """Combine with memory. Lanes never meet: the scheduler makes lanes of kept dims only (or one lane)."""
        lanes, at = self.width, self.address(scope, n)
        value = self.operand(scope, instr.srcs[0], lanes)
        indices = instr.srcs[1:]
        if lanes == 1 or (classes(instr)[self.vec] == "1" and all(self.lanes(s) == 1 for s in indices)):
            at = self.b.op(f"getelementptr i8, ptr {at}, i64 {self._indexed(scope, n, instr, 1, indices)}")
            mask = scope.mask if lanes > 1 else None
            old = self.plain_load(instr, lanes, at, mask) if COMBINING[instr.op] else ""
            self._plain_store(instr, lanes, self._combined(instr, lanes, old, value), at, mask)
            return
        offsets = self._lane_offsets(scope, instr, lanes, self._indexed(scope, n, instr, lanes, indices))
        old = self._gather(instr, lanes, at, offsets, scope.mask) if COMBINING[instr.op] else ""
        new = self._combined(instr, lanes, old, value)
        self._scatter(instr, lanes, new, self._pointers(lanes, at, offsets), scope.mask)

    def _combined(self, instr: KernelInstr, lanes: int, old: str, new: str) -> str:
        """What is stored where ``old`` lies in memory and ``new`` arrives."""
        primitive = COMBINING[instr.op]
        if primitive:
            old = self._from_memory(instr, lanes, old)
            new = emit_pointwise(self.b, primitive, dt.of(instr.dtype), lanes, old, new)
        return self._to_memory(instr.dtype, lanes, new)


def _zeros(lanes: int) -> str:
    return "<" + ", ".join(["i64 0"] * lanes) + ">"
