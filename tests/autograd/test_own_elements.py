"""Writes whose operand lies in the memory that they write, and writes into expanded tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="compares with PyTorch")


def _masked(t: Any, x: Any) -> Any:
    y = x * 1
    y.masked_fill_(y > 1, y[0])
    return y


def _filled(t: Any, x: Any) -> Any:
    y = x * 1
    y.fill_(y[3])
    return y


def _compared(t: Any, x: Any) -> Any:
    y = x * 2
    y.gt_(1)
    return y * x


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {"masked_fill_": _masked, "fill_": _filled, "gt_": _compared}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_torchs(name: str, mode: Mode) -> None:
    def step(t: Any) -> Any:
        x = t.tensor([0.5, 1.0, 2.0, 3.0], requires_grad=True)
        y = PROGRAMS[name](t, x)
        (y * t.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        return y.tolist(), x.grad.tolist(), y._version

    assert mode.run(lambda: step(jitgrad)) == step(torch)


@pytest.mark.parametrize("write", [lambda x: x.fill_(2.0), lambda x: x.zero_()])
def test_an_expanded_tensor_is_filled(write: Callable[[Any], Any], mode: Mode) -> None:
    def step(t: Any) -> Any:
        base = t.tensor([1.0, 2.0, 3.0])
        wide = base.expand(2, 3)
        write(wide)
        return wide.tolist(), base.tolist(), base._version

    assert mode.run(lambda: step(jitgrad)) == step(torch)


@pytest.mark.parametrize("name", ["index", "put_"])
def test_what_is_written_elsewhere_than_read_is_refused(name: str, mode: Mode) -> None:
    def step(t: Any) -> Any:
        x, at = t.tensor([1.0, 2.0, 3.0]), t.tensor([2, 1, 0])
        if name == "index":
            x[at] = x
        else:
            x.put_(at, x)

    for run in (lambda: mode.run(lambda: step(jitgrad)), lambda: step(torch)):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            run()


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_jacobian_without_rows_is_refused(vectorize: bool) -> None:
    kind = IndexError if vectorize else RuntimeError
    for t in (torch, jitgrad):
        for function, x in ((lambda x: x * 2, t.ones(0)), (lambda x: x[:0], t.ones(3))):
            with pytest.raises(kind):
                t.autograd.functional.jacobian(function, x, vectorize=vectorize)
