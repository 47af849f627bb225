"""Vector shuffles that map to one instruction each: concatenation, in-lane transposes, sums across lanes.

Owns: ``shuffle``, ``concat``, ``transpose_lanes``, ``sum_each``.
Must not know: matrices.

Two-source shuffles within 128-bit lanes (unpack, shuffle) and of whole lanes are single instructions on x86, where
arbitrary permutations need index registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.codegen.llvm.text import FnBuilder, vector_type

__all__ = ["concat", "shuffle", "sum_each", "transpose_lanes"]


def shuffle(b: FnBuilder, scalar: str, x: str, y: str, width: int, order: Sequence[int]) -> str:
    """Elements ``order`` of ``x`` followed by ``y``, each of ``width`` elements."""
    vec = vector_type(width, scalar)
    index = ", ".join(f"i32 {i}" for i in order)
    return b.op(f"shufflevector {vec} {x}, {vec} {y}, <{len(order)} x i32> <{index}>")


def concat(b: FnBuilder, scalar: str, pieces: Sequence[str], width: int) -> str:
    """One vector of the pieces, in order; their number is a power of two."""
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [shuffle(b, scalar, x, y, width, range(2 * width)) for x, y in pairs]
        width *= 2
    return pieces[0]


# In-lane transposes as rounds of two-source shuffles: (first source, second source, pick), where pick below ``lane``
# takes from the first and above from the second, the same in every 128-bit lane.
_ROUNDS = {
    2: (((0, 1, (0, 2)), (0, 1, (1, 3))),),
    4: (
        ((0, 1, (0, 4, 1, 5)), (0, 1, (2, 6, 3, 7)), (2, 3, (0, 4, 1, 5)), (2, 3, (2, 6, 3, 7))),
        ((0, 2, (0, 1, 4, 5)), (0, 2, (2, 3, 6, 7)), (1, 3, (0, 1, 4, 5)), (1, 3, (2, 3, 6, 7))),
    ),
}


def transpose_lanes(b: FnBuilder, scalar: str, rows: list[str], width: int) -> list[str]:
    """Transpose each 128-bit lane across the rows (as many rows as a lane has elements)."""
    lane = len(rows)
    for turn in _ROUNDS[lane]:
        rows = [shuffle(b, scalar, rows[x], rows[y], width, _spread(pick, lane, width)) for x, y, pick in turn]
    return rows


def _spread(pick: tuple[int, ...], lane: int, width: int) -> list[int]:
    return [base + (p if p < lane else p - lane + width) for base in range(0, width, lane) for p in pick]


# Pairwise sums inside a lane, as (pick of one term, pick of the other), round by round: the lanes of two vectors become
# one lane that holds half as many terms of each.
_FOLDS = {
    2: (((0, 2), (1, 3)),),
    4: (((0, 4, 1, 5), (2, 6, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7))),
}


def sum_each(b: FnBuilder, scalar: str, vectors: list[str], lane: int) -> str:
    """A vector whose element i is the sum of the elements of ``vectors[i]`` (as many as a vector has elements)."""
    width = len(vectors)
    for lo, hi in _FOLDS[lane]:
        vectors = _fold(b, scalar, vectors, width, _spread(lo, lane, width), _spread(hi, lane, width))
    starts = range(0, 2 * width, 2 * lane)
    while len(vectors) > 1:
        even = [start + i for start in starts for i in range(lane)]
        vectors = _fold(b, scalar, vectors, width, even, [i + lane for i in even])
    return vectors[0]


def _fold(b: FnBuilder, scalar: str, vectors: list[str], width: int, lo: list[int], hi: list[int]) -> list[str]:
    out = []
    for x, y in zip(vectors[::2], vectors[1::2], strict=True):
        terms = [shuffle(b, scalar, x, y, width, order) for order in (lo, hi)]
        out.append(b.op(f"fadd {vector_type(width, scalar)} {terms[0]}, {terms[1]}"))
    return out
