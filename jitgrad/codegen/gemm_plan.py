"""From a shape to a spec, and to a launch's argument words.

Owns: ``choose_spec`` (register tile), ``gemm_launch`` (units, passes over K, whether to copy B's panels).
Must not know: LLVM, the epilogue's text.
"""

from __future__ import annotations

from collections.abc import Hashable

from jitgrad.codegen.gemm_emit import PACK_NBYTES, SUMS_NBYTES
from jitgrad.codegen.gemm_spec import GemmSpec, Operand
from jitgrad.codegen.target import Target
from jitgrad.dtypes import DType, float64

__all__ = ["choose_spec", "gemm_launch"]

# register tiles per number of vectors: rows, best first (accumulators + B's vectors + one of A fit the registers)
_TILES_32 = {4: (6, 4, 2, 1), 3: (8, 4, 2, 1), 2: (12, 8, 4, 2, 1), 1: (16, 8, 4, 2, 1)}
_TILES_16 = {2: (6, 4, 2, 1), 1: (8, 4, 2, 1)}
_TILES_SCALAR = {1: (4, 2, 1)}
_UNIT_FLOP = 2e6


def _tiles(target: Target) -> dict[int, tuple[int, ...]]:
    if target.width == 1:
        return _TILES_SCALAR
    return _TILES_32 if target.registers >= 32 else _TILES_16


def _ceil(x: int, step: int) -> int:
    return -(-x // step) * step


def _padded_rows(m: int, rows: int) -> int:
    """Rows computed for ``m``, see ``gemm_emit``: a tile of half the height ends the matrix if it is enough."""
    rest = m % rows
    if rest == 0:
        return m
    return m - rest + (rows // 2 if rest <= rows // 2 else rows)


def _tile_cost(m: int, n: int, rows: int, vectors: int, width: int) -> float:
    """Multiply-adds with padding, plus the loads they wait for: a rough cost to compare tiles of one shape."""
    cells = rows * vectors
    lag = max(1.0, 8 / cells)  # fewer than 8 chains do not hide the latency
    return _padded_rows(m, rows) * _ceil(n, vectors * width) * lag * (1 + 0.2 * (rows + vectors) / cells)


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
    candidates = [(rows, vectors) for vectors, heights in _tiles(target).items() for rows in heights]
    rows, vectors = min(candidates, key=lambda t: _tile_cost(min(m, 96), n, t[0], t[1], width))
    b_unit = "n" if b_strides[2] == 1 or n <= 1 else "k" if b_strides[1] == 1 else "none"
    return GemmSpec(
        dtype.name, "any", b_unit, epilogue_key, rows, vectors, width, target.has_fma, target.has_masks
    )


def gemm_launch(
    spec: GemmSpec, m: int, n: int, k: int, batch: int, a: Operand, b: Operand, epilogue_args: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, float]:
    """Argument words, number of units, units per task, and estimated nanoseconds on one core."""
    depth, pack = _passes(spec, m, k, b)
    unit_m, unit_n = _unit(spec, m, n, k, pack)
    units_m, units_n = max(1, -(-m // unit_m)), max(1, -(-n // unit_n))
    sums_stride = spec.columns * spec.itemsize if depth < k else 0
    words = (
        *_operand_words(a, spec.itemsize), *_operand_words(b, spec.itemsize), m, n, k,
        unit_m, unit_n, units_m, units_n, depth, int(pack), sums_stride, *epilogue_args,
    )  # fmt: skip
    units = units_m * units_n * batch if m and n else 0
    cost = 2.0 * batch * m * n * k / (spec.width * 5) + 0.2 * batch * m * n + 50
    grain = max(1, min(units, int(5000 * units / cost)))
    return words, units, grain, cost


def _operand_words(x: Operand, itemsize: int) -> tuple[int, ...]:
    return (x.slot, x.byte_offset, *(stride * itemsize for stride in x.strides))


def _passes(spec: GemmSpec, m: int, k: int, b: Operand) -> tuple[int, bool]:
    """Depth of one pass over K, and whether B's panels are copied."""
    most = PACK_NBYTES // (spec.columns * spec.itemsize)
    row_nbytes = abs(b.strides[1]) * spec.itemsize
    pack = spec.b_unit != "n" or (m >= 64 and k * row_nbytes > (256 << 10) and row_nbytes >= 1024)
    if not pack or k <= most:
        return max(1, k), pack
    passes = -(-k // most)
    return -(-k // passes), True


def _unit(spec: GemmSpec, m: int, n: int, k: int, pack: bool) -> tuple[int, int]:
    """Rows and columns of one unit."""
    rows_most = SUMS_NBYTES // (spec.columns * spec.itemsize) // spec.rows * spec.rows
    flop_per_row = 2.0 * k * spec.columns
    rows = max(spec.rows, int(_UNIT_FLOP / max(1.0, flop_per_row)) // spec.rows * spec.rows)
    if pack:
        rows = max(rows, 16 * spec.rows)
    rows = min(rows, rows_most, _ceil(max(m, 1), spec.rows))
    blocks = -(-m // rows)
    rows = _ceil(-(-m // max(1, blocks)), spec.rows) if m else rows
    return min(rows, rows_most), spec.columns
