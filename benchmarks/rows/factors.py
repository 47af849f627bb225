"""Factors of a matrix of ratings, by stochastic gradient descent with sparse gradients of two tables.

Source: Koren et al., "Matrix Factorization Techniques for Recommender Systems", 2009.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap

__all__ = ["NUM_BATCHES", "RATE", "make", "start"]

NUM_BATCHES, RATE = 8, 20.0


def start(seed: int, rows: int, columns: int, rank: int, batch: int) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:
    """The two tables (rows, rank) and (columns, rank); batches of (row, column, rating)."""
    rng = np.random.default_rng(seed)
    tables = [(0.1 * rng.standard_normal((count, rank))).astype(np.float32) for count in (rows, columns)]
    batches = []
    for _ in range(NUM_BATCHES):
        places = (rng.integers(0, count, batch).astype(np.int64) for count in (rows, columns))
        batches.append((*places, rng.uniform(-1, 1, batch).astype(np.float32)))
    return tables, batches


def make(xp: Any, seed: int, wrap: Wrap, rows: int, columns: int, rank: int, batch: int) -> Training:
    """The mean squared error of ``batch`` ratings a step."""
    arrays, examples = start(seed, rows, columns, rank, batch)
    tables = [xp.from_numpy(array).requires_grad_() for array in arrays]
    batches = cycle([tuple(xp.from_numpy(part) for part in parts) for parts in examples])
    optimizer = xp.optim.SGD(tables, lr=RATE)
    functional = xp.nn.functional

    @wrap.loss
    def loss_fn(row: Any, column: Any, rating: Any) -> Any:
        left = functional.embedding(row, tables[0], sparse=True)
        right = functional.embedding(column, tables[1], sparse=True)
        return functional.mse_loss((left * right).sum(1), rating)

    @wrap.step
    def train(row: Any, column: Any, rating: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(row, column, rating)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: tables)
