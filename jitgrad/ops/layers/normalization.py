"""Layer normalisation, and what all normalisations check.

Owns: ``native_layer_norm`` (normalised, mean, 1/std), which affine maps follow in ``functions``; shapes and checks that
other normalisations share.
Must not know: Tensor, kernels.

Source: Ba et al., "Layer Normalization", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, float32
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.shapes import contiguous_dims, reduced_shape, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define, joint_vjp

__all__ = [
    "batch_dims", "channel_shape", "check_channels", "check_norm_dtypes", "define_channel_norm", "group_shape",
    "lower_affine", "lower_moments", "lower_rstd", "np_affine", "np_moments", "through_moments",
]  # fmt: skip


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


# --- what all normalisations do ---


def np_moments(x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """(``x`` without its mean, mean, 1/std, variance) over dimensions that stay, with extent 1."""
    count = x.dtype.type(contiguous_dims(x.shape, dims))
    mean = np.add.reduce(x, axis=dims, keepdims=True) / count
    centred = x - mean
    variance = np.add.reduce(centred * centred, axis=dims, keepdims=True) / count
    return centred, mean, 1 / np.sqrt(variance + x.dtype.type(eps)), variance


def lower_moments(b: Any, x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """The primitives of ``np_moments``."""
    count = b.const(1.0 * contiguous_dims(x.shape, dims), x.dtype)
    mean = b.div(b.sum(x, dims, True), count)
    centred = b.sub(x, mean)
    variance = b.div(b.sum(b.mul(centred, centred), dims, True), count)
    return centred, mean, lower_rstd(b, variance, eps), variance


def lower_rstd(b: Any, variance: Any, eps: float) -> Any:
    """1/std, of a variance."""
    return b.div(b.const(1.0, variance.dtype), b.sqrt(b.add(variance, b.const(float(eps), variance.dtype))))


def through_moments(grad: Any, centred: Any, rstd: Any, count: int, grads: Sequence[Any]) -> Any:
    """The input's gradient (or None) with what comes by way of mean, 1/std and variance, which depend on every element.

    Args:
        centred, rstd: as of ``np_moments``, over ``count`` elements.
        grads: of mean, 1/std and, where it is a result, variance, in the shape of ``rstd``; each may be None.
    """
    of_mean, of_rstd, of_variance = (*grads, None)[:3]
    terms = [] if grad is None else [grad]
    if of_mean is not None:
        terms.append((of_mean / count).expand(centred.shape))
    if of_rstd is not None:
        terms.append(of_rstd * (rstd * rstd * rstd) * (-1.0 / count) * centred)
    if of_variance is not None:
        terms.append(of_variance * (2.0 / count) * centred)
    return sum(terms[1:], terms[0]) if terms else None


def np_affine(out: Any, affine: Sequence[Any]) -> Any:
    """``out * weight + bias`` per channel, of (N, C, *); ``affine`` may be empty."""
    if not affine:
        return out
    weight, bias = (p.reshape(channel_shape(out.ndim)) for p in affine)
    return out * weight + bias


def lower_affine(b: Any, out: Any, affine: Sequence[Any]) -> Any:
    """The primitives of ``np_affine``."""
    if not affine:
        return out
    weight, bias = (b.reshape(p, (1, out.shape[1], *[1] * (len(out.shape) - 2))) for p in affine)
    return b.add(b.mul(out, weight), bias)


def define_channel_norm(name: str, node_name: str, joint: Callable[..., dict[int, Any]], **rules: Any) -> None:
    """An operation ``name`` of (x, weight, bias) with mean and 1/std as its second and third result, and one of x:
    its name ends with ``_plain``.

    Args:
        joint: ``joint(c, grads, wanted, x, mean, rstd, weight)``, without the weight for the plain one.
        rules: ``aval``, ``numpy`` and ``lower`` of both, with weight and bias or without.
    """
    vjps = [joint_vjp(joint, i, (0, "out1", "out2", 1)) for i in range(3)]
    define(name, vjps=vjps, joint=joint, num_inputs=3, node_name=node_name, runs_once=True, **rules)
    plain = [joint_vjp(joint, 0, (0, "out1", "out2"))]
    define(f"{name}_plain", vjps=plain, node_name=node_name, missing_edges=2, **rules)


# --- native_layer_norm(x (, weight, bias) | shape, eps) -> normalised, mean, 1/std ---


def _np_norm(x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, shape, eps = rest
    centred, mean, rstd, _ = np_moments(x, _dims(x.ndim, len(shape)), eps)
    out = centred * rstd
    if affine:
        out = out * affine[0] + affine[1]
    return out, mean, rstd


def _lower_norm(b: Any, x: Any, *rest: Any) -> tuple[Any, Any, Any]:
    *affine, shape, eps = rest
    centred, mean, rstd, _ = lower_moments(b, x, _dims(len(x.shape), len(shape)), eps)
    out = b.mul(centred, rstd)
    if affine:
        out = b.add(b.mul(out, affine[0]), affine[1])
    return out, mean, rstd


def _x_rule(c: RuleContext, g: tuple[Any, Any, Any], x: Any, mean: Any, rstd: Any, weight: Any = None) -> Any:
    aval, shape = c.avals[0], c.params[0]
    assert aval is not None
    dims = _dims(aval.ndim, len(shape))
    centred, grad = x - mean, None
    if g[0] is not None:
        out = g[0] if weight is None else g[0] * weight
        normalised = centred * rstd
        grad = rstd * (out - out.mean(dims, True) - normalised * (out * normalised).mean(dims, True))
    return through_moments(grad, centred, rstd, contiguous_dims(aval.shape, dims), g[1:])


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
