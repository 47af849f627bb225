"""From a shape to a spec, and to a launch's argument words.

Owns: ``choose_spec`` (register tile), ``gemm_launch`` (units, passes over K, whether to copy B's panels).
Must not know: LLVM, the epilogue's text.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

from jitgrad.codegen.gemm.emit import PACK_NBYTES, SUMS_NBYTES
from jitgrad.codegen.gemm.spec import GemmSpec, Operand
from jitgrad.codegen.llvm.target import Target
from jitgrad.dtypes import DType, float64

__all__ = ["choose_spec", "gemm_launch"]

# Register tiles, (rows, vectors). One vector of B and rows read as broadcast operands of the multiply-add keep a core
# with 32 registers busy with 8 chains, so one small tile serves nearly everything; a large product gains from a tile
# that reads A and B less often. Few rows want more vectors, to have as many chains.
Tile = tuple[int, int]
_TILES_32: tuple[Tile, ...] = ((8, 1), (4, 2), (2, 4), (1, 8), (1, 1), (2, 1), (4, 1))
_TILES_16: tuple[Tile, ...] = ((6, 2), (4, 2), (2, 2), (1, 4), (8, 1), (4, 1), (2, 1), (1, 1))
_TILES_SCALAR: tuple[Tile, ...] = ((4, 1), (1, 1))
_LARGE_TILE_32: Tile = (8, 2)
_DOT_ROWS = 4  # with fewer, copying B to transpose it does not pay
_LARGE = 40e6  # multiply-adds
_LARGE_WALK = 16e6  # the same, with A transposed: each k is another line, perhaps another page
_WALK_DEPTH = 256  # lines of a transposed A that stay in the cache
_NEARLY = 1.15  # a tile that costs no more than this is not worth compiling a better one
_LATENCY = 5  # cycles of a multiply-add, about
_COPY_NBYTES = 256 << 10
_PACK_ROWS = 512  # rows that share one copy of B's panel
_UNIT_FLOP = 2e6  # at most (about), unless a copy has to pay off
_NS_PER_MULTIPLY = 0.3  # one vector multiply-add, about one cycle
_TASK_NS = 2500  # a task is worth handing over
_UNIT_FLOP_LEAST = 2e5  # so that dividing the work costs nothing


def _walks(a_strides: tuple[int, int, int], itemsize: int) -> bool:
    """Whether the elements of a row of A lie far apart: it is a transposed view."""
    return abs(a_strides[2]) * itemsize >= 1024


def _tile(m: int, n: int, k: int, walks: bool, b_unit: str, width: int, target: Target) -> Tile:
    """The register tile for a shape. Every tile is correct for every shape."""
    if target.width == 1:
        tiles = _TILES_SCALAR
    elif target.registers < 32:
        tiles = _TILES_16
    else:
        tiles = _TILES_32
        if m >= 64 and n >= 12 * width:
            large = _LARGE_WALK if walks else _LARGE if b_unit == "n" else math.inf
            if m * n * k >= large:
                return _LARGE_TILE_32
    return min(tiles, key=lambda tile: _tile_cost(min(m, 48), min(n, 48 * width), tile, width))


def _ceil(x: int, step: int) -> int:
    return -(-x // step) * step


def _tile_cost(m: int, n: int, tile: Tile, width: int) -> float:
    """Cycles per k with padding, to compare tiles: multiply-adds, or loads (B's vectors straddle two cache lines)."""
    rows, vectors = tile
    cycles = max(rows * vectors, 2 * vectors + 0.5 * rows, _LATENCY)
    return _ceil(m, rows) // rows * (_ceil(n, vectors * width) // (vectors * width)) * (cycles + 0.5)


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
    width = max(1, target.width // 2) if dtype is float64 else target.width
    b_unit = "n" if b_strides[2] == 1 or n <= 1 else "k" if b_strides[1] == 1 else "none"
    if b_unit == "k" and m <= _DOT_ROWS and a_strides[2] == 1 and target.has_masks:
        return GemmSpec(dtype.name, "k", "k", epilogue_key, 1, 1, False, width, target.has_fma, True)
    rows, vectors = _tile(m, n, k, _walks(a_strides, dtype.itemsize), b_unit, width, target)
    copy = b_unit != "n" or _copy_pays(m, k, abs(b_strides[1]) * dtype.itemsize)
    spec = GemmSpec(
        dtype.name, "any", b_unit, epilogue_key, rows, vectors, copy, width, target.has_fma, target.has_masks
    )
    return spec if (rows, vectors) == _LARGE_TILE_32 else _known(spec, m, n)


_known_tiles: dict[GemmSpec, list[Tile]] = {}  # of the specs that were chosen, under the same spec with no tile
_MAX_KNOWN = 4096


def _known(spec: GemmSpec, m: int, n: int) -> GemmSpec:
    """``spec`` itself, or one that exists already and is nearly as fast: another batch size should compile nothing.

    Results do not depend on the tile: each element of C is one chain of multiply-adds over k in order.
    """
    if len(_known_tiles) > _MAX_KNOWN:
        _known_tiles.clear()
    tiles = _known_tiles.setdefault(replace(spec, rows=0, vectors=0), [])
    limits = min(m, 48), min(n, 48 * spec.width)
    best = (spec.rows, spec.vectors)
    enough = _NEARLY * _tile_cost(*limits, best, spec.width)
    if best not in tiles:
        near = [tile for tile in tiles if _tile_cost(*limits, tile, spec.width) <= enough]
        if near:
            return replace(spec, rows=near[0][0], vectors=near[0][1])
        tiles.append(best)
    return spec


def _copy_pays(m: int, k: int, row_nbytes: int) -> bool:
    """B's rows are so far apart that caches and TLB suffer, and enough rows of A share the copy."""
    return m >= 64 and row_nbytes >= 1024 and k * row_nbytes > _COPY_NBYTES


def gemm_launch(
    spec: GemmSpec, m: int, n: int, k: int, batch: int, a: Operand, b: Operand, epilogue_args: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, float]:
    """Argument words, number of units, units per task, and estimated nanoseconds on one core."""
    depth = _depth(spec, k, a)
    unit_m, unit_n = _unit(spec, m, n, k)
    units_m, units_n = max(1, -(-m // unit_m)), max(1, -(-n // unit_n))
    sums_stride = spec.columns * spec.itemsize if depth < k else 0
    words = (
        *_operand_words(a, spec.itemsize), *_operand_words(b, spec.itemsize), m, n, k,
        unit_m, unit_n, units_m, units_n, depth, sums_stride, *epilogue_args,
    )  # fmt: skip
    units = units_m * units_n * batch if m and n else 0
    tiles = batch * -(-m // spec.rows) * -(-n // spec.columns)
    cost = 50 + tiles * (10 + spec.rows * spec.vectors * (1 + k) * _NS_PER_MULTIPLY)
    grain = max(1, min(units, int(_TASK_NS * units / cost)))
    return words, units, grain, cost


def _operand_words(x: Operand, itemsize: int) -> tuple[int, ...]:
    return (x.slot, x.byte_offset, *(stride * itemsize for stride in x.strides))


def _depth(spec: GemmSpec, k: int, a: Operand) -> int:
    """Length of one pass over K: all of it, or equal parts that the copy of a panel has room for."""
    most = PACK_NBYTES // (spec.columns * spec.itemsize)
    if _walks(a.strides, spec.itemsize):
        most = min(most, _WALK_DEPTH)
    if not spec.copy or k <= most:
        return max(1, k)
    return -(-k // -(-k // most))


def _unit(spec: GemmSpec, m: int, n: int, k: int) -> tuple[int, int]:
    """Rows and columns of one unit."""
    most = SUMS_NBYTES // (spec.columns * spec.itemsize)
    flop_per_row = 2.0 * max(k, 8) * spec.columns
    rows = max(_UNIT_FLOP / flop_per_row, _PACK_ROWS if spec.copy else 0, spec.rows)
    blocks = -(-m // int(min(rows, most)))
    rows = min(_ceil(-(-m // max(1, blocks)), spec.rows), most // spec.rows * spec.rows)
    panels = 1
    while panels * rows * flop_per_row < _UNIT_FLOP_LEAST / 2 and panels * spec.columns < n:
        panels *= 2
    return max(rows, spec.rows), panels * spec.columns
