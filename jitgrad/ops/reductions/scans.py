"""Running products, extremes and sums of exponentials along a dimension.

Owns: cumprod, cummax, cummin, logcumsumexp, which has no lowering. Their derivatives divide by nothing, so they are
right at zeros, and so are all higher ones.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, bool_, from_numpy_dtype, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import torch_dtype_name, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _recurrence(b: Any, a: Any, dim: int, n: int) -> Any:
    """The y with ``y[i] = b[i] + a[i] * y[i + 1]`` along ``dim``, in log2(n) steps. ``a[n - 1]`` has no effect.

    After each step an element has the terms of twice as many others, and ``a`` the product of as many factors.
    """
    step = 1
    while step < n:
        rest = n - step
        near, far = a.narrow(dim, 0, rest), a.narrow(dim, step, rest)
        b = call("cat", [b.narrow(dim, 0, rest) + near * b.narrow(dim, step, rest), b.narrow(dim, rest, step)], dim)
        a = call("cat", [near * far, a.narrow(dim, rest, step)], dim)
        step *= 2
    return b


def _along(c: RuleContext) -> tuple[int, int]:
    """(dimension, extent)."""
    aval = c.avals[0]
    assert aval is not None
    dim = wrap_dim(c.params[0], aval.ndim)
    return dim, aval.shape[dim] if aval.ndim else 1


# --- cumprod(x | dim) ---


def _prod_aval(x: Aval, dim: int) -> Aval:
    wrap_dim(dim, x.ndim)
    return make_aval(x.shape, x.dtype if x.dtype.is_inexact else int64)


def _prod_dtype(x: Any) -> Any:
    return x.dtype if from_numpy_dtype(x.dtype).is_inexact else np.dtype(np.int64)


def _lower_prod(b: Any, x: Any, dim: int) -> Any:
    x = x if x.dtype.is_inexact else b.cast(x, int64)
    return b.scan("prod", x, wrap_dim(dim, len(x.shape))) if x.shape else x


def _np_prod(x: Any, dim: int) -> Any:
    if not x.ndim:
        return x.astype(_prod_dtype(x))
    wide = np.dtype(np.float64) if from_numpy_dtype(x.dtype).category is FLOATING else _prod_dtype(x)
    return np.cumprod(x, axis=dim, dtype=wide).astype(_prod_dtype(x), copy=False)


def _prod_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """An element's gradient is the product before it, times what the products after it say, each without it."""
    dim, n = _along(c)
    if n < 2 or not x.ndim:
        return g
    before = call("cat", [call("ones_like", x.narrow(dim, 0, 1)), out.narrow(dim, 0, n - 1)], dim)
    following = call("cat", [x.narrow(dim, 1, n - 1), x.narrow(dim, 0, 1)], dim)
    return before * _recurrence(g, following, dim, n)


define("cumprod", aval=_prod_aval, numpy=_np_prod, lower=_lower_prod, vjps=[Vjp(_prod_rule, (0, "out"))])


# --- cummax(x | dim), cummin(x | dim) ---


def _extreme_aval(x: Aval, dim: int) -> tuple[Aval, Aval]:
    wrap_dim(dim, x.ndim)
    return make_aval(x.shape, x.dtype), make_aval(x.shape, int64)


def _back_to_places(c: RuleContext, g: tuple[Any, Any], x: Any, indices: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    return call("scatter_add", filled(0.0, aval), indices, g[0], c.params[0]) if aval.ndim else g[0]


def _define_extreme(name: str, kind: str, running: Any) -> None:
    def numpy(x: Any, dim: int) -> tuple[Any, Any]:
        if not x.ndim:
            return x.copy(), np.int64(0)
        values = running(x, axis=dim)
        grid = [1] * x.ndim
        grid[dim] = x.shape[dim]
        positions = np.arange(x.shape[dim]).reshape(grid)
        is_taken = (x == values) | np.isnan(x)  # of equal ones the last; a NaN ends the comparisons
        return values, np.maximum.accumulate(np.where(is_taken, positions, 0), axis=dim)

    def lower(b: Any, x: Any, dim: int) -> tuple[Any, Any]:
        if not x.shape:
            return x, b.const(0, int64)
        d = wrap_dim(dim, len(x.shape))
        numbers = b.cast(x, int32) if x.dtype is bool_ else x
        return b.cast(b.scan(kind, numbers, d), x.dtype), b.scan("arg" + kind, numbers, d)

    define(name, aval=_extreme_aval, numpy=numpy, lower=lower, vjps=[Vjp(_back_to_places, (0, "out1"))])


_define_extreme("cummax", "max", np.maximum.accumulate)
_define_extreme("cummin", "min", np.minimum.accumulate)


# --- logcumsumexp(x | dim) ---


def _log_aval(x: Aval, dim: int) -> Aval:
    wrap_dim(dim, x.ndim)
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{torch_dtype_name(x.dtype)}'")
    return make_aval(x.shape, x.dtype)


def _log_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """The sum of ``g[j] exp(x[i] - out[j])`` over j >= i; no exponent is positive."""
    dim, n = _along(c)
    if n < 2 or not x.ndim:
        return g
    following = call("cat", [out.narrow(dim, 1, n - 1), out.narrow(dim, n - 1, 1)], dim)
    return (x - out).exp() * _recurrence(g, (out - following).exp(), dim, n)


define(
    "logcumsumexp",
    aval=_log_aval,
    numpy=lambda x, dim: np.logaddexp.accumulate(x, axis=dim) if x.ndim else x.copy(),
    vjps=[Vjp(_log_rule, (0, "out"))],
)
