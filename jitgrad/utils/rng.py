"""Random numbers for starting weights and dropout.

Owns: the one generator, and its seed.
Must not know: tensors, modules.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

__all__ = ["initial_seed", "manual_seed", "normal", "uniform"]

_lock = threading.Lock()
_seed = 0
_generator = np.random.Generator(np.random.Philox(_seed))


def manual_seed(seed: int) -> None:
    """Start the generator anew. The same seed gives the same numbers on every machine (they are not PyTorch's)."""
    global _seed, _generator
    with _lock:
        _seed = int(seed)
        _generator = np.random.Generator(np.random.Philox(_seed & (1 << 64) - 1))


def initial_seed() -> int:
    """The last seed."""
    return _seed


def uniform(shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Any:
    """A float64 NumPy array, uniform in [low, high)."""
    with _lock:
        return _generator.uniform(low, high, shape)


def normal(shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0) -> Any:
    """A float64 NumPy array, normally distributed."""
    with _lock:
        return _generator.normal(mean, std, shape)
