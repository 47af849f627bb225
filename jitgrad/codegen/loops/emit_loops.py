"""Printing loop kernels, see Note [Loop nests] in ``kernel_ir``.

Owns: ``print_kernel``: units, blocks, chunks, phases, accumulators, tails.
Must not know: values, groups, buffers; single instructions are ``emit_instrs``.
In: ``NestKey``. Out: an LLVM module as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.codegen.llvm import dtype_text as dt
from jitgrad.codegen.llvm.scratch import STACK_NBYTES, Scratch
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.loops.emit_instrs import InstrPrinter
from jitgrad.codegen.loops.emit_memory import Scope
from jitgrad.codegen.loops.emit_tiles import Tiles
from jitgrad.codegen.schedule.kernel_ir import EFFECTS, KernelInstr, NestKey
from jitgrad.codegen.schedule.phases import Phase, is_reduce, split_phases
from jitgrad.codegen.vmath.pointwise import emit_pointwise

__all__ = ["print_kernel"]

_IDENTITY = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
_ROWS_AHEAD = 8
_BLOCK = -1
"""Where an index has the number of a unit's block of the vector dim."""
_CHAIN = 6
_LOOKS = frozenset({"load", "const", "number", "lt", "where", "cast"})
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
_INT_MIN = {"int32": -(2**31), "int64": -(2**63), "bool": 0}
_INT_MAX = {"int32": 2**31 - 1, "int64": 2**63 - 1, "bool": 1}


def print_kernel(key: NestKey, name: str, target: Target) -> str:
    """The kernel's module."""
    return _NestPrinter(key, name, target).print()


