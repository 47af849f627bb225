"""From a shape to a spec, and to a launch's argument words.

Owns: ``choose_spec`` (register tile, what is copied), ``ways_of`` (all ways that are right), ``gemm_launch`` (units,
passes over K).
Must not know: LLVM, the epilogue's text, how ways are timed.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from operator import getitem
from typing import NamedTuple

from jitgrad.codegen.gemm.core_model import Core, Matrix, Tile, core_of, product_cycles, tiles_for
from jitgrad.codegen.gemm.emit import PACK_NBYTES, PACK_ROWS_NBYTES, SUMS_NBYTES, WIDE_SUMS_NBYTES, emit_gemm
from jitgrad.codegen.gemm.spec import GemmSpec, Operand, StoreEpilogue
from jitgrad.codegen.gemm.trial import Trial, runs_of, span_of
from jitgrad.codegen.gemm.tuning import Question, Times, Way, grade, is_on, measured, quickest, way_of
from jitgrad.codegen.llvm.target import Target
from jitgrad.config import config
from jitgrad.dtypes import DType, float64
from jitgrad.symbols.number import lifted, similar

__all__ = ["StridedProduct", "choose_spec", "gemm_launch", "in_way", "panel_columns", "panels_spec", "ways_of"]

_DOT_ROWS = 4  # with fewer, copying B to transpose it does not pay
_ROWS_PANELS = 3  # so many share a copy of A's rows, or it does not pay
_ROWS_DEPTH = 12  # fewer lines stay in the cache
_ROWS_NBYTES = 1 << 20  # what of A stays in the second cache
_A_NBYTES = 2 << 20  # A beyond that is read once for all panels, some rows at a time
_ROWS = 240  # rows of A that are copied at a time
_WALK_DEPTH = 256  # lines of a transposed A that stay in the cache
_NEARLY = 1.2  # a kernel that costs no more than this is not worth compiling a better one,
_SHORT_CYCLES = 50_000  # for so short a product;
_NEARLY_LONG = 1.08  # for a longer one, or if it is known to
_UNUSUAL = 1.25  # what it costs to copy A's rows where it does not pay, or not to where it does
_BEST = 3  # ways that are measured, besides those of other kinds
_TRIAL_ROWS = 512  # of A, at most
_PACK_ROWS = 512  # rows that share one copy of B's panel
_PACK_ROWS_LEAST = 128  # the same, where all cores should have a part
_UNITS = 4  # so many at least, if there is work for them
_UNIT_FLOP = 2e6  # at most (about), unless a copy has to pay off
_UNIT_FLOP_LEAST = 2e5  # so that dividing the work costs nothing
_SHALLOW = 64  # products of no more terms mostly store: two cores that write in turns
_NARROW_NBYTES = 2048  # to rows of C no longer than that, of a C
_LARGE = 1 << 16  # of so many elements, take each other's lines
_NS_PER_MULTIPLY = 0.25  # one vector multiply-add
_TASK_NS = 2500  # a task is worth handing over


def _walks(stride: int, itemsize: int) -> bool:
    """Whether the elements of a row of A lie far apart: it is a transposed view."""
    return abs(stride) * itemsize >= 1024


def _ceil(x: int, step: int) -> int:
    return -(-x // step) * step


class StridedProduct(NamedTuple):
    """What decides how long a product takes. Strides: of rows and columns, in elements."""

    dtype: DType
    m: int
    n: int
    k: int
    a_strides: tuple[int, int]
    b_strides: tuple[int, int]


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
    spec = GemmSpec(
        dtype.name, _a_unit(m, a_strides[1]), b_unit, epilogue_key, 0, 0, False, width, target.has_fma, target.has_masks
    )  # fmt: skip
    m, n, k, batch = similar(m), similar(n), similar(k), similar(batch)  # all ways are right for all shapes
    product = StridedProduct(dtype, m, n, k, _similar_strides(a_strides), _similar_strides(b_strides))
    costs = ways_of(product, b_unit, width, target)
    ways = _promising(costs)
    times = _measured(product, [in_way(spec, way) for way in ways], batch, target)
    known = {way: ns for way, ns in times.items() if way in costs}
    if not known:
        nearly = _NEARLY if costs[ways[0]] < _SHORT_CYCLES else _NEARLY_LONG
        return in_way(spec, _settled(spec, ways[0], costs, nearly))
    return in_way(spec, _settled(spec, quickest(ways[0], known), known, _NEARLY_LONG))


def _similar_strides(strides: tuple[int, int, int]) -> tuple[int, int]:
    return similar(strides[1]), similar(strides[2])


def _a_unit(m: int, row_stride: int) -> str:
    return "m" if row_stride == 1 and m > 1 else "any"


def _vector_width(dtype: DType, target: Target) -> int:
    return max(1, target.width // 2) if dtype is float64 else target.width


def panel_columns(dtype: DType, m: int, n: int, k: int, target: Target) -> int:
    """Columns of the panels that a right operand of several products should lie in; 0: there are none that fit."""
    width, m, k = _vector_width(dtype, target), similar(m), similar(k)
    fitting = [tile for tile in tiles_for(target) if tile[1] > 1 and n % (tile[1] * width) == 0]
    return _panel_tile(fitting, (m, similar(n), k), width, target)[1] * width if fitting else 0


def panels_spec(dtype: DType, m: int, n: int, k: int, columns: int, epilogue_key: Hashable, target: Target) -> GemmSpec:
    """The kernel for a product whose right operand lies in panels; arguments as of ``choose_spec``."""
    width = _vector_width(dtype, target)
    fitting = [tile for tile in tiles_for(target) if tile[1] * width == columns]
    rows, vectors = _panel_tile(fitting, (similar(m), similar(n), similar(k)), width, target)
    return GemmSpec(
        dtype.name, "any", "panels", epilogue_key, rows, vectors, False, width, target.has_fma, target.has_masks
    )


def _panel_tile(tiles: Sequence[Tile], shape: tuple[int, int, int], width: int, target: Target) -> Tile:
    """The best of the tiles, as for copies of panels: these are read as those are, and making them costs as much."""
    core, copied = core_of(target), Matrix("n", 0)
    return min(tiles, key=lambda tile: product_cycles(core, tile, shape[2], shape, copied, width))


@functools.lru_cache(maxsize=4096)
def ways_of(product: StridedProduct, b_unit: str, width: int, target: Target) -> dict[Way, float]:
    """The ways that are right for a product, and its cycles by the model. All give the same bits."""
    dtype, m, n, k, a_strides, b_strides = product
    core, shape, size = core_of(target), (m, n, k), dtype.itemsize
    b = Matrix(b_unit, abs(b_strides[0]) * size)
    is_turned = _a_unit(m, a_strides[0]) == "m"
    walks = m * k * size >= _ROWS_NBYTES and _rows_copy_pays(core, shape, a_strides, size, width)
    kinds = [(False, False)] * (b_unit == "n") + [(True, False)] + [(True, True)] * is_turned
    costs = {}
    for tile in (*tiles_for(target), *core.more_tiles, *(core.turned_tiles if is_turned else ())):
        pays = _rows_copy_pays(core, shape, a_strides, size, tile[1] * width)
        for copy, copy_rows in kinds:
            way = Way(*tile, copy, copy_rows)
            depth = min(k, _most_depth(way, tile[1] * width * size, a_strides[1], size)) if copy else 0
            cycles = product_cycles(core, tile, depth, shape, b, width, walks and not copy)
            costs[way] = cycles if copy_rows == (copy and pays) else _UNUSUAL * cycles
    return costs


def _promising(costs: Mapping[Way, float]) -> list[Way]:
    """The ways that are worth a measurement, the model's choice first: its best, and the best of other kinds."""
    order = sorted(costs, key=costs.__getitem__)
    best, found = order[0], order[:_BEST]
    for others in ([w for w in order if w.copy != best.copy], [w for w in order if w.copy_rows != best.copy_rows]):
        found += others[:1]
    return list(dict.fromkeys(found))


