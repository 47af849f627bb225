"""A TreeLSTM over random binary trees, a tree of another shape in each step: what is compiled are its parts.

Source: Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long Short-Term Memory
Networks", 2015, section 3.2 (N-ary, N = 2); words have gates of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data
from benchmarks.rows.descent import descend

__all__ = ["CLASSES", "RATE", "Tree", "make", "trees", "weights"]

CLASSES, WORDS, LEAST_LEAVES, RATE = 5, 50, 4, 0.05


class Tree(NamedTuple):
    """Words of the leaves; the pairs that are joined, bottom up; the class.

    Nodes are numbered: first the leaves, then what each pair becomes. The last one is the root.
    """

    words: list[int]
    pairs: list[tuple[int, int]]
    label: int


def trees(seed: int, leaves: int) -> Iterator[Tree]:
    """Endless random trees of ``LEAST_LEAVES`` to ``leaves`` leaves: neighbours are joined at random."""
    rng = np.random.default_rng(seed)
    while True:
        count = int(rng.integers(LEAST_LEAVES, leaves + 1))
        words = rng.integers(0, WORDS, count).tolist()
        row, pairs = list(range(count)), []
        while len(row) > 1:
            at = int(rng.integers(len(row) - 1))
            pairs.append((row[at], row[at + 1]))
            row[at : at + 2] = [count + len(pairs) - 1]
        yield Tree(words, pairs, sum(words) % CLASSES)


def weights(seed: int, features: int, hidden: int) -> list[Any]:
    """Word vectors, then weight and bias of the leaves' gates, of the joined nodes' gates, of the read-out."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((WORDS, features)).astype(np.float32)
    sizes = (features, 3 * hidden), (2 * hidden, 5 * hidden), (hidden, CLASSES)
    return [table, *(array for widths in sizes for array in data.layers(rng, widths))]


def make(xp: Any, seed: int, wrap: Wrap, leaves: int, features: int, hidden: int) -> Training:
    """Cross entropy at the root, by gradient descent on one tree a step."""
    parameters = [xp.from_numpy(array).requires_grad_() for array in weights(seed, features, hidden)]
    table, *layers = parameters
    source = trees(seed, leaves)
    functional = xp.nn.functional

    @wrap.part
    def leaves_of(words: Any) -> tuple[Any, Any]:
        gates = functional.linear(functional.embedding(words, table), layers[0], layers[1])
        i, o, u = gates.chunk(3, 1)
        c = xp.sigmoid(i) * xp.tanh(u)
        return xp.sigmoid(o) * xp.tanh(c), c

    @wrap.part
    def joined(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        gates = functional.linear(xp.cat((left[0], right[0])), layers[2], layers[3])
        i, f_left, f_right, o, u = gates.chunk(5)
        c = xp.sigmoid(i) * xp.tanh(u) + xp.sigmoid(f_left) * left[1] + xp.sigmoid(f_right) * right[1]
        return xp.sigmoid(o) * xp.tanh(c), c

    @wrap.part
    def loss_of(root: Any, label: Any) -> Any:
        return functional.cross_entropy(functional.linear(root, layers[4], layers[5]), label)

    @wrap.loss
    def loss_fn(tree: Tree) -> Any:
        h, c = leaves_of(xp.tensor(tree.words))
        nodes = list(zip(h.unbind(), c.unbind(), strict=True))
        for left, right in tree.pairs:
            nodes.append(joined(nodes[left], nodes[right]))
        return loss_of(nodes[-1][0], xp.tensor(tree.label))

    def train(tree: Tree) -> Any:
        loss = loss_fn(tree)
        loss.backward()
        descend(xp, parameters, RATE)
        return loss.detach()

    return Training(lambda: train(next(source)), lambda: parameters)
