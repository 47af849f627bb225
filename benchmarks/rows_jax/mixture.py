"""``rows/mixture.py`` in JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows.mixture import RATE, start
from benchmarks.rows_jax.carry import adam, adam_state, carried

__all__ = ["make"]


def _loss(parameters: Any, x: Any) -> Any:
    means, log_deviations, logits = parameters
    scaled = (x[:, None] - means) * jnp.exp(-log_deviations)
    constant = 0.5 * x.shape[1] * math.log(2 * math.pi)
    densities = -0.5 * (scaled * scaled).sum(-1) - log_deviations.sum(-1) - constant
    return -jax.nn.logsumexp(jax.nn.log_softmax(logits) + densities, axis=1).mean()


def make(seed: int, points: int, features: int, parts: int) -> Training:
    """The mean negative log-likelihood of ``points`` points."""
    values, arrays = start(seed, points, features, parts)
    state = adam_state([jnp.asarray(array) for array in arrays])
    return carried(adam(_loss, RATE), state, [(values,)], lambda state: state[0])
