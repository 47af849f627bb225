"""``Sequential``, ``ModuleList``, ``ModuleDict``, ``ParameterList``."""

from __future__ import annotations

from collections import OrderedDict

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


def _sequential(nn, note):
    model = nn.Sequential(OrderedDict(a=nn.Linear(2, 2), b=nn.ReLU(), c=nn.Linear(2, 1), d=nn.Tanh()))
    note(model[1:3])
    note(nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())[1:])
    del model[1]
    note(model)
    del model[1:]
    note(model)
    note(model.insert(0, nn.Sigmoid()).insert(-1, nn.ReLU()))
    note(nn.Sequential(model.pop(1)))
    note(model)
    note(model + nn.Sequential(nn.Tanh()))
    model += nn.Sequential(nn.ReLU(), nn.ReLU())
    note(model)
    note(2 * nn.Sequential(nn.ReLU(), nn.Tanh()))
    for factor in (0, 1.5):
        try:
            model * factor
        except (TypeError, ValueError) as error:
            note(type(error).__name__)
    try:
        del model[9]
    except IndexError:
        note("IndexError")


def _module_list(nn, note):
    layers = nn.ModuleList([nn.Linear(1, 1), nn.ReLU(), nn.Tanh()])
    del layers[0]
    note(layers)
    note(nn.ModuleList([layers.pop(-1)]))
    note(layers)
    layers += [nn.Sigmoid(), nn.Tanh()]
    note(layers + [nn.ReLU()])  # noqa: RUF005
    del layers[:2]
    layers.insert(0, nn.ReLU())
    note(layers)


def _module_dict(nn, note):
    heads = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    note(type(heads.pop("a")).__name__)
    heads.update({"b": nn.Sigmoid(), "c": nn.ReLU()})
    heads.update([("d", nn.Tanh())])
    note(heads)
    heads.clear()
    note(heads)
    try:
        heads.pop("a")
    except KeyError:
        note("KeyError")


@pytest.mark.parametrize("edit", [_sequential, _module_list, _module_dict])
def test_editing_is_torchs(edit) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")

    def names(lib):
        seen = []

        def note(x):
            seen.append(x if isinstance(x, str) else [(k, type(m).__name__) for k, m in x.named_modules() if k])

        edit(lib.nn, note)
        return seen

    assert names(jitgrad) == names(torch)


def test_parameter_list_is_extended_in_place() -> None:
    weights = nn.ParameterList([jitgrad.ones(1)])
    weights += [jitgrad.ones(2)]
    assert [name for name, _ in weights.named_parameters()] == ["0", "1"]


def test_a_buffer_is_found_by_its_path() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    assert model.get_buffer("0.running_mean") is model[0].running_mean
    with pytest.raises(AttributeError, match="`weight` is not a buffer"):
        model.get_buffer("0.weight")
