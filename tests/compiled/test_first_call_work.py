"""How much Python a first call runs, in lines: a loaded machine counts as many as an idle one does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compile import LONGEST_PAUSE, LOOK_COSTS, MOST_DEBT
from jitgrad.compiled import native_eager
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell, state
from jitgrad.user_line import PACKAGE
from tests.compiled.long_steps import chain, collected, differentiated, read, trained, written


@contextmanager
def lines() -> Iterator[Callable[[], int]]:
    """How many lines of jitgrad this thread runs inside the block, each turn of a loop as often as it is run.

    Native code, and loops inside of one C function, do not count.
    """
    total = [0]

    def look(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            total[0] += 1
        elif event == "call" and not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield lambda: total[0]
    finally:
        sys.settrace(before)


def work(function: Callable[..., Any], *args: Any) -> int:
    with lines() as count:
        function(*args)
    return count()


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded, or made native, at the first compile does not count."""
    monkeypatch.setattr(config, "max_new_values", 1 << 30)
    monkeypatch.setattr(config, "verify", False)
    jg.compile(lambda x: x + 1)(jg.ones(1))
    native_eager.install()


@pytest.mark.parametrize("at_once", [0, 1 << 30], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("step", [chain, differentiated, trained, written, collected, read])
def test_work_grows_with_the_length(
    step: Callable[..., Any], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the length, five times the work at most: what grows with the square would be sixteen times as much.

    Where nothing counts references, views that nobody holds are followed to the end, and writes through them ask all.
    """
    monkeypatch.setattr(config, "compile_at_once", at_once)
    x = jg.ones(4)
    work(jg.compile(lambda x: step(x, 10)), x)  # kinds of operations are known afterwards
    short, long = (work(jg.compile(lambda x, n=n: step(x, n)), x) for n in (30, 120))
    assert long < (5 if counts_references or step is not written else 20) * short


@pytest.mark.parametrize(
    ("step", "most", "most_of_python"), [(chain, 3.0, 10.0), (differentiated, 2.0, 4.0), (written, 14.0, 18.0)]
)
def test_recording_costs_a_few_eager_steps(
    step: Callable[..., Any], most: float, most_of_python: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To record a graph, decide on its end and run it one by one, against the eager step; in lines of Python.

    An eager assignment to a part is a few lines. Where there is native code, usual operations are recorded by it.
    """
    if not native_cell.is_installed or config.check_hits:
        most = most_of_python
    if step is written and not counts_references:
        most *= 2  # see above
    monkeypatch.setattr(config, "compile_at_once", 0)
    x = jg.ones(4)
    for _ in range(2):
        with native_eager.pythons_form():
            eager = work(step, x, 60)
        first = work(jg.compile(lambda x: step(x, 60)), x)
    assert first < most * eager, first / eager


def test_graphs_that_are_always_new_are_looked_at_less_and_less() -> None:
    one = jg.ones(())
    step = jg.compile(lambda i: one ** (i + 0.5) * 2)  # an exponent chooses the formula
    calls = 16 + 5 * LONGEST_PAUSE
    before = jg.stats()
    for i in range(calls):
        assert float(step(i)) == 2
    now = jg.stats()
    recorded = now["traces"] - before["traces"]
    assert recorded + now["eager_calls"] - before["eager_calls"] == calls
    left = now["left_calls"] - before["left_calls"]
    assert 4 < left < 16
    assert 16 < recorded - left < 24
    for _ in range(2 * LONGEST_PAUSE):
        step(3)
    assert step.debt == 0  # it has been noticed that this repeats


def test_a_call_that_follows_runs_what_is_known_and_leaves_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known turns run as segments, the rest eagerly; gradients reach through both; the next call is whole."""
    monkeypatch.setattr(config, "compile_at_once", 1000)
    weight = jg.tensor([0.5, -1.5], requires_grad=True)

    def step(turns: int, factor: float) -> tuple[list[float], list[float], int]:
        seen, total = [], jg.zeros(())
        for _ in range(turns):
            total = total + (weight * factor).sum()
            seen.append(total.item())
        (total * total).backward()
        grad, weight.grad = weight.grad.tolist(), None
        return seen, grad, turns

    compiled = jg.compile(step)
    for _ in range(3):
        compiled(3, 2.0)
    compiled._owe(MOST_DEBT)
    before = jg.stats()
    for turns in (5, 3, 4, 1, 3):
        assert compiled(turns, 2.0) == step(turns, 2.0)
    now = jg.stats()
    assert now["left_calls"] - before["left_calls"] == 3  # 5, 4 and 1 turns end, or go on, as no call has
    assert now["misses"] - before["misses"] <= 2 * 3  # where a call leaves, its segment ends
    assert now["segments"] - before["segments"] > 3 + 3 + 3
    assert compiled.debt == MOST_DEBT - 2  # for the two calls of three turns
    compiled.look_again()
    assert compiled(5, 2.0) == step(5, 2.0)
    assert compiled.debt == LOOK_COSTS


def test_a_call_may_leave_with_nothing_new_recorded() -> None:
    data = jg.arange(4, dtype=jg.float32)
    step = jg.compile(lambda turns: [float((data * 2).sum()) for _ in range(turns)])
    for _ in range(3):
        step(2)
    step._owe(MOST_DEBT)
    before = jg.stats()
    for turns in (4, 2, 3, 2, 5):
        assert step(turns) == [12.0] * turns
        assert (state.eager_depth, state.handler) == (0, None)
    now = jg.stats()
    assert now["left_calls"] - before["left_calls"] == 3


def test_known_graphs_pay_for_looks_at_others() -> None:
    """Forty lengths, at random: more than are recorded at first, and all of them are known in the end."""
    draw = np.random.default_rng(0)
    data = jg.arange(4096, dtype=jg.float32)
    step = jg.compile(lambda n: data[:n].sum())
    seen = []
    for _ in range(6):
        before = jg.stats()
        for n in draw.integers(1, 41, 400).tolist():
            assert float(step(n)) == n * (n - 1) / 2
        now = jg.stats()
        seen.append(now["eager_calls"] + now["left_calls"] - before["eager_calls"] - before["left_calls"])
    assert seen[-1] == 0, seen


def test_a_known_graph_now_and_then_does_not_end_that() -> None:
    """One call in ten repeats, nine are new: recording all of them would cost more than the one gains."""
    one = jg.ones(())
    step = jg.compile(lambda i: one ** (i + 0.5) * 2)
    before = jg.stats()
    for i in range(300):
        assert float(step(i if i % 10 else 3)) == 2
    assert jg.stats()["eager_calls"] - before["eager_calls"] > 200
