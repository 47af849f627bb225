"""Layer normalisation, and what all normalisations check.

Owns: ``native_layer_norm`` (normalised, mean, 1/std), which affine maps follow in ``functions``; shapes and checks that
other normalisations share.
Must not know: Tensor, kernels.

Source: Ba et al., "Layer Normalization", 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, float32
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.shapes import contiguous_dims, reduced_shape, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["batch_dims", "channel_shape", "check_channels", "check_norm_dtypes", "group_shape"]


def _dims(rank: int, trailing: int) -> tuple[int, ...]:
    return tuple(range(rank - trailing, rank))


def batch_dims(rank: int) -> tuple[int, ...]:
    """The dimensions that a channel's statistics are taken over, of (N, C, *)."""
    return (0, *range(2, rank))


def channel_shape(rank: int) -> tuple[int, ...]:
    """The shape in which (C) is broadcast against (N, C, *)."""
    return (1, -1, *[1] * (rank - 2))


def group_shape(shape: tuple[int, ...], groups: int) -> tuple[int, int, int]:
    """(N, groups, elements per group) of (N, C, *)."""
    return shape[0], groups, contiguous_dims(shape, range(1, len(shape))) // groups


def check_channels(name: str, given: Any, channels: int) -> None:
    """RuntimeError unless there is one element per channel, or None."""
    if given is not None and given.numel() != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {given.numel()}")


def check_norm_dtypes(name: str, x: Aval, *parameters: Aval | None) -> None:
    """What a normalisation takes: floats, and parameters of the same dtype, or all of float32 beside halves.

    Raises:
        NotImplementedError: of integers.
        RuntimeError: of two dtypes.
    """
    first = next((p.dtype for p in parameters if p is not None), x.dtype)
    taken = float32 if first is float32 and x.dtype.is_half else x.dtype
    for parameter in parameters:
        if parameter is not None and parameter.dtype is not taken:
            raise RuntimeError(
                f"{name}: mixed dtype (CPU): all inputs must share same datatype, but got an input of "
                f"{torch_dtype_name(x.dtype)} and a parameter or a statistic of {torch_dtype_name(parameter.dtype)}"
            )
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"{name}\" not implemented for '{torch_dtype_name(x.dtype)}'")


def _norm_aval(x: Aval, *rest: Any) -> tuple[Aval, Aval, Aval]:
    shape, _ = rest[-2:]
    if not shape or x.shape[x.ndim - len(shape) :] != shape:
        stars = "".join(f", {n}" for n in shape)
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{stars}], but got input of size"
            f"{list(x.shape)}"
        )
    for role, affine in zip(("weight", "bias"), rest[:-2], strict=False):
        if affine.shape != shape:
            raise RuntimeError(
                f"Expected {role} to be of same shape as normalized_shape, but got {role} of shape "
                f"{list(affine.shape)} and normalized_shape = {list(shape)}"
            )
    check_norm_dtypes("LayerNormKernelImpl", x, *rest[:-2])
    stats = make_aval(reduced_shape(x.shape, _dims(x.ndim, len(shape)), True), x.dtype)
    return make_aval(x.shape, x.dtype), stats, stats


def _np_mean(x: Any, dims: tuple[int, ...]) -> Any:
    """Over dimensions that stay, with extent 1."""
    total = np.add.reduce(x, axis=dims, keepdims=True)
    return total / x.dtype.type(contiguous_dims(x.shape, dims))


def _np_norm(x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, shape, eps = rest
    dims = _dims(x.ndim, len(shape))
    mean = _np_mean(x, dims)
    centred = x - mean
    rstd = 1 / np.sqrt(_np_mean(centred * centred, dims) + x.dtype.type(eps))
    out = centred * rstd
    if affine:
        out = out * affine[0] + affine[1]
    return out, mean, rstd


def _lower_norm(b: Any, x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, shape, eps = rest
    dims = _dims(len(x.shape), len(shape))
    count = b.const(float(contiguous_dims(x.shape, dims)), x.dtype)
    mean = b.div(b.sum(x, dims, True), count)
    centred = b.sub(x, mean)
    variance = b.div(b.sum(b.mul(centred, centred), dims, True), count)
    rstd = b.div(b.const(1.0, x.dtype), b.sqrt(b.add(variance, b.const(float(eps), x.dtype))))
    out = b.mul(centred, rstd)
    if affine:
        out = b.add(b.mul(out, affine[0]), affine[1])
    return out, mean, rstd


def _x_rule(c: RuleContext, g: tuple[Any, Any, Any], x: Any, mean: Any, rstd: Any, weight: Any = None) -> Any:
    """The mean and 1/std depend on every element of the row; both are outputs too, and may get gradients."""
    aval, shape = c.avals[0], c.params[0]
    assert aval is not None
    dims = _dims(aval.ndim, len(shape))
    count = contiguous_dims(aval.shape, dims)
    centred = x - mean
    grad: Any = None
    if g[0] is not None:
        out = g[0] if weight is None else g[0] * weight
        normalised = centred * rstd
        grad = rstd * (out - out.mean(dims, True) - normalised * (out * normalised).mean(dims, True))
    if g[1] is not None:
        grad = _plus(grad, (g[1] / count).expand(aval.shape))
    if g[2] is not None:
        grad = _plus(grad, g[2] * (rstd * rstd * rstd) * centred * (-1.0 / count))
    return grad


def _plus(total: Any, term: Any) -> Any:
    return term if total is None else total + term


def _weight_rule(c: RuleContext, g: tuple[Any, Any, Any], x: Any, mean: Any, rstd: Any) -> Any:
    return None if g[0] is None else g[0] * ((x - mean) * rstd)


define(
    "native_layer_norm",
    aval=_norm_aval,
    numpy=_np_norm,
    lower=_lower_norm,
    vjps=[
        Vjp(_x_rule, (0, "out1", "out2", 1)),
        Vjp(_weight_rule, (0, "out1", "out2")),
        Vjp(lambda c, g: g[0]),
    ],
    num_inputs=3,
    node_name="NativeLayerNormBackward0",
    runs_once=True,
)
define(
    "native_layer_norm_plain",
    aval=_norm_aval,
    numpy=_np_norm,
    lower=_lower_norm,
    vjps=[Vjp(_x_rule, (0, "out1", "out2"))],
    node_name="NativeLayerNormBackward0",
    missing_edges=2,
)
