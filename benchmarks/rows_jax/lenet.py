"""``rows/lenet.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.lenet import NUM_BATCHES, weights
from benchmarks.rows_jax.carry import adam, adam_state, carried
from benchmarks.rows_jax.mlp import cross_entropy

__all__ = ["make"]


def _convolve(x: Any, weight: Any, bias: Any, padding: int) -> Any:
    pads = ((padding, padding), (padding, padding))
    layout = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, weight, (1, 1), pads, dimension_numbers=layout) + bias[:, None, None]


def _pool(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _loss(parameters: Any, x: Any, y: Any) -> Any:
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = parameters
    x = _pool(jax.nn.relu(_convolve(x, w1, b1, 2)))
    x = _pool(jax.nn.relu(_convolve(x, w2, b2, 0))).reshape(x.shape[0], -1)
    x = jax.nn.relu(jax.nn.relu(x @ w3.T + b3) @ w4.T + b4)
    return cross_entropy(x @ w5.T + b5, y)


def make(seed: int, batch: int) -> Training:
    """Padding 2 in the first convolution, as the original's 32x32 input."""
    rng = np.random.default_rng(seed)
    state = adam_state([jnp.asarray(array) for array in weights(rng)])
    arrays = data.classification_batches(rng, NUM_BATCHES, (batch, 1, 28, 28), 10)
    batches = [(x, y.astype(np.int32)) for x, y in arrays]
    return carried(adam(_loss, 1e-3), state, batches, lambda state: state[0])
