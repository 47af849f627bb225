"""Nodes of custom Functions in the graph: what they keep alive, in compiled steps, and on views."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from custom_functions import function, saves
from modes import Mode
from parity import J as _J
from parity import assert_same, leaf, plain

import jitgrad
from jitgrad.autograd import Function


def _exp_from_output(ctx: Any, g: Any) -> Any:
    return g * 2 * ctx.saved_tensors[0]


def _write_in_place(ctx: Any, x: Any) -> Any:
    x.exp_()
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    return x


FREED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "inputs, intermediates and outputs": (saves("x", "middle", "out"), lambda x: x * 1),
    "a leaf": (saves("x"), lambda x: x),
    "an output written in place": (_write_in_place, lambda x: x * 1),
    "a view written in place": (_write_in_place, lambda x: (x * 1)[:1]),
    "an input returned": (lambda ctx, x: (ctx.save_for_backward(x), x)[1], lambda x: x * 1),
    "a view of an input": (lambda ctx, x: (y := x.view(2), ctx.save_for_backward(y))[0], lambda x: x * 1),
}


@pytest.mark.parametrize("name", FREED)
@pytest.mark.parametrize("runs_backward", [False, True])
def test_no_reference_cycles(mode: Mode, name: str, runs_backward: bool) -> None:
    forward, prepare = FREED[name]
    fn = function(_J, forward, lambda ctx, g: g * 2)
    alive: list[weakref.ref[Any]] = []

    def step(x: Any) -> Any:
        y = fn.apply(prepare(x)).sum()
        alive.append(weakref.ref(y.grad_fn.next_functions[0][0]))
        if runs_backward:
            y.backward()
        return y

    gc.collect()
    gc.disable()
    try:
        y = mode.run(step, lambda: (leaf(_J, [1.0, 2.0]),))
        del y
        assert [r() for r in alive if r() is not None] == []
    finally:
        gc.enable()


def test_a_warm_step_compiles_nothing_and_falls_back_nowhere() -> None:
    """Custom functions are Python; their operations are recorded and compiled like any others."""
    fn = function(_J, saves("out"), _exp_from_output)

    @jitgrad.compile
    def step(x: Any) -> Any:
        y = fn.apply(x * 0.5)
        (first,) = _J.autograd.grad(y.sum(), x, create_graph=True)
        (first * first).sum().backward()
        return y.detach()

    for _ in range(3):
        step(leaf(_J, [0.1, 0.2]))
    jitgrad.reset_stats()
    x = leaf(_J, [0.1, 0.2])
    step(x)
    stats = jitgrad.stats()
    assert stats["compiles"] == 0
    assert stats["fallbacks"] == 0
    assert stats["launches"] <= 2
    # y = exp(x), y' = y, the gradient of sum(y'^2) is 2 y'^2
    assert_same(plain(x.grad), plain(2 * (2 * leaf(_J, [0.1, 0.2])).exp()))


def test_a_deep_graph_is_freed_without_recursion() -> None:
    fn = function(_J, lambda ctx, x: (ctx.save_for_backward(x), x * 1)[1], lambda ctx, g: g * 1)
    x = y = leaf(_J, [1.0])
    for _ in range(50_000):
        y = fn.apply(y)
    node = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.tolist() == [1.0]
    del y
    assert node() is None


class _Reentrant(Function):
    """``x * x``, by a backward inside backward over another handle on the saved value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with jitgrad.enable_grad():
            y = (x * x * g.detach()).sum()
        y.backward()
        return x.grad


class _TanhInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.tanh_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - ctx.saved_tensors[0] ** 2)


def test_views_of_two_handles_on_one_value(mode: Mode) -> None:
    """Found by fuzzing: the saved value's handle got memory of its own, and the views of the other one none."""

    def step(x: Any, y: Any) -> Any:
        a, b = x * 1.0, y * 1.0
        c, d = _saved_exp(a), _Reentrant.apply(b)
        loss = (a + b).sum() + (c + d).sum() + (b[:, :1] * d).sum()
        gx, gy = _J.autograd.grad(loss, (x, y), create_graph=True)
        ((gx * gx).sum() + (gy * gy).sum()).backward()
        return a.detach(), b.detach(), c.detach(), d.detach()

    def make() -> tuple[Any, ...]:
        return leaf(_J, [[0.1, 0.2], [0.3, 0.4]]), leaf(_J, [[0.5, 0.6], [0.7, 0.8]])

    x, y = (plain(t) for t in make())
    expected = [x, y, plain(leaf(_J, x).exp()), y * y]
    assert_same(plain(mode.run(step, make, is_steady=False)), expected)


def _saved_exp(x: Any) -> Any:
    return function(_J, lambda ctx, x: (y := x.exp(), ctx.save_for_backward(y))[0], _exp_gradient).apply(x)


def _exp_gradient(ctx: Any, g: Any) -> Any:
    return g * ctx.saved_tensors[0]


def test_a_column_written_in_place_is_differentiated_twice(mode: Mode) -> None:
    """Found by fuzzing: the saved column was written, without its stride, into the memory of the whole."""

    def step(x: Any) -> Any:
        a = x * 1.0
        column = _TanhInPlace.apply(a[:, :1])
        (g,) = _J.autograd.grad(column.sum() + a.sum(), x, create_graph=True)
        (g * g).sum().backward()
        return a.detach(), x.grad

    def make() -> tuple[Any, ...]:
        return (leaf(_J, [[0.1, 0.2], [0.3, 0.4]]),)

    expected = plain(leaf(_J, [[0.1, 0.2], [0.3, 0.4]]))
    tanh = plain(leaf(_J, [0.1, 0.3]).tanh())
    gradient = expected * 0
    # the gradient is 2 tanh' = 2 (1 - tanh^2) in the first column, 1 in the second; this is d/dx of its square
    gradient[:, 0] = -16 * tanh * (1 - tanh**2) ** 2
    expected[:, 0] = tanh
    a, x_grad = mode.run(step, make, is_steady=False)
    assert_same(plain(a), expected)
    assert_same(plain(x_grad), gradient)
