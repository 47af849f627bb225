"""Factories given ``dtype``, ``device`` or ``requires_grad``: the usual ones take no detour, wrong ones fail."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from jitgrad.functions import _generated, _parse

MAKERS = ("zeros", "ones", "empty", "rand", "randn")
SIZES: tuple[Any, ...] = ((2, 3), ((2, 3),), (jg.Size((2, 3)),), (4,), ((4,),))


@pytest.fixture
def detours(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions whose arguments were matched against signatures."""
    seen: list[str] = []
    slow = _parse.slow

    def noted(function: Any, *rest: Any) -> Any:
        seen.append(function.__name__)
        return slow(function, *rest)

    monkeypatch.setattr(_generated, "_slow", noted)
    return seen


@pytest.mark.parametrize("options", [{}, {"dtype": jg.float64}, {"device": jg.device("cpu")}, {"device": "cpu"},
                                     {"requires_grad": True}, {"dtype": None, "device": None, "requires_grad": False},
                                     {"dtype": jg.float32, "requires_grad": True}])  # fmt: skip
@pytest.mark.parametrize("name", MAKERS)
def test_usual_calls_take_no_detour(name: str, options: dict[str, Any], detours: list[str]) -> None:
    make = getattr(jg, name)
    for sizes in SIZES:
        make(*sizes, **options)  # a size is looked at once
        detours.clear()
        made = make(*sizes, **options)
        assert detours == []
        assert made.shape == (sizes[0] if isinstance(sizes[0], tuple) else sizes)
        assert made.dtype is (options.get("dtype") or jg.float32)
        assert made.requires_grad is bool(options.get("requires_grad"))


def test_a_range_takes_none_either(detours: list[str]) -> None:
    for options in ({}, {"dtype": jg.float32}, {"device": "cpu"}):
        jg.arange(2, 7, **options)
        detours.clear()
        assert jg.arange(1, 4, **options).tolist() == [1, 2, 3]
        assert detours == []


@pytest.mark.parametrize(
    "options",
    [{"requires_grad": 1}, {"dtype": "float32"}, {"dtype": 3}, {"shape": (2,)}, {"dim": 0}],
)
@pytest.mark.parametrize("name", MAKERS)
def test_wrong_options_are_refused_as_by_pytorch(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    for t in (torch, jg):
        for sizes in ((2, 3), ((2, 3),)):
            getattr(t, name)(*sizes)
            with pytest.raises(TypeError):
                getattr(t, name)(*sizes, **options)


@pytest.mark.parametrize("sizes", [(2.5, 3), ((2.5, 3),), ("2",), ([2, "3"],), (2, (3,)), ((),), ([],), ()])
def test_sizes_are_those_that_pytorch_takes(sizes: Any) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    for known in ((2, 3), ((2, 3),), ((),)):
        jg.zeros(*known, dtype=jg.float64)

    def shape(t: Any) -> Any:
        try:
            return tuple(t.zeros(*sizes, dtype=t.float64).shape)
        except TypeError:
            return TypeError

    assert shape(jg) == shape(torch)
