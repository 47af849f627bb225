"""From a shape to a spec, and to a launch's argument words.

Owns: ``choose_spec`` (register tile), ``gemm_launch`` (units, passes over K, whether to copy B's panels).
Must not know: LLVM, the epilogue's text.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import replace

from jitgrad.codegen.gemm.core_model import Matrix, Tile, core_of, product_cycles, tiles_for
from jitgrad.codegen.gemm.emit import PACK_NBYTES, PACK_ROWS_NBYTES, SUMS_NBYTES, WIDE_SUMS_NBYTES
from jitgrad.codegen.gemm.spec import GemmSpec, Operand
from jitgrad.codegen.llvm.target import Target
from jitgrad.dtypes import DType, float64

__all__ = ["choose_spec", "gemm_launch", "panel_columns", "panels_spec"]

_DOT_ROWS = 4  # with fewer, copying B to transpose it does not pay
_ROWS_PANELS = 2  # so many share a copy of A's rows, or it does not pay
_ROWS_DEPTH = 12  # fewer lines stay in the cache
_ROWS_NBYTES = 1 << 20  # what of A stays in the second cache
_ROWS = 240  # rows of A that are copied at a time
_WALK_DEPTH = 256  # lines of a transposed A that stay in the cache
_NEARLY = 1.2  # a kernel that costs no more than this is not worth compiling a better one
_PACK_ROWS = 512  # rows that share one copy of B's panel
_PACK_ROWS_LEAST = 128  # the same, where all cores should have a part
_UNITS = 4  # so many at least, if there is work for them
_UNIT_FLOP = 2e6  # at most (about), unless a copy has to pay off
_UNIT_FLOP_LEAST = 2e5  # so that dividing the work costs nothing
_NS_PER_MULTIPLY = 0.25  # one vector multiply-add
_TASK_NS = 2500  # a task is worth handing over


def _walks(a_strides: tuple[int, int, int], itemsize: int) -> bool:
    """Whether the elements of a row of A lie far apart: it is a transposed view."""
    return abs(a_strides[2]) * itemsize >= 1024


def _ceil(x: int, step: int) -> int:
    return -(-x // step) * step


def choose_spec(
    dtype: DType,
    m: int,
    n: int,
    k: int,
    batch: int,
    a_strides: tuple[int, int, int],
    b_strides: tuple[int, int, int],
    epilogue_key: Hashable,
    target: Target,
) -> GemmSpec:
    """The kernel for this product. Few distinct ones exist; each is correct for every shape.

    Args:
        dtype: float32 or float64.
        m, n, k, batch: extents.
        a_strides, b_strides: (batch, row, column), in elements.
        epilogue_key: names the epilogue's text.
        target: the CPU.
    """
    width = _vector_width(dtype, target)
    b_unit = "n" if b_strides[2] == 1 or n <= 1 else "k" if b_strides[1] == 1 else "none"
    if b_unit == "k" and m <= _DOT_ROWS and a_strides[2] == 1 and target.has_masks:
        return GemmSpec(dtype.name, "k", "k", epilogue_key, 1, 1, False, width, target.has_fma, True)
    matrix = Matrix(b_unit, abs(b_strides[1]) * dtype.itemsize)
    rows, vectors, copy = _tile_and_copy((m, n, k), matrix, width, target)
    a_unit = "m" if copy and _rows_copy_pays((m, n, k), a_strides, dtype.itemsize, vectors * width) else "any"
    spec = GemmSpec(
        dtype.name, a_unit, b_unit, epilogue_key, rows, vectors, copy, width, target.has_fma, target.has_masks
    )
    return _known(spec, (m, n, k), matrix, target)


def _vector_width(dtype: DType, target: Target) -> int:
    return max(1, target.width // 2) if dtype is float64 else target.width


def panel_columns(dtype: DType, m: int, n: int, k: int, target: Target) -> int:
    """Columns of the panels that a right operand of several products should lie in; 0: there are none that fit."""
    width = _vector_width(dtype, target)
    fitting = [tile for tile in tiles_for(target) if tile[1] > 1 and n % (tile[1] * width) == 0]
    return _panel_tile(fitting, (m, n, k), width, target)[1] * width if fitting else 0


def panels_spec(dtype: DType, m: int, n: int, k: int, columns: int, epilogue_key: Hashable, target: Target) -> GemmSpec:
    """The kernel for a product whose right operand lies in panels; arguments as of ``choose_spec``."""
    width = _vector_width(dtype, target)
    fitting = [tile for tile in tiles_for(target) if tile[1] * width == columns]
    rows, vectors = _panel_tile(fitting, (m, n, k), width, target)
    return GemmSpec(
        dtype.name, "any", "panels", epilogue_key, rows, vectors, False, width, target.has_fma, target.has_masks
    )


def _panel_tile(tiles: Sequence[Tile], shape: tuple[int, int, int], width: int, target: Target) -> Tile:
    """The best of the tiles, as for copies of panels: these are read as those are, and making them costs as much."""
    core, copied = core_of(target), Matrix("n", 0)
    return min(tiles, key=lambda tile: product_cycles(core, tile, True, shape, copied, width))


@functools.lru_cache(maxsize=4096)
def _tile_and_copy(shape: tuple[int, int, int], b: Matrix, width: int, target: Target) -> tuple[int, int, bool]:
    """The register tile, and whether to copy B's panels. Every choice is correct for every shape."""
    core = core_of(target)
    choices = [(*tile, copy) for tile in tiles_for(target) for copy in ((False, True) if b.unit == "n" else (True,))]
    return min(choices, key=lambda c: product_cycles(core, c[:2], c[2], shape, b, width))


