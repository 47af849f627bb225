"""Adaptive pooling: windows that divide a dimension into as many parts as are asked for.

Owns: ``adaptive_avg_pool1d`` and ``adaptive_max_pool1d`` to their three-dimensional forms.
Must not know: modules.

Part i of n of an extent E reads [floor(i E / n), ceil((i + 1) E / n)): see Note [Ranges].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import WHOLE, int64
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.windows import is_whole
from jitgrad.ops.shapes import refuse, torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.ops.windows.window_ranges import parts

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
]

_MAX = {dims: OPS[f"adaptive_max_pool{dims}d"] for dims in (1, 2, 3)}
_AVG = {1: OPS["avg_pool1d"], 2: OPS["adaptive_avg_pool2d"], 3: OPS["adaptive_avg_pool3d"]}


def _sizes(name: str, x: Any, output_size: Any, dims: int) -> tuple[int, ...]:
    """The new extents; None keeps one."""
    extents = x._aval.shape
    is_usual = len(extents) in (dims + 1, dims + 2) and 0 not in extents[-dims:]
    if is_usual and type(output_size) is int and output_size >= 0:
        return (output_size,) * dims
    given = tuple(output_size) if isinstance(output_size, list | tuple) else (output_size,) * dims
    for one in given:
        if one is not None and not is_whole(one):
            raise TypeError(f"{name}(): argument 'output_size' must be tuple of ints, not {type(one).__name__}")
    if len(given) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims} numbers, but got {list(given)}")
    if x.ndim not in (dims + 1, dims + 2):
        # PyTorch looks at a list of extents first, and at one number later
        is_list = isinstance(output_size, list | tuple)
        error = ValueError if is_list and dims > 1 and len(given) >= x.ndim else RuntimeError
        raise error(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(x.shape)}")
    if not all(x.shape[-dims:]):
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(x.shape)}"
        )
    found = tuple(old if new is None else int(new) for old, new in zip(x.shape[-dims:], given, strict=True))
    if min(found) < 0:
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0")
    return found


def adaptive_avg_pool(x: Any, sizes: tuple[int, ...]) -> Any:
    """Means over parts of the last dimensions, as many as there are ``sizes``; always memory of its own."""
    if not x.dtype.is_inexact and tuple(sizes) != tuple(x.shape[-len(sizes) :]):
        name = "mean" if set(sizes) == {1} else f"adaptive_avg_pool{len(sizes)}d"
        kind = RuntimeError if set(sizes) == {1} else NotImplementedError
        raise kind(f"\"{name}\" not implemented for '{torch_dtype_name(x.dtype)}'")
    if tuple(sizes) == tuple(x.shape[x.ndim - len(sizes) :]):
        return x.clone()
    if set(sizes) == {1}:
        return x.mean(tuple(range(-len(sizes), 0)), keepdim=True)
    return door.apply(_AVG[len(sizes)], x, *_parts_of(x._aval.shape[x.ndim - len(sizes) :], sizes))


@lru_cache(maxsize=1024)
def _parts_of(extents: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """(The parts of each dimension, what their sums are divided by), as ``ops.windows.pooling`` takes them."""
    windows = tuple(map(parts, extents, sizes))
    if all(w.is_whole for w in windows):
        return windows, math.prod(w.taps for w in windows)
    return windows, tuple((0, extent) for extent in extents)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Means of ``output_size`` parts of (N, C, L) or (C, L)."""
    (size,) = _sizes("adaptive_avg_pool1d", input, output_size, 1)
    return adaptive_avg_pool(input.unsqueeze(-2), (1, size)).squeeze(-2)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of parts of (N, C, H, W) or (C, H, W); a size of None keeps that extent."""
    return adaptive_avg_pool(input, _sizes("adaptive_avg_pool2d", input, output_size, 2))


@float32_in_autocast
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means of parts of (N, C, D, H, W) or (C, D, H, W); a size of None keeps that extent."""
    return adaptive_avg_pool(input, _sizes("adaptive_avg_pool3d", input, output_size, 3))


def _adaptive_max(name: str, x: Any, output_size: Any, dims: int) -> tuple[Any, Any]:
    sizes = _sizes(name, x, output_size, dims)
    refuse(f"adaptive_max_pool{max(dims, 2)}d", x, WHOLE)
    if 0 in sizes:
        nothing = x.narrow(-1, 0, 0).reshape(*x.shape[:-dims], *sizes)
        return nothing, nothing.detach().to(int64)
    return door.apply(_MAX[dims], x, _parts_of(x._aval.shape[-dims:], sizes)[0])


def adaptive_max_pool1d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> tuple[Any, Any]:
    """The largest element of each of ``output_size`` parts of (N, C, L) or (C, L), and where it is."""
    return _adaptive_max("adaptive_max_pool1d", input, output_size, 1)


def adaptive_max_pool2d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> tuple[Any, Any]:
    """The largest element of each part of (N, C, H, W) or (C, H, W), and its position in H * W."""
    return _adaptive_max("adaptive_max_pool2d", input, output_size, 2)


@float32_in_autocast
def adaptive_max_pool3d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> tuple[Any, Any]:
    """The largest element of each part of (N, C, D, H, W) or (C, D, H, W), and its position in D * H * W."""
    return _adaptive_max("adaptive_max_pool3d", input, output_size, 3)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of ``output_size`` parts of (N, C, L) or (C, L); with positions if asked for."""
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each part of (N, C, H, W) or (C, H, W); with positions if asked for."""
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each part of (N, C, D, H, W) or (C, D, H, W); with positions if asked for."""
    found = adaptive_max_pool3d_with_indices(input, output_size)
    return found if return_indices else found[0]
