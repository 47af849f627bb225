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
from jitgrad.ops.normalization import batch_dims, channel_shape
from jitgrad.ops.shapes import contiguous_dims
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

# --- by the batch's statistics ---


def _aval(x: Aval, *rest: Any) -> tuple[Aval, Aval, Aval, Aval]:
    statistic = make_aval((x.shape[1],), x.dtype)
    return make_aval(x.shape, x.dtype), statistic, statistic, statistic


def _numpy(x: Any, *rest: Any) -> tuple[Any, Any, Any, Any]:
    *affine, eps = rest
    dims, per_channel = batch_dims(x.ndim), channel_shape(x.ndim)
    count = x.dtype.type(contiguous_dims(x.shape, dims))
    mean = np.add.reduce(x, axis=dims) / count
    centred = x - mean.reshape(per_channel)
    variance = np.add.reduce(centred * centred, axis=dims) / count
    rstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    out = centred * rstd.reshape(per_channel)
    if affine:
        out = out * affine[0].reshape(per_channel) + affine[1].reshape(per_channel)
    return out, mean, rstd, variance


def _lower(b: Any, x: Any, *rest: Any) -> tuple[Any, Any, Any, Any]:
    *affine, eps = rest
    rank, channels = len(x.shape), x.shape[1]
    dims, wide = batch_dims(rank), (1, channels, *[1] * (rank - 2))
    count = b.const(float(contiguous_dims(x.shape, dims)), x.dtype)
    mean = b.div(b.sum(x, dims, True), count)
    centred = b.sub(x, mean)
    variance = b.div(b.sum(b.mul(centred, centred), dims, True), count)
    rstd = b.div(b.const(1.0, x.dtype), b.sqrt(b.add(variance, b.const(float(eps), x.dtype))))
    out = b.mul(centred, rstd)
    if affine:
        out = b.add(b.mul(out, b.reshape(affine[0], wide)), b.reshape(affine[1], wide))
    return (out, *[b.reshape(s, (channels,)) for s in (mean, rstd, variance)])


def _gradients(
    c: RuleContext, g: tuple[Any, ...], wanted: list[int], x: Any, mean: Any, rstd: Any, weight: Any = None
) -> dict[int, Any]:
    """All three; the statistics are outputs too, which depend on every element, and may get gradients."""
    dims, per_channel = batch_dims(x.ndim), channel_shape(x.ndim)
    centred = x - mean.reshape(per_channel)
    grads: dict[int, Any] = {}
    if g[0] is not None:
        normalised = centred * rstd.reshape(per_channel)
        total, along = g[0].sum(dims), (g[0] * normalised).sum(dims)
        grads = {1: along, 2: total}
        scale = rstd if weight is None else rstd * weight
        if 0 in wanted:
            count = contiguous_dims(x.shape, dims)
            rest = (total / count).reshape(per_channel) + normalised * (along / count).reshape(per_channel)
            grads[0] = (g[0] - rest) * scale.reshape(per_channel)
    if 0 in wanted:
        grads[0] = _by_statistics(g, grads.get(0), centred, rstd)
    return {i: grads.get(i) for i in wanted}


def _by_statistics(g: tuple[Any, ...], grad: Any, centred: Any, rstd: Any) -> Any:
    """The input's gradient with what comes by way of mean, 1/std and variance."""
    dims, per_channel = batch_dims(centred.ndim), channel_shape(centred.ndim)
    count = contiguous_dims(centred.shape, dims)
    terms = [] if grad is None else [grad]
    if g[1] is not None:
        terms.append((g[1] / count).reshape(per_channel).expand(centred.shape))
    if g[2] is not None:
        terms.append((g[2] * (rstd * rstd * rstd) * (-1.0 / count)).reshape(per_channel) * centred)
    if g[3] is not None:
        terms.append((g[3] * (2.0 / count)).reshape(per_channel) * centred)
    return sum(terms[1:], terms[0]) if terms else None


def _one(i: int, saves: tuple[int | str, ...]) -> Vjp:
    return Vjp(lambda c, g, *saved: _gradients(c, g, [i], *saved)[i], saves)


define(
    "native_batch_norm",
    aval=_aval,
    numpy=_numpy,
    lower=_lower,
    vjps=[_one(i, (0, "out1", "out2", 1)) for i in range(3)],
    joint=_gradients,
    num_inputs=3,
    node_name="NativeBatchNormBackward0",
    runs_once=True,
)
define(
    "native_batch_norm_plain",
    aval=_aval,
    numpy=_numpy,
    lower=_lower,
    vjps=[_one(0, (0, "out1", "out2"))],
    node_name="NativeBatchNormBackward0",
    missing_edges=2,
)


# --- by given statistics ---


def _aval_by(x: Aval, *rest: Any) -> Aval:
    return make_aval(x.shape, x.dtype)


def _numpy_by(x: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    *affine, eps = rest
    per_channel = channel_shape(x.ndim)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    out = (x - mean.reshape(per_channel)) * scale.reshape(per_channel)
    if affine:
        out = out * affine[0].reshape(per_channel) + affine[1].reshape(per_channel)
    return out


def _lower_by(b: Any, x: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    *affine, eps = rest
    wide = (1, x.shape[1], *[1] * (len(x.shape) - 2))
    scale = b.div(b.const(1.0, x.dtype), b.sqrt(b.add(variance, b.const(float(eps), x.dtype))))
    out = b.mul(b.sub(x, b.reshape(mean, wide)), b.reshape(scale, wide))
    if affine:
        out = b.add(b.mul(out, b.reshape(affine[0], wide)), b.reshape(affine[1], wide))
    return out


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


def _one_by(i: int, saves: tuple[int | str, ...]) -> Vjp:
    return Vjp(lambda c, g, *saved: _gradients_by(c, g, [i], *saved)[i], saves)


define(
    "batch_norm_by",
    aval=_aval_by,
    numpy=_numpy_by,
    lower=_lower_by,
    vjps=[None if i in (1, 2) else _one_by(i, (0, 1, 2, 3)) for i in range(5)],
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
    vjps=[_one_by(0, (0, 1, 2)), None, None],
    num_inputs=3,
    node_name="NativeBatchNormBackward0",
    missing_edges=2,
)
