"""Operations that order elements along a dimension, and those that take one of them by its rank.

Owns: sort, topk, kthvalue, median and nanmedian (of all, or of a dimension), mode. NaN counts as larger than all
numbers. Equal elements keep their order, so that of several equal ones the first is the smallest.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING, bool_, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.reductions.extrema import share_all_ties
from jitgrad.ops.reductions.reductions import restore
from jitgrad.ops.shapes import reduced_shape, wrap_dim, wrap_dims
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _order(x: Any, axis: int, descending: bool = False) -> Any:
    """Positions in the order of their values; equal ones in their own order."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


def _picked(rows: Any, positions: Any) -> Any:
    """Of each row the element at its position."""
    if rows.ndim == 1:
        return rows[positions]
    table = rows.reshape(-1, rows.shape[-1])
    return table[np.arange(len(table)), np.reshape(positions, -1)].reshape(rows.shape[:-1])


def _at(x: Any, positions: Any, axis: int) -> tuple[Any, Any]:
    return np.take_along_axis(x, positions, axis), positions


# --- sort(x | dim, descending), topk(x | dim, k, largest) ---


def _back_to_places(c: RuleContext, g: tuple[Any, Any], indices: Any) -> Any:
    """The gradient goes to where the elements were taken."""
    aval = c.avals[0]
    assert aval is not None
    return call("scatter_add", filled(0.0, aval), indices, g[0], c.params[0]) if aval.ndim else g[0]


def _sort_aval(x: Aval, dim: int, descending: bool) -> tuple[Aval, Aval]:
    wrap_dim(dim, x.ndim)
    return make_aval(x.shape, x.dtype), make_aval(x.shape, int64)


def _np_sort(x: Any, dim: int, descending: bool) -> tuple[Any, Any]:
    return _at(x, _order(x, dim, descending), dim) if x.ndim else (x.copy(), np.int64(0))


def _lower_first(b: Any, x: Any, dim: int, is_descending: bool, count: int | None = None) -> tuple[Any, Any]:
    """(The first ``count`` elements in order, or all; their positions)."""
    if not x.shape:
        return x, b.const(0, int64)
    d = wrap_dim(dim, len(x.shape))
    numbers = b.cast(x, int32) if x.dtype is bool_ else x
    values, places = b.sort(numbers, d, is_descending, x.shape[d] if count is None else count)
    return b.cast(values, x.dtype), places


define("sort", aval=_sort_aval, numpy=_np_sort, lower=_lower_first, vjps=[Vjp(_back_to_places, ("out1",))])


