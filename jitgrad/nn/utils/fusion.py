"""A batch normalisation in evaluation mode as part of the layer before it.

Owns: ``fuse_conv_bn_eval``, ``fuse_linear_bn_eval`` and the parameters they compute.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def _copy_to_fuse(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A copy of a convolution that also does what the batch normalisation after it does.

    Args:
        conv: in evaluation mode.
        bn: likewise; it has running statistics.
        transpose: the convolution is transposed.

    Raises:
        AssertionError: for a module that is training, or has no statistics.
    """
    made = _copy_to_fuse(conv, bn)
    made.weight, made.bias = fuse_conv_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return made


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the convolution that ``fuse_conv_bn_eval`` makes."""
    dims = [1] * (conv_w.ndim - 2)
    shape = [1, -1, *dims] if transpose else [-1, 1, *dims]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A copy of a linear layer that also does what the batch normalisation after it does.

    Raises:
        AssertionError: for a module that is training or has no statistics, and for features that do not fit.
    """
    features = linear.out_features  # type: ignore[attr-defined]
    made = _copy_to_fuse(linear, bn)
    if bn.num_features not in (features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={features} and bn.num_features={bn.num_features}"
        )
    made.weight, made.bias = fuse_linear_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return made


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the layer that ``fuse_linear_bn_eval`` makes."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(
    weight: Any, bias: Any, mean: Any, variance: Any, eps: float, scale: Any, shift: Any, shape: list[int]
) -> tuple[Parameter, Parameter]:
    factor = (variance + eps).rsqrt()
    if scale is not None:
        factor = factor * scale
    moved = (-mean if bias is None else bias - mean) * factor
    moved = moved if shift is None else moved + shift
    dtype = weight.dtype if bias is None else bias.dtype
    is_learned = bias is not None and bias.requires_grad
    fused = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
    return Parameter(fused, weight.requires_grad), Parameter(moved.to(dtype=dtype), is_learned)
