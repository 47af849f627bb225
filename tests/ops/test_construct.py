"""Calling ``Tensor``: extents, data, or another tensor; values checked on PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor
from tests.modes import Mode


def test_extents_and_data(mode: Mode) -> None:
    def step() -> Any:
        return Tensor(2, 3), Tensor(), Tensor([1, 2]), Tensor((1, 2)) * 2, Tensor(np.ones(2)), Tensor(range(3))

    room, nothing, values, doubled, array, counted = mode.run(step)
    assert (room.shape, nothing.shape) == ((2, 3), (0,))
    assert [x.tolist() for x in (values, doubled, array, counted)] == [[1, 2], [2, 4], [1, 1], [0, 1, 2]]
    assert all(type(x) is Tensor and x.dtype is jitgrad.float32 for x in (room, nothing, values, array, counted))


def test_of_a_tensor_it_is_an_alias_in_the_graph(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = Tensor(x)
        (y * y).sum().backward()
        return y, x.grad

    x = jitgrad.tensor([1.0, 3.0], dtype=jitgrad.float64, requires_grad=True)
    y, grad = mode.run(step, lambda: (x.detach().clone().requires_grad_(),))
    assert y.dtype is jitgrad.float64
    assert (y.tolist(), grad.tolist()) == ([1.0, 3.0], [2.0, 6.0])
    alias = Tensor(x)
    assert alias is not x
    assert (alias.data_ptr(), alias.grad_fn.name()) == (x.data_ptr(), "AliasBackward0")


def test_what_is_written_to_a_new_one_is_there(mode: Mode) -> None:
    def step(x: Any) -> Any:
        out = Tensor(3)
        out.copy_(x * 2)
        out[1] = 7.0
        return out

    assert mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0, 3.0]),)).tolist() == [2.0, 7.0, 6.0]


def test_subclasses() -> None:
    class Special(Tensor):
        """A subclass without a constructor of its own."""

    assert type(Special([1, 2])) is Special


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ((3.5,), {}, TypeError("new(): data must be a sequence (got float)")),
        ((True,), {}, TypeError("new(): data must be a sequence (got bool)")),
        ((None,), {}, TypeError("new(): data must be a sequence (got NoneType)")),
        (("a",), {}, TypeError("new(): invalid data type 'str'")),
        ((2, 3.5), {}, TypeError("new(): argument 'size' failed to unpack the object at pos 2")),
        ((-1,), {}, RuntimeError("Trying to create tensor with negative dimension -1: [-1]")),
        (([1.0],), {"device": "meta"}, RuntimeError("legacy constructor expects device type: cpu but device type:")),
    ],
)
def test_refusals(args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    with pytest.raises(type(error)) as theirs:
        torch.Tensor(*args, **kwargs)
    assert str(theirs.value).startswith(str(error))
    with pytest.raises(type(error)) as ours:
        mode.run(lambda: Tensor(*args, **kwargs))
    assert str(ours.value).startswith(str(error))


NESTED = [
    "[np.float64(1.0)]", "[np.float32(1.0)]", "[np.float64(1.0), 2.0]", "[2, np.float64(1.0)]", "[np.int32(3)]",
    "[np.int32(3), 2]", "[np.float32(1.0), np.float64(2.0)]",
    "[[np.float64(1.0)], [2.0]]", "(np.float64(1.0),)", "[True, np.float64(2.0)]", "[np.bool_(True)]", "[True, 2]",
    "[True, 2.5]", "[[1, 2], [3, 4.5]]", "[m.tensor(1.0, dtype=m.float64)]", "[m.tensor(1.0, dtype=m.float64), 2.0]",
    "[1.0, m.tensor(1.0, dtype=m.float64)]", "[m.tensor(1)]", "[m.tensor(1), 2.5]", "[m.tensor(1, dtype=m.int32)]",
    "[[m.tensor(1, dtype=m.int32)], [True]]", "[np.float32(1.0), 2]", "[m.tensor(True)]",
]  # fmt: skip


@pytest.mark.parametrize("data", NESTED)
def test_nested_data_has_pytorchs_dtype(data: str) -> None:
    torch = pytest.importorskip("torch")
    ours = jitgrad.tensor(eval(data, {"np": np, "m": jitgrad}))
    theirs = torch.tensor(eval(data, {"np": np, "m": torch}))
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert ours.tolist() == theirs.tolist()
