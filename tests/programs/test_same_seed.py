"""A script of PyTorch's gives its own losses: the same seed, and nothing copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")


def _losses(t: Any, wrap: Any) -> list[float]:
    """An MLP with dropout, on shuffled batches of data that are drawn, too."""
    nn, F = t.nn, t.nn.functional
    t.manual_seed(1234)
    x = t.randn(200, 12)
    y = t.randint(0, 4, (200,))
    model = nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 4)
    )
    optimizer = t.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    losses = []
    for _ in range(4):
        for rows in t.randperm(200).split(40):
            losses.append(step(x[rows], y[rows]).item())
    return losses


def _identity(step: Any) -> Any:
    return step


@pytest.mark.parametrize("wrap", [_identity, jitgrad.compile], ids=["eager", "compiled"])
def test_twenty_losses(wrap: Any) -> None:
    own, theirs = _losses(jitgrad, wrap), _losses(torch, _identity)
    assert len(own) == 20
    assert own[0] == pytest.approx(theirs[0], rel=1e-6)
    np.testing.assert_allclose(own, theirs, rtol=2e-4)
