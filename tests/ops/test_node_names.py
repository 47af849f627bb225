"""Nodes have PyTorch's names, with its numbers for overloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad.nn import functional
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="compares with PyTorch")


def _written(write: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def run(t: Any, F: Any, x: Any) -> Any:
        y = x * 1
        write(y)
        return y

    return run


RESULTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "1 - x": lambda t, F, x: 1 - x,
    "2 ** x": lambda t, F, x: 2**x,
    "x ** 2": lambda t, F, x: x**2,
    "x ** x": lambda t, F, x: x**x,
    "x // 2": lambda t, F, x: x // 2,
    "x % 2": lambda t, F, x: x % 2,
    "x % x": lambda t, F, x: x % x,
    "fmod": lambda t, F, x: t.fmod(x, 2),
    "sum": lambda t, F, x: x.sum(),
    "sum dim": lambda t, F, x: x.sum(0),
    "mean dim": lambda t, F, x: x.mean(0),
    "prod dim": lambda t, F, x: x.prod(0),
    "squeeze": lambda t, F, x: x.squeeze(),
    "squeeze dim": lambda t, F, x: x.squeeze(0),
    "squeeze dims": lambda t, F, x: x.squeeze((0, 1)),
    "clamp": lambda t, F, x: x.clamp(0, 1),
    "clamp min": lambda t, F, x: x.clamp(0),
    "clamp max tensor": lambda t, F, x: x.clamp(max=x),
    "clamp_min": lambda t, F, x: t.clamp_min(x, 0),
    "clamp_min tensor": lambda t, F, x: t.clamp_min(x, x),
    "lerp": lambda t, F, x: t.lerp(x, x, 0.5),
    "lerp tensor": lambda t, F, x: t.lerp(x, x, x),
    "masked_fill": lambda t, F, x: x.masked_fill(x > 0, 0.5),
    "masked_fill tensor": lambda t, F, x: x.masked_fill(x > 0, x.sum()),
    "masked_select": lambda t, F, x: x.masked_select(x > 0),
    "log1p": lambda t, F, x: x.log1p(),
    "round decimals": lambda t, F, x: t.round(x, decimals=1),
    "trace": lambda t, F, x: x.trace(),
    "roll": lambda t, F, x: x.roll(1),
    "ravel": lambda t, F, x: x.t().ravel(),
    "vstack": lambda t, F, x: t.vstack([x[0], x[0]]).grad_fn.next_functions[0][0],
    "linear": lambda t, F, x: F.linear(x.reshape(1, 2, 2), x, x[0]),
    "celu": lambda t, F, x: F.celu(x),
    "selu": lambda t, F, x: F.selu(x),
    "mish": lambda t, F, x: F.mish(x),
    "hardswish": lambda t, F, x: F.hardswish(x),
    "hardsigmoid": lambda t, F, x: F.hardsigmoid(x),
    "glu": lambda t, F, x: F.glu(x),
    "avg_pool2d": lambda t, F, x: F.avg_pool2d(x.reshape(1, 1, 2, 2), 2),
    "scatter": lambda t, F, x: x.scatter(0, t.tensor([[0, 0]]), x),
    "scatter number": lambda t, F, x: x.scatter(0, t.tensor([[0, 0]]), 0.5),
    "index_fill": lambda t, F, x: x.index_fill(0, t.tensor([0]), 0.5),
    "index_fill tensor": lambda t, F, x: x.index_fill(0, t.tensor([0]), x.sum()),
    "div floor": lambda t, F, x: t.div(x, 2, rounding_mode="floor"),
    "gt_": _written(lambda y: y.gt_(0)),
    "eq_ tensor": _written(lambda y: y.eq_(y.detach())),
    "fill_": _written(lambda y: y.fill_(2.0)),
    "t_": _written(lambda y: y.t_()),
    "transpose_": _written(lambda y: y.transpose_(0, 1)),
    "unsqueeze_": _written(lambda y: y.unsqueeze_(0)),
    "squeeze_": _written(lambda y: y.squeeze_()),
    "squeeze_ dim": _written(lambda y: y.squeeze_(0)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_node_has_pytorchs_name(name: str, mode: Mode) -> None:
    def step(t: Any, F: Any) -> str:
        result = RESULTS[name](t, F, t.tensor([[0.2, 0.4], [0.6, 0.8]], requires_grad=True))
        node = result if hasattr(result, "next_functions") else result.grad_fn
        return str(node.name())

    assert mode.run(lambda: step(jitgrad, functional)) == step(torch, torch.nn.functional)


def test_an_extremum_that_is_gone_gets_nothing(mode: Mode) -> None:
    def step(t: Any) -> Any:
        grads = []
        for values in ([1.0, 3.0, 3.0], [1.0, float("nan"), 3.0]):
            x = t.tensor(values, requires_grad=True)
            x.max().backward()
            grads.append(x.grad.tolist())
        x = t.tensor([1.0, 2.0], requires_grad=True)
        largest = x.max()
        x.data = x.data * 2
        largest.backward()
        return [*grads, x.grad.tolist()]

    assert mode.run(lambda: step(jitgrad)) == step(torch)
