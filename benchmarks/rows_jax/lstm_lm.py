"""``rows/lstm_lm.py`` in JAX: one product for the inputs of all steps, then ``lax.scan``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.lstm_lm import LAYERS, VOCABULARY, examples, shapes
from benchmarks.rows_jax.carry import adam, adam_state, carried
from benchmarks.rows_jax.mlp import cross_entropy

__all__ = ["make"]


def _layer(x: Any, w_input: Any, w_hidden: Any, b_input: Any, b_hidden: Any) -> Any:
    inputs = x @ w_input.T + b_input + b_hidden

    def cell(state: Any, entering: Any) -> tuple[Any, Any]:
        h, c = state
        i, f, g, o = jnp.split(entering + h @ w_hidden.T, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], w_hidden.shape[1]))
    return jax.lax.scan(cell, (zero, zero), inputs)[1]


def _loss(parameters: Any, x: Any, y: Any) -> Any:
    token, *inner, head, bias = parameters
    states = token[x]
    for layer in range(LAYERS):
        states = _layer(states, *inner[4 * layer : 4 * layer + 4])
    return cross_entropy((states @ head.T + bias).reshape(-1, VOCABULARY), y.reshape(-1))


def make(seed: int, hidden: int, steps: int, batch: int) -> Training:
    """Cross entropy of the next character over every step."""
    rng = np.random.default_rng(seed)
    state = adam_state([jnp.asarray(array) for array in data.filled(rng, shapes(hidden)).values()])
    batches = [(x.astype(np.int32), y.astype(np.int32)) for x, y in examples(rng, steps, batch)]
    return carried(adam(_loss, 1e-3), state, batches, lambda state: state[0])
