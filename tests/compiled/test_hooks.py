"""What hooks cost a compiled step: one that reads its gradient ends a segment, others cost no native call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn, optim
from jitgrad.autograd.graph import register_multi_grad_hook, saved_tensors_hooks

_NUM_LAYERS = 4


def _look(log: list[Any], g: Any) -> None:
    log.append(g.shape)


def _read(log: list[Any], g: Any) -> None:
    log.append(g.tolist())


def _step(num_hooks: int, hook: Callable[[list[Any], Any], Any]) -> Callable[..., Any]:
    """A training step of a small network, with hooks on the results of its first layers."""

    @jitgrad.compile
    def step(weights, x, log):
        h, hidden = x, []
        for w in weights:
            h = h.matmul(w).tanh()
            hidden.append(h)
        for t in hidden[:num_hooks]:
            t.register_hook(lambda g: hook(log, g))
        loss = (h * h).mean()
        loss.backward()
        return loss, [w.grad for w in weights]

    return step


def _make() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    weights = [
        jitgrad.tensor(rng.normal(size=(4, 4)).astype(np.float32), requires_grad=True) for _ in range(_NUM_LAYERS)
    ]
    return weights, jitgrad.tensor(rng.normal(size=(8, 4)).astype(np.float32))


def _warm(step: Callable[..., Any]) -> tuple[dict[str, int], list[Any], list[Any]]:
    """(stats of a warm call, what its hooks wrote down, its gradients)."""
    for _ in range(3):
        step(*_make(), [])
    log: list[Any] = []
    jitgrad.reset_stats()
    _, grads = step(*_make(), log)
    return jitgrad.stats(), log, [g.numpy() for g in grads]


@pytest.fixture(scope="module")
def plain() -> tuple[dict[str, int], list[Any]]:
    """The step without hooks."""
    stats, _, grads = _warm(_step(0, _look))
    return stats, grads


@pytest.mark.parametrize("num_hooks", [1, 3])
def test_hooks_that_do_not_read_leave_the_program_whole(plain: Any, num_hooks: int) -> None:
    stats, log, grads = _warm(_step(num_hooks, _look))
    assert stats["segments"] == plain[0]["segments"] == 1
    assert stats["launches"] <= plain[0]["launches"] + num_hooks
    assert stats["compiles"] == stats["misses"] == stats["fallbacks"] == 0
    assert log == [(8, 4)] * num_hooks
    for got, expected in zip(grads, plain[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("num_hooks", [1, 2, 3])
def test_a_hook_that_reads_costs_one_native_call(plain: Any, num_hooks: int) -> None:
    """The kernels on both sides of a cut are those that were there, but for one that it goes through."""
    stats, log, grads = _warm(_step(num_hooks, _read))
    without, _, _ = _warm(_step(num_hooks, _look))
    assert stats["segments"] == 1 + num_hooks
    assert stats["launches"] <= without["launches"] + num_hooks + 1
    assert stats["compiles"] == stats["misses"] == stats["fallbacks"] == 0
    assert len(log) == num_hooks
    for got, expected in zip(grads, plain[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


def test_hooks_that_compute_are_part_of_the_program(plain: Any) -> None:
    stats, _, grads = _warm(_step(1, lambda log, g: g.clamp(-1.0, 1.0) * 2))
    assert stats["segments"] == 1
    np.testing.assert_allclose(grads[0], 2 * plain[1][0], rtol=1e-5)
    np.testing.assert_allclose(grads[1], plain[1][1], rtol=1e-5)


def test_a_model_with_hooks_of_every_kind_trains_as_eagerly() -> None:
    """Module hooks, parameters' hooks, hooks on several gradients: same calls, same parameters, at every step."""

    def run(compiled: bool) -> tuple[list[Any], list[Any]]:
        jitgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = optim.SGD(model.parameters(), 0.1)
        log: list[Any] = []
        model[1].register_full_backward_hook(lambda m, gi, go: log.append(("full", go[0].shape)))
        model[2].register_full_backward_pre_hook(lambda m, go: (log.append("pre"), (go[0] * 0.5,))[1])
        model[1].register_forward_hook(lambda m, args, out: log.append(("forward", out.shape)))
        model[2].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
        model[2].bias.register_post_accumulate_grad_hook(lambda p: log.append(round(p.grad.item(), 4)))
        register_multi_grad_hook([model[0].weight, model[2].weight], lambda grads: log.append(len(grads)))

        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        function = jitgrad.compile(step) if compiled else step
        rng = np.random.default_rng(1)
        for _ in range(5):
            x = jitgrad.tensor(rng.normal(size=(6, 4)).astype(np.float32))
            function(x, x.sum(1, keepdim=True))
        return log, [p.detach().numpy() for p in model.parameters()]

    log, parameters = run(compiled=True)
    expected_log, expected = run(compiled=False)
    assert log == expected_log
    for got, want in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_hooks_added_after_warm_up_are_called_and_removed_ones_are_not() -> None:
    """On leaves, on modules, and around saved tensors; what was compiled before is found again."""
    layer = nn.Linear(3, 2)
    x = jitgrad.ones(4, 3)

    @jitgrad.compile
    def step():
        layer.zero_grad()
        layer(x).tanh().sum().backward()
        return layer.weight.grad

    def settle() -> np.ndarray:
        for _ in range(3):
            grad = step()
        return grad.numpy()

    before = settle()
    calls: list[str] = []
    handle = layer.weight.register_hook(lambda g: (calls.append("leaf"), g * 2)[1])
    np.testing.assert_allclose(step().numpy(), 2 * before, rtol=1e-5)
    handle.remove()
    handle = layer.register_forward_hook(lambda m, args, out: (calls.append("module"), out * 0)[1])
    assert not step().numpy().any()
    handle.remove()
    with saved_tensors_hooks(lambda t: (calls.append("packed"), t)[1], lambda t: t):
        np.testing.assert_allclose(step().numpy(), before, rtol=1e-5)
    assert calls[:2] == ["leaf", "module"]
    assert set(calls[2:]) == {"packed"}
    jitgrad.reset_stats()
    np.testing.assert_allclose(step().numpy(), before, rtol=1e-6)
    assert jitgrad.stats()["misses"] == jitgrad.stats()["compiles"] == 0
    assert len(calls) == 2 + calls.count("packed")
