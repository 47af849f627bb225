"""``SobolEngine``; the points are PyTorch's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import jitgrad
from jitgrad.quasirandom import SobolEngine


def test_the_first_points() -> None:
    pytest.importorskip("scipy", reason="direction numbers are SciPy's")
    engine = SobolEngine(2)
    assert engine.draw(4).tolist() == [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    assert engine.num_generated == 4 and engine.draw(1).tolist() == [[0.375, 0.375]]
    assert engine.reset().fast_forward(4).draw(1).tolist() == [[0.375, 0.375]]
    scrambled = SobolEngine(3, scramble=True, seed=1)
    assert repr(scrambled) == "SobolEngine(dimension=3, scramble=True, seed=1)"
    points = scrambled.draw_base2(6)
    assert points.shape == (64, 3) and points.min() >= 0 and points.max() < 1
    counts = [points[:, d].mul(8).long().bincount(minlength=8).tolist() for d in range(3)]
    assert counts == [[8] * 8] * 3, "as many points in each eighth"


def test_what_it_refuses() -> None:
    for wrong in (0, 21202):
        with pytest.raises(ValueError, match="Supported range"):
            SobolEngine(wrong)
    pytest.importorskip("scipy", reason="direction numbers are SciPy's")
    engine = SobolEngine(1)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)


@pytest.mark.parametrize("dimension", [1, 5, 60])
@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_pytorchs(dimension: int, scramble: bool) -> None:
    torch = pytest.importorskip("torch")

    def drawn(lib: Any) -> list[Any]:
        lib.manual_seed(3)
        engine = importlib.import_module(f"{lib.__name__}.quasirandom").SobolEngine(dimension, scramble=scramble)
        parts = [engine.draw(3), engine.draw(6, dtype=lib.float64), engine.fast_forward(20).draw(2), lib.rand(1)]
        return [part.tolist() for part in parts]

    assert drawn(jitgrad) == drawn(torch)
