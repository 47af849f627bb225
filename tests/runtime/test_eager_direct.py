"""What eager execution keeps between calls, and what its results do without."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as J
from jitgrad.compiled import native_eager
from jitgrad.door import door
from jitgrad.nn import functional as F
from jitgrad.runtime.eager import direct


@pytest.fixture
def double() -> Iterator[None]:
    J.set_default_dtype(J.float64)
    yield
    J.set_default_dtype(J.float32)


def test_a_result_and_its_saved_alias_have_one_storage() -> None:
    x = J.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    saved = y.grad_fn._saved_result
    assert saved.data_ptr() == y.data_ptr()
    assert saved._storage is y._storage
    with J.no_grad():
        y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_two_threads_get_one_storage() -> None:
    for _ in range(50):
        y = J.ones(3) * 2.0
        found: list[Any] = []
        threads = [threading.Thread(target=lambda y=y, found=found: found.append(y._storage)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] is found[1] is y._storage


def test_a_storage_lives_as_long_as_somebody_holds_it() -> None:
    array = np.ones(3, np.float32)
    x = J.from_numpy(array)
    before = x._storage
    view = x[1:]
    del x
    gc.collect()
    assert J.from_numpy(array)._storage is before is view._storage
    view[0] = 5.0
    assert array.tolist() == [1.0, 5.0, 1.0]


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_of_both_signs_are_two_numbers(numbers: tuple[float, float]) -> None:
    x = J.tensor([1.0, -2.0])
    for number in numbers:
        for _ in range(2):
            got = (x * number).numpy()
            assert np.signbit(got).tolist() == [math.copysign(1.0, number) < 0, math.copysign(1.0, number) > 0]


def test_numbers_of_two_kinds_are_kept_apart() -> None:
    x = J.tensor([3, 4])
    assert (x + 1).dtype is (x + True).dtype is J.int64
    assert (x + 1.0).dtype is J.float32
    assert [(x.float() + n).tolist() for n in (1, 1.0, True, 2**60, math.inf)][4] == [math.inf, math.inf]


def test_an_exponent_is_looked_at_every_time() -> None:
    x = J.tensor([2, 3])
    assert (x**2).tolist() == [4, 9]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-1
    assert [(x.float() ** n).tolist() for n in (2, -1, 0.5, 2)][3] == [4.0, 9.0]


def test_plans_of_another_default_dtype_are_forgotten(double: None) -> None:
    x = J.tensor([1, 2])
    assert (x / 2).dtype is J.zeros(2).dtype is J.where(x > 1, 1.5, 0.5).dtype is J.float64
    J.set_default_dtype(J.float32)
    assert (x / 2).dtype is J.zeros(2).dtype is J.where(x > 1, 1.5, 0.5).dtype is J.float32


def test_writes_that_overlap_in_part_are_refused() -> None:
    x = J.arange(6.0)
    head, tail = x[:5], x[1:]
    with pytest.raises(RuntimeError, match="single memory location"):
        tail.add_(head)
    head += head
    x += x
    assert x.tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 10.0]
    assert x._version == head._version == 2


def test_a_leaf_is_not_written_in_place() -> None:
    w, g = J.ones(3, requires_grad=True), J.ones(3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w.sub_(g)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w[:] -= g
    with J.no_grad():
        w.sub_(g, alpha=0.5)
    assert w.tolist() == [0.5, 0.5, 0.5]
    y = g * 1.0
    y.mul_(w)  # a graph has to know of this one
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_gradient_that_arrives_is_taken_over_only_from_nobody() -> None:
    x = J.ones(2, requires_grad=True)
    y = J.ones(2, requires_grad=True)
    (x * 3.0 + y * 1.0).sum().backward()
    kept = x.grad
    (x * 2.0).sum().backward()
    assert kept is x.grad
    assert x.grad.tolist() == [5.0, 5.0]
    seen: list[Any] = []
    handle = y.register_hook(seen.append)
    y.grad = None
    (y * 2.0).sum().backward()
    handle.remove()
    (y * 2.0).sum().backward()
    assert y.grad.tolist() == [4.0, 4.0]
    assert seen[0].tolist() == [2.0, 2.0]


# ---- shapes that are new ----


@pytest.mark.usefixtures("form")
def test_a_new_shape_is_planned_on_the_straight_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is made, and all else is done as where it is known."""
    general: list[str] = []
    monkeypatch.setattr(direct, "apply_eager", lambda op, *_: general.append(op.name))
    w = J.ones(5, 3, requires_grad=True)
    for n in (7, 11, 13):
        x = J.arange(3.0 * n).reshape(n, 3).requires_grad_()
        rows = J.arange(n).flip(0)
        y = F.linear(x * 2 + x, w).relu()
        z = J.cat((y[rows], 1 - y.t().t())).clamp(0, 50).sum(0)
        (z.max() + J.where(y > 3, y, 0).mean() + J.zeros(n).sum()).backward()
        assert z.shape == (5,) and x.grad.shape == (n, 3)
    assert general == []


