"""What decides the text of a matrix multiplication kernel, and what an epilogue is.

Owns: ``GemmSpec``, ``Operand``, the ``Epilogue`` protocol, ``StoreEpilogue``, the layout of the argument words.
Must not know: how the kernel is written (``emit``) or how a shape picks its spec (``plan``).

# Note [GEMM arguments]
# ~~~~~~~~~~~~~~~~~~~~~
# Shapes and strides are run-time words, so one compile serves every shape. Strides are in bytes.
#   0 slot of A    1 byte offset    2 batch stride    3 row stride (m)    4 column stride (k)
#   5 slot of B    6 byte offset    7 batch stride    8 row stride (k)    9 column stride (n)
#  10 M   11 N   12 K
#  13 rows per unit    14 columns per unit    15 units along M    16 units along N
#  17 depth of one pass over K    18 row stride of the partial sums, 0 with one pass (both: kernels that copy B only)
#  19 address of tables: products of windows only, whose other words are listed in ``emit_windows``
# Words from ``GEMM_ARGS`` on belong to the epilogue.
# Example: A is [64, 784] and row-major, of float32: words 2 to 4 are 0, 3136 and 4; its transpose has 0, 4 and 3136.
# Unit u is batch u // (units along M * N), then column block, then row block (fastest: neighbours share B's columns).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = [
    "GEMM_ARGS",
    "Epilogue",
    "GemmSpec",
    "Operand",
    "Panel",
    "StoreEpilogue",
    "load_arg",
    "load_vector",
    "store_vector",
]

GEMM_ARGS = 20
_ITEMSIZES = {"float": 4, "double": 8}
_SCALARS = {"float32": ("float", 4), "float64": ("double", 8)}


class Operand(NamedTuple):
    """A strided view of a storage: ``slot`` of bufs, byte offset, (batch, row, column) strides in elements."""

    slot: int
    byte_offset: int
    strides: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """Everything that the kernel's text depends on (besides the epilogue's own text, which ``epilogue_key`` names).

    Attributes:
        dtype_name: float32 or float64.
        a_unit: which stride of A the text relies on: "k" (form "dot"), "m" (a transposed A: the elements of one k are
            side by side, and the next k is in another line, see Note [Lines ahead]), else "any": A is read one element
            at a time; "table": the same, at offsets from tables, see Note [Windows].
        b_unit: which stride of B is 1: "n", "k" or "none"; or how a panel of windows is copied: "runs", "halves" or
            "krun"; "panels": B lies in panels as wide as the tile, and the column stride is the distance of two panels
            divided by their columns, see Note [Shared panels].
        epilogue_key: names the epilogue.
        rows, vectors: the register tile.
        copy: copy each panel of B to contiguous rows first, in several passes over K if it is long. Always so unless
            ``b_unit`` is "n" or "panels", or is "runs" with one segment to a vector.
        width: lanes of a vector of this dtype.
        fma: use the fused instruction.
        masks: the target has predicated loads and stores.
        segments: see Note [Windows].
        copy_rows: the unit's rows of a transposed A are copied, tile by tile, once for all panels, so that it is read
            along its lines and not across them.
        regions: see Note [Regions of a product].
    """

    dtype_name: str
    a_unit: str
    b_unit: str
    epilogue_key: Hashable
    rows: int
    vectors: int
    copy: bool
    width: int
    fma: bool
    masks: bool
    segments: int = 0
    copy_rows: bool = False
    regions: bool = False

    @property
    def scalar(self) -> str:
        """LLVM's name of the element type."""
        return _SCALARS[self.dtype_name][0]

    @property
    def itemsize(self) -> int:
        return _SCALARS[self.dtype_name][1]

    @property
    def walks(self) -> bool:
        """Whether a transposed A is read in place."""
        return self.a_unit == "m" and not self.copy_rows

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.vectors * self.width

    @property
    def k_nbytes(self) -> int:
        """Of an entry of a table of k: with regions, A's offset stands behind B's, which saves a register."""
        return 16 if self.regions else 8


@dataclass(frozen=True, slots=True)
class Panel:
    """Some neighbouring columns of B and C, as wide as a register tile. ``col`` and ``left`` are i64 registers.

    In a product of windows each vector has a place of its own: ``places`` holds registers of its batch and its first
    column, and ``col`` and ``left`` are not used. ``starts`` is where each begins in the image, if they are read there.
    """

    vectors: int
    width: int
    col: str  # first column
    left: str  # columns that exist
    masks: list[str | None]  # per vector
    places: tuple[tuple[str, str], ...] = ()
    starts: tuple[str, ...] = ()
    whole: str = ""  # i1: all columns exist; empty where B is read without masks anyway

    @property
    def columns(self) -> int:
        return self.vectors * self.width


class Epilogue(Protocol):
    """What happens to a finished vector of C. Subclass it: the defaults are right, if not the fastest.

    Attributes:
        cost: rough instructions per vector. Cheap ones are unrolled over the register tile, long ones are printed once,
            in a loop over the tile. See ``tile.looped``.
        repeatable: applying it twice to the same element does the same as once (it does not read what it writes): then
            an unrolled one needs no branches for the rows past the end.
    """

    cost: int = 100
    repeatable: bool = False

    def prepare(self, b: FnBuilder) -> None:
        """Called once, in the kernel's entry block: the place to load argument words."""

    def __call__(self, b: FnBuilder, acc: str, width: int, batch: str, row: str, col: str, mask: str | None) -> None:
        """Store what is made of ``acc`` = C[batch, row, col : col + width].

        ``batch``, ``row``, ``col`` are i64 registers. ``width`` is the spec's width, or 1 (then ``acc`` is a scalar)
        for column tails of targets without masks. ``mask`` is a ``<width x i1>`` register, or
        None when all lanes count.
        Blocks may be opened, if the last one is left open.
        """


