"""Starting values, in PyTorch's distributions.

Owns: fan, gain, and the fillers. Every function fills in place, outside the graph, and returns its tensor.
Must not know: modules.

Sources: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010 (xavier);
He et al., "Delving deep into rectifiers", 2015 (kaiming); Saxe et al., 2013 (orthogonal).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.functions import from_numpy
from jitgrad.generator import stream
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity; ``param`` is leaky_relu's slope. ValueError for an unknown name."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        tensor.copy_(from_numpy(np.ascontiguousarray(values, dtype=tensor.dtype.np)))
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform in [a, b)."""
    return _fill(tensor, stream(lambda g: g.uniform(a, b, tensor.shape)))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal."""
    return _fill(tensor, stream(lambda g: g.normal(mean, std, tensor.shape)))


def _normals(count: int, mean: float, std: float) -> Any:
    return stream(lambda g: g.normal(mean, std, count))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normal, drawn again wherever it falls outside [a, b]."""
    values = np.asarray(stream(lambda g: g.normal(mean, std, tensor.shape)))
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = _normals(int(outside.sum()), mean, std)
        outside = (values < a) | (values > b)
    return _fill(tensor, values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _fill(tensor, np.full(tuple(tensor.shape), val))


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity. ValueError unless the tensor has two dimensions."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _fill(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[modes.index(mode)])


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform with standard deviation gain / sqrt(fan)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with standard deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """A (semi-)orthogonal matrix, trailing dimensions flattened. ValueError below two dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    rows = tensor.shape[0]
    flat = stream(lambda g: g.standard_normal((rows, tensor.numel() // rows)))
    wide = flat.shape[0] < flat.shape[1]
    q, r = np.linalg.qr(flat.T if wide else flat)
    # a QR with a positive diagonal of r is unique, which makes q uniformly distributed
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, gain * (q.T if wide else q).reshape(tensor.shape))
