"""``fill_``, ``zero_``, ``copy_``: their Nodes, and what they do under transforms. Names and values as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad import func
from tests.modes import Mode

FILLS: dict[str, tuple[Callable[[Any], Any], str, float]] = {
    "fill_": (lambda y: y.fill_(2.5), "FillBackward2", 2.5),
    "zero_": (lambda y: y.zero_(), "ZeroBackward0", 0.0),
}


@pytest.mark.parametrize(("fill", "name", "value"), FILLS.values(), ids=FILLS)
def test_the_node_and_the_gradient(fill: Any, name: str, value: float, mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 3
        fill(y)
        node = y.grad_fn
        (y * 2 + x).sum().backward()
        return node.name(), node.next_functions[0][0].name(), y.tolist(), x.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),))
    assert found == (name, "MulBackward0", [value, value], [1.0, 1.0])


@pytest.mark.parametrize(("fill", "name", "value"), FILLS.values(), ids=FILLS)
def test_part_of_a_tensor(fill: Any, name: str, value: float, mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 3
        fill(y[0])
        y.sum().backward()
        return y.grad_fn.name(), y.tolist(), x.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),))
    assert found == ("torch::autograd::CopySlices", [value, 3.0], [0.0, 3.0])


def test_a_number_assigned_fills(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 3
        y[...] = 4.0
        return y.tolist(), y.grad_fn.name()

    assert mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),)) == ([4.0, 4.0], "FillBackward2")


def _filled(x: Any) -> Any:
    y, z, copied = x * x, x * 3, x.sin()
    y[0].fill_(2.0)
    z[1].zero_()
    copied.copy_(x * 5)
    return y + z + copied


def test_under_transforms(mode: Mode) -> None:
    """y = (2 + 3a + 5a, b * b + 5b): the Jacobian is diag(8, 2b + 5)."""
    x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]])

    def step(x: Any) -> Any:
        batch = func.vmap(_filled)(x)
        value, moved = func.jvp(_filled, (x[0],), (jitgrad.ones(2),))
        rows = func.vmap(func.jacfwd(_filled))(x)
        pulled = func.vmap(func.grad(lambda x: _filled(x).sum()))(x)
        return batch.tolist(), value.tolist(), moved.tolist(), rows.tolist(), pulled.tolist()

    found = mode.run(step, lambda: (x,), is_steady=False)
    slopes = [[8.0, 9.0], [8.0, 13.0]]
    jacobians = [[[a, 0.0], [0.0, b]] for a, b in slopes]
    assert found == ([[10.0, 14.0], [26.0, 36.0]], [10.0, 14.0], slopes[0], jacobians, slopes)


def test_a_number_and_a_tensor_under_vmap_and_jvp(mode: Mode) -> None:
    def whole(x: Any, value: Any) -> Any:
        return (x * 1).fill_(value) + (x * 1).zero_() + (x * 1).fill_(1.5)

    def step(x: Any, values: Any) -> Any:
        _, moved = func.jvp(whole, (x[0], values[0]), (jitgrad.ones(2), jitgrad.tensor(7.0)))
        return func.vmap(whole)(x, values).tolist(), moved.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, 2), jitgrad.tensor([3.0, 4.0])), is_steady=False)
    assert found == ([[4.5, 4.5], [5.5, 5.5]], [7.0, 7.0])
