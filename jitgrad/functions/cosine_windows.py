"""Windows of signals: what ``torch`` has of them, and what ``torch.signal.windows`` is made of.

Owns: bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window.
Must not know: the signatures of ``jitgrad.signal.windows``. Imported late.

Source: F. J. Harris (1978), "On the use of windows for harmonic analysis with the discrete Fourier transform".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import as_dtype, get_default_dtype
from jitgrad.functions.from_data import tensor
from jitgrad.functions.known_makings import made_again
from jitgrad.runtime.eager.quiet import run_quietly

__all__ = [
    "bartlett_window",
    "blackman_window",
    "cosine_sum",
    "hamming_window",
    "hann_window",
    "kaiser_bessel",
    "kaiser_window",
    "sampled",
    "triangle",
]


def cosine_sum(coefficients: Sequence[float]) -> Callable[[Any], Any]:
    """A window by its phase t in [0, 1]: the sum of (-1)^k a_k cos(2 pi k t)."""
    return lambda t: sum((-1) ** k * a * np.cos(2 * np.pi * k * t) for k, a in enumerate(coefficients))


def triangle(t: Any) -> Any:
    """Bartlett's window by its phase."""
    return 1 - np.abs(2 * t - 1)


def kaiser_bessel(beta: float) -> Callable[[Any], Any]:
    """Kaiser's window by its phase."""
    return lambda t: np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)


def sampled(
    shape: Callable[[Any], Any], count: int, is_periodic: bool, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """``count`` samples of a window; a periodic one would have its first value again as the next."""
    if type(requires_grad) is not bool:
        raise TypeError(f"empty(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
    steps = count if is_periodic else count - 1
    phases = run_quietly(np.arange, count) / max(steps, 1)
    values = np.ones(1) if count == 1 else shape(phases) * np.ones(count)
    return tensor(
        values.astype((dtype or get_default_dtype()).np), dtype=dtype or get_default_dtype(), device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def _check(name: str, count: int, dtype: Any) -> None:
    if dtype is not None and not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if count < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={count}")


def _made(name: str, shape: Any, count: int, is_periodic: bool, options: dict[str, Any]) -> Any:
    dtype = as_dtype(options.get("dtype"))
    _check(name, count, dtype)
    return sampled(shape, count, is_periodic, dtype, options.get("device"), options.get("requires_grad", False))


@made_again
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """A triangle. RuntimeError for a negative length or an integer dtype."""
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("bartlett_window", triangle, window_length, periodic, options)


@made_again
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)."""
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("blackman_window", cosine_sum((0.42, 0.5, 0.08)), window_length, periodic, options)


@made_again
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """alpha - beta cos(2 pi t)."""
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("hamming_window", cosine_sum((alpha, beta)), window_length, periodic, options)


@made_again
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """0.5 - 0.5 cos(2 pi t)."""
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("hann_window", cosine_sum((0.5, 0.5)), window_length, periodic, options)


@made_again
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta)."""
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("kaiser_window", kaiser_bessel(beta), window_length, periodic, options)


