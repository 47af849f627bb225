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
#         last pass: the epilogue; earlier ones: partial sums to the stack
# Columns past the end are masked out if the target has masks; else narrower tiles do them, at last one by one.
# Example: [64, 784] x [784, 10] with 16 lanes is one panel of 10 columns under a mask; each tile of 8 rows keeps its
# 8 sums in registers over all 784 steps of k, and the epilogue adds the bias before they are stored.
"""

from __future__ import annotations

from jitgrad.codegen.gemm.pack import emit_pack
from jitgrad.codegen.gemm.spec import Epilogue, GemmSpec, load_arg, vector_masks
from jitgrad.codegen.gemm.tile import DepthPass, Nest, Panel, emit_tiles, looped
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["PACK_NBYTES", "SUMS_NBYTES", "emit_gemm"]

PACK_NBYTES = 128 << 10  # the copy of a panel of B, on the stack
SUMS_NBYTES = 64 << 10  # the partial sums of a unit's rows, on the stack

_ARGS = (
    "a_slot", "a_off", "a_sb", "a_sm", "a_sk", "b_slot", "b_off", "b_sb", "b_sk", "b_sn", "m", "n", "k",
    "unit_m", "unit_n", "units_m", "units_n", "depth", "sums_stride",
)  # fmt: skip


def emit_gemm(spec: GemmSpec, name: str, epilogue: Epilogue) -> str:
    """The module of one kernel, see Note [GEMM loop nest], Note [GEMM arguments] and Note [Program ABI]."""
    b = FnBuilder(name)
    arg = {name: load_arg(b, i) for i, name in enumerate(_ARGS)}
    copy = b.op(f"alloca [{PACK_NBYTES} x i8], align 64") if spec.copy else ""
    sums = b.op(f"alloca [{SUMS_NBYTES} x i8], align 64") if spec.copy or looped(epilogue) else ""
    a, b_matrix = _operand(b, arg, "a"), _operand(b, arg, "b")
    epilogue.prepare(b)
    with b.loop("%begin", "%end", hint="unit") as unit:
        nest, start, end = _enter_unit(b, spec, epilogue, arg, unit, a, sums)
        here = nest.at(b_matrix, nest.batch, arg["b_sb"])
        _emit_columns(nest, here, copy, start, end)
    return b.finish()


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


def _emit_columns(nest: Nest, here: str, copy: str, start: str, end: str) -> None:
    """All columns in [start, end): one kind of panel with masks, else ever narrower ones."""
    b, spec = nest.b, nest.spec
    if spec.masks:
        _emit_panels(nest, here, copy, start, end, spec.vectors, spec.width)
        return
    for vectors, width in dict.fromkeys(((spec.vectors, spec.width), (1, spec.width), (1, 1))):
        rest = b.op(f"urem i64 {b.op(f'sub i64 {end}, {start}')}, {vectors * width}")
        middle = b.op(f"sub i64 {end}, {rest}")
        _emit_panels(nest, here, copy, start, middle, vectors, width)
        start = middle


def _emit_panels(nest: Nest, b_matrix: str, copy: str, start: str, end: str, vectors: int, width: int) -> None:
    """All panels of ``vectors`` x ``width`` columns in [start, end)."""
    b, arg = nest.b, nest.arg
    with b.loop(start, end, vectors * width, hint="panel") as col:
        left = nest.min(b.op(f"sub i64 {arg['n']}, {col}"), str(vectors * width))
        panel = Panel(vectors, width, col, left, vector_masks(b, nest.spec, left, vectors))
        here = nest.at(b_matrix, col, arg["b_sn"])
        if nest.spec.copy:
            _emit_passes(nest, panel, here, copy)
        else:
            emit_tiles(nest, panel, DepthPass(arg["k"], nest.a, here, arg["b_sk"]))


def _emit_passes(nest: Nest, panel: Panel, here: str, copy: str) -> None:
    """The passes over K, each on a fresh copy of B's panel."""
    b, spec, arg = nest.b, nest.spec, nest.arg
    end = b.call("i64", "llvm.smax.i64", f"i64 {arg['k']}", "i64 1")  # K = 0 still stores zeros
    with b.loop("0", end, arg["depth"], hint="pass") as k:
        depth = nest.min(arg["depth"], b.op(f"sub i64 {arg['k']}, {k}"))
        first = b.op(f"icmp eq i64 {k}, 0")
        after = b.op(f"add i64 {k}, {arg['depth']}")
        last = b.op(f"icmp sge i64 {after}, {end}")
        source = nest.at(here, k, arg["b_sk"])
        emit_pack(b, spec, panel, source, copy, depth, arg)
        stride = str(panel.columns * spec.itemsize)
        emit_tiles(nest, panel, DepthPass(depth, nest.at(nest.a, k, arg["a_sk"]), copy, stride, first, last))
