"""Tensors that a trace has no place for (views that can have no new history), and complex ones, in compiled steps.

Whatever is asked of them is done eagerly, beside the recording; the recorder's own error never comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad.utils.checkpoint import checkpoint


def _changed_view() -> Any:
    view = jitgrad.tensor([1.0, 2.0, 3.0, 4.0], dtype=jitgrad.float64).split(1)[0]
    view.unsqueeze_(0)
    return view.requires_grad_()


def _complex_leaf() -> Any:
    return jitgrad.tensor([1 + 2j, 3.0], requires_grad=True)


def _hook(make: Callable[[], Any]) -> Any:
    x, seen = make(), []
    handle = x.register_hook(lambda g: seen.append(g) or g * 2)
    (x * x).abs().sum().backward()
    handle.remove()
    return x.grad, len(seen)


def _accumulator_hook(make: Callable[[], Any]) -> Any:
    x, seen = make(), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    (x * x).abs().sum().backward()
    return x.grad, len(seen)


def _hook_of_several(make: Callable[[], Any]) -> Any:
    x, seen = make(), []
    y = x * 1
    jitgrad.autograd.graph.register_multi_grad_hook([x, y], lambda grads: seen.extend(g is None for g in grads))
    (x.abs().sum() + y.abs().sum()).backward()
    return x.grad, seen


def _retained(make: Callable[[], Any]) -> Any:
    y = make() * 2
    y.retain_grad()
    y.abs().sum().backward()
    return y.grad


def _grad(make: Callable[[], Any]) -> Any:
    x = make()
    return jitgrad.autograd.grad((x * x).abs().sum(), x)[0]


def _given_gradient(make: Callable[[], Any]) -> Any:
    x = make()
    (x * 3).backward(jitgrad.ones_like(x) * 2)
    return x.grad


def _preset_grad(make: Callable[[], Any]) -> Any:
    x = make()
    x.grad = jitgrad.ones_like(x)
    (x * x).abs().sum().backward()
    return x.grad


def _checkpointed(make: Callable[[], Any]) -> Any:
    x = make()
    checkpoint(lambda t: (t * t).abs().sum(), x, use_reentrant=False).backward()
    return x.grad


def _written(make: Callable[[], Any]) -> Any:
    x = make()
    with jitgrad.no_grad():
        x.mul_(3)
    return x.detach(), x._version


_USES = (
    _hook, _accumulator_hook, _hook_of_several, _retained, _grad, _given_gradient, _preset_grad, _checkpointed,
    _written,
)  # fmt: skip


@pytest.mark.parametrize("make", [_changed_view, _complex_leaf])
@pytest.mark.parametrize("use", _USES)
def test_what_is_asked_of_them_is_done_eagerly(
    use: Callable[[Callable[[], Any]], Any], make: Callable[[], Any], mode: Mode
) -> None:
    assert repr(mode.run(lambda: use(make))) == repr(use(make))
