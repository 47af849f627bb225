"""Memory formats and strides: where PyTorch keeps them, they are kept; values and gradients never depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch")

FORMS = {
    "contiguous": lambda t, x: x.contiguous(memory_format=t.channels_last),
    "contiguous again": lambda t, x: x.contiguous(memory_format=t.channels_last).contiguous(),
    "contiguous twice": lambda t, x: x.permute(0, 3, 1, 2).contiguous(memory_format=t.channels_last),
    "to": lambda t, x: x.to(memory_format=t.channels_last),
    "to a dtype": lambda t, x: x.to(t.float64, memory_format=t.channels_last),
    "to a copy": lambda t, x: (x * 1).to(copy=True, memory_format=t.contiguous_format),
    "to the same": lambda t, x: x.to(memory_format=t.preserve_format),
    "clone": lambda t, x: x.clone(memory_format=t.channels_last),
    "clone in order": lambda t, x: x.permute(1, 3, 0, 2).clone(memory_format=t.contiguous_format),
    "clone as it is": lambda t, x: x.permute(1, 3, 0, 2).clone(),
    "clone of a channels-last one": lambda t, x: x.contiguous(memory_format=t.channels_last).clone(),
    "clone of a part": lambda t, x: x.permute(1, 3, 0, 2)[:, ::2].clone(memory_format=t.preserve_format),
    "clone of odd strides": lambda t, x: x.as_strided((2, 1, 3), (1, 7, 2)).clone(),
    "clone of repeated elements": lambda t, x: x[:, :1].expand(2, 3, 4, 5).transpose(0, 3).clone(),
    "zeros_like": lambda t, x: t.zeros_like(x.permute(0, 2, 3, 1)) + x.permute(0, 2, 3, 1).sum(),
    "ones_like": lambda t, x: t.ones_like(x, memory_format=t.channels_last),
    "full_like": lambda t, x: t.full_like(x.transpose(1, 2), 3.0, dtype=t.float64),
    "empty_like": lambda t, x: t.empty_like(x, memory_format=t.channels_last).fill_(0),
    "a part, written": lambda t, x: x.permute(0, 2, 1, 3).clone().mul_(2)[1].add_(1),
}


@pytest.mark.parametrize("name", FORMS)
def test_layouts_are_torchs(name: str, mode: Mode) -> None:
    values = np.arange(120.0, dtype=np.float32).reshape(2, 3, 4, 5)
    x = jitgrad.tensor(values, requires_grad=True)

    def step() -> Any:
        y = FORMS[name](jitgrad, x)
        if not y.requires_grad:
            return y, None
        (grad,) = jitgrad.autograd.grad((y * y).sum(), x)
        return y, grad

    y, grad = mode.run(step)
    xt = torch.tensor(values, requires_grad=True)
    expected = FORMS[name](torch, xt)
    np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())
    assert y.stride() == expected.stride()
    assert y.is_contiguous() == expected.is_contiguous()
    is_last = y.is_contiguous(memory_format=jitgrad.channels_last)
    assert is_last == expected.is_contiguous(memory_format=torch.channels_last)
    assert y.requires_grad == expected.requires_grad
    if expected.requires_grad:
        (wanted,) = torch.autograd.grad((expected * expected).sum(), xt)
        np.testing.assert_array_equal(grad.numpy(), wanted.numpy())


def test_copies_in_another_layout_are_no_views() -> None:
    x = jitgrad.ones(2, 3).requires_grad_()
    copied = x.t().clone()
    assert not copied._is_view()
    assert copied.untyped_storage().nbytes() == 24
    copied.mul_(3)
    assert x.tolist() == [[1.0] * 3] * 2
    copied.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2


def test_names_print_as_torchs() -> None:
    for name in ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format", "strided", "sparse_coo"):
        assert repr(getattr(jitgrad, name)) == repr(getattr(torch, name))
        assert isinstance(getattr(jitgrad, name), jitgrad.memory_format | jitgrad.layout)
    assert jitgrad.ones(1).layout is jitgrad.strided


ERRORS = {
    "rank": lambda t: t.ones(2, 3).contiguous(memory_format=t.channels_last),
    "preserve": lambda t: t.ones(2, 3).t().contiguous(memory_format=t.preserve_format),
    "no format": lambda t: t.ones(2).clone(memory_format=3),
    "lengths": lambda t: t.empty_strided((2, 3), (1,)),
    "negative size": lambda t: t.empty_strided((-2,), (1,)),
    "negative stride": lambda t: t.empty_strided((2,), (-1,)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError)) as wanted:
        ERRORS[name](torch)
    with pytest.raises(wanted.type) as found:
        ERRORS[name](jitgrad)
    assert str(found.value).split(", not")[0].removeprefix("clone(): ") in str(wanted.value)


LAYOUTS: list[Any] = [((2, 3), (1, 2)), ((2, 3), (0, 1)), ((0, 4), (4, 1)), ((), ()), ((3,), (5,))]


@pytest.mark.parametrize(("size", "stride"), LAYOUTS)
def test_empty_strided(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    for t in (jitgrad, torch):
        x = t.empty_strided(size, stride, dtype=t.float64).fill_(2)
        assert (tuple(x.shape), x.stride(), x.dtype) == (size, stride, t.float64)
        assert (x == 2).all()
        assert x.new_empty_strided(size, stride).stride() == stride
    extents = [t.empty_strided(size, stride).untyped_storage().nbytes() for t in (jitgrad, torch)]
    assert extents[0] == extents[1]


def test_a_module_takes_a_memory_format() -> None:
    made = []
    for t in (jitgrad, torch):
        model = t.nn.Sequential(t.nn.Conv2d(3, 4, 2), t.nn.Conv1d(2, 2, 1)).to(memory_format=t.channels_last)
        made.append([p.stride() for p in model.parameters()])

    assert made[0] == made[1]
