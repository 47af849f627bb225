"""Losses of classes where there are none: what is ignored counts nothing, and every target is out of bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg
from jitgrad.nn import functional as F

LOSSES = {
    "nll_loss": F.nll_loss,
    "cross_entropy": F.cross_entropy,
    "weighted": lambda x, t, reduction: F.nll_loss(x, t, jg.ones(0), reduction=reduction),
}


def _classes(target: int) -> tuple[Any, ...]:
    return jg.zeros(4, 0, requires_grad=True), jg.full((4,), target)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_all_targets_are_ignored(mode: Mode, name: str, reduction: str) -> None:
    def step(x: Any, target: Any) -> Any:
        loss = LOSSES[name](x, target, reduction=reduction)
        loss.sum().backward()
        return loss.detach(), x.grad.shape

    loss, shape = mode.run(step, lambda: _classes(-100))
    assert shape == (4, 0)
    if reduction == "mean":
        assert math.isnan(loss.item())  # as PyTorch divides by no weight
    else:
        assert loss.tolist() == (0.0 if reduction == "sum" else [0.0] * 4)


@pytest.mark.parametrize("name", LOSSES)
def test_any_other_target_is_out_of_bounds(mode: Mode, name: str) -> None:
    compiled = mode.wrap(lambda x, target: LOSSES[name](x, target, reduction="sum").item())
    for _ in range(3):
        assert compiled(*_classes(-100)) == 0.0
        with pytest.raises(IndexError, match="Target 0 is out of bounds"):
            compiled(*_classes(0))
