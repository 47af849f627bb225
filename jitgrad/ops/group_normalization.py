"""Group normalisation: statistics per example and group of channels.

Owns: ``native_group_norm`` (normalised, mean, 1/std), and its form without an affine map.
Must not know: Tensor, kernels.

Source: Wu and He, "Group Normalization", 2018; the backward is layer normalisation's, over groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.normalization import batch_dims, channel_shape, group_shape
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _aval(x: Aval, *rest: Any) -> tuple[Aval, Aval, Aval]:
    groups, _ = rest[-2:]
    statistic = make_aval((x.shape[0], groups), x.dtype)
    return make_aval(x.shape, x.dtype), statistic, statistic


def _numpy(x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, groups, eps = rest
    rows = x.reshape(group_shape(x.shape, groups))
    count = x.dtype.type(rows.shape[2])
    mean = np.add.reduce(rows, axis=2, keepdims=True) / count
    centred = rows - mean
    rstd = 1 / np.sqrt(np.add.reduce(centred * centred, axis=2, keepdims=True) / count + x.dtype.type(eps))
    out = (centred * rstd).reshape(x.shape)
    if affine:
        per_channel = channel_shape(x.ndim)
        out = out * affine[0].reshape(per_channel) + affine[1].reshape(per_channel)
    return out, mean[..., 0], rstd[..., 0]


def _lower(b: Any, x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, groups, eps = rest
    rows = b.reshape(x, group_shape(x.shape, groups))
    count = b.const(float(rows.shape[2]), x.dtype)
    mean = b.div(b.sum(rows, (2,), True), count)
    centred = b.sub(rows, mean)
    variance = b.div(b.sum(b.mul(centred, centred), (2,), True), count)
    rstd = b.div(b.const(1.0, x.dtype), b.sqrt(b.add(variance, b.const(float(eps), x.dtype))))
    out = b.reshape(b.mul(centred, rstd), x.shape)
    if affine:
        wide = (1, x.shape[1], *[1] * (len(x.shape) - 2))
        out = b.add(b.mul(out, b.reshape(affine[0], wide)), b.reshape(affine[1], wide))
    return out, b.reshape(mean, rows.shape[:2]), b.reshape(rstd, rows.shape[:2])


def _gradients(
    c: RuleContext, g: tuple[Any, ...], wanted: list[int], x: Any, mean: Any, rstd: Any, weight: Any = None
) -> dict[int, Any]:
    """All three; the statistics are outputs too, which depend on every element of a group, and may get gradients."""
    rows = group_shape(tuple(x.shape), c.params[0])
    dims, per_channel = batch_dims(x.ndim), channel_shape(x.ndim)
    scale = rstd.unsqueeze(2)
    centred = x.reshape(rows) - mean.unsqueeze(2)
    grads: dict[int, Any] = {}
    if g[0] is not None:
        normalised = centred * scale
        if 1 in wanted:
            grads[1] = (g[0] * normalised.reshape(x.shape)).sum(dims)
        if 2 in wanted:
            grads[2] = g[0].sum(dims)
        if 0 in wanted:
            out = (g[0] if weight is None else g[0] * weight.reshape(per_channel)).reshape(rows)
            along = (out * normalised).mean(2, True)
            grads[0] = (scale * (out - out.mean(2, True) - normalised * along)).reshape(x.shape)
    if 0 in wanted:
        grads[0] = _by_statistics(g, grads.get(0), centred, rstd, tuple(x.shape))
    return {i: grads.get(i) for i in wanted}


def _by_statistics(g: tuple[Any, ...], grad: Any, centred: Any, rstd: Any, shape: tuple[int, ...]) -> Any:
    """The input's gradient with what comes by way of mean and 1/std."""
    count = centred.shape[2]
    terms = [] if grad is None else [grad]
    if g[1] is not None:
        terms.append((g[1] / count).unsqueeze(2).expand(centred.shape).reshape(shape))
    if g[2] is not None:
        terms.append(((g[2] * (rstd * rstd * rstd) * (-1.0 / count)).unsqueeze(2) * centred).reshape(shape))
    return sum(terms[1:], terms[0]) if terms else None


def _one(i: int, saves: tuple[int | str, ...]) -> Vjp:
    return Vjp(lambda c, g, *saved: _gradients(c, g, [i], *saved)[i], saves)


define(
    "native_group_norm",
    aval=_aval,
    numpy=_numpy,
    lower=_lower,
    vjps=[_one(i, (0, "out1", "out2", 1)) for i in range(3)],
    joint=_gradients,
    num_inputs=3,
    node_name="NativeGroupNormBackward0",
    runs_once=True,
)
define(
    "native_group_norm_plain",
    aval=_aval,
    numpy=_numpy,
    lower=_lower,
    vjps=[_one(0, (0, "out1", "out2"))],
    node_name="NativeGroupNormBackward0",
    missing_edges=2,
)
