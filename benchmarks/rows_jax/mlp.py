"""``rows/mlp.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.mlp import NUM_BATCHES
from benchmarks.rows_jax.carry import adam, adam_state, carried

__all__ = ["cross_entropy", "loss", "make"]


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean negative log-likelihood over the leading dimension."""
    log_probability = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probability, labels[:, None], axis=1).mean()


def loss(parameters: Any, x: Any, y: Any) -> Any:
    """Cross entropy of ``y`` behind linear layers (weights and biases in turn) with ReLU between them."""
    *hidden, (last_weight, last_bias) = zip(parameters[::2], parameters[1::2], strict=True)
    for weight, bias in hidden:
        x = jax.nn.relu(x @ weight.T + bias)
    return cross_entropy(x @ last_weight.T + last_bias, y)


def make(seed: int, widths: tuple[int, ...], batch: int, epoch: int = 0) -> Training:
    """``widths`` are the layers' sizes, inputs first, classes last; NumPy slices the data set, if there is one."""
    rng = np.random.default_rng(seed)
    parameters = [jnp.asarray(array) for array in data.layers(rng, widths)]
    arrays = data.classification_batches(rng, epoch or NUM_BATCHES, (batch, widths[0]), widths[-1])
    batches = [(x, y.astype(np.int32)) for x, y in arrays]
    return carried(adam(loss, 1e-3), adam_state(parameters), batches, lambda state: state[0])
