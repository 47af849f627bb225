"""Layers that draw while training: the dropout family, ``rrelu``, ``gumbel_softmax``.

Owns: their noise, which the host draws and scales as PyTorch does, and their signatures.

Sources: Hinton et al., "Improving neural networks by preventing co-adaptation of feature detectors", 2012; Tompson et
al., "Efficient object localization using convolutional networks", 2015 (channels); Klambauer et al.,
"Self-normalizing neural networks", 2017 (alpha); Jang et al., "Categorical reparameterization with Gumbel-softmax",
2017; Xu et al., "Empirical evaluation of rectified activations in convolutional network", 2015 (rrelu).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from jitgrad.dtypes import DType, float16
from jitgrad.functions.activation import leaky_relu
from jitgrad.functions.creation import zeros_like
from jitgrad.functions.devices import cpu, placed
from jitgrad.functions.drawing import fresh_like, generator_or_default, make
from jitgrad.functions.from_data import from_array_copy
from jitgrad.functions.pointwise import log
from jitgrad.functions.reduction import max, softmax
from jitgrad.functions.scattering import scatter
from jitgrad.functions.views import squeeze, unsqueeze
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.tensor_base import TensorBase

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gumbel_softmax",
    "rrelu",
]

_ALPHA = 1.7580993408473766
"""What alpha dropout puts in place of what it drops: minus the limit of ``selu``."""


def _check_p(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _is_off(input: Any, p: float, training: bool) -> bool:
    """Whether the input stays as it is. RuntimeError of integers, which cannot be scaled, TypeError of no tensor."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"dropout(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if p == 0.0 or not training or not input.numel():
        return True
    if not input.dtype.is_inexact:
        name = torch_dtype_name(input.dtype)
        raise RuntimeError(f"dropout: result type Float can't be cast to the desired output type {name}")
    return False


def _times(input: Any, noise: Any, inplace: bool) -> Any:
    return input.mul_(noise) if inplace else input * noise


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability ``p`` and scale the others by 1 / (1 - p); nothing outside training.

    The noise is drawn from the default generator (``manual_seed``) at every call, also of a compiled step.

    Raises:
        ValueError: ``p`` is no probability.
    """
    _check_p(p)
    if _is_off(input, p, training):
        return input
    if p == 1.0:
        return _times(input, zeros_like(input), inplace)
    return _times(input, fresh_like(input, "dropout", p), inplace)


def _feature_noise(input: Any, distribution: str, p: float) -> Any:
    """Noise for whole channels: (N, C, 1, ..)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:2], *[1] * (input.ndim - 2))
    source = generator_or_default("dropout", None)
    return make(shape, input.dtype, input.device, False, source, distribution, p)


