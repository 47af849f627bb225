"""``rows/rosenbrock.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows_jax.carry import carried, sgd

__all__ = ["make"]


def _rosenbrock(x: Any) -> Any:
    head, tail = x[:-1], x[1:]
    return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()


def make(seed: int, n: int) -> Training:
    """``n`` variables, plain gradient descent."""
    start = np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32)
    return carried(sgd(_rosenbrock, 1e-4), jnp.asarray(start))
