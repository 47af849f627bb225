"""Gradient descent on the Rosenbrock function: slices, powers and one sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap

__all__ = ["make"]


def make(xp: Any, seed: int, wrap: Wrap, n: int) -> Training:
    """``n`` variables, plain gradient descent."""
    start = np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32)
    x = xp.from_numpy(start).clone().requires_grad_()

    @wrap.loss
    def rosenbrock(x: Any) -> Any:
        head, tail = x[:-1], x[1:]
        return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()

    @wrap.step
    def step() -> Any:
        loss = rosenbrock(x)
        loss.backward()
        with xp.no_grad():
            x.sub_(x.grad, alpha=1e-4)
        x.grad = None
        return loss.detach()

    return Training(step, lambda: [x])
