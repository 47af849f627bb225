"""Printing a matrix multiplication kernel: the loop nest and the register tile.

Owns: ``emit_gemm``.
Must not know: shapes (they are arguments), what the epilogue computes.
In: a ``GemmSpec`` and an ``Epilogue``. Out: the text of one LLVM module.

# Note [Order of summation]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# Every element of C is one chain of multiply-adds over k = 0, 1, ... K-1, whatever the tile, the unit, the pass over K
# or the lane. So a result depends neither on the number of threads nor on where in the matrix it stands.

# Note [GEMM loop nest]
# ~~~~~~~~~~~~~~~~~~~~~
# for unit:                       batch, a block of columns, a block of rows
#   for panel of columns:         as wide as the register tile
#     for pass over K:            one pass, unless B's panel is copied and longer than the copy's buffer
#       copy B's panel            only if its rows are far apart or not contiguous
#       for tile of rows:         rows past the end are read again from the last row, and not stored
#         for k: A's elements, one by one, times B's vectors, into rows x vectors accumulators
#         last pass: the epilogue; earlier ones: partial sums to the stack
# Columns past the end are masked out where the target can, else done with narrower tiles, at last one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.codegen.gemm_pack import emit_pack
from jitgrad.codegen.gemm_spec import Epilogue, GemmSpec, load_arg, load_vector
from jitgrad.codegen.text import FnBuilder, vector_type

__all__ = ["PACK_NBYTES", "SUMS_NBYTES", "UNROLL_COST", "emit_gemm"]

PACK_NBYTES = 64 << 10  # the copy of a panel of B, on the stack
SUMS_NBYTES = 64 << 10  # the partial sums of a unit's rows, on the stack
UNROLL_COST = 4  # epilogues up to this cost are unrolled over the register tile

_ARGS = (
    "a_slot", "a_off", "a_sb", "a_sm", "a_sk", "b_slot", "b_off", "b_sb", "b_sk", "b_sn", "m", "n", "k",
    "unit_m", "unit_n", "units_m", "units_n", "depth", "pack", "sums_stride",
)  # fmt: skip


def emit_gemm(spec: GemmSpec, name: str, epilogue: Epilogue) -> str:
    """The module of one kernel, see Note [GEMM loop nest], Note [GEMM arguments] and Note [Program ABI]."""
    return _Writer(spec, FnBuilder(name), epilogue).emit()


@dataclass(frozen=True, slots=True)
class _Panel:
    """The panel of columns being written: registers, and how wide its tiles are."""

    vectors: int
    width: int
    col: str  # first column
    masks: list[str | None]  # one per vector

    @property
    def columns(self) -> int:
        return self.vectors * self.width


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over K: registers."""

    first: str  # i1: sums start at zero
    last: str  # i1: sums are finished
    depth: str  # elements of K
    a: str  # A at the pass's first column
    b: str  # B's panel at the pass's first row
    b_stride: str  # bytes between B's rows


