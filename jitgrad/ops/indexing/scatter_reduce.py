"""``scatter_reduce``: elements combined with those that arrive at the same position.

Owns: its table entry.
Must not know: Tensor, kernels.

The rules are those of PyTorch's ``scatter_reduce_backward`` (torch/csrc/autograd/FunctionsManual.cpp); the source has
the index's shape here, because ``functions`` narrows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.indexing.gathering import lower_scatter_along
from jitgrad.ops.shapes import numel, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

_UFUNCS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _aval(x: Aval, index: Aval, src: Aval, dim: int, reduce: str, include_self: bool) -> Aval:
    d = wrap_dim(dim, x.ndim)
    if index.numel and index.dtype not in (int32, int64):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if x.dtype is not src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if reduce not in _UFUNCS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not index.numel:
        return make_aval(x.shape, x.dtype)
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    fits = all(n <= m for k, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if k != d)
    if not fits or src.shape != index.shape:
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {d} "
            f"and to be no larger size than src {list(src.shape)}"
        )
    return make_aval(x.shape, x.dtype)


def _start(dtype: Any, reduce: str) -> Any:
    """The neutral element: combined with x it gives x."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype) if dtype.kind in "iu" else None
    low, high = (False, True) if limits is None else (limits.min, limits.max)
    if dtype.kind == "f":
        low, high = -np.inf, np.inf
    return low if reduce == "amax" else high


def _numpy(x: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool) -> Any:
    if not index.size:
        return x.copy()
    if not x.ndim:
        flat = (x.reshape(1), index.reshape(-1), src.reshape(-1), 0, reduce, include_self)
        return _numpy(*flat).reshape(())
    d = wrap_dim(dim, x.ndim)
    wrong = (index < 0) | (index >= x.shape[d])
    if wrong.any():
        at = int(index[wrong].flat[0])
        raise RuntimeError(f"index {at} is out of bounds for dimension {d} with size {x.shape[d]}")
    grid = list(np.indices(index.shape, sparse=True))
    grid[d] = index
    where, out = tuple(grid), x.copy()
    if not include_self:
        out[where] = _start(x.dtype, reduce)
    _UFUNCS[reduce].at(out, where, src)
    if reduce == "mean":
        count = np.full(x.shape, int(include_self), x.dtype)
        np.add.at(count, where, 1)
        count[count == 0] = 1
        out = out / count if x.dtype.kind == "f" else out // count
    return out


_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _lower(b: Any, x: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """The rule above as scatters; a mean is rounded where memory would round it."""
    if not numel(index.shape):
        return x

    def scattered(kind: str, base: Any, source: Any) -> Any:
        return lower_scatter_along(b, kind, base, index, source, dim)

    start = x
    if not include_self:
        neutral = b.const(_start(x.dtype.np, reduce), x.dtype, index.shape)
        start = scattered("set", x, neutral)
    out = scattered(_KINDS[reduce], start, src)
    if reduce != "mean":
        return out
    ones, own = b.const(1, x.dtype, index.shape), b.const(int(include_self), x.dtype, x.shape)
    count = b.as_stored(scattered("add", own, ones), x)
    count = b.where(b.eq(count, 0), b.const(1, x.dtype), count)
    divide = b.div if x.dtype.category is FLOATING else b.floordiv
    return divide(b.as_stored(out, x), count)


def _ones_added(to: Any, index: Any, dim: int) -> Any:
    """How many sources arrive at each position, added to ``to``."""
    ones = call("ones_like", index).to(to._aval.dtype)
    return call("scatter_add", to, index, ones, dim)


def _shares(c: RuleContext, g: Any, x: Any, index: Any, src: Any, out: Any) -> tuple[Any, Any, Any]:
    """For ``amax`` and ``amin``: the gradient that each winner gets, and which elements and sources win."""
    dim, dtype = c.params[0], g._aval.dtype
    own = call("eq", x, out).to(dtype)
    others = call("eq", src, call("gather", out, index, dim)).to(dtype)
    return g / call("scatter_add", own, index, others, dim), own, others


def _counts(c: RuleContext, g: Any, index: Any) -> Any:
    dim, _, include_self = c.params
    count = _ones_added(call("ones_like" if include_self else "zeros_like", g), index, dim)
    return call("clamp_min", count, 1)


def _self_rule(c: RuleContext, g: Any, x: Any, index: Any, src: Any, out: Any) -> Any:
    dim, reduce, include_self = c.params
    if reduce == "sum":
        grad = g
    elif reduce == "mean":
        grad = g / _counts(c, g, index)
    elif reduce == "prod":
        nonzero = call("where", call("eq", x, 0), 1.0, x)
        grad = g * call("scatter_reduce", nonzero, index, src, *c.params) / nonzero
    else:
        share, own, _ = _shares(c, g, x, index, src, out)
        grad = own * share
    return grad if include_self else call("scatter", grad, index, 0.0, dim)


def _src_rule(c: RuleContext, g: Any, x: Any, index: Any, src: Any, out: Any) -> Any:
    dim, reduce, _ = c.params
    if reduce == "sum":
        return call("gather", g, index, dim)
    if reduce == "mean":
        return call("gather", g / _counts(c, g, index), index, dim)
    if reduce == "prod":
        return _product_rule(c, g, x, index, src, out)
    share, _, others = _shares(c, g, x, index, src, out)
    return others * call("gather", share, index, dim)


def _product_rule(c: RuleContext, g: Any, x: Any, index: Any, src: Any, out: Any) -> Any:
    """The product of the other sources: a division, unless the source is the only zero of its product."""
    dim = c.params[0]
    is_zero = call("eq", src, 0)
    zeros = call("scatter_add", call("zeros_like", x), index, is_zero.to(x._aval.dtype), dim)
    is_only = call("logical_and", is_zero, call("eq", call("gather", zeros, index, dim), 1))
    without = call("scatter_reduce", x, index, call("where", is_only, 1.0, src), *c.params)
    divided = call("gather", g * out, index, dim) / call("where", is_zero, 1.0, src)
    return call("where", is_only, call("gather", g * without, index, dim), divided)


define(
    "scatter_reduce",
    checks_values=True,
    aval=_aval,
    numpy=_numpy,
    lower=_lower,
    vjps=[Vjp(_self_rule, (0, 1, 2, "out")), None, Vjp(_src_rule, (0, 1, 2, "out"))],
    num_inputs=3,
)
