"""The array API's functions over axes: sums, extremes, counts, cumulated sums.

Owns: their signatures, and what ``axis`` may be.
"""

from __future__ import annotations

from typing import Any

from jitgrad import functions
from jitgrad.dtypes import DType, bool_
from jitgrad.functions.devices import clone

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean", "min",
    "prod", "std", "sum", "var",
]  # fmt: skip


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def sum(x: Any, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False) -> Any:
    """The sum over axes; of integers in int64 unless ``dtype`` says otherwise."""
    axes = _axes(x, axis)
    if not axes:  # of each element by itself
        return functions.sum(x.unsqueeze(0), 0, dtype=dtype)
    return functions.sum(x, axes, keepdims, dtype=dtype)


def prod(x: Any, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False) -> Any:
    """The product over axes; of integers in int64 unless ``dtype`` says otherwise."""
    axes = sorted({at % x.ndim for at in _axes(x, axis)}, reverse=True)
    if not axes:
        return functions.prod(x.unsqueeze(0), 0, dtype=dtype)
    for at in axes:
        x = functions.prod(x, at, keepdims, dtype=dtype)
    return x


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean over axes."""
    axes = _axes(x, axis)
    return functions.mean(x, axes, keepdims) if axes else clone(x)


def _spread(name: str, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
    axes = _axes(x, axis)
    if not axes:
        x, axes, keepdims = x.unsqueeze(0), (0,), False
    return functions.PUBLIC[name](x, axes, correction=correction, keepdim=keepdims)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over axes; the sum of squares is divided by the count less ``correction``."""
    return _spread("var", x, axis, correction, keepdims)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation over axes, as ``var``."""
    return _spread("std", x, axis, correction, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element over axes."""
    axes = _axes(x, axis)
    return functions.amax(x, axes, keepdims) if axes else clone(x)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element over axes."""
    axes = _axes(x, axis)
    return functions.amin(x, axes, keepdims) if axes else clone(x)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element over axes is not zero."""
    truth, axes = x if x.dtype is bool_ else x != 0, _axes(x, axis)
    return functions.any(truth, axes, keepdims) if axes else clone(truth)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether no element over axes is zero."""
    truth, axes = x if x.dtype is bool_ else x != 0, _axes(x, axis)
    return functions.all(truth, axes, keepdims) if axes else clone(truth)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def _place(function: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    if axis is not None:
        return function(x, axis, keepdims)
    found = function(x)
    return found.reshape((1,) * x.ndim) if keepdims else found


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the largest element is along an axis; None: among all in one dimension."""
    return _place(functions.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the smallest element is along an axis; None: among all in one dimension."""
    return _place(functions.argmin, x, axis, keepdims)


def _cumulated(
    function: Any, first: int, x: Any, axis: int | None, dtype: DType | None, include_initial: bool
) -> Any:
    if axis is None:
        if x.ndim > 1:
            raise ValueError("an axis is needed for an array of more than one")
        axis, x = 0, x.reshape(-1)
    found = function(x, axis, dtype=dtype)
    if not include_initial:
        return found
    shape = [*found.shape]
    shape[axis] = 1
    return functions.cat([functions.full(shape, first, dtype=found.dtype, device=found.device), found], axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Any:
    """Sums of the first elements along an axis; with ``include_initial`` of none of them, too."""
    return _cumulated(functions.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Any:
    """Products of the first elements along an axis; with ``include_initial`` of none of them, too."""
    return _cumulated(functions.cumprod, 1, x, axis, dtype, include_initial)