class _NestPrinter:
    def __init__(self, key: NestKey, name: str, target: Target) -> None:
        self.key = key
        self.b = FnBuilder(name, isa=target.isa)
        self.printer = InstrPrinter(self.b, key.instrs, key.vec, key.width)
        self.has_fma = target.has_fma
        seq_bits = ((1 << key.seqs) - 1) << key.units
        vec_bit = 1 << key.vec
        both = seq_bits | vec_bit
        self.inner_bits = {"map": both, "tile": both, "row": both, "col": seq_bits}[key.form]
        reduced = self.inner_bits if key.form in ("row", "col") else 0
        self.printer.find_dependencies(reduced, vec_bit if key.form == "col" else 0)
        self.printer.spread_early()
        self.phases = split_phases(key, self.printer.deps, self.inner_bits)
        self.row_buffers: dict[int, str] = {}
        self.scratch: Scratch | None = None
        self.tiles = Tiles(self.b, key, self.printer)

    # structure
    def print(self) -> str:
        key = self.key
        self.printer.load_words(key.words)
        self.entry = Scope()
        self.printer.base_addresses(self.entry)
        self._reserve_rows()
        self.tiles.reserve()
        once: set[int] = set()
        for n, instr in enumerate(key.instrs):
            constant = self.printer.deps[n] == 0 and instr.op not in EFFECTS and not is_reduce(instr)
            if constant and once.issuperset(instr.srcs):
                once.add(n)
                self.printer.emit(self.entry, n)
        places = self._places()
        counts = key.form == "map"
        first = self._digits("%begin", places) if counts else []
        with self.b.fold("%begin", "%end", 1, [("i64", digit) for digit in first], "unit") as (unit, digits):
            own = digits if counts else self._digits(unit, places)
            self._unit({place: digit for (place, _), digit in zip(places, own, strict=True)}, once)
            if counts:
                digits[:] = self._counted_on(digits, places)
        if self.scratch is not None:
            self.scratch.close()
        return self.b.finish()

    def _places(self) -> list[tuple[int, int]]:
        """The digits of a unit's number, last first: (dim, chunk number or ``_BLOCK``, the word with its extent)."""
        key = self.key
        header = key.vec + 1
        places = [] if key.form == "row" else [(_BLOCK, header + 1)]
        if key.chunked:
            places.append((key.vec + 1, header + 3))
        return places + [(dim, dim) for dim in range(key.units - 1, -1, -1)]

    def _digits(self, unit: str, places: list[tuple[int, int]]) -> list[str]:
        """The digits of a number."""
        digits, b = [], self.b
        for place, word in places:
            if (place, word) == places[-1]:
                digits.append(unit)
                break
            by = self.printer.word(word)
            quotient = b.op(f"udiv i64 {unit}, {by}")
            digits.append(b.op(f"sub i64 {unit}, {b.op(f'mul i64 {quotient}, {by}')}"))
            unit = quotient
        return digits

    def _counted_on(self, digits: list[str], places: list[tuple[int, int]]) -> list[str]:
        """The digits of the number that follows."""
        b, step, following = self.b, "1", []
        for (place, word), digit in zip(places, digits, strict=True):
            more = b.op(f"add i64 {digit}, {step}")
            if (place, word) == places[-1]:
                following.append(more)
                break
            is_over = b.op(f"icmp eq i64 {more}, {self.printer.word(word)}")
            following.append(b.op(f"select i1 {is_over}, i64 0, i64 {more}"))
            step = b.op(f"zext i1 {is_over} to i64")
        return following

    def _unit(self, index: dict[int, str], once: set[int]) -> None:
        """One unit of work. ``index``: the digits of its number; without chunks it is of chunk 0."""
        key = self.key
        block = index.pop(_BLOCK, "0")
        index.setdefault(key.vec + 1, "0")
        scope = Scope(self.entry, index)
        if key.form == "col":
            start = self.b.op(f"mul i64 {block}, {key.width}")
            index[key.vec] = start
            scope.mask = self._tail_mask(start, self.printer.word(key.vec))
        self.printer.advance(scope)
        self._look_ahead(index)
        per_unit = [
            n for n, instr in enumerate(key.instrs) if not (n in once or self.phases.is_elem[n] or is_reduce(instr))
        ]
        for number, phase in enumerate(self.phases.passes):
            for n in per_unit:
                if self.phases.of[n] == number:
                    self.printer.emit(scope, n)
            if key.form == "tile":
                self._tile_loops(scope, block, phase)
            elif phase.reduces or phase.elems:
                self._pass(scope, block, phase)

    def _look_ahead(self, index: dict[int, str]) -> None:
        """Find the rows that some units on will gather, for ``MemoryPrinter.ahead``.

        Rows come from anywhere in their table, and a unit is too long for the core to see the next ones. Example: a
        step that gathers 1,024 rows of 128 bytes out of 2.5 MB, and of another table, is done in half the time.
        """
        key, printer, b = self.key, self.printer, self.b
        if key.form not in ("row", "map") or key.units != 1:
            return
        found = [n for n, instr in enumerate(key.instrs) if instr.op == "gather" and printer.is_row(n)]
        chains = {n: chain for n in found if (chain := self._index_chain(key.instrs[n].srcs[0])) is not None}
        if not chains:
            return
        last = b.op(f"sub i64 {printer.word(0)}, 1")
        later = b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'add i64 {index[0]}, {_ROWS_AHEAD}')}", f"i64 {last}")
        scope = Scope(self.entry, {0: later})
        for n, chain in chains.items():
            for step in chain:
                printer.emit(scope, step)
            printer.look_ahead(scope, n, chain[-1])

    def _index_chain(self, check: int) -> list[int] | None:
        """The instructions that make the index of a row, without its check; None if they are more than a look at it."""
        instrs, needed = self.key.instrs, {check}
        for n in range(check, -1, -1):
            if n in needed:
                needed.update(instrs[n].srcs)
        chain = sorted(needed - {check})
        if instrs[check].op != "check" or len(instrs[check].srcs) > 1 or len(chain) > _CHAIN:
            return None
        return chain if all(instrs[n].op in _LOOKS and self.printer.deps[n] <= 1 for n in chain) else None

    def _pass(self, scope: Scope, block: str, phase: Phase) -> None:
        """The loops inside a unit, around the elementwise instructions of one phase."""
        inits = [self._identity(n) for n in phase.reduces]
        final = self._nest(scope, {}, block, phase, inits)
        for n, value in zip(phase.reduces, final, strict=True):
            scope.regs[n] = value if self.key.form == "col" else self._across(n, value)

    def _nest(self, scope: Scope, index: dict[int, str], block: str, phase: Phase, values: list[str]) -> list[str]:
        """The sequential loops that are not open yet, then the body; returns the accumulators."""
        key = self.key
        depth = len(index)
        if depth < key.seqs:
            lo, hi = self._range(scope, key.units + depth, key.chunked == "seq" and depth == 0)
            with self.b.fold(lo, hi, 1, self._typed(phase, values), "seq") as (at, carried):
                carried[:] = self._nest(scope, {**index, key.units + depth: at}, block, phase, list(carried))
            return carried
        if key.form == "col":
            return self._body(Scope(scope, index, scope.mask), phase, values)
        return self._vector_loop(scope, index, block, phase, values)

    def _tile_loops(self, scope: Scope, block: str, phase: Phase) -> None:
        """Squares of rows and lanes, see Note [Tiles]; inside each, the rows."""
        b, key, dim = self.b, self.key, self.tiles.dim
        lo, hi = self._vector_range(scope, block)
        with b.loop("0", self.printer.word(dim), key.width, "tile") as first, b.loop(lo, hi, key.width, "vec") as at:
            rest = b.op(f"sub i64 {self.printer.word(dim)}, {first}")
            rows = b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {key.width}")
            last = b.op(f"sub i64 {b.op(f'sub i64 {hi}, {at}')}, 1")
            mask = self._tail_mask(at, hi)
            square = Scope(scope, {dim: first, key.vec: at})
            self.tiles.fill(square, last, self._tail_mask(first, self.printer.word(dim)))
            with b.loop("0", rows, hint="row") as row:
                inner = Scope(scope, {dim: b.op(f"add i64 {first}, {row}"), key.vec: at}, mask)
                self.tiles.recall(inner, row)
                self._body(inner, phase, [])

    def _typed(self, phase: Phase, values: list[str]) -> list[tuple[str, str]]:
        return [(self._acc_type(n), value) for n, value in zip(phase.reduces, values, strict=True)]

    def _range(self, scope: Scope, dim: int, chunked: bool) -> tuple[str, str]:
        """Where a loop begins and ends: the whole dim, or this unit's chunk of it."""
        extent = self.printer.word(dim)
        if not chunked:
            return "0", extent
        length = self.printer.word(self.key.vec + 3)
        lo = self.b.op(f"mul i64 {scope.index[self.key.vec + 1]}, {length}")
        return self._clipped(lo, length, extent)

    def _clipped(self, lo: str, length: str, extent: str) -> tuple[str, str]:
        lo = self.b.call("i64", "llvm.smin.i64", f"i64 {lo}", f"i64 {extent}")
        end = self.b.op(f"add i64 {lo}, {length}")
        return lo, self.b.call("i64", "llvm.smin.i64", f"i64 {end}", f"i64 {extent}")

    def _vector_range(self, scope: Scope, block: str) -> tuple[str, str]:
        key = self.key
        if key.form == "row":
            return self._range(scope, key.vec, key.chunked == "vec")
        length = self.printer.word(key.vec + 1)
        lo = self.b.op(f"mul i64 {block}, {length}")
        return self._clipped(lo, length, self.printer.word(key.vec))

    def _vector_loop(
        self, scope: Scope, index: dict[int, str], block: str, phase: Phase, values: list[str]
    ) -> list[str]:
        """Full vectors, then one masked vector for the rest (or only masked ones)."""
        b, key = self.b, self.key
        lo, hi = self._vector_range(scope, block)
        if key.masked:
            with b.fold(lo, hi, key.width, self._typed(phase, values), "vec") as (at, carried):
                mask = self._tail_mask(at, hi)
                carried[:] = self._body(Scope(scope, {**index, key.vec: at}, mask), phase, carried)
            return carried
        length = b.op(f"sub i64 {hi}, {lo}")
        whole = b.op(f"and i64 {length}, {-key.width}")
        full = b.op(f"add i64 {lo}, {whole}")
        with b.fold(lo, full, key.width, self._typed(phase, values), "vec") as (at, carried):
            carried[:] = self._body(Scope(scope, {**index, key.vec: at}), phase, carried)
        if key.width == 1:
            return carried
        more = b.op(f"icmp slt i64 {full}, {hi}")
        with b.when_fold(more, self._typed(phase, carried), "tail") as last:
            mask = self._tail_mask(full, hi)
            last[:] = self._body(Scope(scope, {**index, key.vec: full}, mask), phase, last)
        return last

    def _tail_mask(self, start: str, end: str) -> str:
        """Lanes whose index is below ``end``, compared in 32 bits: half the registers of 64."""
        b, width = self.b, self.key.width
        if width == 1:
            return "true"
        rest = b.op(f"sub i64 {end}, {start}")
        rest = b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {width}")
        short = b.op(f"trunc i64 {rest} to i32")
        return b.op(f"icmp slt {vector_type(width, 'i32')} {dt.short_steps(width)}, {b.splat(short, 'i32', width)}")

    def _body(self, scope: Scope, phase: Phase, values: list[str]) -> list[str]:
        """The elementwise instructions, then one step of each reduction; returns the accumulators."""
        for n in phase.elems:
            if n in scope.regs:  # staged
                continue
            if n in phase.recall:
                kind, at, align = self._kept(scope, n)
                scope.regs[n] = self.b.op(f"load {kind}, ptr {at}, align {align}")
                continue
            self.printer.emit(scope, n)
            if n in phase.keep:
                kind, at, align = self._kept(scope, n)
                self.b.do(f"store {kind} {scope.regs[n]}, ptr {at}, align {align}")
        return [self._accumulate(scope, n, value) for n, value in zip(phase.reduces, values, strict=True)]

    # row buffers
    def _reserve_rows(self) -> None:
        """Room for the values that later phases need again; in the entry block."""
        if not self.phases.kept:
            return
        count = self.key.width * (self.key.row_buffer // self.key.width + 1)
        starts = [0]
        for n in self.phases.kept:
            nbytes = count * dt.register_nbytes(self.key.instrs[n].dtype)
            starts.append(-(-(starts[-1] + nbytes) // 64) * 64)
        is_large = starts[-1] > STACK_NBYTES
        self.scratch = Scratch(self.b, 0 if is_large else starts[-1], starts[-1], "true" if is_large else "false")
        for n, start in zip(self.phases.kept, starts, strict=False):
            self.row_buffers[n] = self.b.op(f"getelementptr i8, ptr {self.scratch.at}, i64 {start}")

    def _kept(self, scope: Scope, n: int) -> tuple[str, str, int]:
        """The type, address and alignment of instruction ``n``'s value at the current place of the row."""
        key, dtype = self.key, self.key.instrs[n].dtype
        lanes = self.printer.lanes(n)
        kind = vector_type(lanes, dt.register(dtype))
        in_row = key.form == "row"
        step = dt.register(dtype) if in_row else vector_type(key.width, dt.register(dtype))
        index = scope.index[key.vec if in_row else key.units]
        at = self.b.op(f"getelementptr {step}, ptr {self.row_buffers[n]}, i64 {index}")
        return kind, at, min(64, lanes * dt.of(dtype).itemsize)

    # reductions
    def _acc_type(self, n: int) -> str:
        return vector_type(self.key.width, dt.register(self.key.instrs[n].dtype))

    def _identity(self, n: int) -> str:
        instr = self.key.instrs[n]
        kind = instr.op[7:]
        value: float = _IDENTITY[kind]
        if dt.register(instr.dtype).startswith("i"):
            value = {"max": _INT_MIN, "min": _INT_MAX}.get(kind, {}).get(instr.dtype, value)
        return self.b.const(value, dt.register(instr.dtype), self.key.width)

    def _accumulate(self, scope: Scope, n: int, acc: str) -> str:
        instr, width = self.key.instrs[n], self.key.width
        regs = [self.printer.operand(scope, s, width) for s in instr.srcs]
        masked = scope.mask is not None and self.key.form == "row"
        if len(regs) == 2 and self.has_fma:
            found = self.printer.fma(instr.dtype, width, regs[0], regs[1], acc)
            return self._chosen(scope, n, found, acc) if masked else found
        x = regs[0] if len(regs) == 1 else emit_pointwise(self.b, "mul", dt.of(instr.dtype), width, *regs)
        found = self._combined(instr, width, acc, x)
        return self._chosen(scope, n, found, acc) if masked else found

    def _chosen(self, scope: Scope, n: int, new: str, old: str) -> str:
        kind = self._acc_type(n)
        return self.b.op(f"select <{self.key.width} x i1> {scope.mask}, {kind} {new}, {kind} {old}")

    def _combined(self, instr: KernelInstr, width: int, x: str, y: str) -> str:
        kind = instr.op[7:]
        if instr.dtype == "bool":
            return self.b.op(f"{'and' if kind in ('min', 'prod') else 'or'} {vector_type(width, 'i1')} {x}, {y}")
        return emit_pointwise(self.b, _COMBINE[kind], dt.of(instr.dtype), width, x, y)

    def _across(self, n: int, value: str) -> str:
        """The lanes of an accumulator, combined in a fixed order: halves, then halves of those."""
        instr, width = self.key.instrs[n], self.key.width
        scalar = dt.register(instr.dtype)
        while width > 1:
            half = width // 2
            kind = vector_type(width, scalar)
            parts = [_lane_list(range(half)), _lane_list(range(half, width))]
            low, high = (self.b.op(f"shufflevector {kind} {value}, {kind} poison, {part}") for part in parts)
            if half == 1:
                one = vector_type(2, scalar).replace("2 x", "1 x")
                low, high = (self.b.op(f"extractelement {one} {part}, i64 0") for part in (low, high))
            value = self._combined(instr, half, low, high)
            width = half
        return value


def _lane_list(lanes: Sequence[int]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {n}" for n in lanes) + ">"
