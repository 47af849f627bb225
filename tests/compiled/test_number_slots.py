"""Operators of Tensor where its type's number slots try a hit first: who is asked, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad


class Right:
    """Not a tensor; it knows what to do as the right operand, and as the left one."""

    def __radd__(self, other: Any) -> str:
        return f"radd {type(other).__name__}"

    def __rmatmul__(self, other: Any) -> str:
        return f"rmatmul {type(other).__name__}"

    def __rpow__(self, other: Any) -> str:
        return f"rpow {type(other).__name__}"

    def __sub__(self, other: Any) -> str:
        return f"sub {type(other).__name__}"


def test_another_class_as_an_operand(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        return y, [y + Right(), y @ Right(), y ** Right(), Right() - y]

    y, asked = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0]),))
    assert y.tolist() == [2.0, 4.0]
    assert asked == ["radd Tensor", "rmatmul Tensor", "rpow Tensor", "sub Tensor"]


def test_numbers_and_arrays_on_either_side(mode: Mode) -> None:
    def step(x: Any) -> Any:
        two, array = np.float64(2.0), np.array([1.0, 3.0], np.float32)
        return [2 + x, 2 - x, 2 * x, 2 / x, 2**x, x + 2, x - 2, x * 2, x / 2, x**2, x * two, x - two, -x, x * True,
                x + jitgrad.from_numpy(array)]  # fmt: skip

    x = jitgrad.tensor([1.0, 4.0])
    a = x.numpy()
    want = [2 + a, 2 - a, 2 * a, 2 / a, 2**a, a + 2, a - 2, a * 2, a / 2, a**2, a * 2, a - 2, -a, a,
            a + np.array([1, 3])]  # fmt: skip
    for got, wanted in zip(mode.run(step, lambda: (x,)), want, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("bad", ["x + 'a'", "x * None", "'a' - x", "x @ 2", "2 @ x", "pow(x, 2, 3)", "x + [1.0]"])
def test_what_cannot_be_an_operand(mode: Mode, bad: str) -> None:
    def step(x: Any) -> Any:
        y = x + 1
        with pytest.raises(TypeError):
            eval(bad, {"x": y})
        return y * 2

    assert mode.run(step, lambda: (jitgrad.tensor([1.0]),)).tolist() == [4.0]


def test_subclasses_that_define_operators() -> None:
    jitgrad.compile(lambda x: x * x + 1)(jitgrad.ones(2))  # the slots are filled from here on

    class Both(jitgrad.Tensor):
        def __mul__(self, other: Any) -> Any:
            return "mine"

        def __rmul__(self, other: Any) -> Any:
            return "mine reflected"

    class Plain(jitgrad.Tensor):
        pass

    @jitgrad.compile
    def step(x: Any, both: Any, plain: Any) -> Any:
        return both * x, x * both, plain * x, x * plain, both + x

    x = jitgrad.tensor([2.0, 3.0])
    for _ in range(3):
        a, b, c, d, e = step(x, x.as_subclass(Both), x.as_subclass(Plain))
        assert (a, b) == ("mine", "mine reflected")
        assert c.tolist() == d.tolist() == [4.0, 9.0]
        assert e.tolist() == [4.0, 6.0]


def test_an_operator_that_is_replaced_on_the_class_is_called() -> None:
    jitgrad.compile(lambda x: x * x + 1)(jitgrad.ones(2))

    class Counted(jitgrad.nn.Parameter):
        pass

    calls = []
    original = jitgrad.Tensor.__mul__

    def counted(self: Any, other: Any) -> Any:
        calls.append(1)
        return original(self, other)

    x = Counted(jitgrad.tensor([2.0]))
    Counted.__mul__ = counted  # type: ignore[method-assign]
    for _ in range(3):
        assert jitgrad.compile(lambda x: x * 3)(x).tolist() == [6.0]
    assert len(calls) == 3