def _topk_aval(x: Aval, dim: int, k: int, largest: bool) -> tuple[Aval, Aval]:
    d = wrap_dim(dim, x.ndim)
    if not 0 <= k <= (x.shape[d] if x.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if x.dtype.category is BOOLEAN:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    shape = (*x.shape[:d], k, *x.shape[d + 1 :]) if x.ndim else ()
    return make_aval(shape, x.dtype), make_aval(shape, int64)


def _np_topk(x: Any, dim: int, k: int, largest: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return x.copy(), np.int64(0)
    first = np.take(_order(x, dim, largest), np.arange(k), axis=dim)
    return _at(x, first, dim)


define(
    "topk",
    aval=_topk_aval,
    numpy=_np_topk,
    lower=lambda b, x, dim, k, largest: _lower_first(b, x, dim, largest, k),
    vjps=[Vjp(_back_to_places, ("out1",))],
)


# --- one element along a dimension: (x | dim, keepdim), kthvalue(x | dim, keepdim, k) ---


def _back_to_place(c: RuleContext, g: tuple[Any, Any], indices: Any) -> Any:
    aval, dim = c.avals[0], c.params[0]
    assert aval is not None
    if not aval.ndim:
        return g[0]
    return call("scatter_add", filled(0.0, aval), restore(indices, aval, dim), restore(g[0], aval, dim), dim)


def _define_choice(
    name: str,
    choose: Callable[..., Any],
    *,
    lower: Callable[..., Any] | None = None,
    node_name: str | None = None,
    kernel: str | None = None,
) -> None:
    """An operation that takes one element of each row.

    Args:
        choose: ``choose(rows, *params) -> positions``, of [..., n], without empty rows.
        lower: the lowering, ``lower(b, x, d, *params) -> (values, positions)``, with ``d`` kept as an extent of 1.
        kernel: what PyTorch's message calls the operation that has no bools; None: it has them.
    """

    def aval(x: Aval, dim: int, keepdim: bool, *params: Any) -> tuple[Aval, Aval]:
        dims = wrap_dims(dim, x.ndim)
        if any(x.shape[d] == 0 for d in dims):
            raise IndexError(f"{name}(): Expected reduction dim {dims[0]} to have non-zero size.")
        if params and not 1 <= params[0] <= (x.shape[dims[0]] if dims else 1):
            raise RuntimeError(f"{name}(): selected number k out of range for dimension {wrap_dim(dim, x.ndim)}")
        if kernel is not None and x.dtype.category is BOOLEAN:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")
        shape = reduced_shape(x.shape, dims, keepdim)
        return make_aval(shape, x.dtype), make_aval(shape, int64)

    def numpy(x: Any, dim: int, keepdim: bool, *params: Any) -> tuple[Any, Any]:
        if not x.ndim:
            return x.copy(), np.int64(0)
        rows = x if dim in (-1, x.ndim - 1) else np.moveaxis(x, dim, -1)
        shape = rows.shape[:-1]
        positions = choose(rows, *params) if x.size else np.zeros(shape, np.int64)
        values = _picked(rows, positions) if x.size else np.zeros(shape, x.dtype)
        if keepdim:
            d = dim % x.ndim
            kept = (*shape[:d], 1, *shape[d:])
            return np.reshape(values, kept), np.reshape(positions, kept)
        return values, positions

    def lowered(b: Any, x: Any, dim: int, keepdim: bool, *params: Any) -> tuple[Any, ...]:
        assert lower is not None
        if not x.shape:
            return x, b.const(0, int64)
        d = wrap_dim(dim, len(x.shape))
        outs = lower(b, x, d, *params)
        kept = (*x.shape[:d], *((1,) if keepdim else ()), *x.shape[d + 1 :])
        return tuple([b.reshape(out, kept) for out in outs])

    define(
        name if node_name is None else f"{name}_dim",
        aval=aval,
        numpy=numpy,
        lower=None if lower is None else lowered,
        vjps=[Vjp(_back_to_place, ("out1",))],
        node_name=node_name,
    )


def _kth(rows: Any, k: int) -> Any:
    return _order(rows, -1)[..., k - 1]


def _lower_kth(b: Any, x: Any, d: int, k: int) -> tuple[Any, ...]:
    first = [0] * len(x.shape)
    first[d] = k - 1
    stops = [k if i == d else n for i, n in enumerate(x.shape)]
    return tuple([b.slice(out, first, stops, [1] * len(x.shape)) for out in b.sort(x, d, False, k)])


def _lower_middle(b: Any, x: Any, d: int) -> tuple[Any, ...]:
    values, places = _lower_kth(b, x, d, (x.shape[d] + 1) // 2)
    if x.dtype.category < FLOATING:
        return values, places
    missing = b.cast(b.isnan(x), int32)
    is_missing = b.eq(b.reduce("max", missing, (d,), keepdim=True), 1)
    first = b.argreduce("argmax", missing, d, keepdim=True)
    return b.where(is_missing, math.nan, values), b.where(is_missing, first, places)


def _middle(rows: Any) -> Any:
    """The lower one of two middles; a NaN, the first one, where there is any."""
    middle = _order(rows, -1)[..., (rows.shape[-1] - 1) // 2]
    missing = np.isnan(rows)
    return np.where(missing.any(-1), missing.argmax(-1), middle)


def _middle_number(rows: Any) -> Any:
    """The middle of those that are no NaN."""
    count = rows.shape[-1] - np.add.reduce(np.isnan(rows), -1, np.int64)
    return _picked(_order(rows, -1), np.maximum(count - 1, 0) // 2)


def _most_frequent(rows: Any) -> Any:
    """Of the values that are there most often the smallest one, at its last position."""
    order = _order(rows, -1)
    table, at = rows.reshape(-1, rows.shape[-1]), np.arange(rows.shape[-1])
    values = table[np.arange(len(table))[:, None], order.reshape(table.shape)]
    first = np.zeros(table.shape, np.int64)
    np.multiply(values[:, 1:] != values[:, :-1], at[1:], out=first[:, 1:])
    length = at - np.maximum.accumulate(first, axis=-1)
    return _picked(order, length.argmax(-1).reshape(rows.shape[:-1]))


_define_choice("kthvalue", _kth, lower=_lower_kth, kernel="kthvalue_cpu")
_define_choice("mode", _most_frequent)
_define_choice("median", _middle, lower=_lower_middle, node_name="MedianBackward1", kernel="median_cpu")
_define_choice("nanmedian", _middle_number, node_name="NanmedianBackward1", kernel="median_cpu")


# --- of all elements: median(x), nanmedian(x) ---


def _lower_middle_of_all(b: Any, x: Any) -> Any:
    count = math.prod(x.shape)
    if not count:
        return b.const(math.nan if x.dtype.category is FLOATING else np.iinfo(x.dtype.np).min, x.dtype)
    return b.reshape(_lower_middle(b, b.reshape(x, (count,)), 0)[0], ())


def _define_whole(name: str, choose: Callable[..., Any], lower: Callable[..., Any] | None = None) -> None:
    def aval(x: Aval) -> Aval:
        if x.dtype.category is BOOLEAN:
            raise NotImplementedError("\"median_cpu\" not implemented for 'Bool'")
        return make_aval((), x.dtype)

    def numpy(x: Any) -> Any:
        rows = x.reshape(-1)
        if not x.size:
            if x.dtype.kind == "f":
                return x.dtype.type(np.nan)
            return np.asarray(np.iinfo(np.int64 if x.dtype.itemsize == 8 else np.int32).min).astype(x.dtype)
        return rows[choose(rows)]

    define(name, aval=aval, numpy=numpy, lower=lower, vjps=[Vjp(share_all_ties, (0, "out"))])


_define_whole("median", _middle, _lower_middle_of_all)
_define_whole("nanmedian", _middle_number)
