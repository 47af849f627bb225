"""Starting values: PyTorch's numbers from PyTorch's seed.

Owns: fan, gain, and the fillers. Every function fills in place, outside the graph, and returns its tensor.
Must not know: modules.

Sources: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010 (xavier);
He et al., "Delving deep into rectifiers", 2015 (kaiming); Saxe et al., 2013 (orthogonal); Martens, "Deep learning via
Hessian-free optimization", 2010 (sparse).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.functions import from_numpy
from jitgrad.functions.drawing import draw_array, number_text
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **{f"conv{d}d": 1.0 for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": 1.0 for d in (1, 2, 3)},
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}
_RARE = 0.3
"""Where a normal number falls inside the bounds less often than this, uniform ones are drawn and rejected instead."""


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity; ``param`` is leaky_relu's slope. ValueError for an unknown name."""
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        tensor.copy_(from_numpy(np.ascontiguousarray(values, dtype=tensor.dtype.np)))
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs reach an output, and how many outputs an input reaches; ValueError below two dimensions.

    It has PyTorch's name: layers that people write themselves call it.
    """
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that ``mode``, "fan_in" or "fan_out", names; ValueError for another mode."""
    modes = ("fan_in", "fan_out")
    mode = mode.lower()
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal, drawn again wherever it falls outside [a, b]. Warns where [a, b] is more than two deviations away."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    draw = _Draw(tensor, generator)
    return _fill(tensor, _inside(draw, mean, std, a, b) if inside > _RARE else _rejected(draw, mean, std, a, b))


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


class _Draw:
    """Arrays of random numbers like a tensor."""

    def __init__(self, tensor: Tensor, generator: Any) -> None:
        self.dtype = tensor.dtype
        self._place = (tuple(tensor.shape), tensor.dtype, generator)

    def normal(self, mean: float, std: float) -> Any:
        return draw_array(*self._place, "normal", float(mean), float(std))

    def uniform(self, low: float, high: float) -> Any:
        if not low <= high or not math.isfinite(low - high):
            raise RuntimeError(
                "uniform_ expects to return a [from, to) range, but found "
                f"from={number_text(low)} > to={number_text(high)}"
            )
        return draw_array(*self._place, "uniform", float(low), float(high))


def _inside(draw: _Draw, mean: float, std: float, a: float, b: float) -> Any:
    """Each round draws as many numbers as there are, and takes those that are missing."""
    low, high = draw.dtype.np.type(a), draw.dtype.np.type(b)
    values = draw.normal(mean, std)
    while (outside := (values < low) | (values > high)).any():
        values = np.where(outside, draw.normal(mean, std), values)
    return values


def _rejected(draw: _Draw, mean: float, std: float, a: float, b: float) -> Any:
    """Uniform numbers in [a, b), accepted by the density, relative to its largest value there."""
    kind = draw.dtype.np.type
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(values: Any) -> Any:  # NaN is not: it would have no end
        height = ((values - kind(mean)) / kind(std)) ** 2 * kind(-0.5) - kind(log_peak)
        with np.errstate(divide="ignore"):
            return np.log(draw.uniform(0.0, 1.0)) > height

    values = draw.uniform(a, b)
    is_missing = refused(values)
    while is_missing.any():
        candidates = draw.uniform(a, b)
        values = np.where(is_missing, candidates, values)
        is_missing &= refused(candidates)
    return values


def _check_number(name: str, what: str, value: Any) -> None:
    is_number = isinstance(value, int | float | complex | np.generic) or getattr(value, "ndim", 1) == 0
    if not is_number:
        raise TypeError(f"{name}(): argument '{what}' must be Number, not {type(value).__name__}")


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere. TypeError for no number."""
    _check_number("constant_", "val", val)
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


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that hands on its channels. ValueError for other weights than (out, in, ..) of 3 to 5."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    values = np.zeros(tuple(tensor.shape))
    per_group, middle = tensor.shape[0] // groups, tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            values[(group * per_group + channel, channel, *middle)] = 1.0
    return _fill(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform with standard deviation gain / sqrt(fan). Warns of a tensor without elements."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan). Warns of a tensor without elements."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix, trailing dimensions flattened. ValueError below two dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    _check_number("orthogonal_", "gain", gain)
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    flat = draw_array((rows, tensor.numel() // rows), tensor.dtype, generator, "normal", 0.0, 1.0)
    wide = flat.shape[0] < flat.shape[1]
    q, r = np.linalg.qr(flat.T if wide else flat)
    # a QR with a positive diagonal of r is unique, which makes q uniformly distributed
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, gain * (q.T if wide else q).reshape(tuple(tensor.shape)))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers; in each column, the fraction ``sparsity`` of them is zero. ValueError for other than a matrix.

    The zeros' places come from the default generator, as in PyTorch.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    _check_number("normal_", "std", std)
    rows, columns = tensor.shape
    values = draw_array((rows, columns), tensor.dtype, generator, "normal", 0.0, float(std))
    for column in range(columns):
        order = draw_array((rows,), int64, None, "permutation")
        values[order[: math.ceil(sparsity * rows)], column] = 0.0
    return _fill(tensor, values)


def _old_name(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The name without the underscore, which PyTorch had first; it warns."""
    new = fill.__name__
    old = new.removesuffix("_")

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return fill(*args, **kwargs)

    deprecated.__name__, deprecated.__doc__ = old, f"Deprecated name of ``{new}``."
    return deprecated


uniform = _old_name(uniform_)
normal = _old_name(normal_)
constant = _old_name(constant_)
eye = _old_name(eye_)
dirac = _old_name(dirac_)
xavier_uniform = _old_name(xavier_uniform_)
xavier_normal = _old_name(xavier_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
kaiming_normal = _old_name(kaiming_normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)