_known_kernels: dict[GemmSpec, list[GemmSpec]] = {}  # those that were chosen, under the same spec with no tile
_MAX_KNOWN = 4096


def _known(spec: GemmSpec, shape: tuple[int, int, int], b: Matrix, target: Target) -> GemmSpec:
    """``spec`` itself, or one that exists already and is nearly as fast: another batch size should compile nothing."""
    if len(_known_kernels) > _MAX_KNOWN:
        _known_kernels.clear()
    known = _known_kernels.setdefault(replace(spec, rows=0, vectors=0, copy=False), [])
    if spec in known:
        return spec

    def cycles(x: GemmSpec) -> float:
        return product_cycles(core_of(target), (x.rows, x.vectors), x.copy, shape, b, x.width)

    nearest = min(known, key=cycles, default=None)
    if nearest is not None and cycles(nearest) <= _NEARLY * cycles(spec):
        return nearest
    known.append(spec)
    return spec


def gemm_launch(
    spec: GemmSpec, m: int, n: int, k: int, batch: int, a: Operand, b: Operand, epilogue_args: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, float]:
    """Argument words, number of units, units per task, and estimated nanoseconds on one core."""
    depth = _depth(spec, k, a)
    unit_m, unit_n = _unit(spec, m, n, k, depth)
    units_m, units_n = max(1, -(-m // unit_m)), max(1, -(-n // unit_n))
    sums_stride = spec.columns * spec.itemsize if depth < k else 0
    words = (
        *_operand_words(a, spec.itemsize), *_operand_words(b, spec.itemsize), m, n, k,
        unit_m, unit_n, units_m, units_n, depth, sums_stride, 0, *epilogue_args,
    )  # fmt: skip
    units = units_m * units_n * batch if m and n else 0
    tiles = batch * -(-m // spec.rows) * -(-n // spec.columns)
    cost = 50 + tiles * (10 + spec.rows * spec.vectors * (1 + k) * _NS_PER_MULTIPLY)
    grain = max(1, min(units, int(_TASK_NS * units / cost)))
    return words, units, grain, cost


def _rows_copy_pays(shape: tuple[int, int, int], a_strides: tuple[int, int, int], itemsize: int, columns: int) -> bool:
    """A is a transposed view, each k of it in another page or too long for the caches, and several panels share it."""
    m, n, k = shape
    if a_strides[1] != 1 or n <= _ROWS_PANELS * columns or k < _ROWS_DEPTH:
        return False
    return _walks(a_strides, itemsize) or m * k * itemsize > _ROWS_NBYTES


def _operand_words(x: Operand, itemsize: int) -> tuple[int, ...]:
    return (x.slot, x.byte_offset, *(stride * itemsize for stride in x.strides))


def _depth(spec: GemmSpec, k: int, a: Operand) -> int:
    """Length of one pass over K: all of it, or equal parts that the copy of a panel has room for."""
    most = PACK_NBYTES // (spec.columns * spec.itemsize)
    if _walks(a.strides, spec.itemsize):
        most = min(most, _WALK_DEPTH)
    if spec.copies_rows:
        most = min(most, PACK_ROWS_NBYTES // (_ceil(_ROWS, spec.rows) * spec.itemsize))
    if not spec.copy or k <= most:
        return max(1, k)
    return -(-k // -(-k // most))


def _unit(spec: GemmSpec, m: int, n: int, k: int, depth: int) -> tuple[int, int]:
    """Rows and columns of one unit."""
    if spec.copies_rows:
        return _wide_unit(spec, m, n, depth < k)
    flop_per_row = 2.0 * max(k, 8) * spec.columns
    rows = max(_UNIT_FLOP / flop_per_row, spec.rows)
    if spec.copy:
        rows = max(rows, _pack_rows(m, -(-n // spec.columns), flop_per_row))
    if depth < k:
        rows = min(rows, SUMS_NBYTES // (spec.columns * spec.itemsize))
    blocks = max(1, -(-m // int(rows)))
    rows = _ceil(-(-m // blocks), spec.rows)
    if depth < k and rows * spec.columns * spec.itemsize > SUMS_NBYTES:
        rows -= spec.rows
    panels = 1
    while panels * rows * flop_per_row < _UNIT_FLOP_LEAST / 2 and panels * spec.columns < n:
        panels *= 2
    return max(rows, spec.rows), panels * spec.columns


def _wide_unit(spec: GemmSpec, m: int, n: int, several: bool) -> tuple[int, int]:
    """Rows and columns of one unit that copies A's rows: many columns share the copy."""
    blocks = max(1, -(-m // _ROWS))
    rows = _ceil(-(-m // blocks), spec.rows)
    columns = _ceil(-(-n // max(1, _UNITS // blocks)), spec.columns)
    if several:
        columns = min(columns, WIDE_SUMS_NBYTES // (rows * spec.itemsize * spec.columns) * spec.columns)
    return rows, columns


def _pack_rows(m: int, panels: int, flop_per_row: float) -> int:
    """Rows that share one copy of a panel: fewer where else there would be less than a unit for every core."""
    wanted = min(_UNITS, int(m * panels * flop_per_row / _UNIT_FLOP_LEAST))
    blocks = -(-wanted // panels)
    return min(_PACK_ROWS, max(_PACK_ROWS_LEAST, -(-m // max(1, blocks))))
