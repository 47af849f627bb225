"""The first call of a graph, one instruction after the other: ``runtime/eager/instr_runs.py``, ``interpret.py``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled import interpret, native_eager
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.direct import here
from jitgrad.runtime.eager.instr_runs import INSTR_RUNS
from jitgrad.tracer.recording.graph import Const, Instr


@pytest.fixture(params=["native", "Python's form"], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Either form runs the instructions; every graph's first call comes by there."""
    monkeypatch.setattr(config, "compile_at_once", 0)
    native_eager.install()
    if request.param == "native":
        yield request.param
        return
    with native_eager.pythons_form():
        yield request.param


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that were run in the general way."""
    seen: list[str] = []
    general = interpret._run_one

    def noted(segment: Any, instr: Any, *rest: Any) -> Any:
        seen.append(instr.op.name)
        return general(segment, instr, *rest)

    monkeypatch.setattr(interpret, "_run_one", noted)
    return seen


def loop(x: Any, w: Any) -> Any:
    y = x
    for _ in range(20):
        y = F.relu(y @ w) * 0.5 + x - y.mean(1, keepdim=True)
    return y


@pytest.mark.parametrize("n", [3, 40])
def test_usual_operations_are_run_one_after_the_other(n: int, looked_at: list[str]) -> None:
    x, w = jg.ones(n, n), jg.ones(n, n) / n
    loop(x, w)  # eager mode has the plans, and the kernels
    got = jg.compile(loop)(x, w)
    assert looked_at == []
    np.testing.assert_allclose(got.numpy(), loop(x, w).numpy(), rtol=1e-6)


def test_first_calls_count_as_eager_operations(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """So who never runs an eager operation gets native code as well, after so many that were recorded."""
    assert INSTR_RUNS.is_native() is (form == "native" and native_eager.is_installed())
    counted: list[int] = []
    monkeypatch.setattr(interpret, "tick", counted.append)
    jg.compile(loop)(jg.ones(3, 3), jg.ones(3, 3))
    assert counted == ([] if INSTR_RUNS.is_native() else [120])


def transposed(x: Any) -> Any:
    y = x.t().exp()
    for _ in range(4):
        y = (y.t() * 2 + x).t().contiguous() + y[:, :1] - x.t()
    return y.flip(0) * y


def mixed(x: Any) -> Any:
    mask = x > 0
    values, places = x.sort(1)
    y = jg.where(mask, values, x * 3).clamp(-1, 1) + places.to(x.dtype)
    return jg.cat([y, x.cumsum(0)]).std(0) + y.double().sum(0).float() + (x * 0).floor() + (-0.0 * x).sum(0)


def written(x: Any) -> Any:
    y = x * 2
    y[1:] += x[1:]
    z = y.t()
    z.mul_(0.5)
    return y + z.sum()


def halves(x: Any) -> Any:
    y = x.to(jg.float16) * 3
    return (y + y.t().contiguous().t()).float() + x.to(jg.bfloat16).exp().float()


@pytest.mark.parametrize("n", [4, 32])
@pytest.mark.parametrize("function", [loop, transposed, mixed, written, halves])
def test_first_calls_compute_what_eager_mode_computes(function: Callable[..., Any], n: int) -> None:
    x = jg.tensor(np.random.default_rng(n).normal(size=(n, n)).astype(np.float32))
    args = (x, x / n) if function is loop else (x,)
    want = function(*args).numpy().copy()
    for _ in range(2):  # the second compiles
        step = jg.compile(function)
        for _ in range(3):
            np.testing.assert_allclose(step(*args).numpy(), want, rtol=2e-5, atol=1e-5)


_STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a * 2, lambda a, b: a.t() - b, lambda a, b: a @ b.t() / 30, lambda a, b: a.tanh(),
    lambda a, b: a[:1] + b, lambda a, b: a.sum(0) / 30 + b, lambda a, b: jg.maximum(a, b.t()), lambda a, b: a.flip(1),
    lambda a, b: a.softmax(0), lambda a, b: a.expand(2, *a.shape).sum(0), lambda a, b: a.roll(1, 0).t().sigmoid(),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    def program(x: Any, w: Any) -> Any:
        choose = random.Random(seed)
        values = [x, w]
        for _ in range(15):
            values.append(choose.choice(_STEPS)(choose.choice(values), choose.choice(values)).tanh())
        return values[-1], values[-3].t()

    rng = np.random.default_rng(seed)
    n = 30 if seed % 2 else 4
    x, w = (jg.tensor(rng.normal(size=(n, n)).astype(np.float32)) for _ in range(2))
    for got, want in zip(jg.compile(program)(x, w), program(x, w), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_an_error_comes_from_the_operation_that_raises() -> None:
    """With its name and the user's line; what came before it has happened, and the next call works."""
    kept = jg.zeros(3)

    def step(x: Any, i: Any) -> Any:
        kept.add_(x)
        y = x * 2 + 1
        return y[i.clamp(min=0)] + y

    x = jg.ones(3)
    compiled = jg.compile(step)
    compiled(x, jg.tensor([0, 1, 2]))
    with pytest.raises(IndexError):
        jg.compile(step)(x, jg.tensor([0, 1, 7]))
    np.testing.assert_array_equal(kept.numpy(), [2, 2, 2])
    np.testing.assert_array_equal(compiled(x, jg.tensor([0, 0, 0])).numpy(), [6, 6, 6])


def test_a_rule_that_raises_is_named() -> None:
    x = jg.eye(3)
    step = jg.compile(lambda x: (jg.linalg.cholesky(x - 2) * 2).sum())
    jg.linalg.cholesky(x)
    with pytest.raises(jg.linalg.LinAlgError) as caught:
        step(x)
    assert any("recorded at" in note and "test_instr_runs.py" in note for note in caught.value.__notes__)
    assert np.isfinite(step(x + 9).item())


def _chain(length: int) -> list[Instr]:
    """Value 0, doubled again and again."""
    aval = make_aval((2,), jg.float32)
    return [Instr(OPS["mul"], (nr, Const(2.0)), (), (nr + 1,), (aval,), (aval, None)) for nr in range(length)]


def test_values_are_let_go_of_and_the_place_is_known() -> None:
    instrs = _chain(5)
    jg.ones(2) * 2.0  # the plan
    dead = INSTR_RUNS.last_uses(instrs, {5}, {})[::-1]
    assert dead == [[0], [1], [2], [3], [4]]
    values, layouts, at = {0: np.ones(2, np.float32)}, {0: instrs[0].avals[0]}, [2]
    INSTR_RUNS.run_usual(here.here, instrs, dead, (values, layouts, []), at)
    assert (at, list(values)) == ([2], [0])  # value 2 is not there: somebody has to look
    at[0] = 0
    INSTR_RUNS.run_usual(here.here, instrs, dead, (values, layouts, []), at)
    assert (at, list(values)) == ([5], [5])
    np.testing.assert_array_equal(values[5], [32, 32])


def test_a_value_that_another_replaces_is_needed_until_then() -> None:
    assert [*map(sorted, INSTR_RUNS.last_uses(_chain(4), {4}, {3: (1,)})[::-1])] == [[0], [], [1, 2], [3]]
    assert INSTR_RUNS.last_uses(_chain(2), {0, 2}, {})[::-1] == [[], [1]]
    unused = INSTR_RUNS.last_uses(_chain(2), set(), {})[::-1]
    assert unused == [[0], [1, 2]]
