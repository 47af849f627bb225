"""What counts the values themselves: distinct elements, histograms.

Owns: ``unique``, ``unique_consecutive``, ``histogram``, whose public functions are in ``ordering``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import COMPLEX_DTYPES, HALVES, WHOLE
from jitgrad.functions.devices import placed
from jitgrad.functions.from_data import own_array
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import refuse, wrap_dim
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = ["Histogram", "histogram", "unique", "unique_consecutive"]


class Histogram(NamedTuple):
    """Counts, and the edges between which they were counted."""

    hist: Any
    bin_edges: Any


def _runs(rows: Any) -> tuple[Any, Any, Any]:
    """Of [n, width]: positions where a row differs from the one before, the number of its run for each row, and the
    lengths of runs."""
    count = len(rows)
    is_first = np.ones(count, bool)
    is_first[1:] = rows[1:, 0] != rows[:-1, 0] if rows.shape[1] == 1 else (rows[1:] != rows[:-1]).any(1)
    first = is_first.nonzero()[0]
    counts = np.empty_like(first)
    counts[:-1] = first[1:] - first[:-1]
    counts[-1:] = count - first[-1:]
    return first, is_first.cumsum() - 1, counts


def _in_order(rows: Any) -> tuple[Any, Any, Any]:
    """As ``_runs``, of the rows in ascending order: the results are of the rows as they are."""
    order = rows[:, 0].argsort(kind="stable") if rows.shape[1] == 1 else np.lexsort(rows.T[::-1])
    first, run, counts = _runs(rows[order])
    inverse = np.empty_like(run)
    inverse[order] = run
    return order[first], inverse, counts


def _rows(x: Any, dim: int | None) -> Any:
    if dim is None:
        return x.reshape(-1, 1)
    missing = [d for d, n in enumerate(x.shape) if n == 0]
    if missing and missing != [dim]:
        raise RuntimeError(
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
            if dim in missing
            else "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    rows = np.moveaxis(np.atleast_1d(x), dim, 0)
    return rows.reshape(len(rows), -1 if x.size else 1) if x.size else np.zeros((0, 1), x.dtype)


def _distinct(name: str, find: Any, input: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    x = input._ndarray()
    if dim is not None and not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    d = None if dim is None else wrap_dim(dim, input.ndim)
    first, inverse, counts = find(_rows(x, d))
    found = x.reshape(-1)[first] if d is None else np.atleast_1d(x).take(first, d)
    values = _found(name, input, found)
    parts = [values]
    if return_inverse:
        parts.append(placed(own_array(inverse.reshape(x.shape) if d is None else inverse), input.device))
    if return_counts:
        parts.append(placed(own_array(counts), input.device))
    return tuple(parts) if len(parts) > 1 else values


def _found(name: str, input: Any, found: Any) -> Any:
    """What was found, as a tensor; a gradient of it is an error."""
    values = placed(own_array(found), input.device)
    return call(name, input, values) if state.grad_enabled and input.requires_grad else values


def unique(input: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    """As ``functions.unique``."""
    name = "_unique2" if dim is None else "unique_dim"
    refuse("unique", input, COMPLEX_DTYPES)
    return _distinct(name, _in_order, input, return_inverse, return_counts, dim)


def unique_consecutive(input: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    """As ``functions.unique_consecutive``."""
    refuse("unique", input, COMPLEX_DTYPES)
    return _distinct("unique_consecutive", _runs, input, return_inverse, return_counts, dim)


def histogram(input: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    """As ``functions.histogram``."""
    x = input._ndarray().reshape(-1)
    edges = _edges(x, bins, range)
    refuse("histogramdd", input, (*WHOLE, *HALVES, *COMPLEX_DTYPES))
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {[*input.shape, 1]} and weight with shape "
            f"{list(weight.shape)}"
        )
    inside = (x >= edges[0]) & (x <= edges[-1])
    places = np.minimum(np.searchsorted(edges, x[inside], "right") - 1, len(edges) - 2)
    weights = None if weight is None else weight._ndarray().reshape(-1)[inside]
    hist = np.bincount(places, weights, len(edges) - 1).astype(x.dtype)
    if density:
        hist = hist / hist.sum() / np.diff(edges)
    return Histogram(_found("histogram", input, hist), _found("histogram", input, edges))


def _edges(x: Any, bins: Any, range: Any) -> Any:
    if isinstance(bins, TensorBase):
        if bins.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins "
                "tensor for dimension 0"
            )
        if not bins.numel():
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                "for dimension 0"
            )
        return bins._ndarray()
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if range is None:
        range = (x.min().item(), x.max().item()) if x.size else (0.0, 1.0)
    low, high = range
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension 0"
        )
    if bins >= 1 << 40:
        raise RuntimeError(f"histogram(): DefaultCPUAllocator: can't allocate memory for {bins} bins")
    return run_quietly(np.linspace, low - 0.5 * (low == high), high + 0.5 * (low == high), bins + 1).astype(x.dtype)
