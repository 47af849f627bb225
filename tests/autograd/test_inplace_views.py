"""``t_``, ``transpose_``, ``squeeze_``, ``unsqueeze_``: what they do, what they refuse, and PyTorch's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import func
from tests.modes import Mode

CHANGES: dict[str, Callable[[Any], Any]] = {
    "t_": lambda x: x[:, 0].t_(),
    "transpose_": lambda x: x.transpose_(0, 2),
    "swapaxes_": lambda x: x.swapaxes_(0, -1),
    "swapdims_": lambda x: x.swapdims_(1, 2),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_-dim": lambda x: x.squeeze_(1),
    "squeeze_-dims": lambda x: x.squeeze_((0, 1)),
    "squeeze_-nothing": lambda x: x.squeeze_(0),
    "unsqueeze_": lambda x: x.unsqueeze_(-1),
}


def leaf() -> Any:
    return jitgrad.arange(6.0).reshape(2, 1, 3).clone().requires_grad_()



@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_as_pytorch_does_it(change: Callable[[Any], Any], mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

    def step(module: Any, a: Any) -> Any:
        y = a * 2
        changed = change(y)
        (changed * module.arange(6.0).reshape(changed.shape)).sum().backward()
        return changed.detach(), a.grad, changed.stride(), y._version, changed.is_leaf

    theirs = step(torch, torch.arange(6.0).reshape(2, 1, 3).requires_grad_())
    ours = mode.run(lambda a: step(jitgrad, a), lambda: (leaf(),))
    for found, wanted in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert ours[2:] == theirs[2:]


def test_the_object_and_the_memory_stay(mode: Mode) -> None:
    def step(x: Any) -> Any:
        before = x.data_ptr()
        assert x.transpose_(0, 1) is x
        x.add_(1.0)
        return x.data_ptr() == before, x.shape, x.stride(), x._version, x._is_view(), x.tolist()

    found = mode.run(step, lambda: (jitgrad.arange(6.0).reshape(2, 3).clone(),))
    assert found == (True, (3, 2), (1, 3), 2, False, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])


def test_only_the_view_changes_and_goes_on_as_one(mode: Mode) -> None:
    def step(a: Any) -> Any:
        y = a * 2
        row = y[0:1]
        other = y[1]
        row.squeeze_(0)
        row.mul_(3.0)
        (row.sum() + other.sum() + y.sum()).backward()
        return row.shape, row.tolist(), y.shape, y._version, a.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.arange(6.0).reshape(2, 3).requires_grad_(),))
    assert found == ((3,), [0.0, 6.0, 12.0], (2, 3), 2, [[12.0] * 3, [4.0] * 3])


def test_older_views_of_the_base_keep_their_values(mode: Mode) -> None:
    def step(a: Any) -> Any:
        y = a * 2
        row = y[0]
        y.t_()
        (row * jitgrad.arange(3.0)).sum().backward()
        return row.tolist(), y.shape, a.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.arange(6.0).reshape(2, 3).requires_grad_(),))
    assert found == ([0.0, 2.0, 4.0], (3, 2), [[0.0, 2.0, 4.0], [0.0, 0.0, 0.0]])


def test_what_was_recorded_before_reads_the_old_layout(mode: Mode) -> None:
    def step(x: Any, w: Any) -> Any:
        left = x @ w
        x.t_()
        right = x @ w
        return left, right, (x + 1).unsqueeze_(0).shape

    x, w = np.arange(4.0).reshape(2, 2), np.array([[1.0, 2.0], [3.0, 5.0]])
    left, right, shape = mode.run(step, lambda: (jitgrad.tensor(x), jitgrad.tensor(w)))
    np.testing.assert_array_equal(left.numpy(), x @ w)
    np.testing.assert_array_equal(right.numpy(), x.T @ w)
    assert shape == (1, 2, 2)


def test_a_leaf_in_no_grad(mode: Mode) -> None:
    def step(w: Any) -> Any:
        with jitgrad.no_grad():
            w.t_()
        (w * jitgrad.arange(6.0).reshape(3, 2)).sum().backward()
        return w.shape, w.is_leaf, w._version, w.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, 3, requires_grad=True),))
    assert found == ((3, 2), True, 1, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


def test_a_view_in_no_grad_reads_its_base_afresh(mode: Mode) -> None:
    def step(a: Any) -> Any:
        y = a * 2
        row = y[0:1]
        with jitgrad.no_grad():
            row.squeeze_(0)
        (row * jitgrad.arange(3.0)).sum().backward()
        return a.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, 3, requires_grad=True),))
    assert found == [[0.0, 2.0, 4.0], [0.0, 0.0, 0.0]]


def test_hooks_and_retained_gradients_stay_with_the_old_value(mode: Mode) -> None:
    def step(a: Any) -> Any:
        y, seen = a * 2, []
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g.shape))
        y.t_()
        (y * jitgrad.arange(6.0).reshape(3, 2)).sum().backward()
        return seen, y.grad.tolist(), a.grad.tolist()

    found = mode.run(step, lambda: (jitgrad.ones(2, 3, requires_grad=True),))
    assert found == ([(2, 3)], [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]], [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]])


def test_saved_values_notice(mode: Mode) -> None:
    def step(w: Any, x: Any) -> None:
        z = w * x
        x.t_()
        z.sum().backward()

    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        mode.run(step, lambda: (jitgrad.ones(2, 3, requires_grad=True), jitgrad.ones(2, 3)))


def _inference() -> Any:
    with jitgrad.inference_mode():
        return jitgrad.ones(2, 3)


REFUSALS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], type[Exception], str]] = {
    "leaf": (leaf, lambda x: x.squeeze_(), RuntimeError, "a leaf Variable that requires grad is being used"),
    "view-of-leaf": (leaf, lambda x: x[0].t_(), RuntimeError, "a view of a leaf Variable that requires grad"),
    "several": (leaf, lambda x: (x * 1).split(1)[0].squeeze_(0), RuntimeError, "Output 0 of Split is a view and"),
    "rank": (leaf, lambda x: (x * 1).t_(), RuntimeError, r"t_\(\) expects a tensor with <= 2 dimensions, but self is"),
    "range": (leaf, lambda x: (x * 1).transpose_(0, 5), IndexError, "Dimension out of range"),
    "inference": (_inference, lambda x: x.t_(), RuntimeError, "Inplace update to inference tensor outside"),
}


@pytest.mark.parametrize(("make", "change", "error", "text"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_change_nothing(make: Any, change: Any, error: Any, text: str, mode: Mode) -> None:
    x = make()
    shape = x.shape

    def step(x: Any) -> Any:
        with pytest.raises(error, match=text):
            change(x)
        return (x * 2).sum()

    assert mode.run(step, lambda: (x,)).item() == 2 * x.sum().item()
    assert x.shape == shape


@pytest.mark.parametrize("device", ["vcpu:0", "meta"])
def test_on_other_devices(device: str, mode: Mode) -> None:
    def step(x: Any) -> Any:
        return x.unsqueeze_(0).transpose_(0, 2) * 2

    found = mode.run(step, lambda: (jitgrad.arange(6.0).reshape(2, 3).clone().to(device),), is_steady=False)
    assert (found.shape, str(found.device)) == ((3, 2, 1), device)
    if device != "meta":
        assert found.cpu().flatten().tolist() == [0.0, 6.0, 2.0, 8.0, 4.0, 10.0]


def _changed(x: Any) -> Any:
    y = x * x
    y.unsqueeze_(0).transpose_(0, 1)
    return y.squeeze_(1) * jitgrad.arange(3.0)


def test_under_transforms(mode: Mode) -> None:
    """vmap, jvp and their compositions, with the derivative of x * x * k."""
    x = jitgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def step(x: Any) -> Any:
        batch = func.vmap(_changed)(x)
        _, moved = func.jvp(_changed, (x[0],), (jitgrad.ones(3),))
        rows = func.vmap(func.jacfwd(_changed))(x)
        pulled = func.vmap(func.grad(lambda x: _changed(x).sum()))(x)
        return batch.tolist(), moved.tolist(), rows.diagonal(0, 1, 2).tolist(), pulled.tolist()

    slopes = [[0.0, 4.0, 12.0], [0.0, 10.0, 24.0]]
    found = mode.run(step, lambda: (x,), is_steady=False)
    assert found == ([[0.0, 4.0, 18.0], [0.0, 25.0, 72.0]], slopes[0], slopes, slopes)
