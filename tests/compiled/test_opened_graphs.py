"""A compiled function whose graph is opened after every call runs eagerly, where its values are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import Tensor, nn, stats
from jitgrad.config import config


def _layers(width: int) -> tuple[nn.Linear, nn.Linear]:
    jg.manual_seed(0)
    return nn.Linear(2, width), nn.Linear(width, 1)


def _penalty(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """A gradient in the loss: the backward outside is differentiated again."""
    u = model(x)
    (grad,) = jg.autograd.grad(u.sum(), x, create_graph=True)
    (grad.square().mean() + u.square().mean()).backward()


def _hooked(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    u = model(x)
    u.register_hook(lambda grad: grad * 2)
    u.sum().backward()


def _looked_at(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    u = model(x)
    assert u.grad_fn is not None
    u.sum().backward()


def _plain(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model(x).square().sum().backward()


def _alternating(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    _penalty(model, x)
    _plain(model, x)


def _now_and_then(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    _penalty(model, x)
    for _ in range(8):
        _plain(model, x)


def _run(step: Callable[..., None], wrap: Callable[[Any], Any], width: int, turns: int) -> tuple[list[Any], int]:
    """(gradients of each turn, how many calls ran eagerly)."""
    first, second = _layers(width)
    model = wrap(lambda x: second(first(x).tanh()))
    before, found = stats()["eager_calls"], []
    for turn in range(turns):
        x = (jg.linspace(-1, 1, 12).reshape(6, 2) + turn % 5).requires_grad_()
        first.zero_grad(), second.zero_grad()
        step(model, x)
        found.append([g.numpy().copy() for g in (x.grad, first.weight.grad, second.bias.grad)])
    return found, stats()["eager_calls"] - before


@pytest.mark.parametrize("step", [_penalty, _hooked, _looked_at, _alternating], ids=lambda step: step.__name__[1:])
def test_small_calls_run_eagerly_and_mean_the_same(step: Callable[..., None]) -> None:
    want, _ = _run(step, lambda function: function, 5, 150)
    got, eager_calls = _run(step, jg.compile, 5, 150)
    assert eager_calls > 60
    for one, other in zip(got, want, strict=True):
        for g, w in zip(one, other, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [_plain, _now_and_then], ids=lambda step: step.__name__[1:])
def test_graphs_that_are_not_opened_or_rarely_are(step: Callable[..., None]) -> None:
    assert _run(step, jg.compile, 5, 60 if step is _plain else 40)[1] == 0


def test_large_calls_do_not() -> None:
    assert _run(_penalty, jg.compile, 20_000, 45)[1] == 0


def test_equal_bits_are_worth_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    assert _run(_penalty, jg.compile, 5, 60)[1] == 0


def test_a_look_finds_that_it_has_changed() -> None:
    """The graph is no longer opened: after some more calls none runs eagerly."""
    first, second = _layers(5)
    model = jg.compile(lambda x: second(first(x).tanh()))
    for turn in range(300):
        x = jg.ones(6, 2, requires_grad=True)
        (_penalty if turn < 40 else _plain)(model, x)
    before = stats()["eager_calls"]
    for _ in range(20):
        _plain(model, jg.ones(6, 2, requires_grad=True))
    assert stats()["eager_calls"] == before


def _with_a_hook_that_reads(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    hidden = model(x)
    hidden.register_hook(lambda grad: grad * 0.0 if grad.isnan().any() else None)
    loss = hidden.square().mean()
    loss.backward()
    return loss


@pytest.mark.parametrize("of", [_penalty, _hooked, _looked_at, _with_a_hook_that_reads], ids=lambda of: of.__name__[1:])
def test_a_step_that_is_compiled_as_a_whole_stays_so(of: Callable[..., Any]) -> None:
    first, second = _layers(5)

    @jg.compile
    def step(x: Tensor) -> Any:
        return of(lambda x: second(first(x).tanh()), x)

    before = stats()["eager_calls"]
    for _ in range(50):
        step(jg.ones(6, 2, requires_grad=True))
    assert stats()["eager_calls"] == before
