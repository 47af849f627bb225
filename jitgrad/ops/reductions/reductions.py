"""Reductions: sums, means, products, variances, norms, any/all. Extrema are in ``extrema``.

Owns: their table entries. ``dim`` arrives as the user wrote it (None, int or tuple), so that recording is cheap.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING, DType, bool_, int64, uint8
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, laid_out_as
from jitgrad.ops.pointwise.comparison import truth
from jitgrad.ops.shapes import (
    as_dtype,
    contiguous_dims,
    np_operand,
    operand,
    reduced_shape,
    torch_dtype_name,
    wrap_dim,
    wrap_dims,
)
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["kept", "restore", "spread"]

Dim = int | tuple[int, ...] | None

_add_up: Any = np.add.reduce  # ``np.sum`` calls this function; without its Python wrapper it starts sooner


def kept(aval: Aval, dim: Dim) -> tuple[int, ...]:
    """The shape of ``aval`` with ``dim`` reduced and kept."""
    return reduced_shape(aval.shape, wrap_dims(dim, aval.ndim), True)


def restore(g: Any, aval: Aval, dim: Dim) -> Any:
    """``g`` with the reduced dimensions back, of extent 1."""
    return g.reshape(kept(aval, dim))


def spread(g: Any, aval: Aval, dim: Dim) -> Any:
    """The gradient of a sum: its own gradient, expanded over what was summed."""
    return (restore(g, aval, dim) if g.ndim else g).expand(aval.shape)


# --- sum and mean ---


def _sum_dtype(x: Any, dtype: DType | None) -> DType:
    own = as_dtype(x.dtype)
    return dtype or (own if own.is_inexact else int64)


def _sum_aval(x: Aval, dim: Dim, keepdim: bool, dtype: DType | None) -> Aval:
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), _sum_dtype(x, dtype))


def _np_sum(x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    wide = np_operand(x, _sum_dtype(x, dtype))
    return np.sum(wide, axis=wrap_dims(dim, x.ndim), keepdims=keepdim, dtype=wide.dtype)


def _float_sum(x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    """The same where nothing has to be cast."""
    if dtype is not None or not x.ndim:
        return _np_sum(x, dim, keepdim, dtype)
    if not keepdim and (dim is None or dim == ()):
        return _add_up(x, axis=None, out=np.empty((), x.dtype))  # an array at once: NumPy would return a scalar
    axis: Any = None if dim == () else dim
    return _add_up(x, axis=axis, keepdims=keepdim)


_np_sum.direct = _float_sum  # type: ignore[attr-defined]


def _lower_sum(b: Any, x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    return b.sum(operand(b, x, _sum_dtype(x, dtype)), wrap_dims(dim, len(x.shape)), keepdim)


def _mean_dtype(x: Any, dtype: DType | None) -> DType:
    own = dtype or as_dtype(x.dtype)
    if own.category < FLOATING:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {torch_dtype_name(own)}"
        )
    return own


def _mean_aval(x: Aval, dim: Dim, keepdim: bool, dtype: DType | None) -> Aval:
    out = _mean_dtype(x, dtype)
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), out)


def _np_mean(x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    dims, out = wrap_dims(dim, x.ndim), _mean_dtype(x, dtype)
    total = np.sum(np_operand(x, out), axis=dims, keepdims=keepdim)
    return total / out.compute.np.type(contiguous_dims(x.shape, dims))


def _float_mean(x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    """The same where nothing has to be cast."""
    if dtype is not None or not x.ndim or not x.size:
        return _np_mean(x, dim, keepdim, dtype)
    axis: Any = None if dim == () else dim
    total = _add_up(x, axis=axis, keepdims=keepdim)
    return total / x.dtype.type(x.size // total.size)


_np_mean.direct = _float_mean  # type: ignore[attr-defined]


def _lower_mean(b: Any, x: Any, dim: Dim, keepdim: bool, dtype: DType | None) -> Any:
    dims, out = wrap_dims(dim, len(x.shape)), _mean_dtype(x, dtype)
    total = b.sum(operand(b, x, out), dims, keepdim)
    return b.div(total, b.const(1.0 * contiguous_dims(x.shape, dims), out.compute))


def _sum_rule(c: RuleContext, g: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    return spread(g, aval, c.params[0])


def _mean_rule(c: RuleContext, g: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    count = contiguous_dims(aval.shape, wrap_dims(c.params[0], aval.ndim))
    whole = spread(g, aval, c.params[0])
    return whole / count if count else whole * math.nan


for _name, _node in (("sum", "SumBackward0"), ("sum_dim", "SumBackward1")):
    define(_name, aval=_sum_aval, numpy=_np_sum, lower=_lower_sum, vjps=[Vjp(_sum_rule)], node_name=_node)
for _name, _node in (("mean", "MeanBackward0"), ("mean_dim", "MeanBackward1")):
    define(_name, aval=_mean_aval, numpy=_np_mean, lower=_lower_mean, vjps=[Vjp(_mean_rule)], node_name=_node)


# --- trace ---


def _trace_aval(x: Aval) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    if x.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {x.ndim}")
    return make_aval((), _sum_dtype(x, None))


def _lower_trace(b: Any, x: Any) -> Any:
    on_diagonal = b.eq(b.iota(x.shape, 0), b.iota(x.shape, 1))
    wide = b.cast(x, _sum_dtype(x, None))
    return b.sum(b.where(on_diagonal, wide, b.const(wide.dtype.np.type(0).item(), wide.dtype)), (0, 1), False)


def _trace_rule(c: RuleContext, g: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    return call("diagonal_backward", g.expand((min(aval.shape),)), aval.shape, 0, 0, 1)


define(
    "trace",
    aval=_trace_aval,
    numpy=lambda x: np.trace(x, dtype=_sum_dtype(x, None).np),
    lower=_lower_trace,
    vjps=[Vjp(_trace_rule)],
)


# --- prod ---


def _one_dim_aval(x: Aval, dim: int | None, keepdim: bool, dtype: DType | None = None) -> Aval:
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), _sum_dtype(x, dtype))


def _np_prod(x: Any, dim: Dim, keepdim: bool, dtype: DType | None = None) -> Any:
    wide = np_operand(x, _sum_dtype(x, dtype))
    return np.prod(wide, axis=wrap_dims(dim, x.ndim), keepdims=keepdim, dtype=wide.dtype)


def _lower_prod(b: Any, x: Any, dim: Dim, keepdim: bool, dtype: DType | None = None) -> Any:
    return b.reduce("prod", operand(b, x, _sum_dtype(x, dtype)), wrap_dims(dim, len(x.shape)), keepdim)


def _scan_exclusive(x: Any, dim: int, n: int) -> Any:
    """Per element, the product of all earlier ones, in log2(n) steps of multiplications.

    Nothing is divided, so the derivative is right at zeros, and so are all higher ones.
    """
    total = call("cat", [call("ones_like", x.narrow(dim, 0, 1)), x.narrow(dim, 0, n - 1)], dim)
    step = 1
    while step < n:
        head, tail = total.narrow(dim, 0, step), total.narrow(dim, step, n - step)
        total = call("cat", [head, tail * total.narrow(dim, 0, n - step)], dim)
        step *= 2
    return total


def _prod_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """``out`` is saved but not used: PyTorch saves it, and refuses that it is overwritten before the backward."""
    aval, dim = c.avals[0], c.params[0]
    assert aval is not None
    if dim is None:
        flat = x.reshape((aval.numel,))
        return laid_out_as((g * _others(flat, 0, aval.numel)).reshape(aval.shape), aval)
    (axis,) = wrap_dims(dim, aval.ndim) or (0,)
    n = aval.shape[axis] if aval.ndim else 1
    return restore(g, aval, dim) * _others(x, axis, n)


def _others(x: Any, dim: int, n: int) -> Any:
    """Per element, the product of all other elements along ``dim``."""
    if n <= 1:
        return call("ones_like", x)
    reverse = call("flip", _scan_exclusive(call("flip", x, (dim,)), dim, n), (dim,))
    return _scan_exclusive(x, dim, n) * reverse


for _name, _node in (("prod", "ProdBackward0"), ("prod_dim", "ProdBackward1")):
    define(
        _name,
        aval=_one_dim_aval,
        numpy=_np_prod,
        lower=_lower_prod,
        vjps=[Vjp(_prod_rule, (0, "out"))],
        node_name=_node,
    )


# --- variance ---


def _var_aval(x: Aval, dim: Dim, correction: float, keepdim: bool) -> Aval:
    if x.dtype.category < FLOATING:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), x.dtype)


def _freedom(shape: tuple[int, ...], dim: Dim, correction: float) -> float:
    freedom = contiguous_dims(shape, wrap_dims(dim, len(shape))) - correction
    return 1.0 * freedom if freedom > 0 else 0.0


def _np_var(x: Any, dim: Dim, correction: float, keepdim: bool) -> Any:
    dims = wrap_dims(dim, x.ndim)
    count = x.dtype.type(contiguous_dims(x.shape, dims))
    centred = x - _add_up(x, axis=dims, keepdims=True) / count  # of nothing: NaN, and np.mean would warn
    return _add_up(centred * centred, axis=dims, keepdims=keepdim) / x.dtype.type(_freedom(x.shape, dim, correction))


def _lower_var(b: Any, x: Any, dim: Dim, correction: float, keepdim: bool) -> Any:
    dims = wrap_dims(dim, len(x.shape))
    count = b.const(1.0 * contiguous_dims(x.shape, dims), x.dtype)
    centred = b.sub(x, b.div(b.sum(x, dims, True), count))
    total = b.sum(b.mul(centred, centred), dims, keepdim)
    return b.div(total, b.const(_freedom(x.shape, dim, correction), x.dtype))


def _var_rule(c: RuleContext, g: Any, x: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    dim, correction = c.params[0], c.params[1]
    freedom = _freedom(aval.shape, dim, correction)
    factor = 2.0 / freedom if freedom else math.nan
    centred = x - x.mean(wrap_dims(dim, aval.ndim), True)
    return restore(g, aval, dim) * factor * centred


def _std_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    half = call("where", call("eq", out, 0.0), 0.0, g / (out * 2))
    return _var_rule(c, half, x)


define("var", aval=_var_aval, numpy=_np_var, lower=_lower_var, vjps=[Vjp(_var_rule, (0,))])
define(
    "std",
    aval=_var_aval,
    numpy=lambda *args: np.sqrt(_np_var(*args)),
    lower=lambda b, *args: b.sqrt(_lower_var(b, *args)),
    vjps=[Vjp(_std_rule, (0, "out"))],
)


# --- norm ---


def _norm_aval(x: Aval, order: float, dim: Dim, keepdim: bool) -> Aval:
    if x.dtype.category < FLOATING:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {torch_dtype_name(x.dtype)}"
        )
    dims = wrap_dims(dim, x.ndim)
    if order < 0 or math.isinf(order):
        _refuse_no_elements(x, order, dims, dim is None or dim == ())
    return make_aval(reduced_shape(x.shape, dims, keepdim), x.dtype)


def _refuse_no_elements(x: Aval, order: float, dims: tuple[int, ...], is_whole: bool) -> None:
    """An order that no elements have a norm of."""
    empty = next((d for d in dims if not x.shape[d]), None)
    if empty is not None:
        where = "an empty tensor" if is_whole else f"the dimension {empty} because this dimension is empty and"
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {order:g} norm on {where}"
            f"{' because' if is_whole else ''} the operation does not have an identity"
        )


def _np_norm(x: Any, order: float, dim: Dim, keepdim: bool) -> Any:
    dims = wrap_dims(dim, x.ndim)
    if order == 2:
        return np.sqrt(np.sum(x * x, axis=dims, keepdims=keepdim))
    if math.isinf(order):
        return (np.max if order > 0 else np.min)(np.abs(x), axis=dims, keepdims=keepdim)
    if order == 0:
        return np.sum(x != 0, axis=dims, keepdims=keepdim).astype(x.dtype)
    if order == 1:
        return np.sum(np.abs(x), axis=dims, keepdims=keepdim)
    number = x.dtype.type
    return np.power(np.sum(np.power(np.abs(x), number(order)), axis=dims, keepdims=keepdim), number(1 / order))


def _lower_norm(b: Any, x: Any, order: float, dim: Dim, keepdim: bool) -> Any:
    dims = wrap_dims(dim, len(x.shape))
    if order == 2:
        return b.sqrt(b.sum(b.mul(x, x), dims, keepdim))
    if math.isinf(order):
        return b.reduce("max" if order > 0 else "min", b.abs(x), dims, keepdim)
    if order == 0:
        return b.sum(b.cast(truth(b, x), x.dtype), dims, keepdim)
    if order == 1:
        return b.sum(b.abs(x), dims, keepdim)
    powers = b.sum(b.pow(b.abs(x), b.const(float(order), x.dtype)), dims, keepdim)
    return b.pow(powers, b.const(1 / order, x.dtype))


def _norm_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    aval, order = c.avals[0], c.params[0]
    assert aval is not None
    g, norm = restore(g, aval, c.params[1]), restore(out, aval, c.params[1])
    if order == 0:
        return None  # as in PyTorch: a count has no derivative
    if order == 1:
        return x.sign() * g
    if order == 2:
        return x * call("where", call("eq", norm, 0.0), 0.0, g / norm)
    if math.isinf(order):
        hit = call("eq", x.abs(), norm)
        ties = hit.to(aval.dtype)
        return x.sign() * ((g / ties.sum(wrap_dims(c.params[1], aval.ndim), True)) * ties)
    if order < 1:
        power = call("where", call("eq", x, 0.0), 0.0, call("pow_scalar", x.abs(), order - 1))
        return x.sign() * power * g * call("pow_scalar", norm, 1 - order)
    scale = g / call("pow_scalar", norm, order - 1)
    power = x.sign() * call("pow_scalar", x.abs(), order - 1)
    return power * call("where", call("eq", norm, 0.0), 0.0, scale)


define("linalg_vector_norm", aval=_norm_aval, numpy=_np_norm, lower=_lower_norm, vjps=[Vjp(_norm_rule, (0, "out"))])


# --- any, all, count, cumulative sum ---


def _define_truth(name: str, primitive: str, np_function: Any) -> None:
    define(
        name,
        aval=lambda x, dim, keepdim: make_aval(
            reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), uint8 if x.dtype is uint8 else bool_
        ),
        numpy=lambda x, dim, keepdim: np_function(x, axis=wrap_dims(dim, x.ndim), keepdims=keepdim),
        lower=lambda b, x, dim, keepdim: b.reduce(primitive, truth(b, x), wrap_dims(dim, len(x.shape)), keepdim),
    )


_define_truth("any", "max", np.any)
_define_truth("all", "min", np.all)

define(
    "count_nonzero",
    aval=lambda x, dim: make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), False), int64),
    numpy=lambda x, dim: np.count_nonzero(x, axis=wrap_dims(dim, x.ndim)) if x.ndim else np.int64(x != 0),
    lower=lambda b, x, dim: b.sum(b.cast(truth(b, x), int64), wrap_dims(dim, len(x.shape)), False),
)


def _lower_cumsum(b: Any, x: Any, dim: int) -> Any:
    return b.scan("sum", b.cast(x, _sum_dtype(x, None)), wrap_dim(dim, len(x.shape))) if x.shape else x


def _np_cumsum(x: Any, dim: int) -> Any:
    dtype = _sum_dtype(x, None)
    if not x.ndim:
        return x.astype(dtype.np)
    if dtype.category is not FLOATING:
        return np.cumsum(x, axis=dim, dtype=dtype.np)
    return (np.cumsum(x, axis=dim, dtype=np.float64) + 0.0).astype(dtype.np)  # it begins with 0.0: no sum is -0.0


define(
    "cumsum",
    aval=lambda x, dim: make_aval(x.shape, (wrap_dims(dim, x.ndim), _sum_dtype(x, None))[1]),
    numpy=_np_cumsum,
    lower=_lower_cumsum,
    vjps=[Vjp(lambda c, g: call("flip", call("cumsum", call("flip", g, c.params), c.params[0]), c.params))],
)
