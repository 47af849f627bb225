"""Routines of jitgrad's own, which walk the rows of arrays along one dimension: their frame.

Owns: ``RowBuilder``, ``row_call``: parameters, units of work, addresses.
Must not know: what is done with a row (``scans.py``, ``sorting.py``).

# Note [Row routines]
# ~~~~~~~~~~~~~~~~~~~
# A running sum, or a sort, is no loop over independent elements: each row is walked from its beginning to its end. Such
# a primitive becomes a "routine" (Note [Array kernels]) whose text is printed here, for all shapes. Its arrays are
# [outer, n, inner], row-major, where n is the extent of the dimension: ``x.cumsum(1)`` of x[4, 5, 6] walks 24 rows of
# 5 elements, [4, 5, 6]; ``x.cumsum(-1)`` walks 20 rows, [20, 6, 1]. Rows are shared out among ``units`` of work, of
# which each takes its part of the items: an item is a row where inner is 1, and else LANES neighbouring rows, which are
# walked side by side; a sort takes rows one by one. What is computed does not depend on who computes it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitgrad.codegen.llvm.dtype_text import memory
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.codegen.routines.routine import ArrayRoutine, RoutineCall, RoutineParam
from jitgrad.dtypes import DType, int64
from jitgrad.errors import CompileError
from jitgrad.symbols.number import TOKEN

__all__ = ["LANES", "MAX_UNITS", "UNIT_NS", "RowBuilder", "routine_of", "row_call"]

LANES = 16
"""How many neighbouring rows are walked side by side: a cache line of float32."""
UNIT_NS = 20_000.0
"""A unit of work is worth waking another thread for."""
MAX_UNITS = 64
_SYMBOL = "rows"


class RowBuilder(FnBuilder):
    """The text of a row routine.

    Attributes:
        outer, n, inner: registers with the extents of the first array.
        places: the arrays' addresses.
        types: how their elements lie in memory.
    """

    __slots__ = ("inner", "n", "outer", "places", "types")

    def __init__(self, dtypes: Sequence[DType]) -> None:
        given = ["ptr %retptr", "ptr %exception", "i64 %unit"]
        for nr in range(len(dtypes)):
            given += [f"ptr %none.{nr}", f"ptr %nothing.{nr}", f"i64 %count.{nr}", f"i64 %size.{nr}", f"ptr %at.{nr}"]
            given += [f"i64 %extent.{nr}.{d}" for d in range(3)] + [f"i64 %stride.{nr}.{d}" for d in range(3)]
        super().__init__(_SYMBOL, ", ".join([*given, "i64 %units"]))
        self.outer, self.n, self.inner = (f"%extent.0.{d}" for d in range(3))
        self.places = [f"%at.{nr}" for nr in range(len(dtypes))]
        self.types = [memory(d.name) for d in dtypes]

    def element(self, array: int, index: str) -> str:
        """The address of an element, by its number in memory."""
        return self.op(f"getelementptr {self.types[array]}, ptr {self.places[array]}, i64 {index}")

    def load(self, array: int, index: str) -> str:
        """An element."""
        return self.op(f"load {self.types[array]}, ptr {self.element(array, index)}")

    def store(self, array: int, index: str, value: str) -> None:
        """Write an element."""
        self.do(f"store {self.types[array]} {value}, ptr {self.element(array, index)}")

    @contextmanager
    def shared(self, count: str) -> Iterator[str]:
        """The unit's part of ``count`` items, one by one."""
        with self.loop(*self.part(count)) as item:
            yield item

    def part(self, count: str) -> tuple[str, str]:
        """The unit's part of ``count`` items: (its first one, one past its last)."""
        first = self.op(f"sdiv i64 {self.op(f'mul i64 {count}, %unit')}, %units")
        following = self.op(f"mul i64 {count}, {self.op('add i64 %unit, 1')}")
        return first, self.op(f"sdiv i64 {following}, %units")

    @contextmanager
    def rows(self) -> Iterator[str]:
        """Where inner is 1: the unit's rows, each by the number of its first element."""
        with self.when(self.op(f"icmp eq i64 {self.inner}, 1")), self.shared(self.outer) as row:
            yield self.op(f"mul i64 {row}, {self.n}")

    @contextmanager
    def strips(self) -> Iterator[tuple[str, str]]:
        """Where inner is not 1: the unit's strips of neighbouring rows: (number of the first element, how many)."""
        with self.when(self.op(f"icmp ne i64 {self.inner}, 1")):
            per_row = self.op(f"sdiv i64 {self.op(f'add i64 {self.inner}, {LANES - 1}')}, {LANES}")
            with self.shared(self.op(f"mul i64 {self.outer}, {per_row}")) as item:
                block, strip = self.op(f"sdiv i64 {item}, {per_row}"), self.op(f"srem i64 {item}, {per_row}")
                start = self.op(f"mul i64 {strip}, {LANES}")
                begin = self.op(f"mul i64 {block}, {self.op(f'mul i64 {self.n}, {self.inner}')}")
                rest = self.op(f"sub i64 {self.inner}, {start}")
                width = self.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {LANES}")
                yield self.op(f"add i64 {begin}, {start}"), width


@functools.lru_cache(maxsize=256)
def routine_of(name: str, dtypes: tuple[DType, ...], body: Callable[[RowBuilder], str | None]) -> ArrayRoutine:
    """The routine that ``body`` prints. Equal arguments give one object. One that can fail returns the register of its
    status, which is 0 where all was well.

    Raises:
        CompileError: the name, and so the text, depends on a symbolic number.
    """
    if TOKEN in name:
        raise CompileError("an extent is part of a routine's text")
    b = RowBuilder(dtypes)
    status = body(b)
    text = b.finish(f"ret i32 {status or 0}", "internal i32")
    arrays = [RoutineParam("array", d.name, 3) for d in dtypes]
    params = [RoutineParam("unit", "i64"), *arrays, RoutineParam("int", "i64")]
    return ArrayRoutine(name, text, _SYMBOL, params, can_fail=status is not None)


@functools.lru_cache(maxsize=4096)
def row_call(
    name: str,
    body: Callable[[RowBuilder], None],
    arrays: tuple[tuple[tuple[int, int, int], DType], ...],
    element_ns: float,
    scratch: tuple[int, int] | None = None,
    items: int = 0,
) -> RoutineCall:
    """A call of a row routine. Equal arguments give one object.

    Args:
        arrays: (outer, n, inner) and dtype of the operand, then of each result.
        element_ns: what an element of the operand takes, roughly.
        scratch: extents of an int64 array for each unit of work: one more result, which nobody reads.
        items: what units share, if not rows and strips of them.
    """
    (outer, n, inner), _ = arrays[0]
    items = items or outer * (1 if inner == 1 else -(-inner // LANES))
    cost = element_ns * outer * n * inner
    units = max(1, min(items, MAX_UNITS, math.ceil(cost / UNIT_NS)))
    if scratch is not None:
        arrays = (*arrays, ((units, *scratch), int64))
    routine = routine_of(name, tuple([dtype for _, dtype in arrays]), body)
    return RoutineCall(routine, [s for s, _ in arrays], [d for _, d in arrays], (units,), 1, units, cost)
