"""Printing a matrix multiplication kernel: the loop nest.

Owns: ``emit_gemm``.
Must not know: shapes (they are arguments), what the epilogue computes.
In: a ``GemmSpec`` and an ``Epilogue``. Out: the text of one LLVM module.

# Note [GEMM loop nest]
# ~~~~~~~~~~~~~~~~~~~~~
# for unit:                       batch, a block of columns, a block of rows
#   for panel of columns:         as wide as the register tile
#     for pass over K:            only kernels that copy B (rows far apart or not contiguous); mostly one pass
#       copy B's panel            as much of it as the buffer holds
#       for tile of rows:         rows past the end are read again from the last row, and not stored
#         for k: A's elements, one by one, times B's vectors, into rows x vectors accumulators
#         last pass: the epilogue; earlier ones: partial sums to memory
# Where A is copied too, the passes are outside the panels: each begins with a copy of the unit's rows of A.
# Columns past the end are masked out if the target has masks; else narrower tiles do them, at last one by one.
# Example: [64, 784] x [784, 10] with 16 lanes is one panel of 10 columns under a mask; each tile of 8 rows keeps its
# 8 sums in registers over all 784 steps of k, and the epilogue adds the bias before they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from jitgrad.codegen.gemm.pack import emit_pack, emit_pack_rows
from jitgrad.codegen.gemm.spec import Epilogue, GemmSpec, Panel, load_arg, load_vector, vector_masks
from jitgrad.codegen.gemm.tile import DepthPass, Nest, PanelCopy, emit_tiles, looped
from jitgrad.codegen.llvm.scratch import Scratch
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["PACK_NBYTES", "PACK_ROWS_NBYTES", "SUMS_NBYTES", "WIDE_SUMS_NBYTES", "emit_gemm", "open_scratch", "passes"]

_ROWS_AHEAD = 6  # that the first tile of a panel asks for lines
PACK_NBYTES = 40_000  # the copy of a panel of B, on the stack: it leaves room in the first cache for A's lines
SUMS_NBYTES = 128 << 10  # the partial sums of a unit's rows, Note [Scratch memory]
WIDE_SUMS_NBYTES = 768 << 10  # the same, for all panels of a unit
PACK_ROWS_NBYTES = 384 << 10  # the copy of a unit's rows of A

PanelBody = Callable[[Panel, str], None]
"""Writes what is done with a panel; the register is B's element [0, panel.col]."""

_ARGS = (
    "a_slot", "a_off", "a_sb", "a_sm", "a_sk", "b_slot", "b_off", "b_sb", "b_sk", "b_sn", "m", "n", "k",
    "unit_m", "unit_n", "units_m", "units_n", "depth", "sums_stride", "tables",
)  # fmt: skip


def emit_gemm(spec: GemmSpec, name: str, epilogue: Epilogue) -> str:
    """The module of one kernel, see Note [GEMM loop nest], Note [GEMM arguments] and Note [Program ABI]."""
    b = FnBuilder(name)
    arg = {name: load_arg(b, i) for i, name in enumerate(_ARGS)}
    copy = b.op(f"alloca [{PACK_NBYTES} x i8], align 64") if spec.copy else ""
    scratch = open_scratch(b, spec, epilogue, arg)
    sums = scratch.at if scratch is not None else ""
    row_copy = b.op(f"getelementptr i8, ptr {sums}, i64 {WIDE_SUMS_NBYTES}") if spec.copy_rows else ""
    a, b_matrix = _operand(b, arg, "a"), _operand(b, arg, "b")
    epilogue.prepare(b)
    with b.loop("%begin", "%end", hint="unit") as unit:
        nest, start, end = _enter_unit(b, spec, epilogue, arg, unit, a, sums)
        here = nest.at(b_matrix, nest.batch, arg["b_sb"])
        if spec.copy_rows:
            _emit_shared_passes(nest, here, copy, row_copy, start, end)
        elif spec.copy:
            _emit_columns(nest, here, start, end, lambda panel, at: _emit_passes(nest, panel, at, copy))
        else:
            once = (arg["k"], nest.a)
            _emit_columns(
                nest, here, start, end, lambda panel, at: emit_tiles(nest, panel, DepthPass(*once, at, arg["b_sk"]))
            )
    if scratch is not None:
        scratch.close()
    return b.finish()


def open_scratch(b: FnBuilder, spec: GemmSpec, epilogue: Epilogue, arg: dict[str, str]) -> Scratch | None:
    """Room for unfinished tiles: for one, or, with several passes, for all of a unit; and for copied rows of A."""
    tile = spec.rows * spec.columns * spec.itemsize
    if spec.copy_rows:
        return Scratch(b, 0, WIDE_SUMS_NBYTES + PACK_ROWS_NBYTES, "true")
    if not (spec.copy or looped(epilogue)):
        return None
    return Scratch(b, tile, SUMS_NBYTES, b.op(f"icmp ne i64 {arg['sums_stride']}, 0"))