class StoreEpilogue(Epilogue):
    """Store C as it is, or add it to what is there. Arguments: ``StoreEpilogue.args``.

    C's column stride is 1.
    """

    cost = 1

    def __init__(self, dtype_name: str = "float32", accumulate: bool = False) -> None:
        self.scalar, self.itemsize = _SCALARS[dtype_name]
        self.accumulate = accumulate
        self.repeatable = not accumulate
        self.key = ("store", dtype_name, accumulate)
        self._words: list[str] = []

    def args(self, slot: int, byte_offset: int, batch_stride: int, row_stride: int) -> tuple[int, ...]:
        """The epilogue's argument words; strides in elements."""
        return (slot, byte_offset, batch_stride * self.itemsize, row_stride * self.itemsize)

    def prepare(self, b: FnBuilder) -> None:
        slot, offset, batch_stride, row_stride = (load_arg(b, GEMM_ARGS + i) for i in range(4))
        at = b.op(f"getelementptr i64, ptr %bufs, i64 {slot}")
        base = b.op(f"load ptr, ptr {at}")
        base = b.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        self._words = [base, batch_stride, row_stride]

    def __call__(self, b: FnBuilder, acc: str, width: int, batch: str, row: str, col: str, mask: str | None) -> None:
        base, batch_stride, row_stride = self._words
        at = b.op(f"getelementptr i8, ptr {base}, i64 {b.op(f'mul i64 {batch}, {batch_stride}')}")
        at = b.op(f"getelementptr i8, ptr {at}, i64 {b.op(f'mul i64 {row}, {row_stride}')}")
        at = b.op(f"getelementptr {self.scalar}, ptr {at}, i64 {col}")
        if self.accumulate:
            old = load_vector(b, self.scalar, width, at, mask)
            acc = b.op(f"fadd {vector_type(width, self.scalar)} {old}, {acc}")
        store_vector(b, self.scalar, width, acc, at, mask)


def load_arg(b: FnBuilder, index: int) -> str:
    """Argument word ``index`` as an i64 register."""
    at = b.op(f"getelementptr i64, ptr %args, i64 {index}")
    return b.op(f"load i64, ptr {at}")


def load_vector(b: FnBuilder, scalar: str, width: int, at: str, mask: str | None) -> str:
    """``width`` elements from ``at``; lanes outside ``mask`` are not touched and read as 0."""
    vec, itemsize = vector_type(width, scalar), _ITEMSIZES[scalar]
    if mask is None:
        return b.op(f"load {vec}, ptr {at}, align {itemsize}")
    suffix = f"v{width}f{8 * itemsize}.p0"
    b.declare(f"declare {vec} @llvm.masked.load.{suffix}(ptr, i32 immarg, <{width} x i1>, {vec})")
    return b.op(
        f"call {vec} @llvm.masked.load.{suffix}(ptr {at}, i32 {itemsize}, <{width} x i1> {mask}, {vec} zeroinitializer)"
    )


def store_vector(b: FnBuilder, scalar: str, width: int, value: str, at: str, mask: str | None) -> None:
    """Store ``width`` elements to ``at``, those in ``mask`` only."""
    vec, itemsize = vector_type(width, scalar), _ITEMSIZES[scalar]
    if mask is None:
        b.do(f"store {vec} {value}, ptr {at}, align {itemsize}")
        return
    suffix = f"v{width}f{8 * itemsize}.p0"
    b.declare(f"declare void @llvm.masked.store.{suffix}({vec}, ptr, i32 immarg, <{width} x i1>)")
    b.do(f"call void @llvm.masked.store.{suffix}({vec} {value}, ptr {at}, i32 {itemsize}, <{width} x i1> {mask})")


def vector_masks(b: FnBuilder, spec: GemmSpec, left: str, vectors: int) -> list[str | None]:
    """Lanes below the count ``left`` (at most 2**31), per vector; None where the target has no masks."""
    width = spec.width
    if not spec.masks:
        return [None] * vectors
    counts = b.splat(b.op(f"trunc i64 {left} to i32"), "i32", width)
    lanes = [", ".join(f"i32 {v * width + i}" for i in range(width)) for v in range(vectors)]
    return [b.op(f"icmp sgt <{width} x i32> {counts}, <{row}>") for row in lanes]


def fma(b: FnBuilder, spec: GemmSpec, width: int, x: str, y: str, z: str) -> None:
    """Define ``{z}n`` = x * y + z, rounded once if the spec says so. ``z`` is a register that a phi defines."""
    vec = vector_type(width, spec.scalar)
    if not spec.fma:
        b.do(f"{z}n = fadd {vec} {b.op(f'fmul {vec} {x}, {y}')}, {z}")
        return
    kind = f"f{8 * spec.itemsize}"
    name = "llvm.fma." + (f"v{width}{kind}" if width > 1 else kind)
    b.declare(f"declare {vec} @{name}({vec}, {vec}, {vec})")
    b.do(f"{z}n = call {vec} @{name}({vec} {x}, {vec} {y}, {vec} {z})")
