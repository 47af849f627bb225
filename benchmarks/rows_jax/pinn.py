"""``rows/pinn.py`` in JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows_jax.carry import adam, adam_state, carried

__all__ = ["make"]


def _network(weights: Any, x: Any) -> Any:
    *hidden, (last_weight, last_bias) = zip(weights[::2], weights[1::2], strict=True)
    for weight, bias in hidden:
        x = jnp.tanh(x @ weight.T + bias)
    return x @ last_weight.T + last_bias


def _loss(weights: Any, x: Any) -> Any:
    ones = jnp.ones_like(x)

    def slope(x: Any) -> Any:
        return jax.vjp(lambda x: _network(weights, x), x)[1](ones)[0]

    curvature = jax.vjp(slope, x)[1](ones)[0]
    boundary = _network(weights, jnp.array([[0.0], [1.0]]))
    return ((curvature + jnp.sin(math.pi * x)) ** 2).mean() + (boundary**2).mean()


def make(seed: int, points: int, hidden: int) -> Training:
    """Mean squared residual plus mean squared boundary value; Adam."""
    arrays, collocation = data.pinn(seed, points, hidden)
    state = adam_state([jnp.asarray(array) for array in arrays])
    return carried(adam(_loss, 1e-3), state, [(collocation,)], lambda state: state[0])
