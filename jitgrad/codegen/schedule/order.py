"""In which stages jobs run.

Owns: ``levels``, ``depth_first``, and from when on the second is tried.
Must not know: what jobs compute.
In: jobs, each with those it waits for. Out: stages of jobs that are independent of each other.

# Note [Order of jobs]
# ~~~~~~~~~~~~~~~~~~~~
# By levels, a job runs as soon as all it waits for has: few stages, with as much as possible for several threads in
# each. But then everything of a level is alive at once. Where the arena is larger than a cache, the order that finishes
# one value before it begins the next is planned, too, and taken if its arena is far smaller: what a job writes is still
# in the cache when the next one reads it. Jobs compute the same numbers in any order.
# Example: a causal attention in eight blocks has eight products, eight softmaxes and eight products. By levels, all
# scores are written before the first softmax reads one; depth first, those of one block are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from jitgrad.symbols.advice import advice

__all__ = ["depth_first", "fits_cache", "levels", "takes_far_less"]

_CACHE_NBYTES = 1 << 20
"""An arena up to this size stays in the cache in any order."""
_DEEP_SHARE = 0.75
"""The other order must need at most this part of the arena: it has more stages."""
_STAGE_NBYTES = 1 << 19
"""So much may be written to the arena in one stage by independent jobs, in the second order."""


class Ordered(Protocol):
    """A job, as far as its order goes.

    Attributes:
        after: jobs that must have ended.
        stage: the number of its stage, which is set here.
    """

    after: dict[Any, None]
    stage: int


J = TypeVar("J", bound=Ordered)


def levels(jobs: Sequence[J]) -> list[list[J]]:
    """Each job one stage after the last of those it waits for; without those that wait for each other."""
    waits = {j: len(j.after) for j in jobs}
    followers: dict[J, list[J]] = {}
    for j in jobs:
        for before in j.after:
            followers.setdefault(before, []).append(j)
    stages: list[list[J]] = []
    ready = [j for j in jobs if not waits[j]]
    while ready:
        for j in ready:
            j.stage = len(stages)
        stages.append(ready)
        following = []
        for j in ready:
            for f in followers.get(j, ()):
                waits[f] -= 1
                if not waits[f]:
                    following.append(f)
        ready = following
    return stages


@advice
def fits_cache(arena_nbytes: int) -> bool:
    """Whether an arena of the first order stays in the cache."""
    return arena_nbytes <= _CACHE_NBYTES


@advice
def takes_far_less(arena_nbytes: int, other: int) -> bool:
    """Whether the second order's arena is far smaller than the ``other``, the first one's."""
    return arena_nbytes < _DEEP_SHARE * other


@advice
def depth_first(jobs: Sequence[J], nbytes_of: Callable[[J], int]) -> list[list[J]]:
    """Each job soon after the last of those it waits for, and what is needed for one job before what others need.

    Args:
        jobs: none waits for itself through others.
        nbytes_of: how much of the arena a job fills.
    """
    stages: list[list[J]] = [[]]
    filled = 0
    for j in _finished_in_turn(jobs, nbytes_of):
        nbytes = nbytes_of(j)
        last = max((before.stage for before in j.after), default=-1)
        if last == len(stages) - 1 or (stages[-1] and filled + nbytes > _STAGE_NBYTES):
            stages.append([])
            filled = 0
        j.stage = len(stages) - 1
        stages[-1].append(j)
        filled += nbytes
    return stages


def _finished_in_turn(jobs: Sequence[J], nbytes_of: Callable[[J], int]) -> list[J]:
    """Jobs that nobody waits for in turn, each behind all that it waits for.

    Behind a job come those that waited for nothing else and make less than it did: what they read is in a cache still,
    and need not live on.
    """
    followers: dict[J, list[J]] = {}
    for j in jobs:
        for before in j.after:
            followers.setdefault(before, []).append(j)
    waits = {j: len(j.after) for j in jobs}
    found: dict[J, None] = {}

    def finish(j: J) -> None:
        stack = [j]
        while stack:
            done = stack.pop()
            found[done] = None
            for f in reversed(followers.get(done, ())):
                waits[f] -= 1
                if not waits[f] and nbytes_of(f) < max(1, nbytes_of(done)):
                    stack.append(f)

    for last in (j for j in jobs if j not in followers):
        stack = [last]
        while stack:
            j = stack[-1]
            before = next((b for b in j.after if b not in found), None)
            if before is not None:
                stack.append(before)
                continue
            stack.pop()
            if j not in found:
                finish(j)
    return list(found)
