"""Saved-tensor hooks in steps: called as often, and in the same order, as in eager execution and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad.door import door
from jitgrad.ops.table import OPS
from tests.hook_log import logged_hooks as hooks
from tests.ops.op_specs import SPECS, Sample

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def forward(lib: Any) -> tuple[Any, Any, Any]:
    x = (lib.arange(6.0) / 6).reshape(2, 3).requires_grad_()
    w = (lib.arange(3.0) / 3 + 0.5).requires_grad_()
    return x, w, ((x * 2).exp() * w).sin().sum(0)


def around_a_backward(lib: Any, log: list[Any]) -> Any:
    x, _w, y = forward(lib)
    with hooks(lib, log):
        y.sum().backward()
    return x.grad


def around_a_differentiable_backward(lib: Any, log: list[Any]) -> Any:
    _x, w, y = forward(lib)
    loss = y.sum()
    with hooks(lib, log):
        loss.backward(create_graph=True)
    return w.grad.detach()


def around_grad(lib: Any, log: list[Any]) -> Any:
    x, w, y = forward(lib)
    with hooks(lib, log):
        gx, gw = lib.autograd.grad(y.sum(), (x, w), create_graph=True)
    log.append("between")
    (gx.sum() + gw.sum()).backward()
    return w.grad


def around_both(lib: Any, log: list[Any]) -> Any:
    x, w, y = forward(lib)
    with hooks(lib, log):
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        log.append("between")
        g.sum().backward()
    return w.grad


def around_the_forward(lib: Any, log: list[Any]) -> Any:
    with hooks(lib, log):
        x, w, y = forward(lib)
    log.append("between")
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return w.grad


def looks_at_a_node_inside(lib: Any, log: list[Any]) -> Any:
    _x, w, y = forward(lib)
    with hooks(lib, log):
        log.append(y.grad_fn is None)
        z = y * y
    z.sum().backward()
    return w.grad


def with_gradients_that_exist(lib: Any, log: list[Any]) -> Any:
    _x, w, y = forward(lib)
    y.sum().backward(retain_graph=True)
    with hooks(lib, log):
        y.sum().backward(create_graph=True)
    return w.grad.detach()


STEPS: list[Callable[..., Any]] = [
    around_a_backward, around_a_differentiable_backward, around_grad, around_both, around_the_forward,
    looks_at_a_node_inside, with_gradients_that_exist,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_hooks_are_called_as_in_pytorch(step: Callable[..., Any], mode: Mode) -> None:
    def run(lib: Any) -> tuple[Any, list[Any]]:
        log: list[Any] = []
        return step(lib, log).numpy().copy(), log

    want, log = run(torch)
    function = mode.wrap(lambda: run(jg))
    for _ in range(3):
        got, seen = function()
        assert seen == log
        np.testing.assert_allclose(got, want, rtol=1e-5)


def _packed(lib: Any, function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
    def tensor(x: Any) -> Any:
        if isinstance(x, list):
            return [tensor(y) for y in x]
        if not isinstance(x, np.ndarray):
            return x
        return lib.tensor(x, requires_grad=x.dtype.kind == "f")

    log: list[Any] = []
    given = [tensor(x) for x in inputs]
    with lib.autograd.graph.saved_tensors_hooks(lambda t: log.append(t.detach().numpy().copy()), lambda t: t):
        function(*given)
    return log


NAMED = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name in "mul div maximum minimum atan2 pow lerp addcmul addcdiv mv dot addmm bmm mm where clamp_tensor conv2d "
    "fmod remainder scatter_reduce".split()
    for i, sample in enumerate(SPECS[name])
    if sample.torch is not None
]


@pytest.mark.parametrize(("name", "sample"), NAMED)
def test_an_operation_saves_its_operands_in_pytorchs_order(name: str, sample: Sample) -> None:
    want = _packed(torch, lambda *inputs: sample.torch(torch, *inputs), sample.inputs)  # type: ignore[misc]
    got = _packed(jg, lambda *inputs: door.apply(OPS[name], *inputs, *sample.params), sample.inputs)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)
