"""In-place writes inside transforms: every way to differentiate a function that writes gives one derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad.func import grad, hessian, jacfwd, jacrev, jvp, vmap

Tensors = Any


def _written(make: Callable[[Any], Any], *writes: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """The sum of squares, and of products with x, of ``make(x)`` after the writes."""

    def function(x: Any) -> Any:
        y = make(x)
        for write in writes:
            write(y, x)
        return (y * y).sum() + (y.reshape(-1)[:3] * x).sum()

    return function


def _set(index: Any, value: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda y, x: y.__setitem__(index, value(x))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a factor": _written(lambda x: x * 1, lambda y, x: y.mul_(x)),
    "a power of a part": _written(lambda x: x.clone(), lambda y, x: y[0].mul_(x[1]), lambda y, x: y.pow_(2)),
    "a saved result": _written(lambda x: x * 1, lambda y, x: y.exp_()),
    "a saved result of a part": _written(lambda x: x * 1, lambda y, x: y[:2].sqrt_()),
    "a quotient": _written(lambda x: x * x, lambda y, x: y.div_(x + 1)),
    "a product added": _written(lambda x: x * x, lambda y, x: y.addcmul_(x, x * x)),
    "an element": _written(lambda x: x * x, _set(0, lambda x: x[1] * x[2])),
    "a slice": _written(lambda x: x * x, _set(slice(1, None), lambda x: x[:2] ** 2)),
    "zeros like the input": _written(jitgrad.zeros_like, _set(0, lambda x: x[1] * x[2]), lambda y, x: y.add_(x)),
    "new zeros": _written(lambda x: x.new_zeros(2, 3), _set(0, lambda x: x * x), lambda y, x: y[:, 1].add_(x[:2])),
    "new zeros, transposed": _written(
        lambda x: x.new_zeros(3, 2).t(), _set(1, lambda x: x * x), _set((0, 1), lambda x: x[0])
    ),
    "a part cleared": _written(lambda x: x * x, lambda y, x: y[1].zero_()),
    "transposed in place": _written(
        lambda x: jitgrad.stack([x, x * x]), lambda y, x: y.t_(), lambda y, x: y[2].mul_(x[0])
    ),
    "a loop": _written(lambda x: x * 1, *[lambda y, x: y.mul_(x).add_(1)] * 3),
}


def _ways(f: Callable[[Any], Any], x: Any, t: Any) -> Tensors:
    gradient, moved = jvp(grad(f), (x,), (t,))
    return (
        hessian(f)(x), jacfwd(grad(f))(x), jacrev(grad(f))(x), gradient, jacfwd(f)(x), moved,
        vmap(grad(f))(jitgrad.stack([x, 2 * x])), grad(lambda z: vmap(f)(jitgrad.stack([z, 2 * z])).sum())(x),
        vmap(hessian(f))(x[None]),
    )  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_way_gives_one_derivative(name: str, mode: Mode) -> None:
    f = FUNCTIONS[name]

    def arguments() -> tuple[Any, Any]:
        return jitgrad.tensor([1.0, 2.0, 3.0], dtype=jitgrad.float64), jitgrad.tensor([1.0, -2.0, 0.5]).double()

    found = [y.numpy() for y in mode.run(lambda x, t: _ways(f, x, t), arguments)]
    x, t = (a.numpy() for a in arguments())
    first, second, at_twice = _by_differences(f, x), _second(f, x), _by_differences(f, 2 * x)
    wanted = [
        second, second, second, first, first, second @ t,
        np.stack([first, at_twice]), first + 2 * at_twice, second[None],
    ]  # fmt: skip
    for nr, (got, want) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max(), err_msg=f"way {nr}")


def _by_differences(f: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    ways = step * np.eye(3)
    return np.array([(_value(f, x + d) - _value(f, x - d)) / (2 * step) for d in ways])


def _second(f: Callable[[Any], Any], x: Any, step: float = 1e-5) -> Any:
    """Differences of gradients that the plain backward computes."""

    def gradient(at: Any) -> Any:
        leaf = jitgrad.tensor(at, requires_grad=True)
        f(leaf).backward()
        return leaf.grad.numpy()

    return np.array([(gradient(x + d) - gradient(x - d)) / (2 * step) for d in step * np.eye(3)])


def _value(f: Callable[[Any], Any], x: Any) -> float:
    return float(f(jitgrad.tensor(x)))


def test_an_example_writes_where_its_own_position_says(mode: Mode) -> None:
    def step(x: Any, i: Any) -> Any:
        def one(row: Any, position: Any) -> Any:
            y = row * 1
            y[position] = 7.0
            return y

        return vmap(one)(x, i)

    result = mode.run(step, lambda: (jitgrad.zeros(2, 3), jitgrad.tensor([0, 2])))
    assert result.tolist() == [[7.0, 0.0, 0.0], [0.0, 0.0, 7.0]]


@pytest.mark.parametrize("make", ["new_zeros", "new_ones", "new_full", "full_like"])
def test_a_new_tensor_beside_an_example_is_one_for_each(make: str, mode: Mode) -> None:
    def one(row: Any) -> Any:
        made = {
            "new_zeros": lambda: row.new_zeros(3), "new_ones": lambda: row.new_ones((3,)) - 1,
            "new_full": lambda: row.new_full((3,), 0.0), "full_like": lambda: jitgrad.full_like(row, 0.0),
        }[make]()  # fmt: skip
        made.copy_(row)
        return made * 2

    result = mode.run(lambda x: vmap(vmap(one))(x), lambda: (jitgrad.arange(12.0).reshape(2, 2, 3),))
    assert result.tolist() == (2 * np.arange(12.0).reshape(2, 2, 3)).tolist()


@pytest.mark.parametrize("way", ["grad", "vjp", "jacrev", "hessian", "jvp", "jacfwd"])
def test_transforms_differentiate_in_inference_mode(way: str, mode: Mode) -> None:
    def f(x: Any) -> Any:
        return (x * x * x).sum()

    def step(x: Any) -> Any:
        with jitgrad.inference_mode():
            inner = x * 1
            ways = {
                "grad": lambda z: grad(f)(z), "vjp": lambda z: jitgrad.func.vjp(f, z)[1](jitgrad.tensor(1.0))[0],
                "jacrev": lambda z: jacrev(f)(z), "hessian": lambda z: hessian(f)(z).diagonal(),
                "jvp": lambda z: jvp(f, (z,), (jitgrad.ones(2),))[1], "jacfwd": lambda z: jacfwd(f)(z),
            }  # fmt: skip
            found = [ways[way](z).tolist() for z in (x, inner)]
            return found, jitgrad.is_inference_mode_enabled(), jitgrad.is_grad_enabled()

    want = {"hessian": [6.0, 12.0], "jvp": 15.0}.get(way, [3.0, 12.0])
    assert mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0]),)) == ([want, want], True, False)


MAPS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda view: vmap(lambda x: x.sin() * 2)(view),
    "vmap of vmap": lambda view: vmap(vmap(lambda x: x.sin()))(view.reshape(1, 3)),
    "jvp": lambda view: jvp(lambda x: x.sin(), (view,), (view * 3,))[1],
    "grad": lambda view: grad(lambda x: (x.sin() * x).sum())(view),
    "jacfwd": lambda view: jacfwd(lambda x: (x.sin() * x).sum())(view),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_view_that_a_write_has_brought_into_the_graph_can_be_mapped_over(name: str, mode: Mode) -> None:
    """The level asks first whether the view requires grad: the trace below it must answer (seed 45003183)."""

    def step(p: Any) -> Any:
        view = jitgrad.ones(3, 4)[:, 0]
        view[0] = p[0] * 2
        out = MAPS[name](view)
        assert out.requires_grad and out.grad_fn is not None
        out.sum().backward()
        return out.detach(), p.grad

    def make() -> tuple[Any]:
        return (jitgrad.tensor([0.3, 0.5], requires_grad=True),)

    expected = step(*make())
    assert expected[1][0].item() != 0.0 and expected[1][1].item() == 0.0
    for found, right in zip(mode.run(step, make), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), right.numpy(), rtol=1e-6)
