"""Batch normalisation: statistics per channel, which is dimension 1.

Owns: ``native_batch_norm`` by the batch's statistics, ``batch_norm_by`` by given ones, and their forms without an
affine map.
Must not know: Tensor, kernels, running statistics, which ``functions`` moves.

Source: Ioffe and Szegedy, "Batch Normalization", 2015; the backward is that of its section 3, with both sums shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.layers.normalization import (
    batch_dims,
    channel_shape,
    define_channel_norm,
    lower_affine,
    lower_moments,
    lower_rstd,
    np_affine,
    np_moments,
    through_moments,
)
from jitgrad.ops.shapes import contiguous_dims
from jitgrad.ops.table import RuleContext, define, joint_vjp

__all__: list[str] = []

# --- by the batch's statistics ---


def _aval(x: Aval, *rest: Any) -> tuple[Aval, ...]:
    statistic = make_aval((x.shape[1],), x.dtype)
    return make_aval(x.shape, x.dtype), statistic, statistic, statistic


def _numpy(x: Any, *rest: Any) -> tuple[Any, ...]:
    *affine, eps = rest
    centred, *statistics = np_moments(x, batch_dims(x.ndim), eps)
    return (np_affine(centred * statistics[1], affine), *[s.reshape(-1) for s in statistics])


def _lower(b: Any, x: Any, *rest: Any) -> tuple[Any, ...]:
    *affine, eps = rest
    centred, *statistics = lower_moments(b, x, batch_dims(len(x.shape)), eps)
    out = lower_affine(b, b.mul(centred, statistics[1]), affine)
    return (out, *[b.reshape(s, (x.shape[1],)) for s in statistics])


def _gradients(
    c: RuleContext, g: tuple[Any, ...], wanted: list[int], x: Any, mean: Any, rstd: Any, weight: Any = None
) -> dict[int, Any]:
    """All three, from sums that are shared."""
    dims, per_channel = batch_dims(x.ndim), channel_shape(x.ndim)
    count, wide = contiguous_dims(x.shape, dims), rstd.reshape(per_channel)
    centred = x - mean.reshape(per_channel)
    grads: dict[int, Any] = {}
    if g[0] is not None:
        normalised = centred * wide
        total, along = g[0].sum(dims), (g[0] * normalised).sum(dims)
        grads = {1: along, 2: total}
        if 0 in wanted:
            rest = (total / count).reshape(per_channel) + normalised * (along / count).reshape(per_channel)
            scale = rstd if weight is None else rstd * weight
            grads[0] = (g[0] - rest) * scale.reshape(per_channel)
    if 0 in wanted:
        of_statistics = [None if s is None else s.reshape(per_channel) for s in g[1:]]
        grads[0] = through_moments(grads.get(0), centred, wide, count, of_statistics)
    return {i: grads.get(i) for i in wanted}


define_channel_norm(
    "native_batch_norm", "NativeBatchNormBackward0", _gradients, aval=_aval, numpy=_numpy, lower=_lower
)


# --- by given statistics ---


def _aval_by(x: Aval, *rest: Any) -> Aval:
    return make_aval(x.shape, x.dtype)


def _numpy_by(x: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    *affine, eps = rest
    wide = channel_shape(x.ndim)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    return np_affine((x - mean.reshape(wide)) * scale.reshape(wide), affine)


def _lower_by(b: Any, x: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    *affine, eps = rest
    wide = (1, x.shape[1], *[1] * (len(x.shape) - 2))
    out = b.mul(b.sub(x, b.reshape(mean, wide)), b.reshape(lower_rstd(b, variance, eps), wide))
    return lower_affine(b, out, affine)


def _gradients_by(
    c: RuleContext, g: Any, wanted: list[int], x: Any, mean: Any, variance: Any, weight: Any = None
) -> dict[int, Any]:
    """Of the input, the weight and the bias; the statistics are constants."""
    dims, per_channel = batch_dims(x.ndim), channel_shape(x.ndim)
    mean, rstd = mean.detach(), (variance.detach() + c.params[-1]).rsqrt()
    grads: dict[int, Any] = {}
    if 0 in wanted:
        grads[0] = g * (rstd if weight is None else rstd * weight).reshape(per_channel)
    if 3 in wanted:
        grads[3] = (g * (x - mean.reshape(per_channel))).sum(dims) * rstd
    if 4 in wanted:
        grads[4] = g.sum(dims)
    return grads


define(
    "batch_norm_by",
    aval=_aval_by,
    numpy=_numpy_by,
    lower=_lower_by,
    vjps=[None if i in (1, 2) else joint_vjp(_gradients_by, i, (0, 1, 2, 3)) for i in range(5)],
    joint=_gradients_by,
    num_inputs=5,
    node_name="NativeBatchNormBackward0",
    runs_once=True,
)
define(
    "batch_norm_by_plain",
    aval=_aval_by,
    numpy=_numpy_by,
    lower=_lower_by,
    vjps=[joint_vjp(_gradients_by, 0, (0, 1, 2)), None, None],
    num_inputs=3,
    node_name="NativeBatchNormBackward0",
    missing_edges=2,
)
