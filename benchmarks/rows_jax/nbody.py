"""``rows/nbody.py`` in JAX, with ``lax.scan`` (as fast as the unrolled loop, and compiled sooner)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.nbody import DT, RATE, SOFTENING
from benchmarks.rows_jax.carry import carried, sgd

__all__ = ["make"]


def make(seed: int, bodies: int, steps: int, dtype: str = "float32") -> Training:
    """The loss is the mean squared distance of the final positions from the targets."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    position, velocity, mass, target = (jnp.asarray(array) for array in data.nbody(seed, bodies, dtype))

    def loss_fn(v: Any, p: Any, mass: Any, target: Any) -> Any:
        weights = mass.reshape(1, bodies, 1)

        def advance(state: Any, _: None) -> tuple[Any, None]:
            p, v = state
            offset = p[None] - p[:, None]
            distance2 = (offset * offset).sum(-1, keepdims=True) + SOFTENING
            v = v + DT * (offset * (weights * jax.lax.rsqrt(distance2) / distance2)).sum(1)
            return (p + DT * v, v), None

        (p, _), _ = jax.lax.scan(advance, (p, v), None, length=steps)
        return ((p - target) ** 2).mean()

    return carried(sgd(loss_fn, RATE), velocity, [(position, mass, target)])
