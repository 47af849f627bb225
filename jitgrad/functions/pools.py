"""Pooling in one to three dimensions, with every option; its inverse.

Owns: ``max_pool1d``, ``max_pool3d``, ``avg_pool1d``, ``avg_pool3d``, ``lp_pool1d``, ``max_unpool1d`` and their forms
of more dimensions. Must not know: modules, where windows lie.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, WHOLE, int64
from jitgrad.functions.layers import max_pool2d
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.pointwise import relu
from jitgrad.functions.pool_windows import avg_pool_over, max_pool_over
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.windows import each
from jitgrad.ops.shapes import refuse, torch_dtype_name
from jitgrad.ops.table import OPS

__all__ = [
    "avg_pool1d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


_UNPOOLS = {1: OPS["max_unpool2d"], 2: OPS["max_unpool2d"], 3: OPS["max_unpool3d"]}


# --- max ---


def max_pool1d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """The largest element of each window of (N, C, L) or (C, L), and where it is."""
    return max_pool_over("max_pool1d", input, 1, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L) or (C, L); with positions if asked for.

    Args:
        input: see above.
        kernel_size, stride, padding, dilation: of the windows; the stride is the kernel's size if None.
        ceil_mode: windows that begin inside count, though they end outside.
        return_indices: return positions too.

    Raises:
        RuntimeError: for another rank, or windows that do not fit.
    """
    found = max_pool_over("max_pool1d", input, 1, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """``max_pool2d`` with the positions."""
    found: tuple[Any, Any] = max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return found


@float32_in_autocast
def max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W), and its position in D * H * W."""
    return max_pool_over("max_pool3d", input, 3, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); options as ``max_pool1d``."""
    found = max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


# --- average ---


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (N, C, L) or (C, L).

    Args:
        input: see above.
        kernel_size, stride, padding: of the windows; the stride is the kernel's size if None.
        ceil_mode: windows that begin inside count, though they end outside.
        count_include_pad: the zeros of the padding count as elements.

    Raises:
        RuntimeError: for another rank, or windows that do not fit.
    """
    return avg_pool_over("avg_pool1d", input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


@takes_out
@float32_in_autocast
def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W); ``divisor_override`` divides the sum instead."""
    return avg_pool_over(
        "avg_pool3d", input, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


# --- power means ---


def _lp_pool(name: str, x: Any, dims: int, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
    if not norm_type:
        raise ZeroDivisionError(f"{name}: norm_type must not be 0")
    if math.isinf(norm_type):
        sign = 1 if norm_type > 0 else -1
        found = max_pool_over(name, x.abs() * sign, dims, kernel_size, stride, 0, 1, ceil_mode)[0]
        return found * sign
    means = avg_pool_over(name, x**norm_type, dims, kernel_size, stride, 0, ceil_mode)
    count = math.prod(each("kernel_size", kernel_size, dims))
    return (means.sign() * relu(means.abs()) * count) ** (1.0 / norm_type)


def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """(sum of x^p)^(1/p) of each window of (N, C, L) or (C, L), with p the norm's type; the maximum for infinity."""
    return _lp_pool("lp_pool1d", input, 1, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """``lp_pool1d`` of windows of (N, C, H, W) or (C, H, W)."""
    return _lp_pool("lp_pool2d", input, 2, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """``lp_pool1d`` of windows of (N, C, D, H, W) or (C, D, H, W)."""
    return _lp_pool("lp_pool3d", input, 3, norm_type, kernel_size, stride, ceil_mode)


# --- the inverse of max ---


def _unpool(x: Any, indices: Any, dims: int, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    name = f"max_unpool{dims}d"
    refuse(f"max_unpool{max(dims, 2)}d", x, (*WHOLE, *COMPLEX_DTYPES))
    if x.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: expected input of {dims + 1} or {dims + 2} dimensions, but got {list(x.shape)}")
    if indices.dtype is not int64:
        raise RuntimeError(f"{name}: indices should be of type int64, but are {torch_dtype_name(indices.dtype)}")
    if 0 in x.shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(x.shape)}"
        )
    kernel, around = each(f"{name}: kernel_size", kernel_size, dims), each(f"{name}: padding", padding, dims)
    step = kernel if stride is None else each(f"{name}: stride", stride, dims)
    if x.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(x.shape)}), but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    sizes = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[-dims:], step, kernel, around, strict=True))
    if output_size is not None:
        if not isinstance(output_size, tuple | list):
            raise TypeError(f"{name}: output_size must be a list of ints, not {type(output_size).__name__}")
        sizes = _asked_sizes(sizes, step, tuple(output_size), dims)
    if min(sizes) < 0:
        raise ValueError(f"{name}: output_size must not be negative, but is {list(sizes)}")
    return door.apply(_UNPOOLS[dims], x, indices, sizes)


def _asked_sizes(sizes: tuple[int, ...], step: tuple[int, ...], asked: tuple[int, ...], dims: int) -> tuple[int, ...]:
    if len(asked) == dims + 2:
        asked = asked[2:]
    if len(asked) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
            f"'{len(asked)}'"
        )
    for d, (usual, s, size) in enumerate(zip(sizes, step, asked, strict=True)):
        if not usual - s < size < usual + s:
            raise ValueError(
                f'invalid output_size "{list(asked)}" (dim {d} must be between {usual - s} and {usual + s})'
            )
    return asked


@float32_in_autocast
def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with each element of (N, C, L) or (C, L) where ``max_pool1d`` found it.

    Args:
        input: what ``max_pool1d`` returned.
        indices: the positions that it returned.
        kernel_size, stride, padding: as they were there.
        output_size: of the result, if several inputs have this output.

    Raises:
        ValueError: for a size that has another output.
        RuntimeError: for shapes that differ.
    """
    return _unpool(input, indices, 1, kernel_size, stride, padding, output_size)


@float32_in_autocast
def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """``max_unpool1d`` of (N, C, H, W) or (C, H, W)."""
    return _unpool(input, indices, 2, kernel_size, stride, padding, output_size)


@float32_in_autocast
def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """``max_unpool1d`` of (N, C, D, H, W) or (C, D, H, W)."""
    return _unpool(input, indices, 3, kernel_size, stride, padding, output_size)
