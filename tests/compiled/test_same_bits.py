"""With ``config.same_bits``, equal calls give equal bits, however new their graphs were: Note [New graphs]."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import config

UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.tanh(),
    lambda x: x.exp().clamp(max=9.0),
    lambda x: x.softmax(-1),
    lambda x: x * 0.7 + 0.1,
    lambda x: x - x.mean(0),
    lambda x: x @ x.t() @ x * 0.01,
    lambda x: (x * x).sum(-1, keepdim=True) + x * 0.1,
]


def tree(seed: int, w: Any) -> Any:
    """A random program of some operations, and its gradient."""
    rng = random.Random(seed)
    values = [w]
    for _ in range(rng.randint(3, 9)):
        value = rng.choice(UNARY)(rng.choice(values))
        values.append(value * rng.choice(values) if rng.random() < 0.4 else value)
    loss = values[-1].pow(2).mean()
    (grad,) = jg.autograd.grad(loss, w)
    return loss.detach(), grad


def bits(result: Any) -> list[bytes]:
    return [x.numpy().tobytes() for x in result]


def leaf() -> Any:
    return jg.tensor(np.random.default_rng(5).normal(size=(7, 5)).astype(np.float32), requires_grad=True)


def test_a_graph_gives_the_same_bits_first_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    step, w = jg.compile(tree), leaf()
    before = jg.stats()
    first = {seed: bits(step(seed, w)) for seed in range(24)}  # all of them new
    seen = {k: v - before[k] for k, v in jg.stats().items() if v != before[k]}
    assert {"eager_calls", "fallbacks", "long_calls"}.isdisjoint(seen)
    for _ in range(3):
        assert {seed: bits(step(seed, w)) for seed in first} == first
    alone = jg.compile(tree)
    assert {seed: bits(alone(seed, w)) for seed in reversed(first)} == first


def test_a_long_step_gives_the_same_bits_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    monkeypatch.setattr(config, "max_new_values", 16)

    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(60):
            x = (x * 0.9 + 0.1).sin()
        return x.sum()

    x = leaf().detach()
    first = step(x).numpy().tobytes()
    assert all(step(x).numpy().tobytes() == first for _ in range(3))
