"""Where temporaries lie: those that are alive together never overlap, and memory is used again."""

from __future__ import annotations

import random

import pytest

from jitgrad.codegen.schedule.memory import Lifetime, plan_arena

_KIB = 1024


def _random(seed: int) -> list[Lifetime]:
    rng = random.Random(seed)
    lifetimes = []
    for _ in range(rng.randint(1, 40)):
        first = rng.randint(0, 20)
        nbytes = rng.choice([0, 4, 64, 100, 4 * _KIB, 32 * _KIB, 64 * _KIB, rng.randint(1, 200 * _KIB)])
        lifetimes.append(Lifetime(nbytes, first, first + rng.choice([0, 0, 1, 3, 15])))
    return lifetimes


@pytest.mark.parametrize("seed", range(50))
def test_what_is_alive_together_does_not_overlap(seed: int) -> None:
    lifetimes = _random(seed)
    size = plan_arena(lifetimes)
    for i, x in enumerate(lifetimes):
        assert x.offset % 64 == 0
        assert 0 <= x.offset <= x.offset + x.nbytes <= size
        for y in lifetimes[:i]:
            is_together = x.first <= y.last and y.first <= x.last
            overlap = x.offset < y.offset + y.nbytes and y.offset < x.offset + x.nbytes
            assert not (is_together and overlap), (x, y)


def test_memory_is_used_again() -> None:
    chain = [Lifetime(_KIB, i, i + 1) for i in range(100)]
    assert plan_arena(chain) == 2 * _KIB
    nested = [Lifetime(_KIB, i, 199 - i) for i in range(100)]
    assert plan_arena([*nested, *[Lifetime(_KIB, 200 + i, 399 - i) for i in range(100)]]) == 100 * _KIB


def test_holes_side_by_side_are_one() -> None:
    small = [Lifetime(_KIB, 0, 0), Lifetime(_KIB, 0, 0)]
    large = Lifetime(2 * _KIB, 1, 1)
    assert plan_arena([*small, large]) == 2 * _KIB
