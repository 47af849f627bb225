"""Compiled functions that are copied or pickled; modules that are compiled; PyTorch's spellings of both."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jitgrad as jg
from jitgrad import events, nn


@jg.compile
def doubled(x: Any) -> Any:
    return x * 2


def negated(x: Any) -> Any:
    return -x


class Halver:
    @staticmethod
    @jg.compile
    def halved(x: Any) -> Any:
        return x / 2


class Model(nn.Module):
    """Compiles a method of its own, as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(jg.ones(2))
        self.compiled = jg.compile(self.scale)

    def scale(self, x: Any) -> Any:
        return x * self.weight

    def forward(self, x: Any) -> Any:
        return self.compiled(x)


def test_a_copied_model_uses_its_own_parameters() -> None:
    model = Model()
    model(jg.ones(2))
    twin = copy.deepcopy(model)
    with jg.no_grad():
        twin.weight.fill_(5)
    assert twin.compiled.fn.__self__ is twin
    for _ in range(3):
        assert twin(jg.ones(2)).tolist() == [5, 5]
        assert model(jg.ones(2)).tolist() == [1, 1]


def test_a_pickled_model_is_compiled_again() -> None:
    model = pickle.loads(pickle.dumps(Model()))
    with events.count("traces") as traces:
        assert model(jg.ones(2)).tolist() == [1, 1]
    assert traces() == 1


def test_functions_are_pickled_by_their_names_where_they_have_them() -> None:
    for function in (doubled, Halver.halved):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert copy.copy(function) is function
    compiled = pickle.loads(pickle.dumps(jg.compile(negated)))
    assert compiled.fn is negated
    assert compiled(jg.ones(1)).item() == -1


def test_a_module_is_compiled_in_place() -> None:
    jg.manual_seed(4)  # else the ReLU may let nothing through
    for compiled in (lambda m: jg.compile(m), lambda m: m.compile() or m):
        layer = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        x = jg.ones(4, 2)
        want, names = layer(x), list(layer.state_dict())
        assert compiled(layer) is layer
        assert compiled(layer).eval().training is False
        for _ in range(3):
            with events.count("traces") as traces:
                loss = layer(x)
            assert traces() == 1
            assert loss.tolist() == want.tolist()
        loss.sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
        assert list(layer.state_dict()) == names
        twin = copy.deepcopy(layer)
        with jg.no_grad():
            twin[0].weight.zero_()
            twin[0].bias.zero_()
        assert twin(x).abs().sum().item() == 0 != layer(x).abs().sum().item()


def test_hooks_of_a_compiled_module_are_called() -> None:
    layer, seen = jg.compile(nn.Linear(2, 1)), []
    layer.register_forward_hook(lambda module, args, out: seen.append(tuple(out.shape)))
    layer.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append("backward"))
    for _ in range(3):
        layer(jg.ones(4, 2, requires_grad=True)).sum().backward()
    assert seen == [(4, 1), "backward"] * 3


def test_options_of_torch_are_accepted() -> None:
    options: dict[str, Any] = {"mode": "max-autotune", "fullgraph": True, "dynamic": False, "backend": "inductor"}
    assert jg.compile(negated, **options)(jg.ones(1)).item() == -1
    assert jg.compile(**options)(negated)(jg.ones(1)).item() == -1
    assert jg.compile(negated, disable=True) is negated
    assert jg.compile(disable=True)(negated) is negated
