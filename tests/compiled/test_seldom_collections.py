"""Calls that record what is new let Python collect cycles seldom, and leave the user's settings as they were."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import garbage
from jitgrad.config import config

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def compiled(inside: Any = lambda: None) -> tuple[Any, list[Any]]:
    """A step, and the thresholds that it finds after its first operation."""
    seen: list[Any] = []

    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        seen.append(gc.get_threshold())
        inside()
        return (y + x).sum()

    return step, seen


def test_seldom_while_something_is_new() -> None:
    step, seen = compiled()
    for _ in range(3):
        step(jg.ones(3))
        assert gc.get_threshold() == USUAL
    assert seen == [(garbage._SELDOM, 10, 10), USUAL, USUAL]


def test_a_call_that_raises_leaves_nothing_behind() -> None:
    def fail() -> None:
        raise KeyError("the user's")

    step, seen = compiled(fail)
    with pytest.raises(KeyError):
        step(jg.ones(3))
    assert seen[0][0] == garbage._SELDOM
    assert gc.get_threshold() == USUAL


def test_a_long_call_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_new_values", 16)
    seen: list[Any] = []

    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(100):
            x = x * 0.5 + 1
        seen.append(gc.get_threshold())
        return x

    step(jg.ones(3))
    assert seen[0][0] == garbage._SELDOM
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("own", [(5, 5, 5), (0, 10, 10), (200_000, 20, 20)])
def test_what_the_user_sets_meanwhile_stays(own: tuple[int, int, int]) -> None:
    step, _ = compiled(lambda: gc.set_threshold(*own))
    step(jg.ones(3))
    assert gc.get_threshold() == own


@pytest.mark.parametrize("own", [(0, 10, 10), (200_000, 20, 20)])
def test_who_collects_seldom_or_never_still_does(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    step, seen = compiled()
    step(jg.ones(3))
    assert seen == [own]
    assert gc.get_threshold() == own


def test_a_call_within_a_call_of_another_thread_waits_for_both() -> None:
    first, second = (type("Grows", (), {})() for _ in range(2))
    garbage.collect_seldom(first)
    garbage.collect_seldom(second)
    garbage.collect_as_before(first)
    assert gc.get_threshold()[0] == garbage._SELDOM
    garbage.collect_as_before(second)
    assert gc.get_threshold() == USUAL


def test_what_dies_without_an_end_holds_nothing_up() -> None:
    first, second = (type("Grows", (), {})() for _ in range(2))
    garbage.collect_seldom(first)
    del first
    gc.collect()
    garbage.collect_seldom(second)
    garbage.collect_as_before(second)
    assert gc.get_threshold() == USUAL


def test_cycles_of_the_users_are_still_collected() -> None:
    class Cycle:
        alive = 0

        def __init__(self) -> None:
            self.me = self
            Cycle.alive += 1

        def __del__(self) -> None:
            Cycle.alive -= 1

    most = [0]

    def leave_cycles() -> None:
        for _ in range(3 * garbage._SELDOM):
            Cycle()
            most[0] = max(most[0], Cycle.alive)

    step, seen = compiled(leave_cycles)
    step(jg.ones(3))
    assert seen[0][0] == garbage._SELDOM
    assert most[0] < 2 * garbage._SELDOM
