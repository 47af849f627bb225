"""Arena planning: where each temporary lies, by liveness.

Owns: ``plan_arena``.
Must not know: what the temporaries hold.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jitgrad.symbols.advice import always_equal
from jitgrad.symbols.number import current_env, is_symbolic, lifted, value_of

__all__ = ["Lifetime", "plan_arena", "planned_by_size"]

_ALIGN = 64
_PAGE = 4096
_STAGGER_FROM = 32 << 10
_STAGGER = 13 * _ALIGN
_LARGE, _FEW = 1 << 20, 500
"""Arenas from this size on, of at most so many values, are planned in two ways."""


@dataclass(slots=True, eq=False)
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
    env = current_env()
    if env is not None and env.by_size is None and any([is_symbolic(x.nbytes) for x in planned]):
        env.by_size = _takes_little(planned)
    if _plans.by_size if env is None else env.by_size:
        return _by_exact_size(planned)
    if any([is_symbolic(x.nbytes) for x in planned]):
        return _for_all_extents(planned)
    top = _by_birth(planned)
    if top >= _LARGE and len(planned) <= _FEW:
        offsets = [x.offset for x in planned]
        other = _by_size(planned)
        if other < top:
            return other
        for lifetime, offset in zip(planned, offsets, strict=True):
            lifetime.offset = offset
    return top


# Note [Arenas for all extents]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Which hole a temporary fits into is a question about two sizes, and a plan asks hundreds of them: few other extents
# would give all the same answers (Note [Symbolic extents]). So plans for all extents have a temporary take the place of
# an earlier one of exactly its size, and no other; networks have many values of few sizes. Where that would take
# more than ``_MUCH`` times the memory, places are planned for each set of extents, when it comes.
_MUCH = 2.0


class _Plans(threading.local):
    by_size = False


_plans = _Plans()


@contextlib.contextmanager
def planned_by_size(by_size: bool) -> Iterator[None]:
    """Plan arenas as for all extents inside the block, on this thread: for a comparison."""
    before, _plans.by_size = _plans.by_size, by_size
    try:
        yield
    finally:
        _plans.by_size = before


def _takes_little(planned: Sequence[Lifetime]) -> bool:
    """Whether ``_by_exact_size`` takes little more memory than the usual way, for the extents at hand."""
    plain = [Lifetime(value_of(x.nbytes), x.first, x.last) for x in planned]
    return _by_exact_size(plain) <= _MUCH * _by_birth(plain)


def _by_exact_size(planned: Sequence[Lifetime]) -> int:
    """In the order in which they begin, each at the place of one of its size that has ended."""
    sizes: list[int] = []
    free: list[list[Lifetime]] = []  # per size, those whose places are taken by nobody else
    top: int = 0
    for lifetime in sorted(planned, key=lambda x: x.first):
        nr = next((nr for nr, size in enumerate(sizes) if always_equal(size, lifetime.nbytes)), len(sizes))
        if nr == len(sizes):
            sizes.append(lifetime.nbytes)
            free.append([])
        ended = next((x for x in free[nr] if x.last < lifetime.first), None)
        if ended is None:
            lifetime.offset, top = top, top + -(-lifetime.nbytes // _ALIGN) * _ALIGN + _STAGGER
        else:
            free[nr].remove(ended)
            lifetime.offset = ended.offset
        free[nr].append(lifetime)
    return top


def _for_all_extents(planned: Sequence[Lifetime]) -> int:
    """Of symbolic sizes: where everything lies is planned again for each set of extents."""
    spans = [(x.first, x.last) for x in planned]

    def places(*sizes: int) -> tuple[int, ...]:
        again = [Lifetime(size, *span) for size, span in zip(sizes, spans, strict=True)]
        return (plan_arena(again), *[x.offset for x in again])

    found = lifted(places)(*[x.nbytes for x in planned])
    item = lifted(operator.getitem)
    for nr, lifetime in enumerate(planned, 1):
        lifetime.offset = item(found, nr)
    top: int = item(found, 0)
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
    return size + _STAGGER if size >= _STAGGER_FROM and size % _PAGE == 0 else size


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
