"""Sorting, elements by rank, quantiles, distinct elements, histograms.

Owns: their public signatures, and what reads values. The operations are imported at their first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, INTEGER, float32, int64
from jitgrad.functions.devices import in_float32
from jitgrad.functions.from_data import tensor
from jitgrad.functions.indexing import gather
from jitgrad.functions.pointwise import where
from jitgrad.functions.reduction import ValuesIndices
from jitgrad.functions.views import own_result
from jitgrad.lazy import LazyModule
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name, wrap_dim
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.state import autocasts
from jitgrad.tensor_base import TensorBase

__all__ = [
    "argsort",
    "bincount",
    "bucketize",
    "histc",
    "histogram",
    "isin",
    "kthvalue",
    "median",
    "mode",
    "msort",
    "nanmedian",
    "nanquantile",
    "quantile",
    "searchsorted",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
]

_DISTINCT = LazyModule("jitgrad.functions.distinct")


# --- sorting, elements by rank ---


def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """(values, indices) in ascending order along ``dim``; NaN is the largest. Equal elements keep their order."""
    return ValuesIndices(*call("sort", input, dim, descending))


def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """The indices of ``sort``."""
    return call("sort", input, dim, descending)[1]


def msort(input: Any) -> Any:
    """The values in ascending order along dimension 0."""
    return call("sort", input, 0, False)[0]


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the ``k`` largest (or smallest) elements, in order, whatever ``sorted`` is; of equal ones
    the first. RuntimeError if there are fewer."""
    return ValuesIndices(*call("topk", input, dim, k, largest))


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the ``k``-th smallest elements, counted from 1. RuntimeError if there are fewer."""
    return ValuesIndices(*call("kthvalue", input, dim, keepdim, k))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of all elements, or (values, indices) along ``dim``: the lower one of two; NaN if there is any."""
    if dim is None:
        return call("median", input)
    return ValuesIndices(*call("median_dim", input, dim, keepdim))


def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """As ``median``, of the elements that are no NaN."""
    if dim is None:
        return call("nanmedian", input)
    return ValuesIndices(*call("nanmedian_dim", input, dim, keepdim))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the most frequent elements along ``dim``: the smallest of them, its last position."""
    return ValuesIndices(*call("mode", input, dim, keepdim))


# --- quantiles ---

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The ``q``-quantiles along ``dim``, or of all elements; NaN where there is any.

    Args:
        q: a number or a tensor [] or [n] of the input's dtype, from 0 to 1; [n] makes n results along a new first
            dimension.
        interpolation: between the two elements around a quantile: linear, lower, higher, midpoint or nearest.

    Raises:
        RuntimeError: a wrong dtype, ``q``, interpolation, or no elements.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """As ``quantile``, of the elements that are no NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(
    name: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignores_nan: bool
) -> Any:
    if autocasts:
        input, q = in_float32(input, q)
    _check_quantile(name, input, q, interpolation)
    q = _orders(name, q, input)
    d = None if dim is None else wrap_dim(dim, input.ndim)
    rows = input.reshape((-1,)) if d is None or not input.ndim else input.movedim(d, -1)
    ordered = call("sort", rows, -1, False)[0]
    found = _between(ordered, _ranks(ordered, q.reshape((-1,)), ignores_nan), interpolation)
    # found: [..., number of quantiles]
    if keepdim:
        kept = (1,) * input.ndim if d is None else (*input.shape[:d], 1, *input.shape[d + 1 :]) if input.ndim else ()
        found = found.reshape((*kept, q.numel()))
    return own_result(found.movedim(-1, 0) if q.ndim else found.squeeze(-1))


def _check_quantile(name: str, input: Any, q: Any, interpolation: str) -> None:
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if isinstance(q, TensorBase) and q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if input.dtype.category is not FLOATING or input.dtype.is_half:
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, TensorBase) and q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )


