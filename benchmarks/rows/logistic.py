"""Logistic regression by gradient descent on one fixed data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap

__all__ = ["make", "problem"]


def problem(seed: int, rows: int, features: int) -> tuple[Any, Any]:
    """Inputs (rows, features) and labels 0.0 or 1.0 (rows,), drawn from a noisy linear rule."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    score = x @ rng.standard_normal(features) + rng.standard_normal(rows)
    return x, (score > 0).astype(np.float32)


def make(xp: Any, seed: int, wrap: Wrap, rows: int, features: int) -> Training:
    """Weights start at zero."""
    functional = xp.nn.functional
    x, y = (xp.from_numpy(array) for array in problem(seed, rows, features))
    weight = xp.zeros(features, requires_grad=True)
    bias = xp.zeros((), requires_grad=True)

    @wrap.loss
    def loss_fn(weight: Any, bias: Any) -> Any:
        return functional.binary_cross_entropy_with_logits(x @ weight + bias, y)

    @wrap.step
    def step() -> Any:
        loss = loss_fn(weight, bias)
        loss.backward()
        with xp.no_grad():
            for leaf in (weight, bias):
                leaf.sub_(leaf.grad, alpha=0.1)
                leaf.grad = None
        return loss.detach()

    return Training(step, lambda: [weight, bias])
