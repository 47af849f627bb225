"""Memory of calls does not grow with their number: objects and allocated blocks stay what they were."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.compiled import native_eager

_CALLS = 10_000


class Doubled(jg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 + ctx.saved_tensors[0] * 0


def training() -> Callable[[], Any]:
    model = jg.nn.Sequential(jg.nn.Linear(3, 4), jg.nn.Tanh(), jg.nn.Linear(4, 1))
    optimizer = jg.optim.Adam(model.parameters(), lr=0.01)
    x, y = jg.ones(5, 3), jg.zeros(5, 1)

    @jg.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def forward_differentiated_outside() -> Callable[[], Any]:
    w = jg.ones(3, requires_grad=True)
    forward = jg.compile(lambda w: (w * w).sin().sum())

    def step() -> None:
        w.grad = None
        forward(w).backward()

    return step


def reads_and_views() -> Callable[[], Any]:
    x = jg.ones(4, 3)

    @jg.compile
    def step() -> float:
        part = x[1:]
        part.mul_(0.5)
        x.add_(part.sum().item())
        x.clamp_(0, 1)
        return float(x.detach().numpy().sum())

    return step


def hooks_and_functions() -> Callable[[], Any]:
    w = jg.ones(3, requires_grad=True)

    @jg.compile
    def step() -> Any:
        w.grad = None
        y = Doubled.apply(w * 2)
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        return w.grad

    return step


def numbers_that_change() -> Callable[[], Any]:
    x, calls = jg.ones(3), [0]

    @jg.compile
    def scaled(number: float) -> Any:
        return x * number

    def step() -> None:
        calls[0] += 1
        scaled(0.5 + calls[0])

    return step


def an_exception() -> Callable[[], Any]:
    x = jg.ones(3)

    @jg.compile
    def failing() -> None:
        y = x * 2
        raise KeyError(y.shape)

    def step() -> None:
        with contextlib.suppress(KeyError):
            failing()

    return step


STEPS = [training, forward_differentiated_outside, reads_and_views, hooks_and_functions, numbers_that_change,
         an_exception]  # fmt: skip


def _held() -> tuple[int, int]:
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
def test_calls_leave_nothing_behind(make: Callable[[], Callable[[], Any]]) -> None:
    native_eager.install()  # what some thousand eager operations would do once, in the middle of what is counted
    step = make()
    calls = _CALLS if make is training else _CALLS // 4
    for _ in range(calls // 2):  # caches fill, modules are imported
        step()
    objects, blocks = _held()
    for _ in range(calls):
        step()
    more_objects, more_blocks = _held()
    # far less than one per call: the interpreter has caches of its own
    assert more_objects - objects < calls / 10
    assert more_blocks - blocks < calls / 3


def _caught(x: Any, w: Any) -> Any:
    with contextlib.suppress(RuntimeError):
        x + jg.ones(1000)
    return (x * w).sum()


def _written(x: Any, w: Any) -> Any:
    y = x * w.detach()
    y[1:].add_(1)
    x.add_(1)
    return (y * w).sum()


def _stopped(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    if y.item() > 0:
        raise ValueError
    return y


@pytest.mark.parametrize("step", [lambda x, w: (x * w).sum().backward(), _caught, _written, _stopped])
def test_what_a_call_has_met_waits_for_no_garbage_collector(step: Callable[[Any, Any], Any]) -> None:
    """The recorder and its parts refer to each other, while a call that recorded something new runs."""
    compiled = jg.compile(step)
    gc.collect()
    gc.disable()
    try:
        for size in (3, 4, 4):
            x, w = jg.ones(size), jg.ones(size, requires_grad=True)
            met = [weakref.ref(x), weakref.ref(w)]
            with contextlib.suppress(ValueError):
                compiled(x, w)
            del x, w
            assert [tensor() for tensor in met] == [None, None]
    finally:
        gc.enable()
