"""Note [Turns]: a call that trains several times is segments of equal turns, and few of them are planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import nn, optim
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.tracer.misses import writes

MAKE: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
}
OPS_OF_A_TURN = 40  # at least


def training(make: Callable[[Any], Any], turns: int) -> tuple[Callable[[Any, Any], Any], Any]:
    jg.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = make(net.parameters())

    def step(x: Any, y: Any) -> Any:
        for _ in range(turns):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step, net


def data() -> tuple[Any, Any]:
    jg.manual_seed(1)
    return jg.randn(10, 6), jg.randint(0, 3, (10,))


def counted(call: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    before = jg.stats()
    result = call()
    return result, {name: value - before[name] for name, value in jg.stats().items()}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    monkeypatch.setattr(writes, "TURN_OPS", 2 * OPS_OF_A_TURN)


@pytest.mark.parametrize("name", MAKE)
def test_turns_are_planned_once(name: str) -> None:
    """What is planned does not grow with their number, and a warm call is hits."""
    x, y = data()
    plans = []
    for turns in (20, 60):
        step, _ = training(MAKE[name], turns)
        compiled = jg.compile(step)
        _, counts = counted(lambda compiled=compiled: compiled(x, y))
        plans.append(counts["plans"])
        assert counts["known_plans"] >= turns // 4
        for _ in range(2):  # numbers that changed are arguments now
            compiled(x, y)
        _, counts = counted(lambda compiled=compiled: compiled(x, y))
        assert counts["misses"] == counts["plans"] == counts["known_plans"] == 0
        assert counts["segments"] >= turns // 4
    assert plans[0] == plans[1] <= 3


@pytest.mark.parametrize("ops", [1, 2 * OPS_OF_A_TURN, 1 << 30])
@pytest.mark.parametrize("name", MAKE)
def test_values_are_the_eager_ones(name: str, ops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever segments end; what is held there is computed, so the last bits may differ."""
    monkeypatch.setattr(writes, "TURN_OPS", ops)
    x, y = data()
    step, net = training(MAKE[name], 12)
    expected, eager = training(MAKE[name], 12)
    compiled = jg.compile(step)
    for _ in range(3):
        jg.testing.assert_close(compiled(x, y), expected(x, y), rtol=1e-4, atol=1e-5)
    for p, q in zip(net.parameters(), eager.parameters(), strict=True):
        jg.testing.assert_close(p.detach(), q.detach(), rtol=1e-4, atol=1e-4)
        jg.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5)


def test_two_optimizers_that_take_turns_end_no_segment() -> None:
    """Each updates other tensors, once per call."""
    jg.manual_seed(0)
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    optimizers = [optim.SGD(layer.parameters(), lr=0.1) for layer in (first, second)]

    def step(x: Any) -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad()
            h = x
            for _ in range(OPS_OF_A_TURN):
                h = second(first(h)).tanh()
            loss = h.square().mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    _, counts = counted(lambda: jg.compile(step)(data()[0]))
    assert counts["segments"] == counts["plans"] == 1


def test_the_reason_is_told() -> None:
    step, _ = training(MAKE["sgd"], 20)
    text = str(jg.explain(jg.compile(step), *data()))
    assert "an optimizer's step came round again" in text
