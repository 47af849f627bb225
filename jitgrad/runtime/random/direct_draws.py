"""Distributions that the random kernel writes as they are stored: the kind of draw, and its two numbers.

Owns: ``KernelCall``, ``kernel_call``.
Must not know: streams, where numbers go. What is not here is made in several steps (``draws.RandomStream``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.abi import (
    RANDOM_BERNOULLI32,
    RANDOM_BERNOULLI64,
    RANDOM_EXPONENTIAL32,
    RANDOM_EXPONENTIAL64,
    RANDOM_INTEGERS,
    RANDOM_NORMAL32,
    RANDOM_NORMAL64,
    RANDOM_PAIRS32,
    RANDOM_PAIRS64,
    RANDOM_PERMUTE,
    RANDOM_PERMUTE_WIDE,
    RANDOM_UNIFORM32,
    RANDOM_UNIFORM64,
)

__all__ = ["BLOCK", "NEARLY_ONE", "WIDE_FROM", "KernelCall", "kernel_call", "permutation_kind", "steps_of"]

BLOCK = 16
"""So many contiguous normal numbers and more are drawn in blocks."""
WIDE_FROM = 1 << 28
"""Integers of a range from here on take 64-bit draws."""
NEARLY_ONE = {"f": 1 - 2**-24, "d": 1 - 2**-53}
"""The largest fractions that are drawn."""
_WIDE_PERMUTATION = (2**32 - 1) // 20
"""Permutations of so many numbers and more take 64-bit draws."""
_EXACT = 1 << 53
"""Integers up to here are doubles."""


class KernelCall(NamedTuple):
    """What ``Twister.fill`` is called with, Note [Random kernel]."""

    kind: int
    a: float = 0.0
    b: float = 1.0


def kernel_call(distribution: str, count: int, dtype: Any, params: tuple[Any, ...]) -> KernelCall | None:
    """The one call that draws ``count`` elements of a NumPy dtype; None: it takes more than that.

    Args:
        distribution: a method of ``RandomStream``.
        params: its own.
    """
    found = _CALLS.get(distribution)
    return None if found is None else found(count, dtype, *params)


def steps_of(low: float, high: float) -> tuple[Any, float]:
    """(the lower bound, how far it is to the upper one), in float32: PyTorch subtracts bounds in the dtype."""
    first, last = np.float32(low), np.float32(high)
    return first, float(np.subtract(last, first, dtype=np.float32))


def _uniform(count: int, dtype: Any, low: float, high: float) -> KernelCall | None:
    """Unless the upper bound might come out, which is excluded afterwards."""
    if dtype.char == "d":
        is_below = low + (high - low) * NEARLY_ONE["d"] < high
        return KernelCall(RANDOM_UNIFORM64, low, high - low) if is_below else None
    if dtype.char != "f":
        return None
    first, times = steps_of(low, high)
    last = np.float32(float(first) + times * NEARLY_ONE["f"])
    return KernelCall(RANDOM_UNIFORM32, float(first), times) if last < np.float32(high) else None


def _normal(count: int, dtype: Any, mean: float, std: float) -> KernelCall | None:
    if count < BLOCK:
        return _normal_pairs(count, dtype, mean, std)
    return _of_kind(dtype, RANDOM_NORMAL32, RANDOM_NORMAL64, mean, std)


def _normal_pairs(count: int, dtype: Any, mean: float, std: float) -> KernelCall | None:
    return _of_kind(dtype, RANDOM_PAIRS32, RANDOM_PAIRS64, mean, std)


def _exponential(count: int, dtype: Any, rate: float) -> KernelCall | None:
    return _of_kind(dtype, RANDOM_EXPONENTIAL32, RANDOM_EXPONENTIAL64, -1.0 / rate, 1.0)


def _bernoulli(count: int, dtype: Any, p: float) -> KernelCall | None:
    return _of_kind(dtype, RANDOM_BERNOULLI32, RANDOM_BERNOULLI64, p, 1.0)


def _dropout(count: int, dtype: Any, p: float) -> KernelCall | None:
    return _of_kind(dtype, RANDOM_BERNOULLI32, RANDOM_BERNOULLI64, 1.0 - p, _scale(dtype, p))


@functools.lru_cache(maxsize=64)
def _scale(dtype: Any, p: float) -> float:
    """What dropout multiplies by that which it keeps, divided in the dtype."""
    return float(dtype.type(1.0) / dtype.type(1.0 - p))


def _integers(count: int, dtype: Any, low: int, extent: int) -> KernelCall | None:
    is_direct = dtype == np.int64 and extent < WIDE_FROM and abs(low) <= _EXACT
    return KernelCall(RANDOM_INTEGERS, float(low), float(extent)) if is_direct else None


def permutation_kind(count: int) -> int:
    """How ``count`` numbers are shuffled."""
    return RANDOM_PERMUTE_WIDE if count >= _WIDE_PERMUTATION else RANDOM_PERMUTE


def _permutation(count: int, dtype: Any) -> KernelCall | None:
    return KernelCall(permutation_kind(count)) if dtype == np.int64 else None


def _of_kind(dtype: Any, single: int, double: int, a: float, b: float) -> KernelCall | None:
    """The call for float32 or float64; None for other dtypes."""
    kind = {"f": single, "d": double}.get(dtype.char)
    return None if kind is None else KernelCall(kind, a, b)


_CALLS: dict[str, Callable[..., KernelCall | None]] = {
    "bernoulli": _bernoulli,
    "dropout": _dropout,
    "exponential": _exponential,
    "integers": _integers,
    "normal": _normal,
    "normal_pairs": _normal_pairs,
    "permutation": _permutation,
    "uniform": _uniform,
}
