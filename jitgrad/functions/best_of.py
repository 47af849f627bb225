"""The largest element of each window, and where it is.

Owns: ``best_of_windows``. Must not know: how windows lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.functions.devices import moved
from jitgrad.functions.views import reshape_result
from jitgrad.functions.windows import kept, read_windows

__all__ = ["best_of_windows"]


@kept
def _flat_positions(tables: tuple[tuple[tuple[int, ...], ...], ...], extents: tuple[int, ...]) -> Any:
    """Positions in the flattened dimensions: [windows, elements of a window]."""
    flat = np.zeros((1, 1), np.int64)
    for rows, extent in zip(tables, extents, strict=True):
        table = np.asarray(rows, np.int64)
        flat = flat[:, None, :, None] * extent + table[None, :, None, :]
        flat = flat.reshape(flat.shape[0] * flat.shape[1], -1)
    return flat


def best_of_windows(x: Any, tables: Sequence[Any]) -> tuple[Any, Any]:
    """The first largest element of each window (the first NaN, if there is one).

    Args:
        x: its last dimensions are those that windows lie in.
        tables: per such dimension, the positions that windows see: [windows, elements], arrays. A position that is in
            a table twice counts once.

    Returns:
        The elements, and their positions in the flattened dimensions (int64).
    """
    dims = len(tables)
    lead, extents = tuple(x.shape[:-dims]), tuple(x.shape[-dims:])
    counts = tuple(table.shape[0] for table in tables)
    windows = x
    for axis in reversed(range(dims)):
        windows = read_windows(windows, len(lead) + axis, tables[axis])
    first = len(lead)
    order = (*range(first), *range(first, first + 2 * dims, 2), *range(first + 1, first + 2 * dims, 2))
    windows = windows.permute(order).reshape(*lead, int(np.prod(counts)), -1)
    best = windows.argmax(-1, True)
    flat = moved(_flat_positions(tuple(tuple(map(tuple, t.tolist())) for t in tables), extents), x.device)
    places = flat.expand(windows.shape).gather(-1, best)
    shape = (*lead, *counts)
    return reshape_result(windows.gather(-1, best), shape), reshape_result(places, shape)
