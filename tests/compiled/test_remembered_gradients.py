"""Calls of ``autograd.grad`` in compiled steps, see Note [Remembered calls]: the same in every call, whatever Python
has a part in, and none of our Python from the third on where nothing has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest

import jitgrad as jg
from jitgrad import autograd
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell

jg.compile(lambda x: x + 1)(jg.ones(2))  # installs native hits

needs_fronts = pytest.mark.skipif(
    not native_cell.is_installed or not counts_references or config.check_hits,
    reason="hits are Python's, or are checked",
)


def _make() -> tuple[Any, ...]:
    jg.manual_seed(0)
    return jg.randn(3, 2).requires_grad_(), jg.randn(2, 3).requires_grad_(), jg.randn(3, 3)


def _second(w: Any, v: Any, x: Any) -> Any:
    (g,) = autograd.grad((w @ v * x).tanh().sum(), w, create_graph=True)
    return autograd.grad(g.square().sum(), [w, v])


def _weighted(w: Any, v: Any, x: Any) -> Any:
    y = (w @ v).sin()
    (g,) = autograd.grad(y, v, grad_outputs=jg.ones_like(y), create_graph=True)
    (h,) = autograd.grad(y, [w], x, retain_graph=True)
    return g.detach(), h, (g.sum() + h.sum()).detach()


def _of_a_value(w: Any, v: Any, x: Any) -> Any:
    y = w + w
    z = (y @ v).exp()
    return autograd.grad(z.sum(), (y, v))


def _into_leaves(w: Any, v: Any, x: Any) -> Any:
    (g,) = autograd.grad((w @ v * x).square().sum(), w, create_graph=True)
    (g * g).sum().backward()
    return w.grad, v.grad


def _expanded(w: Any, v: Any, x: Any) -> Any:
    return autograd.grad((w.sum() + v.sum() * 2), (w, v))


def _unused(w: Any, v: Any, x: Any) -> Any:
    g, none = autograd.grad((w * w).sum(), (w, v), allow_unused=True)
    zeros = autograd.grad((w * w).sum(), (v,), materialize_grads=True)
    return g, none is None, *zeros


def _entered_by_the_call(w: Any, v: Any, x: Any) -> Any:
    return autograd.grad(w @ v, w, x)


class _Doubled(autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _Doubled.calls += 1
        return g * (2 + _Doubled.calls % 3)


def _through_a_function(w: Any, v: Any, x: Any) -> Any:
    (g,) = autograd.grad((_Doubled.apply(w) @ v).sum(), w)
    return g * 1


def _hooked(w: Any, v: Any, x: Any) -> Any:
    y = w * 2
    y.register_hook(lambda g: g * (3 + _Doubled.calls % 2))
    _Doubled.calls += 1
    return autograd.grad((y @ v).sum(), w)


def _under_modes(w: Any, v: Any, x: Any) -> Any:
    seen = []
    with autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: seen.append(2) or t):
        (g,) = autograd.grad((w * w).sum(), w, create_graph=True)
    (h,) = autograd.grad((g * g).sum(), w)
    with autograd.set_detect_anomaly(True):
        (k,) = autograd.grad((w * w * w).sum(), w)
    return h, k, len(seen)


def _freed(w: Any, v: Any, x: Any) -> Any:
    y = (w * w).sum()
    (g,) = autograd.grad(y, w)
    try:
        autograd.grad(y, w)
    except RuntimeError as error:
        return g, type(error).__name__
    return None


STEPS = [f for name, f in list(globals().items()) if name[0] == "_" != name[1] and callable(f) and name not in
         ("_make", "_Doubled")]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda f: f.__name__)
def test_every_call_says_what_eager_execution_says(step: Callable[..., Any]) -> None:
    def run(step: Any) -> Any:
        _Doubled.calls, seen = 0, []
        for _ in range(6):
            arguments = _make()
            seen.append([agreement.observe([*step(*arguments)]), agreement.observe([a.grad for a in arguments])])
        return seen

    agreement.assert_same(run(jg.compile(step)), run(step))


def test_a_hook_that_comes_later_is_called() -> None:
    function, seen = jg.compile(lambda w, v, x: autograd.grad((w @ v * x).square().sum(), w)), []
    w, v, x = _make()
    want = [function(w, v, x)[0].numpy() for _ in range(4)][-1]
    handle = w.register_hook(lambda g: seen.append(1) or g * 2)
    np.testing.assert_allclose(function(w, v, x)[0].numpy(), want * 2)
    handle.remove()
    np.testing.assert_array_equal(function(w, v, x)[0].numpy(), want)
    assert seen == [1]


@needs_fronts
@pytest.mark.parametrize("step", [_second, _weighted, _of_a_value, _into_leaves], ids=lambda f: f.__name__)
def test_a_warm_call_runs_none_of_our_python(step: Callable[..., Any]) -> None:
    function, arguments, entered = jg.compile(step), _make(), []
    for _ in range(4):
        for leaf in arguments:
            leaf.grad = None
        function(*arguments)
    for leaf in arguments:
        leaf.grad = None
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    assert entered == [step.__name__]