def _feature_dropout(input: Any, p: float, training: bool, inplace: bool) -> Any:
    if _is_off(input, p, training):
        return input
    if p == 1.0:
        return _times(input, zeros_like(input), inplace)
    return _times(input, _feature_noise(input, "dropout", p), inplace)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, L) or (C, L) with probability ``p``, scale the others by 1 / (1 - p).

    Raises:
        ValueError: ``p`` is no probability.
        RuntimeError: an input of other dimensions.
    """
    _check_p(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return _in_batches(input, p, training, inplace, input.ndim == 3)


def _in_batches(input: Any, p: float, training: bool, inplace: bool, is_batch: bool) -> Any:
    """Channels of a batch, or of one example."""
    if is_batch:
        return _feature_dropout(input, p, training, inplace)
    if inplace:
        return _feature_dropout(input.unsqueeze_(0), p, training, inplace).squeeze_(0)
    return squeeze(_feature_dropout(unsqueeze(input, 0), p, training, inplace), 0)


def _warn_dimensions(name: str, dims: int, expected: tuple[int, int]) -> None:
    if dims in expected:
        return
    warnings.warn(
        f"{name}: Received a {dims}-D input to {name}, which is deprecated and will result in an error in a future "
        f"release. To retain the behavior and silence this warning, please use dropout instead. Note that {name} "
        f"exists to provide channel-wise dropout on inputs with {expected[0] - 1} spatial dimensions, a channel "
        f"dimension, and an optional batch dimension (i.e. {expected[0]}D or {expected[1]}D inputs).",
        stacklevel=4,
    )


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, H, W) or (N, C, L) with probability ``p``, scale the others by 1 / (1 - p).

    Warns of an input of other dimensions, and of three, which PyTorch means to take for (C, H, W) one day.

    Raises:
        ValueError: ``p`` is no probability.
    """
    _check_p(p)
    _warn_dimensions("dropout2d", input.ndim, (3, 4))
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return _feature_dropout(input, p, training, inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability ``p``, scale the others by 1 / (1 - p).

    Warns of an input of other dimensions.

    Raises:
        ValueError: ``p`` is no probability.
    """
    _check_p(p)
    _warn_dimensions("dropout3d", input.ndim, (4, 5))
    return _in_batches(input, p, training, inplace, input.ndim == 5)


# --- alpha dropout ---


def _alpha(input: Any, p: float, inplace: bool, kept: Any) -> Any:
    """``kept`` is 1 where the input stays, else 0. Fusing these operations rounds nothing differently but the last."""
    a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1.0) * (1.0 - p))
    offset = (kept - 1) * (_ALPHA * a) + _ALPHA * a * p
    out = _times(input, kept * a, inplace)
    return out.add_(offset) if inplace else out + offset


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Set elements to ``selu``'s limit with probability ``p``, then scale and shift so that a standard normal input
    keeps its mean and variance; nothing outside training.

    Raises:
        ValueError: ``p`` is no probability.
    """  # fmt: skip
    _check_p(p)
    if _is_off(input, p, training):
        return input
    if p == 1.0:
        return _times(input, zeros_like(input), inplace)
    return _alpha(input, p, inplace, fresh_like(input, "bernoulli", 1.0 - p))


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """``alpha_dropout`` of whole channels of (N, C, ..).

    Raises:
        ValueError: ``p`` is no probability.
        RuntimeError: an input of fewer than two dimensions.
    """
    _check_p(p)
    if _is_off(input, p, training):
        return input
    if p == 1.0:
        return _times(input, zeros_like(input), inplace)
    return _alpha(input, p, inplace, _feature_noise(input, "bernoulli", 1.0 - p))


# --- activations ---


def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """``leaky_relu`` with a slope that is drawn from [lower, upper) for each element up to 0, while training.

    Outside training the slope is the mean of the two.

    Raises:
        RuntimeError: ``lower`` is above ``upper``.
    """
    if not lower <= upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if not input.dtype.is_floating_point or input.dtype is float16:
        raise NotImplementedError(
            f"\"rrelu_with_noise_out_cpu\" not implemented for '{torch_dtype_name(input.dtype)}'"
        )
    values = cpu(input.detach())._ndarray()
    return _times(input, placed(from_array_copy(_slopes(values, input.dtype, lower, upper)), input.device), inplace)


def rrelu_(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """In-place ``rrelu``."""
    return rrelu(input, lower, upper, training, True)


def _slopes(values: Any, dtype: DType, lower: float, upper: float) -> Any:
    """1 for positive elements, a draw for each of the others."""
    low, high = float(dtype.np.type(lower)), float(dtype.np.type(upper))
    slopes = np.ones(values.shape, dtype.np)
    is_drawn = values <= 0
    numbers = generator_or_default("rrelu", None).fractions(int(is_drawn.sum()), True)
    slopes[is_drawn] = numbers * (high - low) + low
    return slopes


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A sample of the Gumbel-softmax distribution.

    Args:
        logits: (.., classes): logarithms of probabilities, up to a constant.
        tau: the temperature.
        hard: samples are one-hot, with the gradient of the soft ones.
        eps: kept because PyTorch keeps it; has no effect.
        dim: of the classes.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    source = generator_or_default("gumbel_softmax", None)
    waits = make(tuple(logits.shape), logits.dtype, logits.device, False, source, "exponential", 1.0)
    soft = softmax((logits - log(waits)) / tau, dim)
    if not hard:
        return soft
    index = max(soft, dim, True)[1]
    return scatter(zeros_like(logits), dim, index, 1.0) - soft.detach() + soft
