"""``rows/logistic.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows.logistic import problem
from benchmarks.rows_jax.carry import carried, sgd

__all__ = ["make"]


def _loss(parameters: Any, x: Any, y: Any) -> Any:
    weight, bias = parameters
    logits = x @ weight + bias
    return (jax.nn.softplus(logits) - y * logits).mean()


def make(seed: int, rows: int, features: int) -> Training:
    """Weights start at zero."""
    return carried(sgd(_loss, 0.1), (jnp.zeros(features), jnp.zeros(())), [problem(seed, rows, features)])
