"""A physics-informed network for u'' = -sin(pi x) on (0, 1), u(0) = u(1) = 0: the loss holds second derivatives.

Source: Raissi, Perdikaris and Karniadakis, "Physics-informed neural networks", 2019.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data
from benchmarks.rows.mlp import model_with

__all__ = ["make"]


def make(xp: Any, seed: int, wrap: Wrap, points: int, hidden: int) -> Training:
    """Mean squared residual plus mean squared boundary value; Adam."""
    arrays, collocation = data.pinn(seed, points, hidden)
    model = model_with(xp, arrays, xp.nn.Tanh)
    x = xp.from_numpy(collocation).requires_grad_()
    source = xp.from_numpy(np.sin(math.pi * collocation))
    ends = xp.from_numpy(np.array([[0.0], [1.0]], np.float32))
    ones = xp.ones(points, 1)
    optimizer = xp.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    grad = xp.autograd.grad

    @wrap.loss
    def loss_fn(x: Any) -> Any:
        u = model(x)
        (slope,) = grad(u, x, ones, create_graph=True)
        (curvature,) = grad(slope, x, ones, create_graph=True)
        return ((curvature + source) ** 2).mean() + (model(ends) ** 2).mean()

    @wrap.step
    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x)
        loss.backward(inputs=parameters)
        optimizer.step()
        return loss.detach()

    parameters = list(model.parameters())
    return Training(step, lambda: parameters)