def _operand(b: FnBuilder, arg: dict[str, str], name: str) -> str:
    """The address of an operand's first element."""
    at = b.op(f"getelementptr i64, ptr %bufs, i64 {arg[name + '_slot']}")
    return b.op(f"getelementptr i8, ptr {b.op(f'load ptr, ptr {at}')}, i64 {arg[name + '_off']}")


def _enter_unit(
    b: FnBuilder, spec: GemmSpec, epilogue: Epilogue, arg: dict[str, str], unit: str, a: str, sums: str
) -> tuple[Nest, str, str]:
    """The unit's batch and rows, and its range of columns."""
    column_block = b.op(f"udiv i64 {unit}, {arg['units_m']}")
    row_block = b.op(f"urem i64 {unit}, {arg['units_m']}")
    batch = b.op(f"udiv i64 {column_block}, {arg['units_n']}")
    column_block = b.op(f"urem i64 {column_block}, {arg['units_n']}")
    nest = Nest(b, spec, epilogue, arg, a, sums, batch, "", "")
    nest.row_start, nest.row_end = _span(nest, row_block, arg["unit_m"], arg["m"])
    start, end = _span(nest, column_block, arg["unit_n"], arg["n"])
    nest.a = nest.at(a, batch, arg["a_sb"])
    return nest, start, end


def _span(nest: Nest, index: str, step: str, limit: str) -> tuple[str, str]:
    """[index * step, min(that + step, limit))."""
    start = nest.b.op(f"mul i64 {index}, {step}")
    return start, nest.min(nest.b.op(f"add i64 {start}, {step}"), limit)


def _emit_columns(nest: Nest, b_matrix: str, start: str, end: str, body: PanelBody) -> None:
    """All columns in [start, end): one kind of panel with masks, else ever narrower ones."""
    b, spec = nest.b, nest.spec
    if spec.masks:
        _emit_panels(nest, b_matrix, start, end, (spec.vectors, spec.width), body)
        return
    for kind in dict.fromkeys(((spec.vectors, spec.width), (1, spec.width), (1, 1))):
        rest = b.op(f"urem i64 {b.op(f'sub i64 {end}, {start}')}, {kind[0] * kind[1]}")
        middle = b.op(f"sub i64 {end}, {rest}")
        _emit_panels(nest, b_matrix, start, middle, kind, body)
        start = middle


def _emit_panels(
    nest: Nest, b_matrix: str, start: str, end: str, kind: tuple[int, int], body: PanelBody
) -> None:  # fmt: skip
    """All panels of ``kind`` (vectors, width) in [start, end)."""
    b, arg, spec, (vectors, width) = nest.b, nest.arg, nest.spec, kind
    with b.loop(start, end, vectors * width, hint="panel") as col:
        left = nest.min(b.op(f"sub i64 {arg['n']}, {col}"), str(vectors * width))
        in_place = spec.masks and not spec.copy and spec.b_unit == "n"
        whole = b.op(f"icmp eq i64 {left}, {vectors * width}") if in_place else ""
        body(
            Panel(vectors, width, col, left, vector_masks(b, spec, left, vectors), whole=whole),
            nest.at(b_matrix, col, arg["b_sn"]),
        )


def _emit_passes(nest: Nest, panel: Panel, here: str, copy: str) -> None:
    """The passes over K for one panel, each on a fresh copy of B."""
    with passes(nest) as (k, depth, first, last):
        copying = _copy_panel(nest, panel, here, copy, k, depth)
        a = nest.at(nest.a, k, nest.arg["a_sk"])
        row_nbytes = _row_nbytes(panel, nest.spec)
        emit_tiles(nest, panel, DepthPass(depth, a, copy, row_nbytes, first, last, copying=copying))


class _RowsAhead:
    """What tiles ask for of B's rows of the next pass, Note [Lines ahead]. ``b_next``: their first element."""

    def __init__(self, nest: Nest, b_next: str, start: str, end: str) -> None:
        b, spec = nest.b, nest.spec
        self.nest, self.start = nest, start
        self.base = nest.at(b_next, start, spec.itemsize)
        self.tiles = _count(b, nest.row_start, nest.row_end, spec.rows)
        runs = b.op(f"mul i64 {self.tiles}, {_count(b, start, end, spec.columns)}")
        stride, columns = nest.arg["b_sk"], b.op(f"sub i64 {end}, {start}")
        is_dense = b.op(f"icmp ule i64 {stride}, {b.op(f'mul i64 {columns}, {2 * spec.itemsize}')}")
        self.step = b.op(f"select i1 {is_dense}, i64 {b.op(f'udiv i64 {stride}, {runs}')}, i64 0")

    def of(self, panel: Panel, at: DepthPass) -> DepthPass:
        """The pass, with what the panel's first tile asks for."""
        b = self.nest.b
        before = b.op(f"udiv i64 {b.op(f'sub i64 {panel.col}, {self.start}')}, {self.nest.spec.columns}")
        before = b.op(f"mul i64 {b.op(f'mul i64 {before}, {self.tiles}')}, {at.depth}")
        return replace(at, ahead=self.nest.at(self.base, before, self.step), ahead_step=self.step)


