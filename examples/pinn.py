"""Solve u'' = -sin(pi x), u(0) = u(1) = 0 with a network: second derivatives inside a compiled training step.

The loss holds u'', found by differentiating twice; training differentiates it once more. The solution is
sin(pi x) / pi^2. Run ``python examples/pinn.py``.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import jitgrad
from jitgrad import nn, optim
from jitgrad.autograd import grad


def main() -> None:
    """Train, and compare with the solution."""
    jitgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    points = np.linspace(0, 1, 64, dtype=np.float32)[:, None]
    x = jitgrad.from_numpy(points).requires_grad_()
    source = jitgrad.from_numpy(np.sin(math.pi * points))
    ends = jitgrad.tensor([[0.0], [1.0]])
    ones = jitgrad.ones(64, 1)

    @jitgrad.compile
    def step() -> Any:
        optimizer.zero_grad()
        u = model(x)
        (slope,) = grad(u, x, ones, create_graph=True)
        (curvature,) = grad(slope, x, ones, create_graph=True)
        loss = ((curvature + source) ** 2).mean() + 10.0 * (model(ends) ** 2).mean()
        loss.backward(inputs=list(model.parameters()))
        optimizer.step()
        return loss.detach()

    start = time.perf_counter()
    for i in range(2001):
        loss = step()
        if i % 500 == 0:
            print(f"step {i:5d}  loss {loss.item():.3e}")
    print(f"{1e6 * (time.perf_counter() - start) / 2001:.0f} us per step")
    with jitgrad.no_grad():
        error = np.abs(model(x).numpy() - np.sin(math.pi * points) / math.pi**2).max()
    print(f"largest error {error:.1e} (the solution goes up to {1 / math.pi**2:.2f})")


if __name__ == "__main__":
    main()
