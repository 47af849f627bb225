"""``copy`` and ``pickle``: what is kept, what is shared."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import nn, optim


class Named(jitgrad.Tensor):
    """A subclass whose objects carry attributes."""


def _pickled(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))


@pytest.mark.row("A2")
@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, _pickled], ids=["copy", "deepcopy", "pickle"])
def test_layout_and_flags_are_kept(mode: Mode, make_copy: Any) -> None:
    def step(x):
        y = x * 2  # pending, in a trace: its value must be there first
        results = []
        for tensor in (y, y.t(), y[:, 1], y[0, 0], y[:0], x):
            twin = make_copy(tensor.detach().requires_grad_(tensor is x))
            results.append((twin.shape, twin.dtype, twin.requires_grad, twin.is_leaf, twin.tolist(), tensor.tolist()))
        return results, make_copy(y.t()).stride()

    results, stride = mode.run(step, lambda: (jitgrad.arange(6.0).reshape(2, 3),))
    for shape, dtype, requires_grad, is_leaf, got, wanted in results[:-1]:
        assert got == wanted
        assert dtype is jitgrad.float32
        assert is_leaf
        assert not requires_grad
        assert len(shape) <= 2
    assert results[-1][2]
    assert stride == (1, 3)


def test_what_copies_share() -> None:
    base = jitgrad.arange(4.0)
    shallow = copy.copy(base)
    shallow[0] = 100.0
    assert base[0].item() == 100
    deep, view = copy.deepcopy([base, base[1:]])
    deep[1] = 200.0
    assert view.tolist() == [200, 2, 3]
    assert base[1].item() == 1
    same = copy.deepcopy([base, base])
    assert same[0] is same[1]


def test_gradients_and_hooks() -> None:
    fired = []
    x = jitgrad.ones(2, requires_grad=True)
    x.register_hook(fired.append)
    (x * 3).sum().backward()
    fired.clear()
    twin = copy.deepcopy(x)
    assert twin.grad.tolist() == [3, 3]
    assert twin.grad is not x.grad
    (twin * 2).sum().backward()
    assert fired == []
    assert twin.grad.tolist() == [5, 5]
    assert x.grad.tolist() == [3, 3]
    assert _pickled(x).grad is None
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, _pickled], ids=["copy", "deepcopy", "pickle"])
def test_classes_and_attributes(make_copy: Any) -> None:
    parameter = nn.Parameter(jitgrad.ones(2), requires_grad=False)
    parameter.note = [1]
    named = jitgrad.ones(2).as_subclass(Named)
    named.note = [1]
    for tensor in (parameter, named):
        twin = make_copy(tensor)
        assert type(twin) is type(tensor)
        assert twin.note == [1]
        assert not twin.requires_grad
    sparse = make_copy(jitgrad.tensor([0.0, 2.0]).to_sparse())
    assert sparse.is_sparse
    assert sparse.to_dense().tolist() == [0, 2]


def test_modules_and_optimizers() -> None:
    layer = nn.Linear(2, 2)
    tied = nn.Sequential(layer, layer)
    optimizer = optim.Adam(tied.parameters(), lr=0.1)
    twin, its_optimizer = copy.deepcopy((tied, optimizer))
    assert twin[0] is twin[1]
    assert twin[0].weight is not layer.weight
    assert its_optimizer.param_groups[0]["params"][0] is twin[0].weight
    before = layer.weight.tolist()
    twin(jitgrad.ones(1, 2)).sum().backward()
    its_optimizer.step()
    assert layer.weight.tolist() == before
    assert twin[0].weight.tolist() != before
    assert _pickled(tied)[0].weight.tolist() == before


@pytest.mark.parametrize("device", ["vcpu:0", "meta"])
@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, _pickled], ids=["copy", "deepcopy", "pickle"])
def test_devices(device: str, make_copy: Any) -> None:
    tensor = jitgrad.ones(2, 3, device=device)
    twin = make_copy(tensor)
    assert str(twin.device) == device
    assert twin.shape == (2, 3)
    if device != "meta":
        assert twin.tolist() == tensor.tolist()
