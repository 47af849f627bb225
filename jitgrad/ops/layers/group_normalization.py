"""Group normalisation: statistics per example and group of channels.

Owns: ``native_group_norm`` (normalised, mean, 1/std), and its form without an affine map.
Must not know: Tensor, kernels.

Source: Wu and He, "Group Normalization", 2018; the backward is layer normalisation's, over groups.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.layers.normalization import (
    batch_dims,
    channel_shape,
    define_channel_norm,
    group_shape,
    lower_affine,
    lower_moments,
    np_affine,
    np_moments,
    through_moments,
)
from jitgrad.ops.table import RuleContext

__all__: list[str] = []


def _aval(x: Aval, *rest: Any) -> tuple[Aval, Aval, Aval]:
    groups, _ = rest[-2:]
    statistic = make_aval((x.shape[0], groups), x.dtype)
    return make_aval(x.shape, x.dtype), statistic, statistic


def _numpy(x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, groups, eps = rest
    centred, mean, rstd, _ = np_moments(x.reshape(group_shape(x.shape, groups)), (2,), eps)
    return np_affine((centred * rstd).reshape(x.shape), affine), mean[..., 0], rstd[..., 0]


def _lower(b: Any, x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, groups, eps = rest
    centred, *statistics, _ = lower_moments(b, b.reshape(x, group_shape(x.shape, groups)), (2,), eps)
    out = lower_affine(b, b.reshape(b.mul(centred, statistics[1]), x.shape), affine)
    mean, rstd = (b.reshape(s, centred.shape[:2]) for s in statistics)
    return out, mean, rstd


def _gradients(
    c: RuleContext, g: tuple[Any, ...], wanted: list[int], x: Any, mean: Any, rstd: Any, weight: Any = None
) -> dict[int, Any]:
    """All three."""
    rows = group_shape(tuple(x.shape), c.params[0])
    dims, per_channel, wide = batch_dims(x.ndim), channel_shape(x.ndim), rstd.unsqueeze(2)
    centred = x.reshape(rows) - mean.unsqueeze(2)
    grads: dict[int, Any] = {}
    if g[0] is not None:
        normalised = centred * wide
        if 1 in wanted:
            grads[1] = (g[0] * normalised.reshape(x.shape)).sum(dims)
        if 2 in wanted:
            grads[2] = g[0].sum(dims)
        if 0 in wanted:
            out = (g[0] if weight is None else g[0] * weight.reshape(per_channel)).reshape(rows)
            grads[0] = wide * (out - out.mean(2, True) - normalised * (out * normalised).mean(2, True))
    if 0 in wanted:
        of_statistics = [None if s is None else s.unsqueeze(2) for s in g[1:]]
        grad = through_moments(grads.get(0), centred, wide, rows[2], of_statistics)
        grads[0] = None if grad is None else grad.reshape(x.shape)
    return {i: grads.get(i) for i in wanted}


define_channel_norm(
    "native_group_norm", "NativeGroupNormBackward0", _gradients, aval=_aval, numpy=_numpy, lower=_lower
)
