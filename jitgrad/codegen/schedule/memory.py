"""Arena planning: where each temporary lies, by liveness.

Owns: ``plan_arena``.
Must not know: what the temporaries hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    holes: list[tuple[int, int]] = []  # (offset, size), sorted by offset, never adjacent
    alive: dict[int, list[Lifetime]] = {}
    top = 0
    pending = sorted(planned, key=lambda x: (x.first, -x.nbytes))
    expired = -1
    for lifetime in pending:
        while expired < lifetime.first - 1:
            expired += 1
            for dead in alive.pop(expired, ()):
                _free(holes, dead.offset, _rounded(dead))
        size = _rounded(lifetime)
        fits = [(hole_size, offset) for offset, hole_size in holes if hole_size >= size]
        if fits:
            hole_size, offset = min(fits)
            holes.remove((offset, hole_size))
            if hole_size > size:
                _free(holes, offset + size, hole_size - size)
        else:
            offset, top = top, top + size
        lifetime.offset = offset
        alive.setdefault(lifetime.last, []).append(lifetime)
    return top


def _rounded(lifetime: Lifetime) -> int:
    """The size, in whole cache lines; large temporaries of whole pages get some room behind them.

    Without it all of them would begin at the same place of a page and compete for the same few lines of the L1 cache.
    """
    size = max(_ALIGN, -(-lifetime.nbytes // _ALIGN) * _ALIGN)
    return size + _STAGGER if size >= _STAGGER_FROM and size % _PAGE == 0 else size


def _free(holes: list[tuple[int, int]], offset: int, size: int) -> None:
    """Give a block back, joined with the holes that touch it."""
    end = offset + size
    for hole in [h for h in holes if h[0] + h[1] == offset or h[0] == end]:
        holes.remove(hole)
        offset, end = min(offset, hole[0]), max(end, hole[0] + hole[1])
    holes.append((offset, end - offset))
