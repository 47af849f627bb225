"""``rows/tree_lstm.py`` in JAX: trees are filled up to the largest one, so that one jitted scan computes them all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.tree_lstm import RATE, Tree, trees, weights
from benchmarks.rows_jax.carry import sgd

__all__ = ["make"]


def _filled(tree: Tree, leaves: int) -> tuple[Any, ...]:
    """Words, pairs and the root, in a numbering where what the first pair becomes is node ``leaves``."""
    count = len(tree.words)
    words = np.zeros(leaves, np.int32)
    words[:count] = tree.words
    pairs = np.zeros((leaves - 1, 2), np.int32)
    pairs[: count - 1] = np.array(tree.pairs) + (np.array(tree.pairs) >= count) * (leaves - count)
    return words, pairs, np.int32(leaves + count - 2), np.int32(tree.label)


def _loss(parameters: Any, words: Any, pairs: Any, root: Any, label: Any) -> Any:
    table, w_leaf, b_leaf, w_pair, b_pair, w_out, b_out = parameters
    leaves = len(words)
    i, o, u = jnp.split(table[words] @ w_leaf.T + b_leaf, 3, axis=1)
    c = jax.nn.sigmoid(i) * jnp.tanh(u)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    room = jnp.zeros((leaves - 1, h.shape[1]))

    def join(nodes: tuple[Any, Any], at: tuple[Any, Any]) -> tuple[Any, None]:
        (h, c), (pair, nr) = nodes, at
        gates = h[pair].reshape(-1) @ w_pair.T + b_pair
        i, f_left, f_right, o, u = jnp.split(gates, 5)
        both = jax.nn.sigmoid(f_left) * c[pair[0]] + jax.nn.sigmoid(f_right) * c[pair[1]]
        cell = jax.nn.sigmoid(i) * jnp.tanh(u) + both
        return (h.at[nr].set(jax.nn.sigmoid(o) * jnp.tanh(cell)), c.at[nr].set(cell)), None

    nodes = jnp.concatenate((h, room)), jnp.concatenate((c, room))
    (h, _), _ = jax.lax.scan(join, nodes, (pairs, jnp.arange(leaves, 2 * leaves - 1)))
    return -jax.nn.log_softmax(h[root] @ w_out.T + b_out)[label]


def make(seed: int, leaves: int, features: int, hidden: int) -> Training:
    """Cross entropy at the root, by gradient descent on one tree a step."""
    parameters = [jnp.asarray(array) for array in weights(seed, features, hidden)]
    source = trees(seed, leaves)
    update = jax.jit(sgd(_loss, RATE), donate_argnums=0)

    def step() -> Any:
        nonlocal parameters
        parameters, loss = update(parameters, *_filled(next(source), leaves))
        return loss

    return Training(step, lambda: parameters)
