"""A segment that cannot be compiled runs by the operations' NumPy rules: slower, and the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import agreement
import pytest

import jitgrad as jg
from jitgrad import events
from jitgrad.codegen import pipeline
from jitgrad.codegen.llvm import jit
from jitgrad.errors import CompileError
from jitgrad.runtime.eager.plan import plans


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plans of eager operations that were made meanwhile have no kernels, and go."""

    def refuse(*_: Any) -> Any:
        raise CompileError("planning failed: asked for by a test")

    monkeypatch.setattr(pipeline, "plan_segment", refuse)
    plans.clear()
    yield
    plans.clear()


def step(x: Any, w: Any, running: Any, k: float) -> Any:
    y = (x @ w).tanh()
    running += y.detach().mean(0) * k
    (y * y).mean().backward()
    seen = float(y.sum())
    with jg.no_grad():
        w -= 0.1 * w.grad
        w.t()[0] *= 2
    w.grad = None
    return y, y.detach().t(), running, seen


def arguments() -> tuple[Any, ...]:
    jg.manual_seed(0)
    return jg.randn(5, 4), jg.randn(4, 3, requires_grad=True), jg.zeros(3), 0.5


def test_a_training_step(no_kernels: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jitgrad"), events.count("fallbacks") as fallbacks:
        agreement.agree(step, arguments, 6, lambda args, nr: (*args[:3], 0.5 + nr))
    assert fallbacks() > 0
    assert "asked for by a test" in caplog.text


def test_explain_says_so(no_kernels: None) -> None:
    explained = jg.explain(jg.compile(lambda x: x.exp() * 2), jg.ones(3))
    assert "runs without kernels" in str(explained)
    assert explained.result.tolist() == pytest.approx((jg.ones(3).exp() * 2).tolist())


def test_errors_are_those_of_eager_mode(no_kernels: None) -> None:
    def pick(x: Any, i: Any, log: Any) -> Any:
        log += 1
        y = x[i] * 2
        log += 10
        return y

    log = jg.zeros(1)
    compiled = jg.compile(pick)
    compiled(jg.ones(3), jg.tensor([1]), log)
    with pytest.raises(IndexError):
        compiled(jg.ones(3), jg.tensor([7]), log)
    assert log.tolist() == [12.0]


def test_values_get_buffers_until_the_plan_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_MAX_COPIES", 1)
    x = jg.arange(24, dtype=jg.float32)

    def moved(x: Any) -> Any:
        y = x.reshape(4, 6)
        for _ in range(6):
            y = (y.t().reshape(4, 6) @ jg.ones(6, 6)).reshape(6, 4).t().reshape(6, 4).t() * 0.1
        return y

    with events.count("fallbacks") as fallbacks:
        agreement.agree(moved, lambda: (x,), 2)
    assert fallbacks() == 0


@pytest.fixture
def no_room_for_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jit, "max_live_kernels", lambda: 0)
    yield
    plans.clear()


@pytest.mark.usefixtures("no_room_for_kernels")
def test_a_step_runs_when_no_more_kernels_may_be_loaded() -> None:
    step = jg.compile(lambda x: (x * 3.25 + x.exp() * 1.75).sum())
    x = jg.zeros(17)
    assert [step(x).item() for _ in range(3)] == [17 * 1.75] * 3