@pytest.mark.usefixtures("form")
def test_what_a_new_shape_raises_leaves_nothing_behind() -> None:
    for n in (17, 19):
        x, y, counts = J.ones(n, 3, requires_grad=True), J.ones(n + 1, 3), J.arange(n)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"size of tensor a .{n}. must match the size of tensor b .{n + 1}."):
                x + y
            with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
                x @ y
            with pytest.raises(IndexError, match="Dimension out of range"):
                x.sum(2)
            with pytest.raises(RuntimeError, match="negative integer powers"):
                counts**-1
            with pytest.raises(RuntimeError, match="cannot be converted to type int8_t without overflow"):
                J.ones(n, dtype=J.int8).clamp(max=300)
            with pytest.raises(TypeError):
                x + None
            with pytest.raises(OverflowError):
                counts * 2**70
        assert (counts**2)[-1].item() == (n - 1) ** 2
        (x + x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[2.0] * 3] * n


@pytest.mark.usefixtures("form")
def test_a_new_shape_on_another_device_and_of_a_sparse_tensor() -> None:
    for n in (21, 23):
        x = J.ones(n, device="vcpu:0", requires_grad=True)
        (x * 3).sum().backward()
        assert x.grad is not None and x.grad.device.type == "vcpu" and x.grad.tolist() == [3.0] * n
        sparse = J.sparse_coo_tensor([[0, n - 1]], [1.0, 2.0], (n,))
        assert (sparse * 2).to_dense()[-1].item() == 4.0
        assert (J.ones(n, device="meta") + 1).shape == (n,)


def test_a_write_of_a_new_shape_is_planned_on_the_straight_way(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    general: list[str] = []
    usual = door.run_inplace
    monkeypatch.setattr(door, "run_inplace", lambda op, *rest: general.append(op.name) or usual(op, *rest))
    for n in (25, 27, 29):
        w = J.ones(2, requires_grad=True)
        x = J.arange(2.0 * n).reshape(n, 2)
        x.add_(J.ones(n, 2)).mul_(2)
        y = x * w
        y.mul_(x)
        y[1:] = 0
        y.sum().backward()
        assert w.grad is not None and w.grad.tolist() == [4.0, 16.0]
    assert general == [] or form == "python" or not native_eager.is_installed()


@pytest.mark.usefixtures("form")
def test_what_a_write_of_a_new_shape_raises_leaves_nothing_behind() -> None:
    for n in (31, 33):
        w, x = J.ones(n, 2, requires_grad=True), J.ones(n, 2)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="must match the size of tensor b"):
                x.add_(J.ones(n + 1, 2))
            with pytest.raises(RuntimeError, match="output with shape"):
                x.add_(J.ones(3, n, 2))
            with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
                w.add_(J.ones(n + 1, 2))
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                J.arange(n).mul_(0.5)
            with pytest.raises((RuntimeError, ValueError), match=r"size|shape"):
                (w * 1)[1:] = J.ones(n, 2)
        assert x._version == 0 and x.tolist() == [[1.0, 1.0]] * n
        x.add_(x)
        assert x._version == 1 and x[-1].tolist() == [2.0, 2.0]


@pytest.mark.usefixtures("form")
def test_a_write_without_a_derivative_of_what_needs_a_gradient() -> None:
    w = J.ones(3, requires_grad=True)
    for n in (1, 3, 3, 3):
        x = J.tensor([True, False, True])[:n].clone()
        assert x.logical_and_(w[:n]).tolist() == [True, False, True][:n] and not x.requires_grad
        assert x.logical_or_(w[:n]).tolist() == [True] * n and x.grad_fn is None
        x[:1].logical_xor_(w[:1])
        assert x[0].item() is False and x._version == 3
