"""Programs and paths that serve extents they were not made for: Note [Advice].

Here all extents are near: what was planned for a hundred rows is run on two, and on thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.families import families
from jitgrad.compile import CompiledFunction
from jitgrad.compiled import eager_kernels
from jitgrad.compiled.extents import copies, forks
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.nn import functional as F
from jitgrad.runtime.eager.new_shapes import at_once
from jitgrad.runtime.eager.plan import plans
from jitgrad.symbols import advice, members
from jitgrad.symbols.evaluator import evaluator
from jitgrad.symbols.number import ShapeEnv
from tests.codegen.test_any_extent import OPERATIONS
from tests.compiled.steps_of_other_extents import PROGRAMS
from tests.compiled.test_path_families import _steps_of_any_kind
from tests.eager_bounds import eager_kernels_from

needs_counts = pytest.mark.skipif(not counts_references, reason="all views count as held: no path is copied")


@pytest.fixture
def all_are_near(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever extents come, what is known serves them."""
    monkeypatch.setattr(config, "verify", False)
    monkeypatch.setattr(CompiledFunction, "_count_new_graph", lambda self: None)
    monkeypatch.setattr(advice, "_NEAR", 1 << 40)
    monkeypatch.setattr(copies, "_MAX_STRAYS", 1 << 40)
    monkeypatch.setattr(copies, "_is_between", lambda *extents: False)
    monkeypatch.setattr(forks, "_MOST_LENT", 1 << 40)
    monkeypatch.setattr(members, "_MOST_LENT", 1 << 40)
    _forget()
    yield
    _forget()


def _forget() -> None:
    families.forget()
    plans.clear()
    eager_kernels._known.clear()


def _sizes(rng: np.random.Generator, count: int, most: int) -> list[int]:
    """A hundred or so, from which families are made; then any."""
    any_size = np.exp(rng.uniform(np.log(2), np.log(most), count)).astype(int)
    return [*rng.integers(90, 120, 5).tolist(), *any_size.tolist()]


def _by_numpy(call: Callable[[], Any]) -> Any:
    """What NumPy's rules make of it, operation by operation."""
    with eager_kernels_from(-1):
        return call()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("all_are_near")
def test_operations(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    for n in _sizes(rng, 12, 300 if name in ("rows of places", "places of rows", "one_hot", "triu") else 3000):
        if name in ("pad", "adaptive_avg_pool2d", "max_pool2d of widths", "conv1d", "topk") and n < 8:
            continue
        values = np.random.default_rng(n)
        monkeypatch.setattr(jg, "ones", lambda *shape, values=values: jg.from_numpy(values.random(shape, np.float32)))
        with at_once():
            found = OPERATIONS[name](n)
        values = np.random.default_rng(n)
        monkeypatch.setattr(jg, "ones", lambda *shape, values=values: jg.from_numpy(values.random(shape, np.float32)))
        expected = _by_numpy(lambda n=n: OPERATIONS[name](n))
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for mine, other in pairs:
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


@needs_counts
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("all_are_near")
def test_programs(name: str) -> None:
    made = []
    for wrap in (jg.compile, lambda step: step):
        jg.manual_seed(0)
        step, data = PROGRAMS[name]()
        step, rng = wrap(step), np.random.default_rng(1)
        before = jg.stats()["lent_programs"]
        results = []
        with nullcontext() if wrap is jg.compile else eager_kernels_from(-1):
            for n in [max(n, 8) for n in _sizes(rng, 25, 280)]:
                arrays = [np.asarray(a) for a in data(rng, n)]
                args = [jg.from_numpy(a.astype(np.float32) if a.dtype == np.float64 else a) for a in arrays]
                results.append(step(*args).numpy().copy())
        made.append(results)
        assert wrap is not jg.compile or jg.stats()["lent_programs"] > before
    for found, expected in zip(*made, strict=True):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-5)


@needs_counts
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("all_are_near")
def test_random_programs(seed: int) -> None:
    step, _ = _steps_of_any_kind(np.random.default_rng(seed))
    compiled, rng = jg.compile(step), np.random.default_rng(1)
    before = jg.stats()["lent_programs"]
    for n in [max(n, 8) for n in _sizes(rng, 15, 2000)]:
        x = jg.from_numpy(rng.standard_normal((n, 8)).astype(np.float32))
        places = jg.from_numpy(rng.integers(0, 8, n))
        expected = _by_numpy(lambda x=x, places=places: step(x, places))
        np.testing.assert_allclose(compiled(x, places).numpy(), expected.numpy(), rtol=5e-3, atol=2e-4)
    assert jg.stats()["lent_programs"] > before


