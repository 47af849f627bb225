"""Activations and losses at the edges: zeros of both signs, kinks, infinities, NaN, huge and tiny numbers.

Values, first and second derivatives are PyTorch's at every point of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")

Function = Callable[..., Any]

POINTS = [
    0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, -0.5, 1e-30, -1e-30, 1e30, -1e30, math.inf, -math.inf, 100.0,
    -100.0,
]  # fmt: skip
SHARES = [0.0, 1.0, 0.25, 0.5, 0.75]
NAN = [math.nan]

ACTIVATIONS: dict[str, Function] = {
    name: (lambda F, x, name=name: getattr(F, name)(x))
    for name in (
        "relu relu6 elu celu selu silu softsign tanhshrink hardsigmoid hardswish hardtanh leaky_relu hardshrink "
        "softshrink tanh sigmoid logsigmoid softplus"
    ).split()
}
ACTIVATIONS |= {
    "elu-alpha": lambda F, x: F.elu(x, 2.5),
    "threshold": lambda F, x: F.threshold(x, 0.5, 20.0),
}
LOSSES: dict[str, Function] = {
    name: (lambda F, x, y, name=name: getattr(F, name)(x, y, reduction="none"))
    for name in (
        "mse_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits poisson_nll_loss "
        "hinge_embedding_loss"
    ).split()
}
LOSSES["kl_div-log"] = lambda F, x, y: F.kl_div(x, y, reduction="none", log_target=True)

WITHOUT_NAN = frozenset("relu6 hardtanh hardshrink softshrink".split())
"""PyTorch's gradient at NaN depends on where in a vector it stands."""


def _derived(xp: Any, function: Function, arrays: list[Any]) -> list[Any]:
    leaves = [xp.tensor(a.tolist(), dtype=xp.float64).requires_grad_() for a in arrays]
    out = function(xp.nn.functional, *leaves)
    first = xp.autograd.grad(out.sum(), leaves, create_graph=True, allow_unused=True)
    # other weights for other operands: the derivatives of a loss of a difference would cancel
    total = sum(k * g.sum() for k, g in enumerate(first, 1) if g is not None and g.requires_grad)
    if isinstance(total, int):
        second = [None] * len(leaves)
    else:
        second = list(xp.autograd.grad(total, leaves, allow_unused=True))
    return [out, *first, *second]


def _array(x: Any, like: Any) -> Any:
    if x is None:
        return np.zeros(like.shape)
    return x.detach().numpy() if isinstance(x, jitgrad.Tensor) else x.detach().numpy(force=True)


def _check(function: Function, arrays: list[Any], wrap: Any = lambda f: f) -> None:
    try:
        expected = _derived(torch, function, arrays)
    except RuntimeError as error:
        assert "hardsigmoid_backward" in str(error)  # PyTorch has no second derivative of it
        return
    step = wrap(lambda: _derived(jitgrad, function, arrays))
    for _ in range(3):
        found = step()
    for ours, theirs in zip(found, expected, strict=True):
        got, want = _array(ours, arrays[0]), _array(theirs, arrays[0])
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-30, err_msg=str(arrays))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    points = POINTS if name in WITHOUT_NAN else POINTS + NAN
    _check(ACTIVATIONS[name], [np.array(points)])


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    x, y = np.meshgrid(POINTS + NAN, POINTS + NAN)
    _check(LOSSES[name], [x.ravel().copy(), y.ravel().copy()])


def test_binary_cross_entropy() -> None:
    x, y = np.meshgrid(SHARES, SHARES)
    arrays = [x.ravel().copy(), y.ravel().copy()]

    def found(xp: Any) -> list[Any]:
        return _derived(xp, lambda F, a, b: F.binary_cross_entropy(a, b, reduction="none"), arrays)[:3]

    for ours, theirs in zip(found(jitgrad), found(torch), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-8)


@pytest.mark.parametrize("name", ["hardswish", "elu-alpha", "huber_loss", "kl_div"])
def test_in_a_step(mode: Any, name: str) -> None:
    points = POINTS + NAN
    if name in ACTIVATIONS:
        _check(ACTIVATIONS[name], [np.array(points)], mode.wrap)
    else:
        x, y = np.meshgrid(points, points)
        _check(LOSSES[name], [x.ravel().copy(), y.ravel().copy()], mode.wrap)
