"""``rows/graph_net.py`` in JAX: graphs are filled up to the largest one, so that one jitted step serves them all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.graph_net import EDGES, RATE, SCALE, Graph, graphs, weights
from benchmarks.rows_jax.carry import sgd

__all__ = ["make"]


def _filled(graph: Graph, nodes: int) -> tuple[Any, ...]:
    """Features, ends, labels, and each node's share in the loss; edges that are none lead past the last node."""
    count = len(graph.labels)
    x = np.zeros((nodes, graph.x.shape[1]), np.float32)
    x[:count] = graph.x
    ends = np.full((2, EDGES * nodes), nodes, np.int32)
    ends[:, : EDGES * count] = graph.ends
    labels = np.zeros(nodes, np.int32)
    labels[:count] = graph.labels
    share = np.zeros(nodes, np.float32)
    share[:count] = 1 / count
    return x, ends, labels, share


def _layer(x: Any, ends: Any, weight: Any, bias: Any) -> Any:
    h = x @ weight.T + bias
    messages = h.at[ends[0]].get(mode="fill", fill_value=0)
    return h + SCALE * jnp.zeros_like(h).at[ends[1]].add(messages, mode="drop")


def _loss(parameters: Any, x: Any, ends: Any, labels: Any, share: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = parameters
    h = jax.nn.relu(_layer(x, ends, w1, b1))
    h = jax.nn.relu(_layer(h, ends, w2, b2))
    chances = jax.nn.log_softmax(_layer(h, ends, w3, b3))
    return -(share * jnp.take_along_axis(chances, labels[:, None], 1)[:, 0]).sum()


def make(seed: int, nodes: int, hidden: int) -> Training:
    """Cross entropy of all nodes, by gradient descent on one graph a step."""
    parameters = [jnp.asarray(array) for array in weights(seed, hidden)]
    source = graphs(seed, nodes)
    update = jax.jit(sgd(_loss, RATE), donate_argnums=0)

    def step() -> Any:
        nonlocal parameters
        parameters, loss = update(parameters, *_filled(next(source), nodes))
        return loss

    return Training(step, lambda: parameters)
