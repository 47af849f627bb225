"""``eager()`` blocks, exceptions and generators inside steps: what is written there, and whose graph it changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def eager(lib: Any) -> Any:
    return contextlib.nullcontext() if lib is torch else jg.eager()


def writes_a_result(lib: Any, x: Any) -> Any:
    y = x * 2
    with eager(lib):
        y.mul_(3)
    (y * y).sum().backward()
    return y.tolist(), x.grad.tolist()


def writes_a_result_that_was_read(lib: Any, x: Any) -> Any:
    y = x * 2
    total = y.sum().item()
    with eager(lib):
        y.mul_(3)
    z = y * total
    z.sum().backward()
    return z.tolist(), x.grad.tolist()


def writes_a_view_of_a_result(lib: Any, x: Any) -> Any:
    y = x * 2
    with eager(lib):
        y[1:].mul_(3)
    (y * y).sum().backward()
    return y.tolist(), x.grad.tolist()


def writes_and_raises(lib: Any, x: Any) -> Any:
    y = x * 2
    with contextlib.suppress(KeyError), eager(lib):
        y.mul_(3)
        raise KeyError
    (y * y).sum().backward()
    return y.tolist(), x.grad.tolist()


def writes_what_was_saved(lib: Any, x: Any) -> Any:
    y = x * 2
    z = y * y
    with eager(lib):
        y.mul_(3)
    try:
        z.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return x.grad.tolist()


def writes_without_grad(lib: Any, x: Any) -> Any:
    y = x * 2
    with eager(lib), lib.no_grad():
        y.add_(3)
    (y * y).sum().backward()
    return y.tolist(), x.grad.tolist()


def writes_outside_and_inside(lib: Any, x: Any) -> Any:
    y = x * 2
    y.add_(1)
    with eager(lib):
        y.mul_(0.5)
        with lib.no_grad():
            w = x * 3
    y.mul_(w)
    with eager(lib):
        y.mul_(2)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


def differentiates_inside(lib: Any, x: Any) -> Any:
    with eager(lib):
        (g,) = lib.autograd.grad((x * x).sum(), x, create_graph=True)
    h = (g * g).sum()
    with eager(lib):
        h.backward()
    return x.grad.tolist()


def a_generator_that_is_eager(lib: Any, x: Any) -> Any:
    def parts() -> Iterator[Any]:
        with eager(lib):
            yield x * 2
            yield x * 3

    y = x * 4
    generator = parts()
    first = next(generator)
    y.mul_(first)
    second = next(generator)
    generator.close()
    z = y * second
    z.sum().backward()
    return z.tolist(), x.grad.tolist()


def operations_that_raise(lib: Any, x: Any) -> Any:
    y = x * 2
    with contextlib.suppress(IndexError):
        y[5]
    z = y + 1
    with contextlib.suppress(RuntimeError):
        y.reshape(3, 1) @ y.reshape(3, 1)
    z.mul_(2)
    with contextlib.suppress(RuntimeError):
        z.add_(lib.ones(2, 2))
    z.sum().backward()
    return z.tolist(), x.grad.tolist()


def a_hook_that_raises(lib: Any, x: Any) -> Any:
    y = x * 2

    def hook(g: Any) -> Any:
        raise ValueError

    handle = y.register_hook(hook)
    with contextlib.suppress(ValueError):
        (y * 3).sum().backward()
    handle.remove()
    (y * 5).sum().backward()
    return x.grad.tolist()


STEPS: list[Callable[..., Any]] = [
    writes_a_result, writes_a_result_that_was_read, writes_a_view_of_a_result, writes_and_raises, writes_what_was_saved,
    writes_without_grad, writes_outside_and_inside, differentiates_inside, a_generator_that_is_eager,
    operations_that_raise, a_hook_that_raises,
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_blocks_mean_what_they_mean_in_pytorch(step: Callable[..., Any], mode: Mode) -> None:
    want = step(torch, torch.tensor([1.0, 2.0, 3.0], requires_grad=True))
    function = mode.wrap(lambda x: step(jg, x))
    for _ in range(3):
        assert function(jg.tensor([1.0, 2.0, 3.0], requires_grad=True)) == want