def _step_of_two_extents(rng: np.random.Generator) -> Any:
    """A random program over [n, m], with its gradient: both extents decide about loops, sums and products."""
    kinds = rng.integers(0, 22, int(rng.integers(3, 8))).tolist()

    def apply(kind: int, x: Any, other: Any) -> Any:
        n, m = x.shape
        return [
            lambda: x * other, lambda: x.softmax(0), lambda: x.softmax(1), lambda: x.cumsum(0) / n,
            lambda: x.cumsum(1) / m, lambda: x - x.sum(0) / n, lambda: x / (1 + x.abs().mean(1, True)),
            lambda: x * x.var(0, correction=0), lambda: F.layer_norm(x, (m,)), lambda: x.log_softmax(1).tanh(),
            lambda: x + x.max(0).values, lambda: x + x.max(1, True).values, lambda: (x @ x.t() / m).tanh() @ other,
            lambda: x @ (x.t() @ other / n).tanh(), lambda: x.t().contiguous().sin().t(), lambda: x.flip(1) * 0.5,
            lambda: jg.cat([x, other], 1)[:, 1 : m + 1], lambda: F.pad(x[1:], (0, 0, 1, 0)) + other,
            lambda: jg.where(x > other, x, other * 0.5), lambda: x * x.logsumexp(0) / 10,
            lambda: (x.unsqueeze(0) - other[:2].unsqueeze(1)).square().mean(0), lambda: x.t().reshape(n, m) + other,
        ][kind]()  # fmt: skip

    def step(x: Any) -> Any:
        h = before = leaf = x.clone().requires_grad_()
        for kind in kinds:
            h, before = apply(kind, h, before), h
        loss = h.sin().mean() + h.pow(2).mean()
        (slope,) = jg.autograd.grad(loss, leaf)
        return jg.cat([loss.detach().reshape(1), slope.sum(1), slope.sum(0)])

    return step


@needs_counts
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.usefixtures("all_are_near")
def test_random_programs_of_two_extents(seed: int) -> None:
    step, rng = _step_of_two_extents(np.random.default_rng(seed)), np.random.default_rng(seed)
    compiled = jg.compile(step)
    for n, m in zip(_sizes(rng, 15, 500), rng.permutation(_sizes(rng, 15, 500)).tolist(), strict=True):
        x = jg.from_numpy(rng.standard_normal((n, m)))  # float64: little is rounded
        expected = _by_numpy(lambda x=x: step(x)).numpy()
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-7, atol=1e-10 * (1 + np.abs(expected).max()))


@needs_counts
def test_one_path_serves_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a network over 40 to 4000 rows, by two families or three, where thresholds were met at fifteen places."""
    monkeypatch.setattr(config, "verify", False)
    model = jg.nn.Sequential(jg.nn.Linear(16, 64), jg.nn.LayerNorm(64), jg.nn.GELU(), jg.nn.Linear(64, 4))
    optimizer = jg.optim.Adam(model.parameters())

    @jg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    rng, before = np.random.default_rng(0), jg.stats()
    for n in rng.integers(40, 4000, 120).tolist():
        step(jg.from_numpy(rng.standard_normal((n, 16)).astype(np.float32)))
    after = jg.stats()
    assert after["path_families"] - before["path_families"] <= 6
    assert after["copied_paths"] - before["copied_paths"] >= 90


@needs_counts
def test_a_program_that_asks_for_sizes_itself_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls stray from copies for rows on the other side of a threshold of the user's own; then no more."""
    monkeypatch.setattr(config, "verify", False)

    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        return (y.exp() if len(x) > 100 else y.sin()).sum()

    rng = np.random.default_rng(0)
    sizes = rng.integers(60, 140, 300).tolist()
    misses = []
    for n in sizes:
        before = jg.stats()["misses"]
        found = step(jg.full((n, 3), 0.5)).item()
        misses.append(jg.stats()["misses"] - before)
        np.testing.assert_allclose(found, 3 * n * (np.exp(1.0) if n > 100 else np.sin(1.0)), rtol=1e-5)
    assert sum(count > 0 for count in misses[100:]) <= 4


def test_the_same_bits_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then each set of extents has the program that planning would make."""
    monkeypatch.setattr(config, "verify", False)
    monkeypatch.setattr(config, "same_bits", True)
    step = jg.compile(lambda x: (x.softmax(1) * x).sum(0))
    before = jg.stats()["lent_programs"]
    for n in range(30, 300, 7):
        step(jg.ones(n, 8))
    assert jg.stats()["lent_programs"] == before


def test_what_is_asked_under_advice_is_no_guard() -> None:
    env = ShapeEnv()
    with env:
        n = env.symbol(40)

        @advice.advice
        def is_large(x: Any) -> bool:
            return bool(x * 3 > 100)

        assert is_large(n)
        assert not env.guards and len(env.advice) == 1
        assert advice.within(n, 64) and not advice.within(n, 32)
        assert advice.identical(n % 8, 0) and not advice.identical(n % 16, 0)
        assert [(g.op, g.y, g.answer) for g in env.guards] == [("<=", 64, True), ("==", 0, True)]
        assert not advice.always_equal(n * n, 1600), "by chance"
        assert advice.always_equal((n + 1, n), (n + 1, n))
        assert len(env.guards) == 2
    keeps = evaluator(env.advice, 1, ())
    assert keeps(40) is None, "n * n is 1600, though it need not be"
    assert keeps(56) == ()
    assert keeps(64) is None


def test_a_value_that_is_needed_is_a_guard_under_advice_too() -> None:
    env = ShapeEnv()
    with env:
        n = env.symbol(7)
        count = advice.advice(lambda x: len(range(x)))(n)
    assert count == 7
    assert [(g.op, g.y, g.answer) for g in env.guards] == [("==", 7, True)]
