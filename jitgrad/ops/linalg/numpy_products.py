"""The NumPy rule of a matrix product: BLAS, on one thread wherever that pays.

Owns: ``product``.
Must not know: Tensor, which products have kernels.

OpenBLAS, which NumPy's wheels contain, shares a product of more than ``_ALONE`` multiply-adds between threads that wait
for each other, which takes a second where other processes have the cores. A product of a stack of matrices is one call
per matrix, so a larger product is cut into a stack: along its longest extent, or, where that is what is summed over,
into products that are added up. Where a part would have less than ``_LEAST_PART`` rows, BLAS shares the product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["product"]

_ALONE = 1 << 18
"""OpenBLAS: SMP_THRESHOLD_MIN * GEMM_MULTITHREAD_THRESHOLD."""
_LEAST_PART = 8
"""Rows of a part: below, BLAS spends its time on beginning."""


def product(x: Any, y: Any) -> Any:
    """``x @ y`` of matrices [M, K] and [K, N] of one dtype, as a new array [M, N], perhaps stored by columns."""
    (m, k), n = x.shape, y.shape[1]
    if m * k * n <= _ALONE or x.dtype.kind not in "fc":
        return np.matmul(x, y)
    longest = max(m, k, n)
    part = _ALONE * longest // (m * k * n)
    if part < _LEAST_PART:
        return np.matmul(x, y)
    if longest == m:
        return _by_rows(x, np.ascontiguousarray(y), part)
    if longest == n:
        return _by_rows(y.T, np.ascontiguousarray(x.T), part).T
    return _by_sums(x, y, part)


def _by_rows(x: Any, y: Any, part: int) -> Any:
    """``x @ y``, ``part`` rows at a time."""
    m = len(x)
    whole = m // part * part
    out = np.empty((m, y.shape[1]), x.dtype)
    np.matmul(_stack(x[:whole], part), y, out=out[:whole].reshape(whole // part, part, -1))
    if whole < m:
        np.matmul(x[whole:], y, out=out[whole:])
    return out


def _by_sums(x: Any, y: Any, part: int) -> Any:
    """``x @ y``, ``part`` columns of x by ``part`` rows of y at a time."""
    whole = x.shape[1] // part * part
    parts = np.matmul(_stack(x.T[:whole], part).transpose(0, 2, 1), _stack(y[:whole], part))
    out = parts.sum(0)
    if whole < x.shape[1]:
        out += np.matmul(x[:, whole:], y[whole:])
    return out


def _stack(x: Any, part: int) -> Any:
    """Rows [M, K] as [M / part, part, K]: to split a dimension takes no copy, however they lie."""
    return x.reshape(-1, part, x.shape[1])
