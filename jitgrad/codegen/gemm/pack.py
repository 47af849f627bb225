"""Copying a panel of B so that its rows lie side by side, and rows of A so that a tile's elements do.

Owns: ``emit_pack``: copy[k, j] = B[k, j], rows of exactly the panel's width. ``emit_pack_rows``: copy[tile, k, i] =
A[tile * rows + i, k].
Must not know: the loops around them, C.
In: registers of the panel, or of the rows. Out: a loop nest in the caller's function.
"""

from __future__ import annotations

from collections.abc import Mapping

from jitgrad.codegen.gemm.spec import GemmSpec, Panel, load_vector
from jitgrad.codegen.llvm.shuffle import concat, transpose_lanes
from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = ["emit_pack", "emit_pack_rows", "transpose_block"]


def emit_pack(
    b: FnBuilder, spec: GemmSpec, panel: Panel, source: str, copy: str, depth: str, arg: Mapping[str, str]
) -> None:
    """Copy ``depth`` rows of the panel from ``source`` (B's element [k, panel.col]) to ``copy``.

    Columns that do not exist are not read; the copy holds anything there.
    """
    if spec.b_unit == "n":
        _copy_rows(b, spec, panel, source, copy, depth, arg["b_sk"])
    elif spec.b_unit == "k" and panel.width > 1:
        rest = _transpose(b, spec, panel, source, copy, depth, arg["b_sn"])
        _copy_elements(b, spec, panel, source, copy, rest, depth, arg)
    else:
        _copy_elements(b, spec, panel, source, copy, "0", depth, arg)


def _offset(b: FnBuilder, base: str, nbytes: str | int) -> str:
    return b.op(f"getelementptr i8, ptr {base}, i64 {nbytes}")


def _at(b: FnBuilder, base: str, index: str, stride: str | int) -> str:
    return _offset(b, base, b.op(f"mul i64 {index}, {stride}"))


def _copy_rows(b: FnBuilder, spec: GemmSpec, panel: Panel, source: str, copy: str, depth: str, stride: str) -> None:
    """B's rows are contiguous: vector by vector."""
    vec, nbytes = vector_type(panel.width, spec.scalar), panel.width * spec.itemsize
    with b.loop("0", depth, hint="krow") as k:
        line, out = _at(b, source, k, stride), _at(b, copy, k, panel.vectors * nbytes)
        for v, mask in enumerate(panel.masks):
            value = load_vector(b, spec.scalar, panel.width, _offset(b, line, v * nbytes), mask)
            b.do(f"store {vec} {value}, ptr {_offset(b, out, v * nbytes)}, align {spec.itemsize}")


def _copy_elements(
    b: FnBuilder, spec: GemmSpec, panel: Panel, source: str, copy: str, start: str, depth: str, arg: Mapping[str, str]
) -> None:
    """Rows [start, depth), of any strides: element by element."""
    with b.loop(start, depth, hint="krow") as k:
        line, out = _at(b, source, k, arg["b_sk"]), _at(b, copy, k, panel.columns * spec.itemsize)
        with b.loop("0", panel.left, hint="kcol") as j:
            value = b.op(f"load {spec.scalar}, ptr {_at(b, line, j, arg['b_sn'])}, align {spec.itemsize}")
            at = b.op(f"getelementptr {spec.scalar}, ptr {out}, i64 {j}")
            b.do(f"store {spec.scalar} {value}, ptr {at}, align {spec.itemsize}")


def _transpose(b: FnBuilder, spec: GemmSpec, panel: Panel, source: str, copy: str, depth: str, stride: str) -> str:
    """B's columns are contiguous: 128 bits of each of ``width`` columns at a time, transposed in registers.

    Returns the first row that is not done.
    """
    lane = 16 // spec.itemsize
    row_nbytes = panel.columns * spec.itemsize
    whole = b.op(f"sub i64 {depth}, {b.op(f'srem i64 {depth}, {lane}')}")
    top = b.op(f"sub i64 {panel.left}, 1")
    with b.loop("0", panel.left, panel.width, hint="tcol") as j:
        columns = []  # columns that do not exist: the last one again
        for i in range(panel.width):
            index = b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'add i64 {j}, {i}')}", f"i64 {top}")
            columns.append(_at(b, source, index, stride))
        out = b.op(f"getelementptr {spec.scalar}, ptr {copy}, i64 {j}")
        with b.loop("0", whole, lane, hint="tk") as k:
            transpose_block(b, spec, columns, k, _at(b, out, k, row_nbytes), row_nbytes)
    return whole


def transpose_block(b: FnBuilder, spec: GemmSpec, columns: list[str], k: str, to: str, row_nbytes: int) -> None:
    """One 128-bit lane of k of every column: as many rows of the copy as a lane has elements."""
    lane, width = 16 // spec.itemsize, len(columns)
    pieces = [_load_lane(b, spec, column, k, lane) for column in columns]
    rows = [concat(b, spec.scalar, pieces[r::lane], lane) for r in range(lane)]
    for r, row in enumerate(transpose_lanes(b, spec.scalar, rows, width)):
        at = _offset(b, to, r * row_nbytes)
        b.do(f"store {vector_type(width, spec.scalar)} {row}, ptr {at}, align {spec.itemsize}")


def _load_lane(b: FnBuilder, spec: GemmSpec, column: str, k: str, lane: int) -> str:
    at = b.op(f"getelementptr {spec.scalar}, ptr {column}, i64 {k}")
    return b.op(f"load <{lane} x {spec.scalar}>, ptr {at}, align {spec.itemsize}")


def emit_pack_rows(
    b: FnBuilder, spec: GemmSpec, source: str, copy: str, span: tuple[str, str], depth: str, arg: Mapping[str, str]
) -> None:
    """Copy ``depth`` elements of each row in ``span`` from ``source`` (A's element [0, k]), a tile after the other.

    A's elements of one k are contiguous. The last tile repeats the last row.
    """
    rows, (start, end) = spec.rows, span
    vec = vector_type(rows, spec.scalar)
    tile_nbytes = b.op(f"mul i64 {depth}, {spec.itemsize}")  # per row of it
    count = b.op(f"sub i64 {end}, {start}")
    whole = b.op(f"sub i64 {end}, {b.op(f'urem i64 {count}, {rows}')}")
    with b.loop("0", depth, hint="arow") as k:
        line, out = _at(b, source, k, arg["a_sk"]), _at(b, copy, k, rows * spec.itemsize)

        def to(row: str) -> str:
            return _at(b, out, b.op(f"sub i64 {row}, {start}"), tile_nbytes)

        with b.loop(start, whole, rows, hint="acol") as row:
            value = b.op(f"load {vec}, ptr {_at(b, line, row, spec.itemsize)}, align {spec.itemsize}")
            b.do(f"store {vec} {value}, ptr {to(row)}, align {spec.itemsize}")
        with b.when(b.op(f"icmp slt i64 {whole}, {end}"), hint="alast"):
            top, at = b.op(f"sub i64 {end}, 1"), to(whole)
            for i in range(rows):
                index = b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'add i64 {whole}, {i}')}", f"i64 {top}")
                value = b.op(f"load {spec.scalar}, ptr {_at(b, line, index, spec.itemsize)}, align {spec.itemsize}")
                b.do(f"store {spec.scalar} {value}, ptr {_offset(b, at, i * spec.itemsize)}, align {spec.itemsize}")
