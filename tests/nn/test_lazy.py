"""Modules that learn the extent of their input from the first one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.nn.libraries import assert_as_pytorch, raised

KINDS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "LazyLinear": ((3,), (2, 4)),
    **{f"LazyConv{d}d": ((4, 2), (2, 3, *[3] * d)) for d in (1, 2, 3)},
    **{f"LazyConvTranspose{d}d": ((4, 2), (2, 3, *[3] * d)) for d in (1, 2, 3)},
    **{f"LazyBatchNorm{d}d": ((), (2, 3, *[3] * d)) for d in (1, 2, 3)},
    **{f"LazyInstanceNorm{d}d": ((), (2, 3, *[3] * d)) for d in (1, 2, 3)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_input_makes_an_ordinary_module(kind: str) -> None:
    arguments, shape = KINDS[kind]

    def case(xp: Any) -> Any:
        m = getattr(xp.nn, kind)(*arguments)
        before = [repr(m), list(m.state_dict()), m.has_uninitialized_params(), repr(m.weight)]
        parameters = list(m.parameters())
        out = m(xp.randn(*shape))
        same = all(a is b for a, b in zip(parameters, m.parameters(), strict=True))
        return [*before, out, type(m).__name__, repr(m), same, dict(m.state_dict()), hasattr(m, "_load_hook")]

    assert_as_pytorch(case)


def states(xp: Any) -> Any:
    lazy, whole = xp.nn.LazyLinear(2), xp.nn.Linear(3, 2)
    seen = [str(lazy.load_state_dict(whole.state_dict())), lazy.weight, type(lazy).__name__]
    lazy(xp.ones(1, 3))
    other = xp.nn.LazyLinear(2)
    seen += [type(lazy).__name__, str(other.load_state_dict(xp.nn.LazyLinear(2).state_dict()))]
    return [*seen, raised(lambda: whole.load_state_dict(other.state_dict()))[0]]


def not_yet(xp: Any) -> Any:
    m = xp.nn.LazyLinear(2)
    return [
        raised(lambda: m.weight.shape),
        raised(lambda: m.weight + 1)[0],
        raised(lambda: m.weight.sum())[0],
        str(m.double().weight.dtype)[-7:],
        raised(lambda: m(xp.ones(1, 3, dtype=xp.float64)).shape[1]),
        raised(lambda: xp.nn.LazyConv2d(2, 2)(xp.ones(3, 3))),
        raised(lambda: xp.nn.LazyConv2d(4, 2, groups=2)(xp.ones(3, 3, 3)))[0],
    ]


def own_class(xp: Any) -> Any:
    at = xp.nn.modules.lazy if xp.__name__ == "torch" else xp.nn.lazy

    class Scale(at.LazyModuleMixin, xp.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = xp.nn.UninitializedParameter()
            self.buffer = xp.nn.UninitializedBuffer()

        def initialize_parameters(self, x: Any) -> None:
            if isinstance(self.weight, xp.nn.UninitializedParameter):
                self.weight.materialize(x.shape[-1:])
                xp.nn.init.ones_(self.weight)

        def forward(self, x: Any) -> Any:
            return x * self.weight

    m = Scale()
    seen = raised(lambda: m(xp.ones(2, 3)))
    m.buffer.materialize((1,))
    return [seen, m(xp.ones(2, 3)), list(m.state_dict())]


@pytest.mark.parametrize("case", [states, not_yet, own_class], ids=lambda case: case.__name__)
def test_as_pytorch(case: Callable[[Any], Any]) -> None:
    assert_as_pytorch(case)


def test_copies_are_lazy_too() -> None:
    for copied in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        m = copied(jitgrad.nn.LazyLinear(2))
        assert m.has_uninitialized_params()
        assert m(jitgrad.ones(1, 3)).shape == (1, 2)
        assert type(m) is jitgrad.nn.Linear


def test_the_first_call_in_a_step(mode: Any) -> None:
    jitgrad.manual_seed(0)
    m = jitgrad.nn.Sequential(jitgrad.nn.LazyLinear(3), jitgrad.nn.ReLU(), jitgrad.nn.LazyLinear(1))
    step = mode.wrap(lambda x: m(x).sum())
    found = [step(jitgrad.ones(2, 4)).item() for _ in range(4)]
    assert found == pytest.approx([found[0]] * 4)
    assert m[2].weight.shape == (1, 3)
