"""Pools of the largest element whose windows lie at random places.

Owns: ``fractional_max_pool2d``, ``fractional_max_pool3d``.
Must not know: modules. Imported late, by ``nn.functional``.

Source: Graham, "Fractional Max-Pooling", 2015: pseudorandom, overlapping windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import bfloat16, int16
from jitgrad.functions.devices import cpu, moved
from jitgrad.functions.from_data import from_array_copy
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.sampling import rand
from jitgrad.functions.windows import each, each_number

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


def _starts(samples: Any, extent: int, count: int, kernel: int) -> Any:
    """[N, C, count]: where the windows of one dimension begin, from a number in [0, 1) each."""
    starts = np.full((*samples.shape, count), extent - kernel, np.int64)
    if count > 1:
        alpha = samples.dtype.type(extent - kernel) / samples.dtype.type(count - 1)
        steps = np.arange(count - 1, dtype=samples.dtype)
        ends = ((steps + samples[..., None]) * alpha).astype(np.int64)
        starts[..., :-1] = ends - (samples * alpha).astype(np.int64)[..., None]
    return starts


def _positions(samples: Any, extents: Any, counts: Any, kernel: Any) -> Any:
    """[N, C, windows, elements of a window]: numbers of elements of the flattened dimensions."""
    dims = len(extents)
    # PyTorch draws for the width first in two dimensions, and in order in three
    order = (1, 0) if dims == 2 else range(dims)
    total: Any = 0
    for axis, (extent, count, size) in enumerate(zip(extents, counts, kernel, strict=True)):
        at = _starts(samples[..., order[axis]], extent, count, size)[..., None] + np.arange(size)
        shape = [1] * (2 * dims)
        shape[axis], shape[dims + axis] = count, size
        total = total * extent + at.reshape(*at.shape[:2], *shape)
    return total.reshape(*total.shape[:2], int(np.prod(counts)), int(np.prod(kernel)))


def _pool(name: str, dims: int, input: Any, kernel_size: Any, size: Any, ratio: Any, samples: Any) -> tuple[Any, Any]:
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(input.shape)}")
    extents = tuple(input.shape[-dims:])
    kernel = each("kernel_size", kernel_size, dims)
    if size is None:
        wanted = [float(n * r) for n, r in zip(extents, each_number("output_ratio", ratio, dims), strict=True)]
        if not all(map(math.isfinite, wanted)):
            raise RuntimeError(f"{name}: output_ratio must be finite, but is {ratio}")
        counts = tuple(map(int, wanted))
    else:
        counts = each("output_size", size, dims)
    batch, channels = (1 if input.ndim == dims + 1 else input.shape[0]), input.shape[-dims - 1]
    if samples is None:
        samples = rand(batch, channels, dims, dtype=input.dtype, device=input.device)
    if tuple(samples.shape) != (batch, channels, dims) or samples.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: expected _random_samples of size {[batch, channels, dims]} and the input's dtype, but got "
            f"{list(samples.shape)} and {samples.dtype}"
        )
    for extent, count, width in zip(extents, counts, kernel, strict=True):
        if width <= 0 or count < 0:
            raise RuntimeError(f"{name}: kernel size {width} and output size {count} must be positive")
        if count + width - 1 > extent:
            raise RuntimeError(f"{name}: pool size {width} too large relative to input extent {extent}")
    drawn = cpu(samples.detach())
    if drawn.dtype is bfloat16:  # which NumPy knows by its bytes only
        drawn = drawn.view(int16)
    places = _positions(drawn.numpy().view(samples.dtype.np), extents, counts, kernel)
    flat = moved(from_array_copy(places.reshape(batch, channels, places.shape[2] * places.shape[3])), input.device)
    seen = input.reshape(batch, channels, math.prod(extents)).gather(2, flat).reshape(*places.shape)
    found, which = seen.max(-1)
    indices = flat.reshape(*places.shape).gather(3, which.unsqueeze(-1)).squeeze(-1)
    shape = (*input.shape[: input.ndim - dims], *counts)
    return found.reshape(shape), indices.reshape(shape)


@float32_in_autocast
def fractional_max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """``fractional_max_pool2d`` with the positions."""
    return _pool("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)


@float32_in_autocast
def fractional_max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """``fractional_max_pool3d`` with the positions."""
    return _pool("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)


@float32_in_autocast
def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest element of windows at random places, as many as are asked for.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: of the windows.
        output_size: (H', W'), or one number for both.
        output_ratio: of the input's extents, instead of ``output_size``.
        return_indices: return positions in H * W too.
        _random_samples: (N, C, 2) numbers in [0, 1) that decide where windows lie; drawn if None.

    Returns:
        (N, C, H', W'), with the positions if they are asked for.

    Raises:
        ValueError: without a size or a ratio.
        RuntimeError: for windows that do not fit.
    """
    both = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return both if return_indices else both[0]


@float32_in_autocast
def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """``fractional_max_pool2d`` of (N, C, D, H, W)."""
    both = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return both if return_indices else both[0]
