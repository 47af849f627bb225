"""Implicit products: operands that are windows of an image, and are never in memory as matrices.

Owns: ``windows_spec``, ``windows_launch``: from the digits of two operands to a kernel, its tables and argument words.
Must not know: LLVM, primitives.

# Note [Windows]
# ~~~~~~~~~~~~~~
# The columns of a convolution are a view of the padded image that no strides describe: element [k, p] is at
# ``offset(k) + offset(p)``, and each index has several *digits*, (extent, stride) from the outermost to the innermost:
# k is (channel, window row, window column), p is (row, column). So an index's offsets are a table, made once from its
# digits, and the kernel adds two table entries where a matrix has two strides.
#   A, the factor that is read element by element: one table for its rows, one for k (``a_unit`` "table"); or strides.
#   B, whose panels are copied: "runs": p runs along memory. A vector of columns is then a few contiguous *segments*,
#   each loaded under a mask; where there are more than ``_MOST_SEGMENTS`` it is gathered. Where all
#   vectors are whole and one segment, panels need not be copied: a row of the image serves several k, so what a panel
#   reads in place is less than its copy, and stays in the first cache without passes over K. Unless each channel is a
#   multiple of a page, say: then the lines of all channels share a few sets of the cache, and a copy is read instead.
#   "halves": p goes in steps of two, as in a convolution of stride 2, without a break in the middle of half a vector:
#   two loads and one shuffle, where a gather of 16 elements costs 18 cycles.
#   "krun": k runs along memory: 128 bits of each column are loaded and transposed, as for a transposed matrix; but one
#   by one where a run ends within them, which the kernel sees in the table, unless there is one run (``segments`` 1).
# The tables depend on the extents: planned for all of them (Note [Symbolic extents]), their place is a function of the
# numbers, and argument words hold the block that they point to (``_TablesAt``).
# Where A is the same for all images, columns are counted in vectors over the whole batch: a panel may hold vectors of
# several images. Only the order of k matters to the sums, see Note [Order of summation].
# Example: a 3x3 window over [64, 34, 34] makes B of 576 rows and 1024 columns: k has the digits (64, 1156) (3, 34)
# (3, 1), and p has (32, 34) (32, 1): each vector of 16 columns is one segment.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jitgrad.codegen.gemm.core_model import Core, core_of, tiles_for
from jitgrad.codegen.gemm.emit import PACK_NBYTES, SUMS_NBYTES
from jitgrad.codegen.gemm.emit_windows import emit_windows
from jitgrad.codegen.gemm.regions import Seen, blocks_of, regions_gain, regions_of
from jitgrad.codegen.gemm.spec import GemmSpec, Operand, StoreEpilogue
from jitgrad.codegen.gemm.trial import Trial, runs_of
from jitgrad.codegen.gemm.tuning import Question, Times, Way, grade, is_on, measured, quickest
from jitgrad.codegen.llvm.target import Target
from jitgrad.dtypes import DType, float64
from jitgrad.symbols.advice import advice, identical, within
from jitgrad.symbols.number import greatest, is_symbolic, lifted, plain, similar, smallest, whole

__all__ = ["Product", "is_implicit", "product_of", "table_bounds", "windows_launch", "windows_spec"]

Digits = tuple[tuple[int, int], ...]
"""(extent, stride) of an index, from the outermost digit to the innermost; none for an index that does not move."""

_HEADER_WORDS = 8  # words of a table block before its tables: see ``_tables``
_BLOCKS = 7  # the last of them
_LEAST_GAIN = 15  # thousandths of a product's terms
_MOST_SEGMENTS = 6  # more loads than this are no better than a gather
_USUAL_SEGMENTS = 3, 6  # of a kernel for all extents: one for many serves fewer
_UNIT_FLOP_LEAST = 2e5
_UNITS = 4
_BEST = 4  # tiles that are measured
_TRIAL_NBYTES = 8 << 20  # of the images that they are measured on
_TASK_NS = 2500
_PASS_CYCLES = 40.0  # to begin and end a tile's pass,
_CELL_CYCLES = 4.0  # and to save and resume one of its vectors
_PLACE_LOADS = 2.0  # and in place: most lie across two lines
_LINE, _SETS, _MOST_OF_A_SET = 64, 64, 16  # of the first cache; more lines of a set are waited for
_RUN_CYCLES = 250.0  # to begin a run of a column that is transposed: it comes from the last cache
_COPY_CYCLES = 4.0  # to copy a vector of one k before,
_TILE_COPY_CYCLES = 2.0  # and in the first tile
_LOADS = 1.3  # per cycle, beside multiply-adds: a little over what one port does
_LINE_LOADS = 1.5  # what a vector of the panel costs, from the second cache


class Product(NamedTuple):
    """C[image, group, m, n] = sum over k of A[group, m, k] * B[image, group, k, n]. Strides are in elements.

    Attributes:
        images, groups, m, n, k: extents; the batch is (images, groups).
        a_group: stride of A's groups.
        b_image, b_group: strides of B's images and groups.
        a_m, a_k, b_k, b_n: the digits of the other indices.
        seen: which terms need not be summed, Note [Regions of a product].
    """

    images: int
    groups: int
    m: int
    n: int
    k: int
    a_group: int
    b_image: int
    b_group: int
    a_m: Digits
    a_k: Digits
    b_k: Digits
    b_n: Digits
    seen: Seen = ()


def is_implicit(strides: tuple[Any, ...]) -> bool:
    """Whether an operand's view has digits instead of three strides."""
    return not isinstance(strides[0], int)


