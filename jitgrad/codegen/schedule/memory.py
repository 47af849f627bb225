"""Arena planning: where each temporary lies, by liveness.

Owns: ``plan_arena``.
Must not know: what the temporaries hold.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from jitgrad.symbols.number import smallest

__all__ = ["Lifetime", "plan_arena"]

_ALIGN = 64
_PAGE = 4096
_STAGGER_FROM = 32 << 10
_STAGGER = 13 * _ALIGN
_LARGE, _FEW = 1 << 20, 500
"""Arenas from this size on, of at most so many values, are planned in two ways."""


@dataclass(slots=True)
class Lifetime:
    """A temporary that lives from stage ``first`` to stage ``last``, both included. ``offset`` is the answer."""

    nbytes: int
    first: int
    last: int
    offset: int = 0


def plan_arena(lifetimes: Iterable[Lifetime]) -> int:
    """Set every ``offset`` (multiples of 64) so that lifetimes alive together never overlap; returns the arena's size.

    Best fit over the holes, by order of birth: linear in practice, and within a few per cent of optimal for the
    stack-like lifetimes of a forward and a backward pass. Values that grow from one to the next fit into no hole that
    an earlier one left: a large arena of few values is planned by size, too (Y. Pisarchyk and J. Lee, "Efficient Memory
    Management for Deep Neural Net Inference", 2020, greedy by size), and the smaller plan is taken.
    """
    planned = list(lifetimes)
    top = _by_birth(planned)
    if top >= _LARGE and len(planned) <= _FEW:
        offsets = [x.offset for x in planned]
        other = _by_size(planned)
        if other < top:
            return other
        for lifetime, offset in zip(planned, offsets, strict=True):
            lifetime.offset = offset
    return top


def _by_size(planned: list[Lifetime]) -> int:
    """The largest first, each at the lowest place where nothing else is while it lives."""
    placed: list[Lifetime] = []
    top = 0
    for lifetime in sorted(planned, key=lambda x: (-_rounded(x), x.first)):
        offset, size = 0, _rounded(lifetime)
        for other in sorted(
            (x for x in placed if x.first <= lifetime.last and lifetime.first <= x.last), key=lambda x: x.offset
        ):
            if offset + size <= other.offset:
                break
            offset = max(offset, other.offset + _rounded(other))
        lifetime.offset = offset
        placed.append(lifetime)
        top = max(top, offset + size)
    return top


def _by_birth(planned: list[Lifetime]) -> int:
    """In the order in which they begin, each in the smallest hole that has room."""
    holes = _Holes()
    alive: dict[int, list[Lifetime]] = {}
    top = 0
    pending = sorted(planned, key=lambda x: (x.first, -x.nbytes))
    expired = -1
    for lifetime in pending:
        while expired < lifetime.first - 1:
            expired += 1
            for dead in alive.pop(expired, ()):
                holes.give(dead.offset, _rounded(dead))
        size = _rounded(lifetime)
        found = holes.take(size)
        if found is None:
            found, top = top, top + size
        lifetime.offset = found
        alive.setdefault(lifetime.last, []).append(lifetime)
    return top


def _rounded(lifetime: Lifetime) -> int:
    """The size, in whole cache lines; large temporaries of whole pages get some room behind them.

    Without it all of them would begin at the same place of a page and compete for the same few lines of the L1 cache.
    """
    size = max(_ALIGN, -(-lifetime.nbytes // _ALIGN) * _ALIGN)
    if size < _STAGGER_FROM:
        return size
    rest: int = smallest(1, size % _PAGE)  # no question about symbolic sizes: these are whole pages now and then
    return size + _STAGGER * (1 - rest)


class _Holes:
    """The free blocks below the arena's top; no two touch."""

    __slots__ = ("_by_size", "_ends", "_sizes")

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # offset -> size
        self._ends: dict[int, int] = {}  # offset behind a block -> its own
        self._by_size: list[tuple[int, int]] = []  # (size, offset), sorted

    def take(self, size: int) -> int | None:
        """The offset of a block in the smallest hole that has room, the lowest among equals; None if there is none."""
        first = bisect_left(self._by_size, (size, 0))
        if first == len(self._by_size):
            return None
        room, offset = self._by_size.pop(first)
        del self._sizes[offset], self._ends[offset + room]
        if room > size:
            self.give(offset + size, room - size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Give a block back, joined with the holes that touch it."""
        before = self._ends.pop(offset, None)
        if before is not None:
            size += self._without(before)
            offset = before
        if offset + size in self._sizes:
            size += self._without(offset + size)
        self._sizes[offset] = size
        self._ends[offset + size] = offset
        insort(self._by_size, (size, offset))

    def _without(self, offset: int) -> int:
        """Take a block out; its size."""
        size = self._sizes.pop(offset)
        del self._by_size[bisect_left(self._by_size, (size, offset))]
        return size
