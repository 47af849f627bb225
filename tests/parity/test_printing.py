"""Tensors print as PyTorch prints them: dtypes, shapes, special values, options, what follows the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.dtypes import PACKAGE

torch = pytest.importorskip("torch")

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64", "complex128")
_SHAPES = ((), (0,), (0, 3), (1,), (3,), (2, 3), (2, 2, 3), (40,), (30, 40), (2, 600), (5, 1, 7, 3), (1001,))
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40}, {"threshold": 10},
    {"edgeitems": 2, "threshold": 5}, {"profile": "short"}, {"profile": "full"},
)  # fmt: skip


@pytest.fixture(autouse=True)
def same_package_name() -> Iterator[None]:
    """Lines break where they are too long, so the package's name counts."""
    before, PACKAGE[0] = PACKAGE[0], "torch"
    yield
    PACKAGE[0] = before
    for lib in (torch, jitgrad):
        lib.set_printoptions(profile="default")


def _values(shape: tuple[int, ...], rng: np.random.Generator) -> list[Any]:
    x = rng.standard_normal(shape)
    return [
        np.asarray(v)
        for v in (
            x, np.round(x * 5), x * 10.0 ** rng.integers(-6, 6, shape), np.where(rng.random(shape) < 0.3, np.nan, x),
            np.where(rng.random(shape) < 0.3, np.inf, np.round(x)), np.zeros(shape), np.full(shape, 1e9),
            -np.abs(np.round(x * 1e4)), np.full(shape, -np.inf),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", _DTYPES)
def test_values(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in _SHAPES:
        for x in _values(shape, rng):
            if "complex" in dtype:
                x = x + 1j * rng.standard_normal(shape)
            elif "float" not in dtype:
                x = np.nan_to_num(x, nan=0, posinf=1, neginf=0) % 100
            theirs, ours = (lib.tensor(x).to(getattr(lib, dtype)) for lib in (torch, jitgrad))
            assert repr(ours) == repr(theirs)
            if ours.is_floating_point():
                theirs.requires_grad_()
                ours.requires_grad_()
                assert repr(ours) == repr(theirs)
                assert repr(ours * 1) == repr(theirs * 1)


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_options(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    for lib in (torch, jitgrad):
        lib.set_printoptions(**options)
    for x in (np.array([1.5, 1e-5, 3e7]), np.arange(30.0), rng.standard_normal((4, 9)), np.arange(12)):
        assert repr(jitgrad.tensor(x)) == repr(torch.tensor(x))
        leaves = [lib.tensor(x, dtype=lib.float64, requires_grad=True) for lib in (torch, jitgrad)]
        for use in (lambda t: t * 2, lambda t: t.sum()):
            theirs, ours = map(use, leaves)
            assert repr(ours) == repr(theirs)


def test_without_memory_and_parameters() -> None:
    for dtype in _DTYPES:
        theirs, ours = (lib.empty(2, 3, dtype=getattr(lib, dtype), device="meta") for lib in (torch, jitgrad))
        assert repr(ours) == repr(theirs)
    assert repr(jitgrad.nn.Parameter(jitgrad.ones(2))) == repr(torch.nn.Parameter(torch.ones(2)))
    assert f"{jitgrad.tensor(1.5):.3f} {jitgrad.tensor([1, 2])}" == f"{torch.tensor(1.5):.3f} {torch.tensor([1, 2])}"