def _count(b: FnBuilder, start: str, end: str, step: int) -> str:
    """How many steps there are from ``start`` to ``end``."""
    span = b.op(f"sub i64 {end}, {start}")
    return b.op(f"udiv i64 {b.op(f'add i64 {span}, {step - 1}')}, {step}")


def _emit_shared_passes(nest: Nest, b_matrix: str, copy: str, row_copy: str, start: str, end: str) -> None:
    """The passes over K for all panels, each on a fresh copy of the unit's rows of A.

    Between passes, the sums of the panels lie one after the other.
    """
    b, spec, arg, sums = nest.b, nest.spec, nest.arg, nest.sums
    several = b.op(f"icmp ne i64 {arg['sums_stride']}, 0")
    with passes(nest) as (k, depth, first, last):
        emit_pack_rows(b, spec, nest.at(nest.a, k, arg["a_sk"]), row_copy, (nest.row_start, nest.row_end), depth, arg)
        following = b.op(f"select i1 {last}, i64 0, i64 {b.op(f'add i64 {k}, {depth}')}")
        ahead = _RowsAhead(nest, nest.at(b_matrix, following, arg["b_sk"]), start, end) if spec.b_unit == "n" else None

        def one(panel: Panel, here: str) -> None:
            copying = _copy_panel(nest, panel, here, copy, k, depth)
            row_nbytes = _row_nbytes(panel, spec)
            before = b.op(f"mul i64 {b.op(f'sub i64 {panel.col}, {start}')}, {arg['unit_m']}")
            before = b.op(f"select i1 {several}, i64 {b.op(f'mul i64 {before}, {spec.itemsize}')}, i64 0")
            nest.sums = nest.offset(sums, before)
            arg["sums_stride"] = b.op(f"select i1 {several}, i64 {row_nbytes}, i64 0")
            at = DepthPass(depth, row_copy, copy, row_nbytes, first, last, copying=copying)
            emit_tiles(nest, panel, ahead.of(panel, at) if ahead else at)

        _emit_columns(nest, b_matrix, start, end, one)


def _copy_panel(nest: Nest, panel: Panel, here: str, copy: str, k: str, depth: str) -> PanelCopy | None:
    """Copy a panel of B, or say how its first tile does, Note [Copies while multiplying].

    Where that can't be, the panel is copied before, and its first tile, if it does anything, copies the copy.
    """
    b, spec = nest.b, nest.spec
    source, stride = nest.at(here, k, nest.arg["b_sk"]), nest.arg["b_sk"]
    if spec.b_unit != "n":
        emit_pack(b, spec, panel, source, copy, depth, nest.arg)
        return None
    lacks = b.op(f"icmp slt i64 {panel.left}, {panel.columns}") if spec.masks else ""
    if spec.walks and spec.rows > 1:
        short = b.op(f"icmp slt i64 {b.op(f'sub i64 {nest.row_end}, {nest.row_start}')}, {spec.rows}")
        lacks = b.op(f"or i1 {lacks}, {short}") if lacks else short
    if lacks:
        with b.when(lacks, hint="pack"):
            emit_pack(b, spec, panel, source, copy, depth, nest.arg)
        source = b.op(f"select i1 {lacks}, ptr {copy}, ptr {source}")
        stride = b.op(f"select i1 {lacks}, i64 {_row_nbytes(panel, spec)}, i64 {stride}")
    ahead = b.op(f"mul i64 {stride}, {_ROWS_AHEAD}")

    def load(row: str) -> list[str]:
        later, found = nest.offset(row, ahead), []
        for v in range(panel.vectors):
            nbytes = v * panel.width * spec.itemsize
            nest.ask_for(nest.offset(later, nbytes), 3)
            found.append(load_vector(b, spec.scalar, panel.width, nest.offset(row, nbytes), None))
        return found

    return PanelCopy(source, stride, load)


def _row_nbytes(panel: Panel, spec: GemmSpec) -> str:
    return str(panel.columns * spec.itemsize)


@contextmanager
def passes(nest: Nest) -> Iterator[tuple[str, str, str, str]]:
    """The loop over passes. Yields registers: its first k, its depth, whether it is the first, and the last."""
    b, arg = nest.b, nest.arg
    with b.loop("0", arg["k"], arg["depth"], hint="pass") as k:
        depth = nest.min(arg["depth"], b.op(f"sub i64 {arg['k']}, {k}"))
        first = b.op(f"icmp eq i64 {k}, 0")
        after = b.op(f"add i64 {k}, {arg['depth']}")
        yield k, depth, first, b.op(f"icmp sge i64 {after}, {arg['k']}")
