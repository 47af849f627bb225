"""A loop of as many turns as the data need: a layer is iterated until its state stands still, then differentiated.

Source: Bai, Kolter and Koltun, "Deep Equilibrium Models", 2019, with plain iteration and a backward through all turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows.descent import descend

__all__ = ["RATE", "TOLERANCE", "TURNS", "batches", "make", "weights"]

RATE, TOLERANCE, TURNS = 0.01, 1e-3, 40


def weights(seed: int, width: int) -> list[Any]:
    """The state's weight, a contraction at first; the input's; the bias; the read-out."""
    rng = np.random.default_rng(seed)
    square = rng.standard_normal((width, width)).astype(np.float32)
    inner = 0.8 * square / np.linalg.norm(square, 2)
    return [inner, np.eye(width, dtype=np.float32), np.zeros(width, np.float32), square[:1] / width]


def batches(seed: int, batch: int, width: int) -> Iterator[Any]:
    """Endless inputs of very different sizes: small ones take more turns, since tanh holds large ones still."""
    rng = np.random.default_rng(seed)
    while True:
        yield (np.exp(rng.uniform(-3, 2)) * rng.standard_normal((batch, width))).astype(np.float32)


def make(xp: Any, seed: int, wrap: Wrap, batch: int, width: int) -> Training:
    """The read-out of the state shall be 1; mean squared error, by gradient descent."""
    parameters = [xp.from_numpy(array).requires_grad_() for array in weights(seed, width)]
    inner, outer, bias, out = parameters
    source = batches(seed, batch, width)
    linear = xp.nn.functional.linear

    @wrap.loss
    def turn(state: Any, given: Any) -> Any:
        return xp.tanh(linear(state, inner) + given)

    @wrap.step
    def train(x: Any) -> Any:
        given = linear(x, outer, bias)
        state = xp.tanh(given)
        for _ in range(TURNS):
            before, state = state, turn(state, given)
            if (state - before).detach().abs().max() < TOLERANCE:
                break
        loss = (linear(state, out) - 1).square().mean()
        loss.backward()
        descend(xp, parameters, RATE)
        return loss.detach()

    return Training(lambda: train(xp.from_numpy(next(source))), lambda: parameters)
