"""The form a loop kernel has between scheduling and printing.

Owns: ``NestKey``, ``KernelInstr``, ``LoopKernel``.
Must not know: how a nest was chosen, how it is printed.

# Note [Loop nests]
# ~~~~~~~~~~~~~~~~~
# Dims are numbered: unit dims (outermost first), sequential dims, then the vector dim, then the chunk number.
#   form   unit of work                                             inside a unit
#   map    one index of the unit dims x one block of the vector dim  a loop of vectors; for short rows, around it a
#                                                                    loop over the innermost dim of the units
#   tile   one index of the unit dims x one block of the vector dim  squares of the sequential dim x a vector, see
#                                                                    Note [Tiles]; in each a loop over its rows
#   row    one index of the unit dims x one chunk                    per phase: sequential loops, then a loop of
#                                                                    vectors: the reduced dims
#   col    one index of the unit dims x one chunk x one vector       per phase: sequential loops, the reduced dims;
#                                                                    the vector's lanes are kept
# Example: ``exp(x)`` of 10,000 elements is a map of 3 units, blocks of 4096; ``x.sum(1)`` of [64, 1000] is a row of 64
# units; ``x.sum(0)`` of it is a col: each unit adds up 64 rows in the lanes of one vector. Padding [16, 256, 8, 8] to
# [16, 256, 10, 10] is a map of 4096 units of 10 rows, of a vector each: to begin a unit costs as much as some vectors.
# Unit number = ((unit index) * chunks + chunk) * blocks + block. Each unit divides its number into these digits; in a
# map, whose units may be short rows, a task divides for its first one and counts from there on. A phase ends where a
# reduction's result is needed. Argument words: extents of unit dims, of sequential dims, of the vector dim, block
# length, blocks, chunk length, chunks; then each instruction's own words, see ``KernelInstr``. Strides and offsets are
# in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["ACCESSES", "COMBINING", "EFFECTS", "BufferArg", "KernelInstr", "LoopKernel", "NestKey", "classes"]


COMBINING = {"store_add": "add", "store_mul": "mul", "store_max": "max", "store_min": "min", "store_set": ""}
"""Stores at computed places -> the primitive that combines what lies there with what arrives; "" replaces it."""

ACCESSES = frozenset({"load", "gather", "store", *COMBINING})
"""Instructions that touch memory."""

EFFECTS = frozenset({"store", "check", *COMBINING})
"""Instructions that are done even if no other one needs their result."""


class KernelInstr(NamedTuple):
    """One instruction of a kernel, with everything that its text depends on.

    Attributes:
        op: as in Note [Instructions], or "store", "fma", "number" (a constant that is an argument word).
        dtype: name of the result's dtype.
        srcs: earlier instructions. A reduce_sum of two sources sums their product.
        static: load/store: stride class per dim ("0", "1" contiguous, of the last two dims only, "x" any); a store to
            what the kernel also reads: (classes, "last"), done in the last phase; a load whose lanes lie in other
            order: (classes, the stride), Note [Lanes in other order]; gather and ``COMBINING``: (classes,
            number of indices); mask: per condition its dim, which sides must be tested ("l", "h", "lh"), and the word
            of its lower bound, after which the upper one stands: equal bounds share their words; iota: classes; const:
            the literal; scalar: is_float; fma: signs; call: (function, the components that are computed together,
            which of them this is).
        word: its first argument word. load, store: slot, offset, a stride per "x"; gather, ``COMBINING``: the same,
            then a stride per index; iota: constant, a step per dim that counts; scalar: slot;
            number: an integer, or a double's bits; check: extent, status.
        like: an access -> the first one of the same buffer whose strides are the same, perhaps itself: windows over an
            image differ in where they begin, and what a loop's index moves them by is computed once. Else -1.
    """

    op: str
    dtype: str
    srcs: tuple[int, ...]
    static: Any
    word: int
    like: int = -1


@dataclass(slots=True, frozen=True)
class NestKey:
    """Everything that a kernel's text depends on, apart from the target.

    Attributes:
        form: "map", "tile", "row" or "col".
        units: number of unit dims.
        seqs: number of sequential dims.
        width: lanes of the vector loop.
        chunked: "" (no), "seq" (the first sequential dim) or "vec".
        instrs: in order.
        words: number of argument words.
        masked: whether every vector of the loop is masked, instead of a second copy of the loop's body for the rest.
        row_buffer: elements of a row that are kept at most, see Note [Phases]; 0 = rows are too long.
    """

    form: str
    units: int
    seqs: int
    width: int
    chunked: str
    instrs: tuple[KernelInstr, ...]
    words: int
    row_buffer: int = 0
    masked: bool = False

    @property
    def vec(self) -> int:
        """The vector dim's number."""
        return self.units + self.seqs


class BufferArg(NamedTuple):
    """Two argument words, slot and byte offset, that are known when buffers are: ``buffer``'s own plus ``offset``."""

    buffer: Any
    offset: int


@dataclass(slots=True, eq=False)
class LoopKernel:
    """A kernel to launch.

    Attributes:
        key: its text.
        words: its argument words: ints, ``BufferArg``s (two words each) and ``RuntimeScalar``s (a slot number).
        units: units of work.
        cost: estimated nanoseconds on one core.
        name: for logs.
    """

    key: NestKey
    words: list[Any]
    units: int
    cost: float
    name: str


def classes(instr: KernelInstr) -> str:
    """An access's stride class per dim."""
    return instr.static if isinstance(instr.static, str) else instr.static[0]
