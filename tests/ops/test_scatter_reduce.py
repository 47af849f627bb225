"""``scatter_reduce`` and its in-place form against PyTorch: values, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import func
from tests.modes import Mode

REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]
X, INDEX = [[1.0, 2.0, 0.0], [4.0, 5.0, 3.0]], [[0, 1, 1], [0, 1, 0], [0, 1, 1]]
SRC = [[2.0, 5.0, 4.0, 9.0], [1.0, 0.0, 3.0, 9.0], [2.0, 6.0, 3.0, 9.0]]


@pytest.mark.parametrize("is_inplace", [False, True])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_values_and_gradients(reduce: str, include_self: bool, is_inplace: bool, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

    def step(t: Any, x: Any, src: Any) -> Any:
        function = (x * 1).scatter_reduce_ if is_inplace else x.scatter_reduce
        y = function(0, t.tensor(INDEX), src[:, :3], reduce, include_self=include_self)
        (y * t.tensor([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])).sum().backward()
        return y.detach(), x.grad, src.grad

    def leaves(t: Any) -> Any:
        return t.tensor(X, requires_grad=True), t.tensor(SRC, requires_grad=True)

    theirs = step(torch, *leaves(torch))
    ours = mode.run(lambda x, src: step(jitgrad, x, src), lambda: leaves(jitgrad))
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_integers_and_a_larger_source(reduce: str, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

    def step(t: Any) -> Any:
        x, index, src = t.tensor([1, -2, 3]), t.tensor([0, 0, 2, 0]), t.tensor([-2, 5, 4, -6, 7])
        kept = x.scatter_reduce(0, index, src, reduce)
        return kept.tolist(), x.scatter_reduce(0, index, src, reduce, include_self=False).tolist()

    assert mode.run(lambda: step(jitgrad)) == step(torch)


def test_one_element_and_the_node(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = jitgrad.scatter_reduce(x, 0, jitgrad.tensor(0), jitgrad.tensor(3.0), reduce="prod")
        name = y.grad_fn.name()
        y.backward()
        return y.item(), name, x.grad.item()

    found = mode.run(step, lambda: (jitgrad.tensor(2.0, requires_grad=True),))
    assert found == (6.0, "ScatterReduceBackward0", 3.0)


def test_under_vmap_and_jvp(mode: Mode) -> None:
    index = jitgrad.tensor([0, 0])

    def total(x: Any) -> Any:
        return x.scatter_reduce(0, index, x * 2, "sum")

    def step(x: Any) -> Any:
        return func.vmap(total)(x).tolist(), func.jvp(total, (x[0],), (jitgrad.tensor([1.0, 10.0]),))[1].tolist()

    found = mode.run(step, lambda: (jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]]),), is_steady=False)
    assert found == ([[7.0, 2.0], [17.0, 4.0]], [23.0, 10.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x.scatter_reduce(0, t.tensor([0]), x, "most"),
        lambda t, x: x.scatter_reduce(0, t.tensor([0]), t.tensor([1]), "sum"),
        lambda t, x: x.scatter_reduce(0, t.tensor([0.0]), x, "sum"),
        lambda t, x: x.scatter_reduce(0, t.tensor([0, 3]), x, "sum"),
        lambda t, x: x.scatter_reduce(0, t.tensor([0, -1]), x, "prod"),
        lambda t, x: x.scatter_reduce(0, t.tensor([[0]]), x, "sum"),
        lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 0, 0]), x, "sum"),
        lambda t, x: x.scatter_reduce(1, t.tensor([0]), x, "sum"),
        lambda t, x: x.scatter_reduce_(0, t.tensor([0]), x[1:], "mean"),
    ],
)
def test_refusals_are_pytorchs(call: Any, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

    def outcome(function: Any) -> Any:
        try:
            return function().tolist()
        except (RuntimeError, IndexError, TypeError) as error:
            return type(error), str(error).split("\n")[0]

    theirs = outcome(lambda: call(torch, torch.tensor([1.0, 2.0, 3.0])))
    assert outcome(lambda: mode.run(lambda: call(jitgrad, jitgrad.tensor([1.0, 2.0, 3.0])))) == theirs
