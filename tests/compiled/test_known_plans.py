"""Note [Known plans]: equal segments of a function are planned once; what differs in anything is planned anew."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import config
from tests.compiled.long_steps import read
from tests.modes import Mode

TURNS = 12


def counted(step: Callable[..., Any], *args: Any) -> dict[str, int]:
    """What the first compiled call of ``step`` counts, once its values are found to be the eager ones, or close."""
    expected = step(*args)
    before = jg.stats()
    got = jg.compile(step)(*args)
    counts = {name: value - before[name] for name, value in jg.stats().items()}
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-5)
    return counts


def numbers(x: Any, factors: tuple[Any, ...]) -> list[float]:
    """A segment for each factor, all read the same value."""
    return [(x * factor).sum().item() for factor in factors]


def trained(x: Any) -> list[float]:
    """A backward and a write in each turn."""
    w = jg.ones(3, requires_grad=True)
    losses = []
    for _ in range(TURNS):
        loss = (w * x).square().sum()
        loss.backward()
        with jg.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        losses.append(loss.item())
    return losses


def solved(x: Any) -> list[float]:
    """``inv`` has no lowering: programs of a native step and an eager one."""
    a = jg.eye(3) + x.outer(x)
    found = []
    for _ in range(TURNS):
        a = jg.linalg.inv(a * 0.5) + 1
        found.append(a.sum().item())
    return found


def scheduled(x: Any) -> list[float]:
    """Numbers that change are run-time scalars from the second call on."""
    return [(x * (rate := 0.5 + 0.1 * i) + rate).sum().item() for i in range(TURNS)]


def test_a_loop_that_reads_is_planned_once() -> None:
    counts = counted(lambda x: read(x, TURNS).tolist(), jg.ones(5))
    assert (counts["plans"], counts["known_plans"]) == (1, TURNS - 1)
    assert counts["launches"] == counts["segments"] == TURNS


@pytest.mark.parametrize(("step", "most"), [(trained, 3), (solved, 4)])
def test_turns_with_more_in_them_are_planned_once(step: Callable[..., Any], most: int) -> None:
    """The first turns make what the others find: a handle of the first may live a turn longer than those of the others.
    ``inv`` looks at values, and so ends a segment of its own."""
    counts = counted(step, jg.tensor([0.5, -1.0, 2.0]))
    assert counts["plans"] <= most
    assert counts["plans"] + counts["known_plans"] == counts["segments"] >= TURNS


@pytest.mark.parametrize("step", [trained, solved, scheduled, lambda x: read(x, TURNS).tolist()])
def test_values_are_the_eager_ones_in_every_call(step: Callable[..., Any], mode: Mode) -> None:
    data = [jg.tensor([0.5, -1.0, 2.0]) * (1 + n) for n in range(3)]
    for x in data:
        np.testing.assert_allclose(mode.run(step, lambda x=x: (x,)), step(x), rtol=1e-5)


@pytest.mark.parametrize(
    "factors",
    [(2, 3), (2, 2.0), (1, True), (0.0, -0.0), (1.0, float("nan"))],
    ids=["values", "int and float", "int and bool", "signs of zero", "nan"],
)
def test_other_numbers_are_other_plans(factors: tuple[Any, ...]) -> None:
    counts = counted(numbers, jg.tensor([1, 2, 3]) if True in factors else jg.ones(3), factors)
    assert (counts["plans"], counts["known_plans"]) == (2, 0)


@pytest.mark.parametrize(
    "shown",
    [
        lambda x: [x.sum(0).sum().item(), x.sum(1).sum().item()],
        lambda x: [x[0].sum().item(), x[1].sum().item()],
        lambda x: [(x * x.t()).sum().item(), (x * x).sum().item()],
        lambda x: [(x - 1).clone().tolist(), (x - 1).to(jg.float64).tolist()],
    ],
    ids=["params", "offsets", "strides", "dtypes"],
)
def test_other_params_and_layouts_are_other_plans(shown: Callable[..., Any]) -> None:
    counts = counted(shown, jg.arange(16, dtype=jg.float32).reshape(4, 4))
    assert (counts["plans"], counts["known_plans"]) == (2, 0)


def test_which_operand_is_the_older_one_matters_not_its_number() -> None:
    def step(x: Any, y: Any) -> list[float]:
        found = [(x - y).sum().item()]
        found.append((x - y).sum().item())
        found.append((y - x).sum().item())
        return found

    counts = counted(step, jg.ones(3), jg.full((3,), 4.0))
    assert (counts["plans"], counts["known_plans"]) == (2, 1)


def test_a_known_segment_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """See Note [New graphs]: the first segment is compiled at once, and those after the limit need no planning."""
    monkeypatch.setattr(config, "compile_at_once", 4)
    counts = counted(lambda x: read(x, TURNS).tolist(), jg.ones(5))
    assert (counts["plans"], counts["fallbacks"], counts["launches"]) == (1, 0, TURNS)


def test_equal_segments_have_equal_bits() -> None:
    """As if each had been planned for itself."""
    x = jg.tensor([0.1, 0.7, -1.3, 2.9])
    one = jg.compile(lambda x: (x.exp() * x + x).sum())
    several = jg.compile(lambda x: [(x.exp() * x + x).sum().item() for _ in range(3)])
    assert several(x) == [one(x).item()] * 3


def test_plans_go_with_the_function() -> None:
    step = jg.compile(lambda x: read(x, 3))
    step(jg.ones(3))
    (plan,) = map(weakref.ref, step.trie.plans.values())
    del step
    gc.collect()
    assert plan() is None
