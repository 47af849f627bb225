"""``differentiable=True``: gradients through steps, by learning rates and by the first parameters, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch")

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD, momentum": ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    "SGD, nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    "Adam": ("Adam", {}),
    "Adam, amsgrad": ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    "AdamW": ("AdamW", {"weight_decay": 0.1}),
    "Adagrad": ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    "Adadelta": ("Adadelta", {"weight_decay": 0.1}),
    "Adamax": ("Adamax", {"weight_decay": 0.1}),
    "NAdam": ("NAdam", {"weight_decay": 0.1}),
    "NAdam, decoupled": ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ("RAdam", {"weight_decay": 0.1, "betas": (0.5, 0.3)}),
    "RMSprop": ("RMSprop", {"centered": True, "momentum": 0.5}),
    "Rprop": ("Rprop", {"lr": 0.1}),
    "ASGD": ("ASGD", {"t0": 1, "lambd": 0.1}),
}


def _rolled_out(
    lib: Any, name: str, rate: Any = None, moved: tuple[int, float] = (0, 0.0), differentiable: bool = True
) -> tuple[Any, Any]:
    """The loss after three steps, and where they started. Each step writes a copy: losses have saved the old values."""
    kind, options = CASES[name]
    numbers = [0.5, -1.0, 2.0]
    numbers[moved[0]] += moved[1]
    start = lib.tensor(numbers, dtype=lib.float64, requires_grad=True)
    target = lib.tensor([1.0, 1.0, 1.5], dtype=lib.float64)
    options = options if rate is None else {**options, "lr": rate}
    p, state = start, None
    for _ in range(3):
        loss = ((p - target) ** 4).sum()
        (grad,) = lib.autograd.grad(loss, p, create_graph=True)
        p = p.clone() if differentiable else p.detach().requires_grad_()
        p.grad = grad if differentiable else grad.detach()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = getattr(lib.optim, kind)([p], differentiable=differentiable, **options)
        if state is not None:
            optimizer.state[p] = state
        optimizer.step()
        state = optimizer.state[p]
    return ((p - target) ** 2).sum(), start


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_the_first_parameters(name: str) -> None:
    """By differences: PyTorch's rules write to what their own graph has saved, or detach some of it."""
    loss, start = _rolled_out(jitgrad, name)
    (found,) = jitgrad.autograd.grad(loss, start)
    for i in range(3):
        around = [_rolled_out(jitgrad, name, moved=(i, sign * 1e-6))[0].item() for sign in (1, -1)]
        assert found[i].item() == pytest.approx((around[0] - around[1]) / 2e-6, rel=1e-4, abs=1e-5)
    plain, _ = _rolled_out(torch, name, differentiable=False)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)


ALIKE = ["SGD", "Adam", "AdamW"]


@pytest.mark.parametrize("name", ALIKE)
def test_gradients_and_pytorch_s(name: str) -> None:
    found = []
    for lib in (jitgrad, torch):
        rate = lib.tensor(0.05, dtype=lib.float64, requires_grad=True)
        loss, start = _rolled_out(lib, name, rate)
        loss.backward()
        found.append((loss.item(), rate.grad.item(), *start.grad.tolist()))
    assert found[0] == pytest.approx(found[1], rel=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_derivative_by_a_rate_is_the_slope(name: str) -> None:
    """PyTorch takes some rates as numbers; here all have derivatives."""
    def loss_at(value: float) -> float:
        return _rolled_out(jitgrad, name, jitgrad.tensor(value, dtype=jitgrad.float64))[0].item()

    rate = jitgrad.tensor(0.05, dtype=jitgrad.float64, requires_grad=True)
    loss, _ = _rolled_out(jitgrad, name, rate)
    (found,) = jitgrad.autograd.grad(loss, rate)
    assert found.item() == pytest.approx((loss_at(0.05 + 1e-6) - loss_at(0.05 - 1e-6)) / 2e-6, rel=1e-5, abs=1e-6)


def test_learning_a_learning_rate(mode: Mode) -> None:
    """The rate that three steps of descent want is larger than the first guess; a step in which it is learnt."""
    def step(rate: Any) -> Any:
        losses = []
        for _ in range(4):
            loss, _ = _rolled_out(jitgrad, "SGD", rate)
            (grad,) = jitgrad.autograd.grad(loss, rate)
            with jitgrad.no_grad():
                rate -= 1e-4 * grad.sign()
            losses.append(loss)
        return losses

    losses = mode.run(step, lambda: (jitgrad.tensor(0.01, dtype=jitgrad.float64, requires_grad=True),))
    assert [loss.item() for loss in losses] == sorted((loss.item() for loss in losses), reverse=True)


def test_what_is_refused() -> None:
    for lib in (jitgrad, torch):
        p = lib.ones(2, requires_grad=True).clone()
        p.grad = lib.ones(2)
        with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
            lib.optim.Adam([p], foreach=True, differentiable=True).step()
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            lib.optim.Adam([p], fused=True, differentiable=True)
        with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
            lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=lib.ones(2))
        with pytest.raises(ValueError, match="lr as a Tensor is not supported"):
            lib.optim.Adam([lib.ones(1, requires_grad=True)], lr=lib.tensor(0.1), foreach=True)
        leaf = lib.ones(2, requires_grad=True)
        leaf.grad = lib.ones(2)
        with pytest.raises(RuntimeError, match="leaf"):
            lib.optim.SGD([leaf], lr=0.1, differentiable=True).step()
