"""Routines of jitgrad's own, which take batches of small matrices: their frame.

Owns: ``StoredMatrix``, products of stretches of memory, ``matrix_call``.
Must not know: what is done with a matrix (``factors.py``, ``reflections.py``, ``indefinite.py``).

# Note [Matrix routines]
# ~~~~~~~~~~~~~~~~~~~~~~
# A factor of a matrix is no loop over independent elements. Such a primitive "matrix" becomes a routine (Note [Array
# kernels]) whose text is printed here, for all extents: LAPACK's unblocked algorithms, one matrix after the other, in
# the frame of Note [Row routines]. A call of LAPACK through NumPy takes microseconds before it begins: of a small
# matrix (``are_small``) that is most of its time. Larger ones stay with LAPACK, whose algorithms use blocks; what NumPy
# has no function for stays here.
# Each array is [batch, x, y], row-major. ``LAYOUTS`` says of each kind what x and y are: "r" rows of a matrix, "c" its
# columns, "v" a vector, "s" a number per matrix. Results are columns, because LAPACK's are, and PyTorch's strides
# therefore. So what one routine leaves is what the next one reads, and nothing is copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.codegen.llvm.text import vector_type
from jitgrad.codegen.routines.routine import RoutineCall
from jitgrad.codegen.routines.rows import MAX_UNITS, UNIT_NS, RowBuilder, routine_of
from jitgrad.dtypes import DType

__all__ = ["LAYOUTS", "StoredMatrix", "axpy", "call_float", "column_blocks", "dot", "fail", "matrix_call", "status_of"]

LAYOUTS = {
    "cholesky": ("r", "cs"),
    "lu": ("r", "cvs"),
    "solve": ("rr", "c"),
    "triangular": ("rr", "c"),
    "lu_solve": ("cvr", "c"),
    "reflections": ("r", "cv"),
    "reflect": ("cvr", "c"),
    "ldl": ("r", "cvs"),
    "ldl_solve": ("cvr", "c"),
    "permutation": ("v", "v"),
}
"""Kind -> how its operands and its results lie in memory."""

_STEP_NS = 1.0
"""A product of two numbers, roughly."""
_LANE_BYTES = 32
_BLOCK = 8


class StoredMatrix:
    """A matrix in memory.

    Attributes:
        array: the number of the array.
        kind: LLVM's type of its elements.
    """

    def __init__(self, b: RowBuilder, array: int, item: str, is_columns: bool) -> None:
        """``item``: which matrix of the batch; ``is_columns``: whether its columns lie in memory, else its rows."""
        self.b, self.array, self.kind = b, array, b.types[array]
        outer, inner = f"%extent.{array}.1", f"%extent.{array}.2"
        self._first = b.op(f"mul i64 {item}, {b.op(f'mul i64 {outer}, {inner}')}")
        self._inner, self._is_columns = inner, is_columns
        self.rows, self.columns = (inner, outer) if is_columns else (outer, inner)

    def place(self, i: str, j: str) -> str:
        """The address of an element."""
        b = self.b
        far, near = (j, i) if self._is_columns else (i, j)
        index = b.op(f"add i64 {self._first}, {b.op(f'mul i64 {far}, {self._inner}')}")
        return b.element(self.array, b.op(f"add i64 {index}, {near}"))

    def load(self, i: str, j: str) -> str:
        return self.b.op(f"load {self.kind}, ptr {self.place(i, j)}")

    def store(self, i: str, j: str, value: str) -> None:
        self.b.do(f"store {self.kind} {value}, ptr {self.place(i, j)}")

    def swap(self, i: str, j: str, other: str) -> None:
        """Exchange the elements of two rows in column ``j``."""
        mine, theirs = self.place(i, j), self.place(other, j)
        x, y = self.b.op(f"load {self.kind}, ptr {mine}"), self.b.op(f"load {self.kind}, ptr {theirs}")
        self.b.do(f"store {self.kind} {y}, ptr {mine}")
        self.b.do(f"store {self.kind} {x}, ptr {theirs}")


def call_float(b: RowBuilder, name: str, kind: str, *values: str, width: int = 1) -> str:
    """LLVM's function of floats, ``llvm.sqrt``, of vectors of ``width``."""
    own = vector_type(width, kind)
    suffix = ("f32" if kind == "float" else "f64") if width == 1 else f"v{width}{'f32' if kind == 'float' else 'f64'}"
    return b.call(own, f"llvm.{name}.{suffix}", *(f"{own} {value}" for value in values))


def _lanes(kind: str) -> int:
    return _LANE_BYTES // _itemsize(kind)