def _orders(name: str, q: Any, input: Any) -> Any:
    """``q`` as a tensor; its values are looked at, as PyTorch does on a CPU."""
    if not isinstance(q, TensorBase):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
        return tensor(q, dtype=input.dtype, device=input.device)
    values = q._ndarray()
    if not ((values >= 0) & (values <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _ranks(ordered: Any, q: Any, ignores_nan: bool) -> Any:
    """Positions among the sorted elements, as real numbers. A row with a NaN has it at its end."""
    missing = ordered.isnan()
    last = ordered.shape[-1] - 1
    if ignores_nan:
        count = missing.logical_not().sum(-1, True) - 1
        ranks = q * count
        return ranks.masked_fill(ranks < 0, 0)
    return where(missing.any(-1, True), float(last), q * last)


def _between(ordered: Any, ranks: Any, interpolation: str) -> Any:
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}[interpolation]()
        return gather(ordered, -1, rounded.long())
    below, above = ranks.detach().long(), ranks.detach().ceil().long()
    low, high = gather(ordered, -1, below), gather(ordered, -1, above)
    return low.lerp(high, 0.5) if interpolation == "midpoint" else low.lerp(high, ranks - below)


# --- distinct elements ---


def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements, in ascending order whatever ``sorted`` is; with ``dim``, distinct slices.

    Reads the values. NaN equals nothing.

    Returns:
        The elements, then, as they are asked for: for each element of the input, which of them it is; how often each
        is there.
    """
    return _DISTINCT.unique(input, return_inverse, return_counts, dim)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first element of each run of equal ones; otherwise as ``unique``."""
    return _DISTINCT.unique_consecutive(input, return_inverse, return_counts, dim)


# --- places, counts ---


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where to put values into a sorted sequence (the last dimension) so that it stays sorted.

    Args:
        sorted_sequence: [n], or [*, n] for values [*, m].
        input: values, or one number.
        right: after elements that are equal, and not before them; the same as ``side="right"``.
        sorter: indices that sort the sequence.

    Raises:
        RuntimeError: shapes do not fit, or arguments contradict each other.
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    _check_search(sorted_sequence, input)
    if sorter is not None:
        _check_sorter(sorted_sequence, sorter)
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    return call("searchsorted", sorted_sequence, input, out_int32, right or side == "right")


def _check_search(edges: Any, values: Any) -> None:
    shape = values.shape if isinstance(values, TensorBase) else ()
    if not edges.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if not shape and edges.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({edges.ndim}) and input value's dim(0) numel(1)"
        )
    if edges.ndim != 1 and edges.shape[:-1] != shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(edges.shape)} and input "
            f"value tensor {list(shape)}"
        )


def _check_sorter(edges: Any, sorter: Any) -> None:
    if sorter.dtype is not int64:
        raise RuntimeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{torch_dtype_name(sorter.dtype)}"
        )
    if edges.shape != sorter.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(edges.shape)}and got sorter tensor {list(sorter.shape)}"
        )


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The index of the bucket of each element, between ascending boundaries [n]. ``right``: a bucket begins at its
    boundary, and does not end there."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return call("searchsorted", boundaries, input, out_int32, right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element is among ``test_elements`` (or, with ``invert``, is not); either may be a number."""
    return call("isin", elements, test_elements, invert)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, 2, .. is in a vector of integers, or the sum of the weights there. Reads the values.

    Raises:
        RuntimeError: not a vector, a negative number, one that there is no memory for, or weights of another shape.
        NotImplementedError: not integers.
    """
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.dtype.category is not INTEGER:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{torch_dtype_name(input.dtype)}'")
    if input.ndim == 1 and not input.numel():
        return tensor(np.zeros(minlength, np.int64), device=input.device)
    values = input._ndarray()
    if input.ndim != 1 or (values < 0).any():
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return tensor(run_quietly(np.bincount, values, None, minlength), device=input.device)
    if weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    sums = run_quietly(np.bincount, values, weights._ndarray(), minlength)
    return tensor(sums.astype(np.float32) if weights.dtype is float32 else sums, device=input.device)


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements are in each of ``bins`` equal parts of [min, max], or of the data's range if these are equal.

    Raises:
        RuntimeError: a range that is not finite or in the wrong order, or no bins.
        NotImplementedError: not floats.
    """
    return call("histc", input, bins, float(min), float(max))


def histogram(input: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(hist, bin_edges): the number of elements, or the sum of their weights, between edges. Reads the values.

    Args:
        bins: how many bins of equal width, or their edges.
        range: (min, max) of the bins; that of the data, if not given.
        weight: of the input's shape.
        density: divide by the total and by the widths.

    Raises:
        RuntimeError: a wrong range, number of bins or shape.
        NotImplementedError: not floats.
    """
    return _DISTINCT.histogram(input, bins, range, weight, density)
