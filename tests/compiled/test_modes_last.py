"""Modes that a step sets as a function, not for a block, last after it, as in PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    for lib in (torch, jg):
        lib.set_grad_enabled(True)
        lib.set_default_dtype(lib.float32)


def seen(lib: Any, step: Any, *args: Any) -> tuple[Any, ...]:
    result = None
    with contextlib.suppress(ZeroDivisionError):
        result = step(lib, *args)
    return result, lib.is_grad_enabled(), str(lib.get_default_dtype()).split(".")[-1]


def switches_off(lib: Any, x: Any) -> tuple[bool, bool]:
    before = (x * 2).requires_grad
    lib.set_grad_enabled(False)
    return before, (x * 2).requires_grad


def switches_in_a_block(lib: Any, x: Any) -> tuple[bool, bool]:
    with lib.enable_grad():
        lib.set_grad_enabled(False)
        inside = (x * 2).requires_grad
    return inside, (x * 2).requires_grad


def switches_and_raises(lib: Any, x: Any) -> None:
    lib.set_grad_enabled(False)
    1 // 0  # noqa: B018


def raises_in_a_block(lib: Any, x: Any) -> None:
    with lib.no_grad():
        x.sum()
        1 // 0  # noqa: B018


def another_dtype(lib: Any, x: Any) -> str:
    lib.set_default_dtype(lib.float64)
    return str(lib.tensor(1.5).dtype).split(".")[-1]


def a_generator_left_in_the_middle(lib: Any, x: Any) -> tuple[bool, bool]:
    def parts() -> Iterator[Any]:
        with lib.no_grad():
            yield x * 2
            yield x * 3

    generator = parts()
    first = next(generator)
    return first.requires_grad, (x * 2).requires_grad


@pytest.mark.parametrize("starts_enabled", [True, False])
@pytest.mark.parametrize(
    "step",
    [switches_off, switches_in_a_block, switches_and_raises, raises_in_a_block, another_dtype,
     a_generator_left_in_the_middle],
    ids=lambda step: step.__name__,
)  # fmt: skip
def test_a_mode_lasts(step: Any, starts_enabled: bool, mode: Mode) -> None:
    def run(lib: Any, function: Any) -> Any:
        lib.set_default_dtype(lib.float32)
        lib.set_grad_enabled(starts_enabled)
        return seen(lib, function, lib.ones(2, requires_grad=True))

    compiled = mode.wrap(lambda lib, x: step(lib, x))
    want = run(torch, step)
    for _ in range(3):
        assert run(jg, compiled) == want