def _measured(product: StridedProduct, specs: Sequence[GemmSpec], batch: int, target: Target) -> Times:
    """Nanoseconds of ways of the product's class; empty: they are not known. Note [Measured tiles]."""
    dtype, m, n, k, a_strides, b_strides = product
    if not is_on(target) or 0 in (m, n, k):
        return {}
    rows, size = min(m, _TRIAL_ROWS), dtype.itemsize
    a, b = span_of((rows, k), a_strides, size), span_of((k, n), b_strides, size)
    store = StoreEpilogue(dtype.name).args(3, 0, 0, n)

    def launch(spec: GemmSpec) -> tuple[tuple[int, ...], int, int, float]:
        operands = Operand(1, a.start, (0, *a_strides)), Operand(2, b.start, (0, *b_strides))
        return gemm_launch(spec, rows, n, k, 1, *operands, store)

    def prepare(spec: GemmSpec) -> Trial | None:
        words, _, _, cost = launch(spec)
        runs = runs_of(words, n, 1, cost)
        return runs and Trial(spec, words, runs, runs.share * rows / m, emit_gemm)

    lines = [_line_class(abs(stride) * size) for stride in (*a_strides, *b_strides)]
    key = ("product", dtype.name, grade(m, 32), grade(-(-n // specs[0].width), 8), grade(k, 16), *lines)
    about = f"{m}x{n}, k {k}, {dtype.name}, A by {_order(a_strides)}, B by {_order(b_strides)}"
    nbytes = a.nbytes, b.nbytes, rows * n * size
    cost = launch(specs[0])[3] * batch * m / rows
    return measured(Question(key, about, specs, prepare, nbytes, m * n * k, cost), target)


def _order(strides: tuple[int, int]) -> str:
    return "rows" if strides[1] == 1 else "columns" if strides[0] == 1 else "strides"


def _line_class(nbytes: int) -> int:
    """What caches care for in a stride: 1 element, or whether lines, few sets or one set are met."""
    return next((step for step in (4096, 1024, 64) if nbytes % step == 0), 8 if nbytes <= 8 else 0)


def in_way(spec: GemmSpec, way: Way) -> GemmSpec:
    """The spec that does the product in this way."""
    return replace(spec, rows=way.rows, vectors=way.vectors, copy=way.copy, copy_rows=way.copy_rows)


_known_ways: dict[GemmSpec, list[Way]] = {}  # of kernels that were chosen, under their spec without a way
_MAX_KNOWN = 4096


def _settled(spec: GemmSpec, way: Way, costs: Mapping[Way, float], nearly: float) -> Way:
    """``way`` itself, or one that exists already and is nearly as fast: another batch size should compile nothing."""
    if len(_known_ways) > _MAX_KNOWN:
        _known_ways.clear()
    known = _known_ways.setdefault(spec, [])
    if way in known:
        return way
    nearest = min([w for w in known if w in costs], key=costs.__getitem__, default=None)
    if nearest is not None and costs[nearest] <= nearly * costs[way]:
        return nearest
    known.append(way)
    return way


def gemm_launch(
    spec: GemmSpec, m: int, n: int, k: int, batch: int, a: Operand, b: Operand, epilogue_args: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, float]:
    """Argument words, number of units, units per task, and estimated nanoseconds on one core.

    Raises:
        ValueError: there is something to compute, but no k: that is zeros, and no product (``decompose``).
    """
    if k < 1 and m and n:
        raise ValueError(f"a product [{m}, {k}] x [{k}, {n}] has no terms")
    found = lifted(_blocking)(spec, m, n, k, batch, a.strides[2])
    *own, units, grain, cost = found if type(found) is tuple else [lifted(getitem)(found, nr) for nr in range(9)]
    words = (*_operand_words(a, spec.itemsize), *_operand_words(b, spec.itemsize), m, n, k, *own, 0, *epilogue_args)
    return words, units, grain, cost


def _blocking(
    spec: GemmSpec, m: int, n: int, k: int, batch: int, a_stride: int
) -> tuple[int, int, int, int, int, int, int, int, float]:
    """(Rows and columns of a unit, units along both, length of a pass over K, stride of its sums; units, units per
    task, nanoseconds). Any extents have such numbers: those of symbolic ones are kept as one call."""
    depth = _depth(spec, k, a_stride)
    unit_m, unit_n = _unit(spec, m, n, k, depth)
    units_m, units_n = max(1, -(-m // unit_m)), max(1, -(-n // unit_n))
    sums_stride = spec.columns * spec.itemsize if depth < k else 0
    units = units_m * units_n * batch if m and n else 0
    tiles = batch * -(-m // spec.rows) * -(-n // spec.columns)
    cost = 50 + tiles * (10 + spec.rows * spec.vectors * (1 + k) * _NS_PER_MULTIPLY)
    grain = max(1, min(units, int(_TASK_NS * units / cost)))
    return unit_m, unit_n, units_m, units_n, depth, sums_stride, units, grain, cost


def _rows_copy_pays(
    core: Core, shape: tuple[int, int, int], a_strides: Sequence[int], itemsize: int, columns: int
) -> bool:
    """A is a transposed view, each k of it in another page or too long for the caches, and several panels share it."""
    m, n, k = shape
    if a_strides[0] != 1 or n <= _ROWS_PANELS * columns or k < _ROWS_DEPTH:
        return False
    return (core.strides and _walks(a_strides[1], itemsize)) or m * k * itemsize >= _ROWS_NBYTES


def _operand_words(x: Operand, itemsize: int) -> tuple[int, ...]:
    return (x.slot, x.byte_offset, *(stride * itemsize for stride in x.strides))


def _depth(spec: GemmSpec, k: int, a_stride: int) -> int:
    """Length of one pass over K: all of it, or equal parts that the copy of a panel has room for."""
    most = _most_depth(way_of(spec), spec.columns * spec.itemsize, a_stride, spec.itemsize) if spec.copy else k
    return -(-k // -(-k // most)) if k > most else max(1, k)


def _most_depth(way: Way, row_nbytes: int, a_stride: int, itemsize: int) -> int:
    """What a copy of panels has room for, whose rows are ``row_nbytes`` long. ``a_stride``: of A's columns."""
    if way.copy_rows:
        return min(PACK_NBYTES // row_nbytes, PACK_ROWS_NBYTES // (_ceil(_ROWS, way.rows) * itemsize))
    most = PACK_NBYTES // row_nbytes
    return min(most, _WALK_DEPTH) if _walks(a_stride, itemsize) else most


def _unit(spec: GemmSpec, m: int, n: int, k: int, depth: int) -> tuple[int, int]:
    """Rows and columns of one unit."""
    if spec.copy_rows or (spec.copy and m * k * spec.itemsize > _A_NBYTES):
        return _wide_unit(spec, m, n, depth < k)
    if k <= _SHALLOW and n * spec.itemsize <= _NARROW_NBYTES and m * n >= _LARGE:
        blocks = max(_UNITS, _ceil(int(m * n * 2.0 * k / _UNIT_FLOP), 2))
        return _ceil(-(-m // blocks), spec.rows), _ceil(n, spec.columns)
    flop_per_row = 2.0 * max(k, 8) * spec.columns
    rows = max(_UNIT_FLOP / flop_per_row, spec.rows)
    if spec.copy:
        rows = max(rows, _pack_rows(m, -(-n // spec.columns), flop_per_row))
    blocks = max(1, -(-m // int(rows)))
    if depth < k:
        most = SUMS_NBYTES // (spec.columns * spec.itemsize) // spec.rows * spec.rows
        blocks = max(blocks, -(-m // most))
    rows = _ceil(-(-m // blocks), spec.rows)
    panels = _panels_of_unit(rows * flop_per_row, spec.columns, n)
    return max(rows, spec.rows), panels * spec.columns


def _panels_of_unit(flop: float, columns: int, n: int) -> int:
    """So many panels of ``flop`` each that a unit is worth it, if there are as many."""
    panels = 1
    while panels * flop < _UNIT_FLOP_LEAST / 2 and panels * columns < n:
        panels *= 2
    return panels


def _wide_unit(spec: GemmSpec, m: int, n: int, several: bool) -> tuple[int, int]:
    """Rows and columns of one unit whose rows of A are copied, or stay in the second cache: many columns share them.

    A unit for each core is best: B is then read along memory, Note [Lines ahead]. Several blocks of rows are an even
    number, as that of most machines' cores.
    """
    blocks = max(1, -(-m // _ROWS))
    blocks += blocks % 2 * (blocks > 1)
    rows = _ceil(max(1, -(-m // blocks)), spec.rows)
    share = max(1, max(2, config.num_threads) // blocks)
    columns = _ceil(max(1, -(-n // share)), spec.columns)
    if several and spec.copy_rows:
        columns = min(columns, WIDE_SUMS_NBYTES // (rows * spec.itemsize * spec.columns) * spec.columns)
    return rows, columns


def _pack_rows(m: int, panels: int, flop_per_row: float) -> int:
    """Rows that share one copy of a panel: fewer where else there would be less than a unit for every core."""
    wanted = min(_UNITS, int(m * panels * flop_per_row / _UNIT_FLOP_LEAST))
    blocks = -(-wanted // max(1, panels))
    return min(_PACK_ROWS, max(_PACK_ROWS_LEAST, -(-m // max(1, blocks))))
