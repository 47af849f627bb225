"""``rows/lstm.py`` in JAX: with ``lax.scan``, which is three times faster here than the unrolled loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows_jax.carry import carried, sgd

__all__ = ["make"]


def _loss(weights: Any, xs: Any, y: Any) -> Any:
    w_input, w_hidden, bias, w_out = weights

    def cell(state: Any, x: Any) -> tuple[Any, None]:
        h, c = state
        i, f, g, o = jnp.split(x @ w_input.T + bias + h @ w_hidden.T, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((xs.shape[1], w_hidden.shape[1]))
    (h, _), _ = jax.lax.scan(cell, (zero, zero), xs)
    return ((h @ w_out.T - y) ** 2).mean()


def make(seed: int, steps: int, batch: int, features: int, hidden: int) -> Training:
    """The last hidden state is read out linearly; mean squared error."""
    arrays, sequence, target = data.lstm(seed, steps, batch, features, hidden)
    return carried(sgd(_loss, 0.01), [jnp.asarray(array) for array in arrays], [(sequence, target)])
