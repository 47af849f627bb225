"""Functions of whole arrays that several tests use, as plain Python: each test compiles what it needs."""

from __future__ import annotations

import math


def smooth(row, x, decay: float, out):
    """Exponential smoothing along each row."""
    state = 0.0
    for i in range(x.shape[1]):
        state = decay * state + (1 - decay) * x[row, i]
        out[row, i] = state


def smooth_back(grad, x, out, decay: float, by_x, by_decay):
    """The gradients of ``smooth`` by its operands."""
    total = 0.0
    for r in range(x.shape[0]):
        s = 0.0
        for i in range(x.shape[1] - 1, -1, -1):
            s = grad[r, i] + s * decay
            by_x[r, i] = (1 - decay) * s
            before = out[r, i - 1] if i > 0 else 0.0
            total += s * (before - x[r, i])
    by_decay[()] = total


def running_sum(x, out):
    """Of a vector."""
    total = x[0] * 0
    for i in range(x.shape[0]):
        total += x[i]
        out[i] = total


def extremes(x, bins: int, is_wide: bool, low, high, counts):
    """The least and the greatest of each column, and a histogram of all elements in [0, 1): three results."""
    for j in range(x.shape[1]):
        low[j] = high[j] = x[0, j]
        for i in range(1, x.shape[0]):
            low[j] = min(low[j], x[i, j])
            high[j] = max(high[j], x[i, j])
    for b in range(bins):
        counts[b] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            value = x[i, j]
            if is_wide or 0 <= value < 1:
                counts[min(max(math.floor(value * bins), 0), bins - 1)] += 1


def pick(x, at, out):
    """``x[at]``, with an exception where it is asked for more than 1e6."""
    for i in range(at.shape[0]):
        if at[i] > 1_000_000:
            raise ValueError("an index of more than a million")
        out[i] = x[at[i]]
