"""What ``autograd.grad`` returns: expanded gradients are views with strides of 0, in compiled steps, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch")

# of x [3, 4]: what is differentiated
OUTPUTS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: x.sum(),
    "sum of a transpose": lambda t, x: x.t().sum(0).sum(),
    "sum of rows": lambda t, x: (x.sum(0) * 3).sum(),
    "product": lambda t, x: (x * 2).sum(),
    "mean": lambda t, x: x.mean(),
    "mean of rows": lambda t, x: x.mean(1).sum(),
    "exp of a transpose": lambda t, x: x.exp().t().sum(0).sum(),
    "reshaped": lambda t, x: x.reshape(12),
    "transposed": lambda t, x: x.t(),
    "parts": lambda t, x: (x[0] * 2).sum() + x.sum(),
    "one row more": lambda t, x: (x * 1).unsqueeze(0),
    "largest": lambda t, x: x.t().max(),
    "product of matrices": lambda t, x: x @ x.t(),
    "product with a transpose": lambda t, x: x.t() @ x,
    "all of it": lambda t, x: x.clone(),
    "selected": lambda t, x: x.t().masked_select(x.t() > 0),
}


def _leaf(t: Any, transposed: bool = False) -> Any:
    values = (t.arange(12, dtype=t.float64) * 0.7 % 1.0).add(0.1)
    x = values.reshape(4, 3).t() if transposed else values.reshape(3, 4)
    return x.detach().requires_grad_()


def _seed(t: Any, y: Any) -> Any:
    return t.arange(float(y.numel()), dtype=t.float64).reshape(tuple(y.shape)) + 1


def _facts(t: Any, grad: Any, seed: Any) -> Any:
    """How it lies, whether it is the gradient that was given, what a write to it says."""
    place = "given" if grad is seed else "shared" if grad.data_ptr() == seed.data_ptr() else "own"
    values = np.asarray(grad.detach().numpy()).round(9).tolist()
    layout = tuple(grad.stride()), grad.storage_offset(), bool(grad._is_view()), grad.requires_grad
    try:
        with t.no_grad():
            grad.add_(1)
        wrote = np.asarray(grad.detach().numpy()).round(9).tolist(), seed.tolist()
    except RuntimeError as error:
        wrote = "more than one element" in str(error)
    return place, layout, values, wrote


@pytest.mark.parametrize(("name", "create_graph"), list(zip(OUTPUTS, [True, False] * 8, strict=True)))
def test_gradients_that_are_asked_for_are_views_where_pytorchs_are(name: str, create_graph: bool, mode: Mode) -> None:
    def step(t: Any, x: Any) -> Any:
        y = OUTPUTS[name](t, x)
        seed = _seed(t, y)
        (grad,) = t.autograd.grad(y, x, seed, create_graph=create_graph)
        return grad, seed

    for transposed in (False, True):
        got = mode.run(lambda x: step(jitgrad, x), lambda: (_leaf(jitgrad, transposed),))  # noqa: B023
        assert _facts(jitgrad, *got) == _facts(torch, *step(torch, _leaf(torch, transposed)))


@pytest.mark.parametrize(("name", "is_leaf"), list(zip(OUTPUTS, [True, False] * 8, strict=True)))
def test_gradients_of_a_compiled_call_are_as_those_of_an_eager_one(name: str, is_leaf: bool, mode: Mode) -> None:
    """Only the forward is compiled: Note [Backward from outside]."""

    def outside(t: Any, forward: Any, x: Any) -> Any:
        z = x if is_leaf else x * 1
        y = forward(z)
        seed = _seed(t, y)
        (grad,) = t.autograd.grad(y, z, seed)
        return _facts(t, grad, seed)

    forward = lambda x: OUTPUTS[name](jitgrad, x)  # noqa: E731
    call = jitgrad.compile(forward) if mode.is_compiled else forward
    for _ in range({"eager": 0, "cold": 0, "warm": 2}[mode.name]):
        outside(jitgrad, call, _leaf(jitgrad))
    expected = outside(torch, lambda x: OUTPUTS[name](torch, x), _leaf(torch))
    assert outside(jitgrad, call, _leaf(jitgrad)) == expected


def test_several_results_share_what_they_are_views_of(mode: Mode) -> None:
    def step(t: Any, x: Any) -> Any:
        y = x.t()
        z = y.reshape(2, 6) if y.is_contiguous() else y.unsqueeze(0)
        grads = t.autograd.grad(z.sum() * 2, (x, y, z))
        return [(tuple(g.stride()), g.tolist(), g.data_ptr() == grads[0].data_ptr()) for g in grads]

    got = mode.run(lambda x: step(jitgrad, x), lambda: (_leaf(jitgrad),))
    assert got == step(torch, _leaf(torch))


def test_an_expanded_gradient_is_stored_once() -> None:
    """The step's program writes one element; nothing writes the twelve that look at it."""

    @jitgrad.compile
    def step(x: Any) -> Any:
        return jitgrad.autograd.grad((x * 1).sum() * 3, x)[0], jitgrad.autograd.grad(x.sum() * 3, x)[0]

    for _ in range(3):
        whole, one = step(_leaf(jitgrad))
    assert whole.untyped_storage().nbytes() == 96
    assert one.untyped_storage().nbytes() == 8
    assert one.tolist() == whole.tolist()
