"""A graph network over random graphs, one with other numbers of nodes and edges in each step.

Source: Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", 2017; messages are added
up and scaled by a constant, where the paper divides by the nodes' degrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data
from benchmarks.rows.descent import descend

__all__ = ["CLASSES", "EDGES", "FEATURES", "RATE", "SCALE", "Graph", "graphs", "make", "weights"]

FEATURES, CLASSES, RATE, SCALE = 16, 4, 0.05, 0.25
EDGES = 4
"""Per node."""


class Graph(NamedTuple):
    """Features of the nodes (nodes, FEATURES); where each edge begins and ends (2, edges); the nodes' classes."""

    x: Any
    ends: Any
    labels: Any


def graphs(seed: int, nodes: int) -> Iterator[Graph]:
    """Endless random graphs of ``nodes // 4`` to ``nodes`` nodes; the class of a node says where its features lie."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLASSES, FEATURES))
    while True:
        count = int(rng.integers(nodes // 4, nodes + 1))
        labels = rng.integers(0, CLASSES, count)
        x = (centres[labels] + rng.standard_normal((count, FEATURES))).astype(np.float32)
        yield Graph(x, rng.integers(0, count, (2, EDGES * count)), labels)


def weights(seed: int, hidden: int) -> list[Any]:
    """Weight and bias of three layers."""
    return data.layers(np.random.default_rng(seed), (FEATURES, hidden, hidden, CLASSES))


def make(xp: Any, seed: int, wrap: Wrap, nodes: int, hidden: int) -> Training:
    """Cross entropy of all nodes, by gradient descent on one graph a step."""
    parameters = [xp.from_numpy(array).requires_grad_() for array in weights(seed, hidden)]
    source = graphs(seed, nodes)
    functional = xp.nn.functional

    def layer(x: Any, ends: Any, weight: Any, bias: Any) -> Any:
        h = functional.linear(x, weight, bias)
        return h + SCALE * xp.zeros_like(h).index_add(0, ends[1], h[ends[0]])

    @wrap.loss
    def loss_fn(x: Any, ends: Any, labels: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        h = layer(x, ends, w1, b1).relu()
        h = layer(h, ends, w2, b2).relu()
        return functional.cross_entropy(layer(h, ends, w3, b3), labels)

    @wrap.step
    def train(x: Any, ends: Any, labels: Any) -> Any:
        loss = loss_fn(x, ends, labels)
        loss.backward()
        descend(xp, parameters, RATE)
        return loss.detach()

    return Training(lambda: train(*map(xp.from_numpy, next(source))), lambda: parameters)
