"""Where derivatives are a matter of definition, and where values are special, PyTorch decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import functions
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

INF, NAN = float("inf"), float("nan")


def _others(t: Any) -> Any:
    """A second operand for seven special points."""
    return t.tensor([value for value in (-INF, -0.0, 1.5, INF, NAN) for _ in range(7)])


DERIVATIVES: dict[str, tuple[Callable[[Any, Any], Any], list[float]]] = {
    "relu": (lambda t, x: x.relu(), [-1, 0, 1, NAN]),
    "abs": (lambda t, x: x.abs(), [-1, 0, 1]),
    "norm": (lambda t, x: x.norm(), [0, 0]),
    **{f"norm-{p}": (lambda t, x, p=p: x.norm(p), [-2, -0.0, 0, 3]) for p in (-2, -0.5, 0.5, 0.999, 1, 1.5, 2.5, INF)},
    **{f"norm-{p}-zero": (lambda t, x, p=p: x.norm(p), [-0.0, 0]) for p in (-2, 0.5, 1, 1.5, 2.5, INF)},
    "huber": (lambda t, x: t.nn.functional.huber_loss(x, t.zeros(6)), [-INF, -1, 0.5, 1, 3, NAN]),
    "smooth_l1": (lambda t, x: t.nn.functional.smooth_l1_loss(x, t.zeros(6)), [-INF, -1, 0.5, 1, 3, NAN]),
    "sqrt": (lambda t, x: x.sqrt(), [0, 1, INF]),
    "log": (lambda t, x: x.log(), [-1, 0, 1]),
    "maximum": (lambda t, x: t.maximum(x, t.tensor([0.0, 0.0, 0.0, NAN])), [-1, 0, 1, 0]),
    "minimum": (lambda t, x: t.minimum(x, t.tensor([0.0, 0.0, 0.0, NAN])), [-1, 0, 1, 0]),
    "max": (lambda t, x: x.max(), [1, 3, 3]),
    "amax": (lambda t, x: x.amax(0), [1, 3, 3]),
    "max-dim": (lambda t, x: x.max(0)[0], [1, 3, 3]),
    "clamp": (lambda t, x: x.clamp(0, 1), [-1, 0, 0.5, 1, 2]),
    "clamp-min": (lambda t, x: x.clamp(min=0), [-1, 0, 1, NAN]),
    "pow-0": (lambda t, x: x**0, [-1, 0, 1]),
    "pow-half": (lambda t, x: x**0.5, [0, 1]),
    "pow-tensor": (lambda t, x: x ** t.tensor([0.0, 2.0, 1.0]), [0, 0, 0]),
    "exponent": (lambda t, x: t.tensor([0.0, 0.0, 2.0]) ** x, [0, 2, 1]),
    "floor": (lambda t, x: x.floor(), [-0.5, 0, 1]),
    "sign": (lambda t, x: x.sign(), [-1, 0, 1, NAN]),
    "where": (lambda t, x: t.where(x > 0, x.log(), x), [1, 2]),
    "prod-zeros": (lambda t, x: x.prod(), [0, 2, 0]),
    "prod-zero": (lambda t, x: x.prod(), [0, 2, 3]),
    "std": (lambda t, x: x.std(), [1, 1, 1]),
    "logsumexp": (lambda t, x: x.logsumexp(0), [-INF, 1, 2]),
    "softmax": (lambda t, x: x.softmax(0), [-INF, 1, 2]),
    "log_softmax": (lambda t, x: x.log_softmax(0), [1000, 1, -1000]),
    "tanh": (lambda t, x: x.tanh(), [-INF, -20, 0, INF]),
    "sigmoid": (lambda t, x: x.sigmoid(), [-INF, -100, 0, 100, INF]),
    "silu": (lambda t, x: t.nn.functional.silu(x), [-100, 0, 100]),
    "softplus": (lambda t, x: t.nn.functional.softplus(x), [-100, 0, 20, 21, 100]),
    "gelu": (lambda t, x: t.nn.functional.gelu(x), [-100, 0, 100]),
    "elu": (lambda t, x: t.nn.functional.elu(x), [-1, 0, 1]),
    "leaky_relu": (lambda t, x: t.nn.functional.leaky_relu(x), [-1, 0, 1]),
    "hardtanh": (lambda t, x: t.nn.functional.hardtanh(x), [-1, 0, 1]),
    "atan2": (lambda t, x: t.atan2(x, t.tensor([1.0, -1.0, 0.0])), [0, 0, 1]),
    **{
        name: (
            lambda t, x, name=name: getattr(t, name)(x),
            [-INF, -3, -1, -1e-8, -0.0, 0, 1e-8, 0.5, 1, 3, 1e20, INF, NAN],
        )
        for name in "asinh acosh atanh erfc sinc rad2deg deg2rad frac nan_to_num hardshrink".split()
    },
    **{
        f"{name}-{side}": (
            lambda t, x, n=name, s=side: getattr(t, n)(*((x, _others(t)) if s == "first" else (_others(t), x))),
            [-INF, -2, -0.0, 0, 1, INF, NAN] * 5,
        )
        for name in "copysign hypot fmax fmin xlogy logaddexp logaddexp2 ldexp atan2".split()
        for side in ("first", "second")
    },
    "i0": (lambda t, x: t.i0(x), [-80, -30, -20, -1, -0.0, 0, 0.5, 8, 19.9, 20.1, 60, NAN]),
    "logit": (lambda t, x: t.logit(x), [-INF, -1, 0, 0.05, 0.5, 0.95, 1, 2, INF, NAN]),
    "logit-eps": (lambda t, x: t.logit(x, 0.1), [-INF, -1, 0, 0.05, 0.5, 0.95, 1, 2, INF, NAN]),
    "softshrink": (lambda t, x: t.nn.functional.softshrink(x), [-INF, -1, -0.5, -0.0, 0, 0.5, 1, INF, NAN]),
    "threshold": (lambda t, x: t.nn.functional.threshold(x, 0.5, 20), [-INF, -1, 0, 0.5, 0.6, INF, NAN]),
    "prelu": (lambda t, x: t.nn.functional.prelu(x, t.tensor([0.25])), [-INF, -1, -0.0, 0, 2, INF, NAN]),
    "div": (lambda t, x: x / t.tensor([0.0, 0.0, INF]), [1, 0, 1]),
    "remainder": (lambda t, x: x % 2.0, [-3, 3, -4, INF]),
    "bce": (lambda t, x: t.nn.functional.binary_cross_entropy(x, t.tensor([0.0, 1.0, 0.0, 1.0])), [0, 0, 1, 1]),
}


class _Library:
    nn = jitgrad.nn

    def __getattr__(self, name: str) -> Any:
        return getattr(functions, name)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_value_and_derivative_are_torchs(name: str, mode: Mode) -> None:
    function, points = DERIVATIVES[name]

    def step(x: Any) -> Any:
        out = function(_Library(), x)
        out.sum().backward()
        return out.detach(), x.grad

    out, grad = mode.run(step, lambda: (functions.tensor(np.array(points, np.float32)).requires_grad_(),))
    x = torch.tensor(points, dtype=torch.float32, requires_grad=True)
    want = function(torch, x)
    want.sum().backward()
    np.testing.assert_allclose(out.numpy(), want.detach().numpy(), rtol=2e-6, atol=1e-30)
    np.testing.assert_allclose(grad.numpy(), x.grad.numpy(), rtol=2e-6, atol=1e-30)
