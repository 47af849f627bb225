"""Gravitating bodies moved by 20 symplectic Euler steps; their starting velocities are fitted by gradient descent."""

from __future__ import annotations

from typing import Any

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["DT", "RATE", "SOFTENING", "make"]

DT, SOFTENING, RATE = 0.01, 0.05, 0.1


def make(xp: Any, seed: int, wrap: Wrap, bodies: int, steps: int, dtype: str = "float32") -> Training:
    """The loss is the mean squared distance of the final positions from the targets."""
    position, velocity, mass, target = (xp.from_numpy(array) for array in data.nbody(seed, bodies, dtype))
    velocity.requires_grad_()
    weights = mass.reshape(1, bodies, 1)

    @wrap.loss
    def loss_fn(v: Any) -> Any:
        p = position
        for _ in range(steps):
            offset = p.unsqueeze(0) - p.unsqueeze(1)
            distance2 = (offset * offset).sum(-1, keepdim=True) + SOFTENING
            pull = (offset * (weights * xp.rsqrt(distance2) / distance2)).sum(1)
            v = v + DT * pull
            p = p + DT * v
        return ((p - target) ** 2).mean()

    @wrap.step
    def step() -> Any:
        loss = loss_fn(velocity)
        loss.backward()
        with xp.no_grad():
            velocity.sub_(velocity.grad, alpha=RATE)
        velocity.grad = None
        return loss.detach()

    return Training(step, lambda: [velocity])
