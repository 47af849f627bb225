"""A language model of characters: embedding, ``nn.LSTM`` of two layers, linear read-out; trained by Adam.

Source: Zaremba et al., "Recurrent Neural Network Regularization", 2014 (its small model, without dropout).
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["LAYERS", "NUM_BATCHES", "VOCABULARY", "examples", "make", "shapes"]

NUM_BATCHES, LAYERS, VOCABULARY = 4, 2, 128


def shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    """Each parameter's shape, the LSTM's under PyTorch's names."""
    found: dict[str, tuple[int, ...]] = {"token": (VOCABULARY, hidden)}
    for layer in range(LAYERS):
        for part in ("ih", "hh"):
            found[f"weight_{part}_l{layer}"] = (4 * hidden, hidden)
        for part in ("ih", "hh"):
            found[f"{part}_l{layer}.bias"] = (4 * hidden,)
    return found | {"head": (VOCABULARY, hidden), "head.bias": (VOCABULARY,)}


def examples(rng: np.random.Generator, steps: int, batch: int) -> list[tuple[Any, Any]]:
    """Batches of (tokens, next tokens), each (steps, batch)."""
    found = []
    for _ in range(NUM_BATCHES):
        tokens = rng.integers(0, VOCABULARY, (steps + 1, batch)).astype(np.int64)
        found.append((np.ascontiguousarray(tokens[:-1]), np.ascontiguousarray(tokens[1:])))
    return found


def make(xp: Any, seed: int, wrap: Wrap, hidden: int, steps: int, batch: int) -> Training:
    """Cross entropy of the next character over every step."""
    rng = np.random.default_rng(seed)
    token, *inner, head, bias = (xp.from_numpy(a).requires_grad_() for a in data.filled(rng, shapes(hidden)).values())
    lstm = xp.nn.LSTM(hidden, hidden, LAYERS)
    with xp.no_grad():
        for parameter, values in zip(lstm.parameters(), inner, strict=True):
            parameter.copy_(values)
    batches = cycle([(xp.from_numpy(x), xp.from_numpy(y)) for x, y in examples(rng, steps, batch)])
    parameters = [token, *lstm.parameters(), head, bias]
    optimizer = xp.optim.Adam(parameters, lr=1e-3, fused=True)
    functional = xp.nn.functional

    @wrap.loss
    def loss_fn(x: Any, y: Any) -> Any:
        states, _ = lstm(functional.embedding(x, token))
        return functional.cross_entropy(functional.linear(states, head, bias).flatten(0, 1), y.flatten())

    @wrap.step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: parameters)
