"""``ParameterDict`` as PyTorch's."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _used(xp: Any) -> list[Any]:
    """What a dictionary shows after each kind of change."""
    made = xp.nn.ParameterDict({"b": xp.ones(2), "a": xp.zeros(1, 3), "n": 3})
    shown: list[Any] = [list(made), list(made.state_dict()), len(made), "a" in made, made["n"]]
    made.update(OrderedDict(z=xp.ones(1), y=xp.ones(1)))
    made["b"] = xp.ones(4)
    shown += [list(made), list(reversed(made)), [tuple(p.shape) for p in made.parameters()]]
    shown += [made.get("no", 5), made.setdefault("new", 7), made.pop("new"), made.popitem()[0]]
    other = made | xp.nn.ParameterDict([("q", xp.ones(1))])
    shown += [list(other), other["a"] is made["a"], list(made.copy().keys()), list(made.fromkeys(["s"], 1).items())]
    made.clear()
    return [*shown, len(made), list(made.parameters())]


def test_it_changes_as_pytorch_s() -> None:
    assert _used(jitgrad) == _used(torch)


def test_its_values_are_parameters(mode: Any) -> None:
    held = jitgrad.nn.ParameterDict({"w": jitgrad.tensor([2.0])})

    def step() -> Any:
        held.zero_grad()
        (held["w"] ** 2).sum().backward()
        return held["w"].grad

    assert isinstance(held["w"], jitgrad.nn.Parameter)
    assert mode.run(step).tolist() == [4.0]


@pytest.mark.parametrize("wrong", [{1: 2}, 3, [("a",)]])
def test_wrong_contents(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as expected:
        torch.nn.ParameterDict(wrong)
    with pytest.raises(expected.type):
        jitgrad.nn.ParameterDict(wrong)


def test_it_is_no_function() -> None:
    with pytest.raises(RuntimeError, match="should not be called"):
        jitgrad.nn.ParameterDict()(1)
