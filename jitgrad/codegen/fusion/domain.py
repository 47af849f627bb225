"""Loop domains, and why a value does not fit one.

Owns: ``Domain``, ``Refuse``, ``Resplit``.
Must not know: instructions, kernels.
"""

from __future__ import annotations

import functools

from jitgrad.codegen.fusion.index_map import Expr, IndexMap, Range, Split
from jitgrad.codegen.primitives.builder import Value
from jitgrad.ops.aval import contiguous_strides

__all__ = ["Domain", "Refuse", "Resplit"]


# Note [Errors and frames]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# An error holds the frames that it came through, and each frame holds its caller's, up to the user's step with all its
# tensor handles. If a frame also holds the error, in a variable, that is a cycle: it lives until the next collection,
# and the handles with it. They would survive their segment in one call and not in the next, and each set of survivors
# is another program to compile. So an error that is kept or returned loses its frames (``with_traceback(None)``).
# Example: ``except Refuse as refusal: return refusal`` in ``fuse`` would keep the user's ``loss`` alive.


class Refuse(Exception):
    """A value cannot be part of this loop. ``store``: the value that must lie in memory first, if that would help."""

    def __init__(self, reason: str, store: Value | None = None) -> None:
        super().__init__(reason)
        self.reason, self.store = reason, store


class Resplit(Exception):
    """The domain must be finer (see Note [Index maps]), or ``store`` must lie in memory."""

    def __init__(self, split: Split, store: Value) -> None:
        super().__init__(split)
        self.split, self.store = split, store


class Domain:
    """A loop domain: a shape without its extents of 1, whose dims may be split further.

    Attributes:
        shape: the extents before splitting.
        parts: per dim of ``shape``, its loops' extents, outermost first.
        extents: of all loops.
        firsts: per dim of ``shape``, the number of its first loop.
    """

    __slots__ = ("extents", "firsts", "parts", "shape")

    def __init__(self, shape: tuple[int, ...], parts: list[tuple[int, ...]] | None = None) -> None:
        self.shape = shape
        if parts is None:
            self.parts: list[tuple[int, ...]] = [(n,) for n in shape]
            self.extents: tuple[int, ...] = shape
            self.firsts = list(range(len(shape)))
        else:
            self.parts = parts
            self.extents = tuple([n for part in parts for n in part])
            self.firsts = [sum(map(len, parts[:d])) for d in range(len(shape))]

    def split(self, at: Split) -> Domain:
        """The domain with loop ``at.dim`` cut in two."""
        parts = list(self.parts)
        d = max(d for d, first in enumerate(self.firsts) if first <= at.dim)
        k = at.dim - self.firsts[d]
        part = parts[d]
        parts[d] = (*part[:k], part[k] // at.factor, at.factor, *part[k + 1 :])
        return Domain(self.shape, parts)

    def loops_of(self, d: int) -> range:
        """The loops that dim ``d`` became."""
        return range(self.firsts[d], self.firsts[d] + len(self.parts[d]))

    def identity(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> IndexMap:
        """The map of a value of ``shape`` whose extents other than 1 run along the domain's ``dims``, in order."""
        return _identity(tuple(self.parts), shape, dims)

    def border(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> list[Range]:
        """Where a value that is shorter than the domain along some of ``dims`` exists.

        Raises:
            Refuse: it is shorter along a dim that was split.
        """
        ranges = []
        for n, d in zip(shape, dims, strict=True):
            if n != self.shape[d]:
                if len(self.parts[d]) > 1:
                    raise Refuse("is shorter than a loop that was split")
                ranges.append(Range(self.firsts[d], 0, n))
        return ranges

    def full_identity(self) -> IndexMap:
        """The map of a value whose every dim is a loop, extents of 1 included."""
        return _full_identity(len(self.extents))


@functools.lru_cache(maxsize=4096)
def _identity(parts: tuple[tuple[int, ...], ...], shape: tuple[int, ...], dims: tuple[int, ...]) -> IndexMap:
    """See ``Domain.identity``."""
    rank = sum(map(len, parts))
    firsts = [sum(map(len, parts[:d])) for d in range(len(parts))]
    out: list[Expr] = []
    following = iter(dims)
    for n in shape:
        expr = [0] * (rank + 1)
        if n != 1:
            d = next(following)
            for loop, stride in enumerate(contiguous_strides(parts[d]), firsts[d]):
                expr[loop + 1] = stride
        out.append(tuple(expr))
    return tuple(out)


@functools.cache
def _full_identity(rank: int) -> IndexMap:
    return tuple([tuple([int(i == d + 1) for i in range(rank + 1)]) for d in range(rank)])
