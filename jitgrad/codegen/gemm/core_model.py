"""What a product costs on a core, in cycles: the model that register tiles are chosen by.

Owns: ``Core``, ``core_of``, ``product_cycles``, ``TILES``.
Must not know: kernels that exist already, units of work, threads.

The figures were fitted to measured times of 200 products (1 to 1024 rows, 8 to 1024 columns, K of 8 to 2000, float32
and float64, all forms, 16 tiles each with and without a copy of B) on an Intel server core with two 512-bit
multiply-adds a cycle (Ice Lake): what the model chooses takes 1.06 times as long as the best of them, in the geometric
mean. On another core only ``Core`` differs: on an AMD EPYC with one of them a cycle 1.03 times, over 300 products;
there, other tiles that the model says are within 1.15 of its choice take 1.05 times as long as it. On Intel's next core
(Golden Cove) 1.03 times, over 1,600 products (1.07 with Ice Lake's figures and tiles); and 1.03 times over 79 of all
forms, of operands in the caches and of others that come from the last one; on the core after that one (Redwood Cove)
1.02 times, over 41 products of all forms, with panels of B that stay in the first cache; and on Golden Cove, where the
first tile of a panel makes its copy, 1.03 times over 2,000. Results do not depend on the
choice, see Note [Order of summation]; a measurement may overrule it, Note [Measured tiles].
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.codegen.llvm.target import Target

__all__ = ["TILES", "Core", "Matrix", "Tile", "core_of", "product_cycles", "tiles_for"]

Tile = tuple[int, int]
"""Rows, vectors."""

# Tiles of up to 32 registers: sums, one row of B's vectors, one element of A. Square ones read least per multiply-add;
# among them the one whose rows and columns divide the product's wins. Few columns want (8, 1), few rows (1, 8).
TILES: dict[int, tuple[Tile, ...]] = {
    32: ((8, 1), (8, 2), (8, 3), (6, 4), (5, 5), (5, 4), (4, 4), (4, 1), (2, 4), (1, 8), (1, 1)),
    16: ((6, 2), (4, 2), (4, 3), (2, 4), (1, 4), (8, 1), (4, 1), (2, 1), (1, 1)),
}
_TILES_SCALAR: tuple[Tile, ...] = ((4, 1), (1, 1))

_PAGE = 4096  # rows this far apart share one set of the first cache
_FEW_ROWS = 12  # so many stay there all the same
_RESUME = 2.0  # cycles to save a sum after a pass over K, and to load it for the next one


@dataclass(frozen=True, slots=True)
class Core:
    """One core.

    Attributes:
        multiplies: vector multiply-adds that it begins per cycle.
        loads: vectors or broadcast elements that it loads per cycle, beside them.
        latency: the least cycles of one step of k: a multiply-add waits for the one before.
        element: what it costs to load an element of A and spread it, in loads.
        beside: the part of the loads' time that multiply-adds do not hide.
        far: the least cycles of one step of k that reads a row of B in place where all rows share one set of the cache,
        walk: and what a step takes longer that reads a transposed A in place, from beyond the second cache.
        l1_nbytes, l2_nbytes: what a panel of B may take of the first cache, and of the second.
        near_nbytes: of a panel of B in place: rows of a longer one are in many pages and few sets.
        lines: cost of loading a vector of B in place, in loads: where every row evicts another, where rows are in few
            sets, in a panel that is not near, in one that overflows the first cache.
        tile: cycles to begin and end a tile,
        cell: and to store one of its vectors.
        strides: whether a transposed A of any size should be copied where each k is in another page.
        more_tiles: that are among the best on this core, besides ``TILES``; for products of matrices, not of windows;
        turned_tiles: and where A is transposed: its rows lie side by side, and need no register each.
    """

    multiplies: float
    loads: float
    latency: float
    element: float
    beside: float
    far: float = 0.0
    walk: float = 0.0
    l1_nbytes: int = 40_000
    near_nbytes: int = 12_000
    l2_nbytes: int = 400_000
    tile: float = 20.0
    cell: float = 2.0
    strides: bool = True
    lines: tuple[float, float, float, float] = (5.5, 3.5, 1.75, 2.6)
    more_tiles: tuple[Tile, ...] = ()
    turned_tiles: tuple[Tile, ...] = ()


_ONE = Core(1.0, 1.3, 3.6, 1.0, 0.02, 19.0, 8.0)  # AMD up to Zen 4 (512-bit operations take two turns)
_TWO = Core(2.0, 1.0, 5.4, 1.3, 0.0)  # Intel's servers up to Ice Lake
_GOLDEN_COVE = Core(
    2.0, 1.2, 4.0, 0.84, 0.03, 0.0, 1.5, 40_000, 24_000, 550_000, 8.0, 19.0, False,
    (6.3, 3.5, 3.5, 3.0), ((10, 2), (10, 1)), ((12, 1), (16, 1)),
)  # fmt: skip
_WITH_GOLDEN_COVE = frozenset({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"})


def core_of(target: Target) -> Core:
    """The core that ``target`` names."""
    if target.width == 16 and target.cpu in _WITH_GOLDEN_COVE:
        return _GOLDEN_COVE
    return _ONE if target.width == 16 and target.cpu.startswith("znver4") else _TWO


def tiles_for(target: Target) -> tuple[Tile, ...]:
    """The register tiles that ``target`` has the registers for."""
    if target.width == 1:
        return _TILES_SCALAR
    return TILES[32] if target.registers >= 32 else TILES[16]


@dataclass(frozen=True, slots=True)
class Matrix:
    """How B lies in memory: which stride is 1 ("n", "k" or "none"), and bytes between rows (k)."""

    unit: str
    row_nbytes: int


def product_cycles(
    core: Core, tile: Tile, depth: int, shape: tuple[int, int, int], b: Matrix, width: int, walks: bool = False
) -> float:
    """Cycles of one product of ``shape`` (m, n, k) with this register tile.

    Args:
        depth: so many of B's rows are copied at a time, panel by panel; 0: B is read in place.
        walks: A is transposed and larger than the second cache, and both are read in place.
    """
    (rows, vectors), (m, n, k) = tile, shape
    panels = -(-n // (vectors * width))
    line = _copied_line(core, depth, vectors) if depth else _direct_line(core, k, vectors, b.row_nbytes)
    loads = (vectors * line + core.element * rows) / core.loads
    step = max(rows * vectors / core.multiplies, loads, core.latency) + core.beside * loads
    is_far = not depth and b.row_nbytes % _PAGE == 0 and k > _FEW_ROWS
    step = max(step, core.far * is_far) + core.walk * walks
    cycles = k * step + core.tile + core.cell * rows * vectors
    if depth:
        cycles += (-(-k // depth) - 1) * (core.tile + _RESUME * rows * vectors)
    cycles *= -(-m // rows) * panels
    return cycles + panels * -(-m // 512) * (_copy_cycles(b, width) * k * vectors + 4) if depth else cycles


def _copied_line(core: Core, depth: int, vectors: int) -> float:
    """Cost of loading a vector of a copied panel, in loads: more where the panel overflows the first cache."""
    return 2.0 if 64 * depth * vectors > core.l1_nbytes else 1.15


def _direct_line(core: Core, k: int, vectors: int, row_nbytes: int) -> float:
    """Cost of loading a vector of B in place, in loads."""
    page, sets, far, long = core.lines
    if 64 * k * vectors > core.l2_nbytes:
        return 10.0  # each tile of rows reads the panel again, from the last cache or from memory
    if row_nbytes % _PAGE == 0 and k > _FEW_ROWS:
        return page
    if row_nbytes % 1024 == 0 and k > 48:
        return sets
    straddles = far if row_nbytes % 64 or 64 * k * vectors > core.near_nbytes else 1.15
    return max(straddles, long) if 64 * k * vectors > core.l1_nbytes else straddles


def _copy_cycles(b: Matrix, width: int) -> float:
    """Cycles to copy one vector of B."""
    if b.unit == "n":
        return 6.0 if b.row_nbytes % _PAGE == 0 else 3.6
    return 4.0 if b.unit == "k" else 1.5 * width
