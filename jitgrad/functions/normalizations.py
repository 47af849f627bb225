"""Normalisation over groups of channels, single examples, and neighbouring channels.

Owns: ``group_norm``, ``instance_norm``, ``local_response_norm``.
Must not know: modules. Imported late, by ``nn.functional``; ``layer_norm`` and ``batch_norm`` are in ``layers``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, WHOLE, float32, int64
from jitgrad.functions.joining import pad
from jitgrad.functions.layers import batch_norm
from jitgrad.ops.layers.normalization import check_channels, check_norm_dtypes
from jitgrad.ops.shapes import numel, refuse
from jitgrad.ops.table import OPS

__all__ = ["group_norm", "instance_norm", "local_response_norm"]

_BATCH_NORM, _BATCH_NORM_PLAIN = OPS["native_batch_norm"], OPS["native_batch_norm_plain"]
_GROUP_NORM, _GROUP_NORM_PLAIN = OPS["native_group_norm"], OPS["native_group_norm_plain"]


def _affine(out: Any, weight: Any, bias: Any) -> Any:
    per_channel = (1, -1, *[1] * (out.ndim - 2))
    if weight is not None:
        out = out * weight.reshape(per_channel)
    return out if bias is None else out + bias.reshape(per_channel)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Zero mean and unit variance of each example's groups of channels, then an affine map per channel.

    Args:
        input: (N, C, *).
        num_groups: C is divided into so many.
        weight, bias: (C).
        eps: added to the variance.

    Raises:
        RuntimeError: for shapes that do not fit.
        ValueError: for one element per group.

    Source: Wu and He, "Group Normalization", 2018.
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    shape = tuple(input.shape)
    batch, channels = shape[:2]
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if batch * channels // num_groups * numel(shape[2:]) == 1:
        sizes = [batch * channels // num_groups, num_groups, *shape[2:]]
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {sizes}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(given.shape)} and input of shape {list(shape)}"
            )
    check_norm_dtypes("GroupNormKernelImpl", input._aval, *(None if x is None else x._aval for x in (weight, bias)))
    if weight is not None and bias is not None and weight.dtype is input.dtype and not input.dtype.is_half:
        return door.apply(_GROUP_NORM, input, weight, bias, num_groups, eps)[0]
    out = _affine(door.apply(_GROUP_NORM_PLAIN, input, num_groups, eps)[0], weight, bias)
    return out if out.dtype is input.dtype else out.to(input.dtype)


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Zero mean and unit variance of each channel of each example, then an affine map per channel.

    Args:
        input: (N, C, *).
        running_mean, running_var: (C), moved in place towards the batch's mean statistics, or used.
        weight, bias: (C).
        use_input_stats: normalise by the input's statistics, not by the running ones.
        momentum: how far the running ones move.
        eps: added to the variance.

    Raises:
        ValueError: for one element per channel.

    Source: Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.
    """
    refuse("batch_norm", input, COMPLEX_DTYPES)
    check_norm_dtypes("batch_norm", input._aval)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    given = (weight, bias, running_mean, running_var)
    check_norm_dtypes("batch_norm", input._aval, *(None if x is None else x._aval for x in given))
    shape = tuple(input.shape)
    count = numel(shape[2:])
    if len(shape) < 2:
        raise ValueError(f"instance_norm: Expected more than 1 spatial element when training, got input {list(shape)}")
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    for name, one in zip(("weight", "bias", "running_mean", "running_var"), given, strict=True):
        check_channels(name, one, shape[1])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {list(shape)}")
    if not input.numel():
        return _affine(input.clone(), weight, bias)
    return _by_channels(input, running_mean, running_var, weight, bias, momentum, eps)


def _by_channels(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> Any:
    """``instance_norm`` by the input's statistics: a batch norm of one example, whose channels are all examples'.

    A half's sums are those of ``float32``; parameters are repeated for each example.
    """
    batch, channels, *extents = input.shape
    x = input.to(float32) if input.dtype.is_half else input
    rows = x.reshape((1, batch * channels, *extents))
    if weight is not None and bias is not None:
        affine = [p.to(x.dtype).repeat(batch) for p in (weight, bias)]
        out, mean, _, variance = door.apply(_BATCH_NORM, rows, *affine, eps)
        out = out.reshape(input.shape)
    else:
        out, mean, _, variance = door.apply(_BATCH_NORM_PLAIN, rows, eps)
        out = _affine(out.reshape(input.shape), None if weight is None else weight.clone(), bias)
    count = numel(extents)
    for running, found, factor in ((running_mean, mean, 1.0), (running_var, variance, count / (count - 1))):
        if running is not None:
            each = found.detach().reshape((batch, channels)).mean(0)
            running.mul_(1 - momentum).add_(each, alpha=momentum * factor)
    return out if out.dtype is input.dtype else out.to(input.dtype)


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Divide by (k + alpha * mean of the squares of ``size`` neighbouring channels)^beta.

    Args:
        input: (N, C, *), with at least three dimensions.
        size: how many channels, zeros outside; of an even number one more lies before than after.
        alpha, beta, k: see above.

    Raises:
        ValueError: for fewer dimensions.

    Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012.
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    refuse("avg_pool2d", input, (*(d for d in WHOLE if d is not int64), *COMPLEX_DTYPES))
    around = [0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2]
    squares = pad(input * input, around)
    channels = input.shape[1]
    total = squares.narrow(1, 0, channels)
    for first in range(1, size):
        total = total + squares.narrow(1, first, channels)
    return input / (total * (alpha / size) + k) ** beta
