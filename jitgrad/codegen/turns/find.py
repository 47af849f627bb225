"""Where the turns of a loop begin, in a list of instructions that a loop in Python has left.

Owns: ``TurnLoop``, ``find_loops``.
Must not know: what is done with the turns.
In: one number per instruction, equal for like ones. Out: positions.

Equality of the numbers is a guess: two turns that look alike may read other values. What is found here only says where
to look; Note [Equal turns] says what is compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["TurnLoop", "find_loops"]

_GRAM = 8  # instructions that must be alike for two places to be taken for the same place of two turns
_CANDIDATES = 16
_LOOPS = 8
_TURNS = 4  # a loop has at least so many


class TurnLoop(NamedTuple):
    """Instructions ``start`` to ``stop``, which repeat after ``period`` of them."""

    start: int
    stop: int
    period: int


def find_loops(kinds: np.ndarray) -> list[TurnLoop]:
    """Loops that do not overlap, in order.

    Args:
        kinds: (n,) int64, equal for instructions that are alike.
    """
    free = np.ones(len(kinds), bool)
    periods = _candidates(kinds)
    found: list[TurnLoop] = []
    while len(found) < _LOOPS:
        best: list[TurnLoop] = []
        covered = 0
        for period in periods:
            loops = _loops_of(kinds, free, period)
            count = sum([x.stop - x.start for x in loops])
            if count > covered:  # of equal ones the shortest period
                best, covered = loops, count
        if not best:
            break
        found += best
        for loop in best:
            free[loop.start : loop.stop] = False
    return sorted(found)


def _candidates(kinds: np.ndarray) -> list[int]:
    """The commonest distances between a place and the next one that looks like it, ascending."""
    count = len(kinds) - _GRAM + 1
    if count < 2:
        return []
    grams = np.zeros(count, np.uint64)
    for n in range(_GRAM):
        grams = grams * np.uint64(0x9E3779B97F4A7C15) + kinds[n : n + count].astype(np.uint64)
    order = np.argsort(grams, kind="stable")
    same = grams[order[1:]] == grams[order[:-1]]
    distances, counts = np.unique((order[1:] - order[:-1])[same], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_CANDIDATES]
    return sorted(int(x) for x in distances[most] if x <= len(kinds) // _TURNS)


def _loops_of(kinds: np.ndarray, free: np.ndarray, period: int) -> list[TurnLoop]:
    """The stretches of free instructions that repeat after ``period``."""
    repeats = (kinds[period:] == kinds[:-period]) & free[period:] & free[:-period]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], repeats, [False]))))
    loops = [TurnLoop(int(a), int(b) + period, period) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return [x for x in loops if x.stop - x.start >= _TURNS * period]