def _itemsize(kind: str) -> int:
    return 4 if kind == "float" else 8


def _load(b: RowBuilder, kind: str, width: int, start: str, index: str) -> tuple[str, str]:
    """(The address of some neighbouring elements, their values)."""
    place = b.op(f"getelementptr {kind}, ptr {start}, i64 {index}")
    return place, b.op(f"load {vector_type(width, kind)}, ptr {place}, align {_itemsize(kind)}")


def axpy(b: RowBuilder, kind: str, count: str, factor: str, x: str, y: str) -> None:
    """``y -= factor * x``, of ``count`` neighbouring elements at two addresses."""
    factor = b.op(f"fneg {kind} {factor}")
    whole = b.op(f"and i64 {count}, -{_lanes(kind)}")
    for width, begin, end in ((_lanes(kind), "0", whole), (1, whole, count)):
        wide = b.splat(factor, kind, width)
        with b.loop(begin, end, width) as index:
            _, value = _load(b, kind, width, x, index)
            place, old = _load(b, kind, width, y, index)
            new = call_float(b, "fmuladd", kind, wide, value, old, width=width)
            b.do(f"store {vector_type(width, kind)} {new}, ptr {place}, align {_itemsize(kind)}")


def dot(b: RowBuilder, kind: str, count: str, x: str, y: str) -> str:
    """The inner product of ``count`` neighbouring elements at two addresses."""
    lanes = _lanes(kind)
    whole, own = b.op(f"and i64 {count}, -{lanes}"), vector_type(lanes, kind)
    with b.fold("0", whole, lanes, [(own, "zeroinitializer")]) as (index, sums):
        left, right = (_load(b, kind, lanes, start, index)[1] for start in (x, y))
        sums[0] = call_float(b, "fmuladd", kind, left, right, sums[0], width=lanes)
    suffix = f"v{lanes}{'f32' if kind == 'float' else 'f64'}"
    b.declare(f"declare {kind} @llvm.vector.reduce.fadd.{suffix}({kind}, {own})")
    total = b.op(f"call reassoc {kind} @llvm.vector.reduce.fadd.{suffix}({kind} 0.0, {own} {sums[0]})")
    with b.fold(whole, count, 1, [(kind, total)]) as (index, rest):
        left, right = (_load(b, kind, 1, start, index)[1] for start in (x, y))
        rest[0] = call_float(b, "fmuladd", kind, left, right, rest[0])
    return rest[0]


@contextmanager
def column_blocks(b: RowBuilder, x: StoredMatrix) -> Iterator[tuple[str, str]]:
    """A few columns at a time, from the first to the end: what is done to all of them finds the other matrix in the
    cache."""
    with b.loop("0", x.columns, _BLOCK) as first:
        yield first, b.call("i64", "llvm.smin.i64", f"i64 {b.op(f'add i64 {first}, {_BLOCK}')}", f"i64 {x.columns}")


def status_of(b: RowBuilder) -> str:
    """Where a routine that can fail keeps what it returns: 0 as long as nothing has failed."""
    place = b.op("alloca i32")
    b.do(f"store i32 0, ptr {place}")
    return place


def fail(b: RowBuilder, status: str, condition: str) -> None:
    """Report bad data if a condition holds."""
    with b.when(condition):
        b.do(f"store i32 1, ptr {status}")


@functools.lru_cache(maxsize=4096)
def matrix_call(
    name: str,
    body: Callable[[RowBuilder], str | None],
    operands: tuple[tuple[tuple[int, int, int], DType], ...],
    results: tuple[tuple[tuple[int, int, int], DType], ...],
    scratch: tuple[int, int] | None = None,
) -> RoutineCall:
    """A call of a matrix routine. Equal arguments give one object.

    Args:
        body: prints the text; returns the status register of one that can fail.
        operands, results: shape and dtype of each array.
        scratch: extents of one more array of the first operand's dtype for each unit of work, which nobody reads.
    """
    (batch, rows, columns), dtype = operands[0]
    others = max(shape[1] * shape[2] for shape, _ in (*operands, *results))
    cost = _STEP_NS * batch * max(others * max(rows, columns), 16)
    units = max(1, min(batch, MAX_UNITS, math.ceil(cost / UNIT_NS)))
    arrays: list[Any] = [*operands, *results]
    if scratch is not None:
        arrays.append(((units, *scratch), dtype))
    routine = routine_of(name, tuple([of for _, of in arrays]), body)
    return RoutineCall(
        routine, [s for s, _ in arrays], [d for _, d in arrays], (units,), len(operands), units, cost
    )
