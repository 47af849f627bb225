"""A classifier of linear layers and ReLU, trained by Adam on eight batches in turn, or on slices of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["NUM_BATCHES", "make", "model_with"]

NUM_BATCHES = 8


def model_with(xp: Any, arrays: list[Any], activation: Any) -> Any:
    """``nn.Sequential`` of linear layers with ``activation`` between them, its parameters set to ``arrays``."""
    modules: list[Any] = []
    for weight in arrays[::2]:
        modules += [xp.nn.Linear(weight.shape[1], weight.shape[0]), activation()]
    model = xp.nn.Sequential(*modules[:-1])
    with xp.no_grad():
        for parameter, array in zip(model.parameters(), arrays, strict=True):
            parameter.copy_(xp.from_numpy(array))
    return model


def _slices(xp: Any, arrays: list[tuple[Any, Any]], batch: int) -> Iterator[tuple[Any, Any]]:
    """Batches as most scripts take them: ``x[i : i + n]`` of one tensor, epoch after epoch."""
    x, y = [xp.from_numpy(np.concatenate(column)) for column in zip(*arrays, strict=True)]
    while True:
        for first in range(0, len(x), batch):
            yield x[first : first + batch], y[first : first + batch]


def make(xp: Any, seed: int, wrap: Wrap, widths: tuple[int, ...], batch: int, epoch: int = 0) -> Training:
    """``widths`` are the layers' sizes, inputs first, classes last; ``epoch``: so many slices instead of batches."""
    rng = np.random.default_rng(seed)
    model = model_with(xp, data.layers(rng, widths), xp.nn.ReLU)
    arrays = data.classification_batches(rng, epoch or NUM_BATCHES, (batch, widths[0]), widths[-1])
    batches: Iterator[tuple[Any, Any]] = _slices(xp, arrays, batch)
    if not epoch:
        batches = cycle([(xp.from_numpy(x), xp.from_numpy(y)) for x, y in arrays])
    optimizer = xp.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    cross_entropy = xp.nn.functional.cross_entropy

    @wrap.loss
    def loss_fn(x: Any, y: Any) -> Any:
        return cross_entropy(model(x), y)

    @wrap.step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: list(model.parameters()))
