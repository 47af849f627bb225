"""softmax, log_softmax, logsumexp: each stable, each one entry, so that a kernel can do a row at a time.

Owns: their table entries.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.reductions.reductions import Dim, restore
from jitgrad.ops.shapes import float_dtype, np_operand, operand, reduced_shape, torch_dtype_name, wrap_dim, wrap_dims
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

# what ``np.sum`` and ``np.max`` call, without their Python wrappers
_add_up: Any = np.add.reduce
_largest: Any = np.maximum.reduce


def _softmax_aval(name: str) -> Any:
    def rule(x: Aval, dim: int) -> Aval:
        wrap_dim(dim, x.ndim)
        if x.dtype.category < FLOATING and x.numel:
            raise NotImplementedError(
                f"\"{name}_lastdim_kernel_impl\" not implemented for '{torch_dtype_name(x.dtype)}'"
            )
        return make_aval(x.shape, x.dtype)

    return rule


def _axes(x: Any, dim: int) -> tuple[int, ...]:
    return (wrap_dim(dim, len(x.shape)),) if x.shape else ()


def _np_softmax(x: Any, dim: int) -> Any:
    axes = _axes(x, dim)
    e = np.exp(x - _largest(x, axis=axes, keepdims=True)) if x.size else x.copy()
    return e / _add_up(e, axis=axes, keepdims=True)


def _np_log_softmax(x: Any, dim: int) -> Any:
    axes = _axes(x, dim)
    if not x.size:
        return x.copy()
    shifted = x - _largest(x, axis=axes, keepdims=True)
    return shifted - np.log(_add_up(np.exp(shifted), axis=axes, keepdims=True))


def _lower_softmax(b: Any, x: Any, dim: int) -> Any:
    axes = _axes(x, dim)
    e = b.exp(b.sub(x, b.reduce("max", x, axes, True)))
    return b.mul(e, b.div(1.0, b.sum(e, axes, True)))  # the sum is at least 1; quotients take as long as e


def _lower_log_softmax(b: Any, x: Any, dim: int) -> Any:
    axes = _axes(x, dim)
    shifted = b.sub(x, b.reduce("max", x, axes, True))
    return b.sub(shifted, b.log(b.sum(b.exp(shifted), axes, True)))


def _softmax_rule(c: RuleContext, g: Any, out: Any) -> Any:
    weighted = g * out
    return weighted - out * weighted.sum(c.params[0], True)


def _log_softmax_rule(c: RuleContext, g: Any, out: Any) -> Any:
    return g - out.exp() * g.sum(c.params[0], True)


define(
    "_softmax",
    aval=_softmax_aval("softmax"),
    numpy=_np_softmax,
    lower=_lower_softmax,
    vjps=[Vjp(_softmax_rule, ("out",))],
    node_name="SoftmaxBackward0",
)
define(
    "_log_softmax",
    aval=_softmax_aval("log_softmax"),
    numpy=_np_log_softmax,
    lower=_lower_log_softmax,
    vjps=[Vjp(_log_softmax_rule, ("out",))],
    node_name="LogSoftmaxBackward0",
)


def _logsumexp_aval(x: Aval, dim: Dim, keepdim: bool) -> Aval:
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), float_dtype(x))


def _np_logsumexp(x: Any, dim: Dim, keepdim: bool) -> Any:
    axes, x = wrap_dims(dim, x.ndim), np_operand(x, float_dtype(x))
    top = np.max(x, axis=axes, keepdims=True) if x.size else np.zeros(reduced_shape(x.shape, axes, True), x.dtype)
    top = np.where(np.isinf(top), x.dtype.type(0), top)  # inf - inf would be nan
    out = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return out.reshape(reduced_shape(x.shape, axes, keepdim))


def _lower_logsumexp(b: Any, x: Any, dim: Dim, keepdim: bool) -> Any:
    axes, x = wrap_dims(dim, len(x.shape)), operand(b, x, float_dtype(x))
    top = b.reduce("max", x, axes, True)
    top = b.where(b.eq(b.abs(top), b.const(float("inf"), x.dtype)), b.const(0.0, x.dtype), top)
    out = b.add(b.log(b.sum(b.exp(b.sub(x, top)), axes, True)), top)
    return b.reshape(out, reduced_shape(x.shape, axes, keepdim))


def _logsumexp_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    aval, dim = c.avals[0], c.params[0]
    assert aval is not None
    return restore(g, aval, dim) * call("exp", x - restore(out, aval, dim))


define(
    "logsumexp",
    aval=_logsumexp_aval,
    numpy=_np_logsumexp,
    lower=_lower_logsumexp,
    vjps=[Vjp(_logsumexp_rule, (0, "out"))],
)
