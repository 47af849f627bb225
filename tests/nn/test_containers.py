"""``Sequential``, ``ModuleList``, ``ModuleDict``, ``ParameterList``."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import nn


def test_sequential_indexes_slices_and_names() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(model) == 3
    assert isinstance(model[-1], nn.Linear)
    assert [type(m).__name__ for m in model[:2]] == ["Linear", "ReLU"]
    assert isinstance(model[:2], nn.Sequential)
    model[1] = nn.Tanh()
    assert [type(m).__name__ for m in model] == ["Linear", "Tanh", "Linear"]
    named = nn.Sequential({"first": nn.Linear(2, 2), "second": nn.ReLU()})
    assert [name for name, _ in named.named_children()] == ["first", "second"]


def test_sequential_runs_in_order() -> None:
    first, second = nn.Linear(2, 3), nn.Linear(3, 1)
    x = jitgrad.ones(4, 2)
    expected = second(first(x)).detach().numpy()
    np.testing.assert_array_equal(nn.Sequential(first, second)(x).detach().numpy(), expected)


def test_module_list() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    layers.append(nn.ReLU())
    layers.insert(0, nn.Tanh())
    assert [type(m).__name__ for m in layers] == ["Tanh", "Linear", "Linear", "ReLU"]
    assert [name for name, _ in layers.named_parameters()] == ["1.weight", "1.bias", "2.weight", "2.bias"]


def test_module_dict() -> None:
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    heads["b"] = nn.ReLU()
    assert list(heads) == ["a", "b"]
    assert "b" in heads
    del heads["a"]
    assert len(heads) == 1
    with pytest.raises(KeyError):
        heads["a"]


def test_parameter_list() -> None:
    weights = nn.ParameterList([jitgrad.ones(1), nn.Parameter(jitgrad.zeros(2))])
    assert [tuple(p.shape) for p in weights] == [(1,), (2,)]
    assert all(isinstance(p, nn.Parameter) for p in weights.parameters())
    assert len(weights[:1]) == 1
