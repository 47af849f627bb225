"""Activation functions and gates.

Owns: their public signatures. ``inplace`` writes into the input, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import float_param
from jitgrad.functions import pointwise
from jitgrad.functions.devices import lowered
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import OPS, Op
from jitgrad.state import autocasts

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "silu",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]

_GELU, _SILU, _SOFTPLUS, _ELU, _LEAKY = (OPS[n] for n in ("gelu", "silu", "softplus", "elu", "leaky_relu"))
_RELU, _LOG_SIGMOID, _HARDTANH = OPS["relu"], OPS["log_sigmoid"], OPS["hardtanh"]

# Klambauer et al., "Self-Normalizing Neural Networks", 2017
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _apply(op: Op, inplace: bool, input: Any, *params: Any) -> Any:
    """In place, the Node saves a copy of what is overwritten, if it needs that."""
    return door.apply_inplace(op, (input,), input, *params)[0] if inplace else door.apply(op, input, *params)


def functional_relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0); the derivative at 0 is 0."""
    return door.apply(_RELU, input) if not inplace else input.relu_()


functional_relu.__name__ = functional_relu.__qualname__ = "relu"


def gelu(input: Any, approximate: str = "none") -> Any:
    """x * Phi(x), with the normal distribution function or (``"tanh"``) its approximation."""
    return door.apply(_GELU, input, approximate)


def silu(input: Any, inplace: bool = False) -> Any:
    """x * sigmoid(x)."""
    return _apply(_SILU, inplace, input)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold."""
    return door.apply(_SOFTPLUS, input, float_param(float(beta)), float_param(float(threshold)))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha * (exp(x) - 1) below."""
    return _apply(_ELU, inplace, input, float_param(float(alpha)), 1.0, 1.0)


def selu(input: Any, inplace: bool = False) -> Any:
    """A scaled elu that keeps activations normalised."""
    return _apply(_ELU, inplace, input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)). RuntimeError for alpha 0."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _apply(OPS["celu"], inplace, input, float(alpha), 1.0, 1.0 / float(alpha))


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x above 0, negative_slope * x below."""
    return _apply(_LEAKY, inplace, input, float_param(float(negative_slope)))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x limited to [min_val, max_val]; the derivative at the limits is 0. ValueError for limits in the wrong order."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _apply(_HARDTANH, inplace, input, float_param(min_val), float_param(max_val))


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """relu6(x + 3) / 6."""
    return _apply(OPS["hardsigmoid"], inplace, input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x * relu6(x + 3) / 6."""
    return _apply(OPS["hardswish"], inplace, input)


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return door.apply(_LOG_SIGMOID, input)


def mish(input: Any, inplace: bool = False) -> Any:
    """x * tanh(softplus(x))."""
    return _apply(OPS["mish"], inplace, input)


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (pointwise.abs(input) + 1)


def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    return input - pointwise.tanh(input)


def softmin(input: Any, dim: int, dtype: Any = None) -> Any:
    """softmax(-x)."""
    return door.apply(OPS["_softmax"], -(input if dtype is None else input.to(dtype)), dim)


def glu(input: Any, dim: int = -1) -> Any:
    """First half times the sigmoid of the second half, along ``dim``. RuntimeError for an odd extent."""
    return door.apply(OPS["glu"], input, dim)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x, but 0 from -lambd to lambd."""
    return door.apply(OPS["hardshrink"], input, lambd)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd, and 0 from -lambd to lambd. RuntimeError for a negative lambd."""
    return door.apply(OPS["softshrink"], input, lambd)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x above the threshold, ``value`` elsewhere."""
    return _apply(OPS["threshold"], inplace, input, float_param(threshold), float_param(value))


def prelu(input: Any, weight: Any) -> Any:
    """x above 0, weight * x below.

    Args:
        input: [N, C, *] floats, or of any shape for a single weight.
        weight: [C], or one element; of the same dtype.

    Raises:
        RuntimeError: if the dtypes differ, or the weight does not have C elements.
    """
    if autocasts:
        input, weight = lowered(input, weight)
    if input.dtype is not weight.dtype:
        names = [torch_dtype_name(x.dtype) for x in (input, weight)]
        raise RuntimeError(f"prelu: Type promoting not supported. Got {names[0]} and {names[1]}")
    rank, count = input.ndim, weight.numel()
    if count != 1:
        if not rank:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if rank > 1 else 1
        if channels != count:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and "
                f"channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.ndim != rank:
        weight = weight.reshape(tuple(count if d == 1 else 1 for d in range(rank)))
    return door.apply(OPS["_prelu_kernel"], input, weight)


# --- names of their own for writing into the input, in ``nn.functional`` ---


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place ``elu``."""
    return elu(input, alpha, True)


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place ``celu``."""
    return celu(input, alpha, True)


def selu_(input: Any) -> Any:
    """In-place ``selu``."""
    return selu(input, True)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """In-place ``hardtanh``; limits in the wrong order give the upper one."""
    return _apply(_HARDTANH, True, input, float_param(min_val), float_param(max_val))


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """In-place ``leaky_relu``."""
    return leaky_relu(input, negative_slope, True)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """In-place ``threshold``."""
    return _apply(OPS["threshold"], True, input, float_param(threshold), float_param(value))


WRITING = (elu_, celu_, selu_, hardtanh_, leaky_relu_, threshold_)