def product_of(shape: tuple[int, int, int, int], a: tuple[Any, ...], b: tuple[Any, ...]) -> Product | int:
    """The product of two views, of which one at least has digits; or which of them (0, 1) must be copied first."""
    batch, m, n, k = shape
    a_digits, b_digits = _digits(a, (batch, m, k)), _digits(b, (batch, k, n))
    lead = a_digits[0][0] if a_digits[0] and a_digits[0][0][1] == 0 else (1, 0)
    images = lead[0]
    rest = a_digits[0][1:] if images > 1 else a_digits[0]
    if len(rest) > 1:
        return 0
    a_group = rest[0][1] if rest else 0
    groups = batch // images if images else 1
    parts = _outer_inner(b_digits[0], images, groups)
    if parts is None:
        return 1
    return Product(
        images, groups, m, n, k, a_group, *parts, a_digits[1], a_digits[2], b_digits[1], b_digits[2]
    )  # fmt: skip


def _digits(strides: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Digits, ...]:
    if is_implicit(strides):
        return strides
    return tuple(((n, s),) if n > 1 else () for n, s in zip(shape, strides, strict=True))


def _outer_inner(digits: Digits, outer: int, inner: int) -> tuple[int, int] | None:
    """Strides of the two indices that ``digits`` is made of."""
    if not digits:
        return (0, 0)
    if len(digits) == 1:
        stride = digits[0][1]
        return (0, stride) if outer == 1 else (stride * inner, stride)
    return (digits[0][1], digits[1][1]) if [n for n, _ in digits] == [outer, inner] else None


