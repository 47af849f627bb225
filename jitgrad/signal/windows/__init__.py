"""Windows of signals, under the names of ``torch.signal.windows``.

Owns: their signatures. ``M`` is the number of samples; ``sym=False`` makes them one period of a periodic window.
Must not know: how windows of ``torch`` itself are called.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgrad.functions.cosine_windows import cosine_sum, kaiser_bessel, sampled, triangle
from jitgrad.functions.known_makings import made_again
from jitgrad.layouts import strided
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.tensor_base import TensorBase

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _length(name: str, M: Any) -> int:
    """How many samples; a tensor without dimensions may say it.

    Raises:
        TypeError: no integer.
    """
    if isinstance(M, TensorBase) and not M.ndim:
        M = M.item()
    try:
        return operator.index(M)
    except TypeError as error:
        raise TypeError(f"{name}(): argument 'M' must be int, not {type(M).__name__}") from error


def _number(name: str, what: str, value: Any) -> float:
    """A real number; a tensor without dimensions may be one.

    Raises:
        TypeError: something else.
    """
    if isinstance(value, TensorBase) and not value.ndim:
        value = value.item()
    if not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}(): argument '{what}' must be float, not {type(value).__name__}")
    return float(value)


def _check(name: str, M: Any, dtype: Any, layout: Any = None) -> int:
    if layout is not None and layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    length = _length(name, M)
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if dtype is not None and getattr(dtype, "name", "") not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return length


def _window(
    name: str, shape: Callable[[Any], Any], M: int, sym: bool, dtype: Any, layout: Any, device: Any, grad: bool
) -> Any:
    M = _check(name, M, dtype, layout)
    return sampled(shape, M, not sym, dtype, device, grad)


@made_again
def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A triangle. ValueError for a negative ``M`` or a dtype that is not floating."""
    return _window("bartlett", triangle, M, sym, dtype, layout, device, requires_grad)


@made_again
def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)."""
    return _window("blackman", cosine_sum((0.42, 0.5, 0.08)), M, sym, dtype, layout, device, requires_grad)


@made_again
def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Half a period of the sine."""
    M = _check("cosine", M, dtype, layout)
    total = M + (0 if sym else 1)
    return _by_index(lambda k: np.sin(np.pi * (k + 0.5) / max(total, 1)), M, dtype, device, requires_grad)


@made_again
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """exp(-|k - center| / tau). ValueError for a ``tau`` that is not positive, or a center of a symmetric one."""
    tau = _number("exponential", "tau", tau)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    M = _check("exponential", M, dtype, layout)
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else _number("exponential", "center", center)
    return _by_index(lambda k: np.exp(-np.abs(k - middle) / tau), M, dtype, device, requires_grad)


@made_again
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The bell curve of this standard deviation. ValueError if that is not positive."""
    std = _number("gaussian", "std", std)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    M = _check("gaussian", M, dtype, layout)
    middle = (M if not sym and M > 1 else M - 1) / 2
    return _by_index(lambda k: np.exp(-(((k - middle) / std) ** 2) / 2), M, dtype, device, requires_grad)


def _by_index(values: Callable[[Any], Any], M: int, dtype: Any, device: Any, requires_grad: bool) -> Any:
    """A window whose samples are a function of their number."""
    index = run_quietly(np.arange, M)
    if M == 1:
        return sampled(lambda t: t, 1, False, dtype, device, requires_grad)
    return sampled(lambda t: values(index), M, False, dtype, device, requires_grad)


@made_again
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta). ValueError for a negative ``beta``."""
    beta = _number("kaiser", "beta", beta)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", kaiser_bessel(beta), M, sym, dtype, layout, device, requires_grad)


@made_again
def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """0.54 - 0.46 cos(2 pi t)."""
    return _window("hamming", cosine_sum((0.54, 0.46)), M, sym, dtype, layout, device, requires_grad)


@made_again
def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """0.5 - 0.5 cos(2 pi t)."""
    return _window("hann", cosine_sum((0.5, 0.5)), M, sym, dtype, layout, device, requires_grad)


@made_again
def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The sum of (-1)^k a_k cos(2 pi k t).

    Raises:
        TypeError: the coefficients are no list.
        ValueError: there are none.
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = tuple(_number("general_cosine", "a", one) for one in a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", cosine_sum(coefficients), M, sym, dtype, layout, device, requires_grad)


@made_again
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi t)."""
    alpha = _number("general_hamming", "alpha", alpha)
    return _window("general_hamming", cosine_sum((alpha, 1 - alpha)), M, sym, dtype, layout, device, requires_grad)


@made_again
def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Four cosines, with side lobes that fall fast."""
    shape = cosine_sum((0.3635819, 0.4891775, 0.1365995, 0.0106411))
    return _window("nuttall", shape, M, sym, dtype, layout, device, requires_grad)
