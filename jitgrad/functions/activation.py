"""Activation functions and gates.

Owns: their public signatures. ``inplace`` writes into the input, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.functions import pointwise
from jitgrad.ops.table import OPS, Op

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu6",
    "selu",
    "silu",
    "softmin",
    "softplus",
    "softsign",
    "tanhshrink",
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
    return door.apply(_SOFTPLUS, input, float(beta), float(threshold))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha * (exp(x) - 1) below."""
    return _apply(_ELU, inplace, input, float(alpha), 1.0, 1.0)


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
    return _apply(_LEAKY, inplace, input, float(negative_slope))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x limited to [min_val, max_val]; the derivative at the limits is 0. ValueError for limits in the wrong order."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _apply(_HARDTANH, inplace, input, min_val, max_val)


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
