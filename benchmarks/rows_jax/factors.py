"""``rows/factors.py`` in JAX: gradients of the gathered rows, added to the tables where they came from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.factors import RATE, start
from benchmarks.rows_jax.carry import carried

__all__ = ["make"]


def _loss(left: Any, right: Any, rating: Any) -> Any:
    return (((left * right).sum(1) - rating) ** 2).mean()


def _update(tables: Any, row: Any, column: Any, rating: Any) -> tuple[Any, Any]:
    left, right = tables
    loss, (dleft, dright) = jax.value_and_grad(_loss, argnums=(0, 1))(left[row], right[column], rating)
    return [left.at[row].add(-RATE * dleft), right.at[column].add(-RATE * dright)], loss


def make(seed: int, rows: int, columns: int, rank: int, batch: int) -> Training:
    """The mean squared error of ``batch`` ratings a step."""
    tables, examples = start(seed, rows, columns, rank, batch)
    batches = [(row.astype(np.int32), column.astype(np.int32), rating) for row, column, rating in examples]
    return carried(_update, [jnp.asarray(table) for table in tables], batches)