def windows_spec(dtype: DType, product: Product, epilogue_key: Hashable, target: Target) -> GemmSpec:
    """The kernel for this product; each is correct for every product of its operands' kinds."""
    width = max(1, target.width // 2) if dtype is float64 else target.width
    simple = len(product.a_m) <= 1 and len(product.a_k) <= 1
    unit, segments = _columns_of(product, width)
    vectors = similar(product.images * -(-product.n // width))  # all ways are right for all extents
    # a copy that transposes ("krun") reads runs of all k, of which regions leave some out
    regions = bool(product.seen) and unit != "krun" and _regions_pay(product, width)
    a_unit = "any" if simple and not regions else "table"
    spec = GemmSpec(
        dtype.name, a_unit, unit, epilogue_key, 0, 0, True, width, target.has_fma, target.has_masks, segments,
        regions=regions,
    )  # fmt: skip
    copying = _CopyCost(_RUN_CYCLES * target.width if unit == "krun" else 0.0, _copy_cycles(unit, segments))
    ways = _best_ways(similar(product.m), vectors, similar(product.k), copying, _may_stay(product, spec), target)
    times = _measured(Product(*plain(product)), [_in_way(spec, way) for way in ways], vectors, target)
    known = {way: ns for way, ns in times.items() if _is_right(way, product, spec, target)}
    return _in_way(spec, quickest(ways[0], known) if known else ways[0])


@advice
def _regions_pay(product: Product, width: int) -> bool:
    """Whether it pays to leave out terms. A kernel that does so is right for all products, with one region, too."""
    return bool(lifted(regions_gain)(product.seen, product.n, product.k, product.images, width) >= _LEAST_GAIN)


def _in_way(spec: GemmSpec, way: Way) -> GemmSpec:
    return replace(spec, rows=way.rows, vectors=way.vectors, copy=way.copy)


def _may_stay(product: Product, spec: GemmSpec) -> bool:
    """Whether panels of a product can be read in place, without masks, and should be."""
    if spec.b_unit != "runs" or spec.segments != 1 or not _is_multiple(product.n, spec.width):
        return False
    return identical(lifted(_is_crowded)(product.b_k, spec.itemsize), False)


def _is_right(way: Way, product: Product, spec: GemmSpec, target: Target) -> bool:
    """Whether a product of the spec's form may be done so."""
    return way[:2] in tiles_for(target) and (way.copy or _may_stay(product, spec)) and not way.copy_rows


def _measured(product: Product, specs: Sequence[GemmSpec], vectors: int, target: Target) -> Times:
    """Nanoseconds of ways of the product's class; empty: they are not known. Note [Measured tiles]."""
    if not is_on(target) or 0 in product[:5]:
        return {}
    size = specs[0].itemsize
    image_nbytes = size * max(1, abs(product.b_image))
    some = product._replace(images=max(1, min(product.images, _TRIAL_NBYTES // image_nbytes)), seen=())
    (a_low, a_high), (b_low, b_high) = table_bounds(some)
    a, b = Operand(1, -a_low * size, (0, 0, 0)), Operand(2, -b_low * size, (0, 0, 0))
    store = StoreEpilogue(specs[0].dtype_name).args(3, 0, product.m * product.n, product.n)

    def prepare(spec: GemmSpec) -> Trial | None:
        words, _, _, cost = windows_launch(spec, some, a, b, store)
        runs = runs_of(words, some.images * -(-product.n // spec.width), product.groups, cost)
        return runs and Trial(spec, words, runs, runs.share * some.images / product.images, emit_windows)

    cost = windows_launch(specs[0], some, a, b, store)[3] * product.images / some.images
    form = specs[0].dtype_name, specs[0].regions
    key = ("windows", *form, grade(product.images, 4), grade(vectors, 8), *product[1:-1])
    images, groups, m, n, k = product[:5]
    about = f"{m}x{n}, k {k}, {specs[0].dtype_name}, windows, {images} images, {groups} groups"
    nbytes = [size * count for count in (a_high - a_low + 1, b_high - b_low + 1, some.images * groups * m * n)]
    return measured(Question(key, about, specs, prepare, nbytes, images * groups * m * n * k, cost), target)


def _columns_of(product: Product, width: int) -> tuple[str, int]:
    """How B's panels are copied: ``b_unit`` and ``segments`` of the spec."""
    if product.b_n and product.b_n[-1][1] != 1 and product.b_k and product.b_k[-1][1] == 1 and len(product.b_n) == 1:
        return "krun", int(len(product.b_k) == 1)
    if product.b_n and product.b_n[-1][1] == 1 and _is_multiple(product.b_n[-1][0], width):
        return "runs", 1
    most = lifted(_segments_of_a_vector)(product.b_n, product.n, width)  # a kernel for many is right for fewer
    counts = _USUAL_SEGMENTS if is_symbolic(most) else range(1, _MOST_SEGMENTS + 1)
    segments = next((count for count in counts if within(most, count)), 0)
    if not segments and identical(lifted(_are_halves)(product.b_n, product.n, width), True):
        return "halves", 0
    return "runs", segments


def _is_multiple(n: Any, width: int) -> bool:
    """Whether ``n`` is a multiple of ``width`` for all extents. If it is for this size alone, no guard says so."""
    if is_symbolic(n):
        return n.op == "product" and n.args[0] % width == 0
    return bool(n % width == 0)


class _CopyCost(NamedTuple):
    """Cycles to copy a vector of columns: to begin, in each pass, and for each k."""

    begin: float
    each: float


def _copy_cycles(b_unit: str, segments: int) -> float:
    """For each k of a vector: what is copied while multiplying costs less."""
    return _TILE_COPY_CYCLES if b_unit == "halves" or (b_unit == "runs" and segments) else _COPY_CYCLES


@functools.lru_cache(maxsize=1024)
def _is_crowded(b_k: Digits, itemsize: int) -> bool:
    """Whether vectors of all k lie in so few sets of the first cache that they push each other out."""
    lines = np.unique(offsets(b_k) * itemsize // _LINE)
    return len(lines) > _MOST_OF_A_SET * len(np.unique(lines % _SETS))


@functools.lru_cache(maxsize=4096)
def _best_ways(m: int, vectors: int, k: int, copying: _CopyCost, single: bool, target: Target) -> tuple[Way, ...]:
    """Those that are worth a measurement, the model's choice first. ``single``: panels may be read in place."""
    core = core_of(target)

    def cycles(way: Way) -> float:
        passes = -(-k * 64 * way.vectors // PACK_NBYTES) if way.copy else 1
        return _cycles(core, way, m, vectors, k, passes, copying)

    ways = [Way(*tile, copy, False) for tile in tiles_for(target) for copy in ((False, True) if single else (True,))]
    return tuple(sorted(ways, key=cycles)[:_BEST])


def _cycles(core: Core, way: Way, m: int, vectors: int, k: int, passes: int, copying: _CopyCost) -> float:
    """Of a product."""
    rows, wide, copy, _ = way
    loads = ((_LINE_LOADS if copy else _PLACE_LOADS) * wide + rows) / _LOADS
    step = max(rows * wide / core.multiplies, loads, core.latency)
    tile_cycles = k * step + passes * (_PASS_CYCLES + _CELL_CYCLES * rows * wide)
    copy_cycles = wide * (copying.each * k + passes * copying.begin) if copy else 0.0
    return -(-vectors // wide) * (-(-m // rows) * tile_cycles + copy_cycles)


def offsets(digits: Digits) -> np.ndarray:
    """The offset of every value of an index."""
    out = np.zeros(1, np.int64)
    for extent, stride in digits:
        out = np.add.outer(out, np.arange(extent, dtype=np.int64) * stride).ravel()
    return out


class _Segments(NamedTuple):
    """Runs of columns along memory, in order.

    Attributes:
        vector: whose columns they are.
        first, last: lane of the first column, and one past the last one's.
        offset: the first element's.
        number: which of its vector's segments it is.
    """

    vector: np.ndarray
    first: np.ndarray
    last: np.ndarray
    offset: np.ndarray
    number: np.ndarray


def _segments_of(digits: Digits, n: int, width: int) -> _Segments:
    at = offsets(digits)
    begins = np.ones(n, bool)
    begins[1:] = np.diff(at) != 1
    begins[::width] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], n)
    vector = starts // width
    is_first = starts % width == 0
    nr = np.arange(len(starts))
    number = nr - nr[is_first][vector]
    return _Segments(vector, starts - vector * width, ends - vector * width, at[starts], number)


@functools.lru_cache(maxsize=1024)
def _segments_of_a_vector(digits: Digits, n: int, width: int) -> int:
    """Into how many segments a vector of columns falls at most."""
    if len(digits) <= 1 and (not digits or digits[0][1] == 1):
        return 1
    return int(_segments_of(digits, n, width).number.max(initial=0)) + 1


@functools.lru_cache(maxsize=1024)
def _are_halves(digits: Digits, n: int, width: int) -> bool:
    """Whether each half of a vector of columns is every second element of a segment."""
    half = width // 2
    if half < 2 or n % half:
        return False
    return bool((np.diff(offsets(digits).reshape(-1, half)) == 2).all())


# launches


@functools.lru_cache(maxsize=256)
def _tables(
    product: Product, a_unit: str, b_unit: str, segments: int, width: int, itemsize: int, unit_n: int
) -> np.ndarray:
    """Everything that the kernel looks up, offsets in bytes, as one block of int64.

    Words: images, vectors per image, groups, and where in the block these tables begin: A's rows, A's k, B's k, B's
    vectors (per vector: ``segments`` pairs of an offset and a mask; or two offsets, of its halves; or, to be gathered,
    int32 offsets), blocks of ``unit_n`` vectors, if that is not 0 (``_with_regions``); then those.
    """
    parts: list[np.ndarray] = []
    for digits, used in ((product.a_m, a_unit == "table"), (product.a_k, a_unit == "table"), (product.b_k, True)):
        parts.append(offsets(digits) * itemsize if used else np.zeros(0, np.int64))
    if b_unit == "halves":
        parts.append(_table_of_halves(product, width, itemsize))
    else:
        parts.append(_vector_table(product, segments, width, itemsize) if b_unit == "runs" else np.zeros(0, np.int64))
    starts = (_HEADER_WORDS + np.cumsum([0, *map(len, parts)])[:-1]).tolist()
    head = [product.images, -(-product.n // width), product.groups, *starts, 0]
    whole = np.concatenate([np.array(head, np.int64), *parts])
    return _with_regions(whole, product, width, unit_n) if unit_n else whole


def _with_regions(tables: np.ndarray, product: Product, width: int, unit_n: int) -> np.ndarray:
    """Tables, and behind them those of regions, Note [Regions of a product].

    Per region: of each k B's offset and A's, its vectors' numbers, and, where these begin: vectors per image, k, then
    the two. Per block: where its region's four words are, its first vector of the region's, one past its last.
    """
    a_ks, b_ks = tables[tables[4] : tables[5]], tables[tables[5] : tables[5] + product.k]
    parts, end, places = [tables], len(tables), []
    for vectors, ks in regions_of(product.seen, product.n, product.k, width):
        places.append(end + 2 * len(ks) + len(vectors))
        words = [len(vectors), len(ks), end, end + 2 * len(ks)]
        parts += [np.stack([b_ks[ks], a_ks[ks]], 1).ravel(), vectors, np.array(words, np.int64)]
        end = places[-1] + len(words)
    blocks = blocks_of(product.seen, product.n, product.k, product.images, width, unit_n)
    blocks[:, 0] = np.array(places)[blocks[:, 0]]
    whole = np.concatenate([*parts, blocks.ravel()])
    whole[_BLOCKS] = end
    return whole


def _count_blocks(product: tuple[Any, ...], width: int, unit_n: int) -> int:
    """Units of work along the columns of a product with regions."""
    at = Product(*product)
    return len(blocks_of(at.seen, at.n, at.k, at.images, width, unit_n))


def _table_of_halves(product: Product, width: int, itemsize: int) -> np.ndarray:
    """The offsets of a vector's halves; that of a half without columns is the other's."""
    firsts = offsets(product.b_n)[:: width // 2] * itemsize
    return firsts if len(firsts) % 2 == 0 else np.append(firsts, firsts[-1:])


def _vector_table(product: Product, segments: int, width: int, itemsize: int) -> np.ndarray:
    if not segments:
        lanes = offsets(product.b_n) * itemsize
        whole = np.zeros(-(-product.n // width) * width, np.int32)
        whole[: len(lanes)] = lanes
        if len(whole) % 2:
            whole = np.append(whole, np.int32(0))
        return whole.view(np.int64)
    vector, first, last, offset, number = _segments_of(product.b_n, product.n, width)
    words = np.zeros((-(-product.n // width), segments, 2), np.int64)
    words[..., 0] = (offset[number == 0] * itemsize)[:, None]  # where there are fewer: nothing of what is there
    words[vector, number, 0] = (offset - first) * itemsize
    words[vector, number, 1] = (1 << last) - (1 << first)
    return words.ravel()


class _TablesAt(int):
    """The address of a block of tables. The number holds the block, so the block lives as long as argument words do."""

    tables: np.ndarray


def _place_of(
    product: tuple[Any, ...], a_unit: str, b_unit: str, segments: int, width: int, itemsize: int, unit_n: int
) -> _TablesAt:
    tables = _tables(Product(*product), a_unit, b_unit, segments, width, itemsize, unit_n)
    place = _TablesAt(tables.ctypes.data)
    place.tables = tables
    return place


def windows_launch(
    spec: GemmSpec, product: Product, a: Operand, b: Operand, epilogue_args: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, float]:
    """Argument words, which keep the block of tables; number of units, units per task, estimated nanoseconds.

    These are on one core. K is 1 at least, as for ``gemm_launch``.
    """
    vectors = product.images * -(-product.n // spec.width)
    most = max(64, PACK_NBYTES // (spec.columns * spec.itemsize)) // 4 * 4
    most = most if spec.copy else 0
    depth = lifted(_depth)(product.k, most)
    unit_m = lifted(_rows_of_unit)(spec, product.m, product.k, product.groups, vectors, most)
    unit_n = lifted(_vectors_of_unit)(spec, product.k, vectors, unit_m)
    units_m, units_n = greatest(1, -(-product.m // unit_m)), greatest(1, -(-vectors // unit_n))
    if spec.regions:
        units_n = lifted(_count_blocks)(tuple(product), spec.width, unit_n)
    kinds = spec.a_unit, spec.b_unit, spec.segments, spec.width, spec.itemsize
    place = lifted(_place_of)(tuple(product), *kinds, unit_n if spec.regions else 0)
    size = spec.itemsize
    words = (
        a.slot, a.byte_offset, product.a_group * size, _only(product.a_m) * size, _only(product.a_k) * size,
        b.slot, b.byte_offset, product.b_group * size, product.b_image * size, _only(product.b_n) * size,
        product.m, product.n, product.k, unit_m, unit_n, units_m, units_n, depth,
        lifted(_sums_stride)(spec, product.k, most), place, *epilogue_args,
    )  # fmt: skip
    units = units_m * units_n * product.groups if product.m and product.n and product.images else 0
    core_cycles = product.groups * -(-product.m // spec.rows) * -(-vectors // spec.vectors)
    cost = 50 + core_cycles * (10 + spec.rows * spec.vectors * (1 + product.k) * 0.25)
    grain = greatest(1, smallest(units, whole(_TASK_NS * units / cost)))
    return words, units, grain, cost


def _parts(x: int, count: int) -> int:
    return -(-x // count)


def _ceil(x: int, step: int) -> int:
    return _parts(x, step) * step


def _only(digits: Digits) -> int:
    return digits[0][1] if len(digits) == 1 else 0


def _is_cut(k: int, most: int) -> bool:
    """Whether K is passed over in parts: it is longer than ``most``, which is not 0."""
    return 0 < most < k


def _depth(k: int, most: int) -> int:
    """Length of one pass over K: all of it, or equal parts, whole 128-bit blocks."""
    return _ceil(_parts(k, _parts(k, most)), 4) if _is_cut(k, most) else max(1, k)


def _sums_stride(spec: GemmSpec, k: int, most: int) -> int:
    """Of what a pass leaves for the next one, in bytes."""
    return spec.columns * spec.itemsize if _is_cut(k, most) else 0


def _flop_per_row(spec: GemmSpec, k: int) -> float:
    return 2.0 * max(k, 8) * spec.columns


def _rows_of_unit(spec: GemmSpec, m: int, k: int, groups: int, vectors: int, longest: int) -> int:
    panels, rows = max(1, _parts(vectors, spec.vectors)), max(m, 1)
    total = panels * groups * rows * _flop_per_row(spec, k)
    wanted = min(_UNITS, max(1, int(total / _UNIT_FLOP_LEAST)))
    blocks = max(1, _parts(wanted, panels * groups))
    if _is_cut(k, longest):
        most = SUMS_NBYTES // (spec.columns * spec.itemsize) // spec.rows * spec.rows
        blocks = max(blocks, _parts(rows, most))
    return _ceil(_parts(rows, blocks), spec.rows)


def _vectors_of_unit(spec: GemmSpec, k: int, vectors: int, unit_m: int) -> int:
    several = max(1, int(_UNIT_FLOP_LEAST / (unit_m * _flop_per_row(spec, k))))
    return min(several, max(1, _parts(vectors, spec.vectors))) * spec.vectors


def table_bounds(product: Product) -> tuple[tuple[int, int], tuple[int, int]]:
    """The first and the last element that A's and B's indices reach."""

    def ends(*indices: Digits) -> tuple[int, int]:
        steps = [(n - 1) * s for digits in indices for n, s in digits]
        return sum(min(0, s) for s in steps), sum(max(0, s) for s in steps)

    p = product
    return (
        ends(((p.groups, p.a_group),), p.a_m, p.a_k),
        ends(((p.images, p.b_image), (p.groups, p.b_group)), p.b_k, p.b_n),
    )