class _Writer:
    """Prints one kernel. Registers of the arguments are ``self.arg[name]``."""

    def __init__(self, spec: GemmSpec, b: FnBuilder, epilogue: Epilogue) -> None:
        self.spec, self.b, self.epilogue = spec, b, epilogue
        self.unrolled = epilogue.cost <= UNROLL_COST

    # the loop nest

    def emit(self) -> str:
        b = self.b
        self.arg = {name: load_arg(b, i) for i, name in enumerate(_ARGS)}
        self.copy = b.op(f"alloca [{PACK_NBYTES} x i8], align 64")
        self.sums = b.op(f"alloca [{SUMS_NBYTES} x i8], align 64")
        self.a_base, self.b_base = self._base("a"), self._base("b")
        above = b.op(f"add i64 {self.arg['k']}, {self.arg['depth']}")
        passes = b.op(f"sdiv i64 {b.op(f'sub i64 {above}, 1')}, {self.arg['depth']}")
        self.passes = b.call("i64", "llvm.smax.i64", f"i64 {passes}", "i64 1")  # K = 0 still stores zeros
        self.epilogue.prepare(b)
        with b.loop("%begin", "%end", hint="unit") as unit:
            self._unit(unit)
        return b.finish()

    def _base(self, operand: str) -> str:
        b = self.b
        at = b.op(f"getelementptr i64, ptr %bufs, i64 {self.arg[operand + '_slot']}")
        return self._offset(b.op(f"load ptr, ptr {at}"), self.arg[operand + "_off"])

    def _offset(self, base: str, nbytes: str) -> str:
        return self.b.op(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    def _at(self, base: str, index: str | int, stride: str) -> str:
        return self._offset(base, self.b.op(f"mul i64 {index}, {stride}"))

    def _min(self, x: str, y: str) -> str:
        return self.b.call("i64", "llvm.smin.i64", f"i64 {x}", f"i64 {y}")

    def _span(self, index: str, step: str, limit: str) -> tuple[str, str]:
        """[index * step, min(that + step, limit))."""
        start = self.b.op(f"mul i64 {index}, {step}")
        return start, self._min(self.b.op(f"add i64 {start}, {step}"), limit)

    def _unit(self, unit: str) -> None:
        b, arg = self.b, self.arg
        column_block = b.op(f"sdiv i64 {unit}, {arg['units_m']}")
        self.batch = b.op(f"sdiv i64 {column_block}, {arg['units_n']}")
        row_start, self.row_end = self._span(b.op(f"srem i64 {unit}, {arg['units_m']}"), arg["unit_m"], arg["m"])
        start, end = self._span(b.op(f"srem i64 {column_block}, {arg['units_n']}"), arg["unit_n"], arg["n"])
        self.row_start = row_start
        self.a = self._at(self.a_base, self.batch, arg["a_sb"])
        self.b_matrix = self._at(self.b_base, self.batch, arg["b_sb"])
        spec = self.spec
        if spec.masks:
            self._panels(start, end, spec.vectors, spec.width, masked=True)
            return
        for vectors, width in dict.fromkeys(((spec.vectors, spec.width), (1, spec.width), (1, 1))):
            size = vectors * width
            count = b.op(f"sub i64 {end}, {start}")
            rest = b.op(f"srem i64 {count}, {size}")
            middle = b.op(f"sub i64 {end}, {rest}")
            self._panels(start, middle, vectors, width, masked=False)
            start = middle

    def _panels(self, start: str, end: str, vectors: int, width: int, masked: bool) -> None:
        """All panels of ``vectors`` x ``width`` columns in [start, end)."""
        b, arg = self.b, self.arg
        with b.loop(start, end, vectors * width, hint="panel") as col:
            masks = self._masks(b.op(f"sub i64 {end}, {col}"), vectors) if masked else [None] * vectors
            panel = _Panel(vectors, width, col, masks)
            here = self._at(self.b_matrix, col, arg["b_sn"])
            with b.loop("0", self.passes, hint="pass") as index:
                self._tiles(panel, self._pass(panel, here, index))

    def _masks(self, left: str, vectors: int) -> list[str | None]:
        """Lanes below the number of columns ``left``."""
        b, width = self.b, self.spec.width
        wide = f"<{width} x i64>"
        counts = b.splat(left, "i64", width)
        masks: list[str | None] = []
        for v in range(vectors):
            lanes = ", ".join(f"i64 {v * width + i}" for i in range(width))
            masks.append(b.op(f"icmp sgt {wide} {counts}, <{lanes}>"))
        return masks

    def _pass(self, panel: _Panel, here: str, index: str) -> _Pass:
        """The operands of pass ``index``; copies B's panel if that is wanted."""
        b, arg = self.b, self.arg
        k = b.op(f"mul i64 {index}, {arg['depth']}")
        depth = self._min(arg["depth"], b.op(f"sub i64 {arg['k']}, {k}"))
        first = b.op(f"icmp eq i64 {index}, 0")
        last = b.op(f"icmp eq i64 {b.op(f'add i64 {index}, 1')}, {self.passes}")
        a = self._at(self.a, k, arg["a_sk"])
        source, stride = self._at(here, k, arg["b_sk"]), arg["b_sk"]
        if panel.columns > 1:
            source, stride = self._copied(panel, source, depth)
        return _Pass(first, last, depth, a, source, stride)

    def _copied(self, panel: _Panel, source: str, depth: str) -> tuple[str, str]:
        """Where B's panel is to be read, and its row stride, after copying it if that is wanted."""
        b, arg, spec = self.b, self.arg, self.spec
        row_nbytes = str(panel.columns * spec.itemsize)
        left = b.op(f"sub i64 {arg['n']}, {panel.col}")

        def copy() -> None:
            emit_pack(b, spec, panel.vectors, panel.width, panel.masks, source, self.copy, depth, left, arg)

        if spec.b_unit != "n":
            copy()
            return self.copy, row_nbytes
        wanted = b.op(f"icmp ne i64 {arg['pack']}, 0")
        with b.when(wanted, hint="copy"):
            copy()
        chosen = b.op(f"select i1 {wanted}, ptr {self.copy}, ptr {source}")
        return chosen, b.op(f"select i1 {wanted}, i64 {row_nbytes}, i64 {arg['b_sk']}")

    # tiles of rows

    def _tiles(self, panel: _Panel, at: _Pass) -> None:
        with self.b.loop(self.row_start, self.row_end, self.spec.rows, hint="tile") as row:
            self._tile(panel, at, row)

    def _tile(self, panel: _Panel, at: _Pass, row: str) -> None:
        b, rows = self.b, self.spec.rows
        top = b.op(f"sub i64 {self.row_end}, 1")
        a_rows = [
            self._at(at.a, self._min(b.op(f"add i64 {row}, {i}"), top) if i else row, self.arg["a_sm"])
            for i in range(rows)
        ]
        sums = self._at(self.sums, b.op(f"sub i64 {row}, {self.row_start}"), self.arg["sums_stride"])
        acc = self._accumulate(panel, at, a_rows, sums)
        if not self.unrolled:
            self._save(panel, acc, sums)
            with b.when(at.last, hint="last"):
                self._loop_epilogue(panel, row, sums)
            return
        done, partial, after = b.label("done"), b.label("partial"), b.label("after")
        b.do(f"br i1 {at.last}, label %{done}, label %{partial}")
        b.start(partial)
        self._save(panel, acc, sums)
        b.do(f"br label %{after}")
        b.start(done)
        self._unrolled_epilogue(panel, acc, row)
        b.do(f"br label %{after}")
        b.start(after)

    def _slot(self, sums: str, panel: _Panel, i: int, v: int) -> str:
        size = (i * panel.columns + v * panel.width) * self.spec.itemsize
        return self.b.op(f"getelementptr i8, ptr {sums}, i64 {size}")

    def _save(self, panel: _Panel, acc: list[list[str]], sums: str) -> None:
        vec = vector_type(panel.width, self.spec.scalar)
        for i, row in enumerate(acc):
            for v, value in enumerate(row):
                self.b.do(f"store {vec} {value}, ptr {self._slot(sums, panel, i, v)}, align {self.spec.itemsize}")

    def _accumulate(self, panel: _Panel, at: _Pass, a_rows: list[str], sums: str) -> list[list[str]]:
        """The register tile after this pass: ``acc[row][vector]``."""
        b = self.b
        vec = vector_type(panel.width, self.spec.scalar)
        cells = [(i, v) for i in range(len(a_rows)) for v in range(panel.vectors)]
        zero, resume, loop, done = b.label("zero"), b.label("resume"), b.label("k"), b.label("summed")
        b.do(f"br i1 {at.first}, label %{zero}, label %{resume}")
        b.start(resume)
        saved = [b.op(f"load {vec}, ptr {self._slot(sums, panel, *c)}, align {self.spec.itemsize}") for c in cells]
        b.do(f"br label %{loop}")
        b.start(zero)
        some = b.op(f"icmp sgt i64 {at.depth}, 0")
        b.do(f"br i1 {some}, label %{loop}, label %{done}")
        b.start(loop)
        start = {zero: ["zeroinitializer" if panel.width > 1 else "0.0"] * len(cells), resume: saved}
        sums_now, sums_next = self._phis(vec, start, loop)
        step = b.label("%step")
        k, a_off, b_at = b.label("%k"), b.label("%a"), b.label("%b")
        for name, kind, first, following in (
            (k, "i64", at.depth, step), (a_off, "i64", "0", step + "a"), (b_at, "ptr", at.b, step + "b")
        ):  # fmt: skip
            b.do(f"{name} = phi {kind} [ {first}, %{zero} ], [ {first}, %{resume} ], [ {following}, %{loop} ]")
        self._multiply(panel, a_rows, a_off, b_at, sums_now, sums_next)
        b.do(f"{step}a = add i64 {a_off}, {self.arg['a_sk']}")
        b.do(f"{step}b = getelementptr i8, ptr {b_at}, i64 {at.b_stride}")
        b.do(f"{step} = sub i64 {k}, 1")
        again = b.op(f"icmp sgt i64 {step}, 0")
        b.do(f"br i1 {again}, label %{loop}, label %{done}")
        b.start(done)
        empty = start[zero][0]
        final = [b.op(f"phi {vec} [ {empty}, %{zero} ], [ {name}, %{loop} ]") for name in sums_next]
        return [final[i * panel.vectors : (i + 1) * panel.vectors] for i in range(len(a_rows))]

    def _phis(self, vec: str, start: dict[str, list[str]], loop: str) -> tuple[list[str], list[str]]:
        """Accumulators of the loop: their registers now, and the names that their next values must get."""
        b = self.b
        now, following = [], []
        for values in zip(*start.values(), strict=True):
            name = b.label("%s")
            ways = ", ".join(f"[ {value}, %{block} ]" for value, block in zip(values, start, strict=True))
            b.do(f"{name} = phi {vec} {ways}, [ {name}n, %{loop} ]")
            now.append(name)
            following.append(name + "n")
        return now, following

    def _multiply(
        self, panel: _Panel, a_rows: list[str], a_off: str, b_at: str, now: list[str], out: list[str]
    ) -> None:
        """One k: ``out[row, vector] = a[row] * b[vector] + now[row, vector]``."""
        b, spec = self.b, self.spec
        vec = vector_type(panel.width, spec.scalar)
        columns = []
        for v in range(panel.vectors):
            at = b.op(f"getelementptr i8, ptr {b_at}, i64 {v * panel.width * spec.itemsize}")
            mask = panel.masks[v] if spec.b_unit == "n" else None
            columns.append(load_vector(b, spec.scalar, panel.width, at, mask, spec.itemsize))
        cell = 0
        for a_row in a_rows:
            at = self._offset(a_row, a_off)
            one = b.op(f"load {spec.scalar}, ptr {at}, align {spec.itemsize}")
            wide = b.splat(one, spec.scalar, panel.width)
            for column in columns:
                self._fma(vec, wide, column, now[cell], out[cell], panel.width)
                cell += 1

    def _fma(self, vec: str, x: str, y: str, z: str, out: str, width: int) -> None:
        b = self.b
        if not self.spec.fma:
            product = b.op(f"fmul {vec} {x}, {y}")
            b.do(f"{out} = fadd {vec} {product}, {z}")
            return
        kind = f"f{8 * self.spec.itemsize}"
        name = "llvm.fma." + (f"v{width}{kind}" if width > 1 else kind)
        b.declare(f"declare {vec} @{name}({vec}, {vec}, {vec})")
        b.do(f"{out} = call {vec} @{name}({vec} {x}, {vec} {y}, {vec} {z})")

    # epilogues

    def _unrolled_epilogue(self, panel: _Panel, acc: list[list[str]], row: str) -> None:
        for i, vectors in enumerate(acc):
            if i == 0:
                self._row_epilogue(panel, vectors, row)
                continue
            here = self.b.op(f"add i64 {row}, {i}")
            with self.b.when(self.b.op(f"icmp slt i64 {here}, {self.row_end}"), hint="row"):
                self._row_epilogue(panel, vectors, here)

    def _row_epilogue(self, panel: _Panel, vectors: list[str], row: str) -> None:
        for v, value in enumerate(vectors):
            col = self.b.op(f"add i64 {panel.col}, {v * panel.width}") if v else panel.col
            self.epilogue(self.b, value, panel.width, self.batch, row, col, panel.masks[v])

    def _loop_epilogue(self, panel: _Panel, row: str, sums: str) -> None:
        """The epilogue's text once, in a loop over the saved tile."""
        b, spec = self.b, self.spec
        count = self._min(str(spec.rows), b.op(f"sub i64 {self.row_end}, {row}"))
        left = b.op(f"sub i64 {self.arg['n']}, {panel.col}")
        width = self._min(str(panel.columns), left)
        with b.loop("0", count, hint="erow") as i:
            line = self._at(sums, i, str(panel.columns * spec.itemsize))
            here = b.op(f"add i64 {row}, {i}")
            with b.loop("0", width, panel.width, hint="ecol") as j:
                at = b.op(f"getelementptr {spec.scalar}, ptr {line}, i64 {j}")
                acc = b.op(f"load {vector_type(panel.width, spec.scalar)}, ptr {at}, align {spec.itemsize}")
                mask = self._masks(b.op(f"sub i64 {left}, {j}"), 1)[0] if spec.masks else None
                self.epilogue(b, acc, panel.width, self.batch, here, b.op(f"add i64 {panel.col}, {j}"), mask)
