"""Pooling in one to three dimensions, with every option; its inverse.

Owns: ``max_pool1d``, ``max_pool3d``, ``avg_pool1d``, ``avg_pool3d``, the general forms of ``max_pool2d`` and
``avg_pool2d``, ``lp_pool1d``, ``max_unpool1d`` and their forms of more dimensions. Must not know: modules.

Windows are read through tables: see Note [Tables of positions].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import COMPLEX_DTYPES, HALVES, WHOLE, int64
from jitgrad.functions.best_of import best_of_windows
from jitgrad.functions.joining import pad
from jitgrad.functions.layers import avg_pool2d, is_unset, max_pool2d
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.pointwise import div, relu
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.views import reshape_result
from jitgrad.functions.windows import each, read_windows, table_of, window_positions
from jitgrad.ops.shapes import refuse, torch_dtype_name

__all__ = [
    "avg_pool1d",
    "avg_pool3d",
    "avg_pool_over",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_pool_over",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


class _Windows:
    """Where the windows of one call lie."""

    def __init__(
        self, name: str, x: Any, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        if x.ndim not in (dims + 1, dims + 2):
            raise RuntimeError(f"{name}() Expected {dims + 1}D or {dims + 2}D input tensor, but got {list(x.shape)}")
        self.kernel = each(f"{name}: kernel_size", kernel, dims)
        self.stride = self.kernel if is_unset(stride) else each(f"{name}: stride", stride, dims)
        self.padding, self.dilation = each(f"{name}: padding", padding, dims), each(f"{name}: dilation", dilation, dims)
        self.extents = tuple(x.shape[-dims:])
        if min(self.kernel) <= 0:
            raise RuntimeError(f"{name}() kernel size must be greater than zero, but got {list(self.kernel)}")
        if min(self.dilation) <= 0:
            raise RuntimeError(f"{name}() dilation must be greater than zero, but got {list(self.dilation)}")
        if 0 in self.stride:
            raise RuntimeError("stride should not be zero")
        if min(self.stride) < 0:
            raise RuntimeError(f"stride should be greater than zero, but got {list(self.stride)}")
        rows = zip(self.extents, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        self.counts = tuple(_count(*row, ceil_mode) for row in rows)
        for k, p, d in zip(self.kernel, self.padding, self.dilation, strict=True):
            if p < 0:
                raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
            if 2 * p > d * (k - 1) + 1:
                raise RuntimeError(
                    f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                    f"dilation={d}"
                )
        if min(self.counts) <= 0:
            raise RuntimeError(
                f"Given input size: ({'x'.join(map(str, x.shape[-dims - 1 :]))}). Calculated output size: "
                f"({'x'.join(map(str, (x.shape[-dims - 1], *self.counts)))}). Output size is too small"
            )

    def positions(self, axis: int, start: int) -> Any:
        return window_positions(self.counts[axis], self.kernel[axis], self.stride[axis], self.dilation[axis], start)


def _count(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows there are; with ``ceil_mode`` a last one may lie partly outside, but must begin inside."""
    room = extent + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    found = -(-room // stride) + 1
    return found - 1 if (found - 1) * stride >= extent + padding else found


# --- max ---


def max_pool_over(
    name: str,
    x: Any,
    dims: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """The largest element of each window of the last dimensions, and its position in them, flattened."""
    windows = _Windows(name, x, dims, kernel_size, stride, padding, dilation, ceil_mode)
    tables = []
    for axis, extent in enumerate(windows.extents):
        table = windows.positions(axis, -windows.padding[axis])
        inside = (table >= 0) & (table < extent)
        # what lies outside sees the window's first element again, so that it never wins
        first = np.take_along_axis(table, inside.argmax(1)[:, None], 1)
        tables.append(np.clip(np.where(inside, table, first), 0, extent - 1))
    return best_of_windows(x, tables)


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
    rows = None if ceil_mode or dilation != 1 else _rows(input, kernel_size, stride, padding)
    if rows is None:
        found = max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return found if return_indices else found[0]
    found = max_pool2d(input.unsqueeze(-2), *rows, 1, False, return_indices)
    return (found[0].squeeze(-2), found[1].squeeze(-2)) if return_indices else found.squeeze(-2)


def _rows(x: Any, kernel: Any, stride: Any, padding: Any) -> tuple[Any, Any, Any] | None:
    """(kernel, stride, padding) of the windows of (N, C, L) as windows of (N, C, 1, L), which are one operation.

    None: they are not plain, or something may have to be refused.
    """
    stride = kernel if is_unset(stride) else stride
    if x.ndim != 3 or not x.dtype.is_floating_point or not type(kernel) is type(stride) is type(padding) is int:
        return None
    if kernel < 1 or stride < 1 or not 0 <= 2 * padding <= kernel or x._aval.shape[2] + 2 * padding < kernel:
        return None
    return (1, kernel), (1, stride), (0, padding)


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

_NOT_LONG = tuple(dtype for dtype in WHOLE if dtype is not int64)


def avg_pool_over(
    name: str,
    x: Any,
    dims: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of the last dimensions."""
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    refuse("avg_pool3d_out_frame" if dims == 3 else "avg_pool2d", x, (*_NOT_LONG, *(HALVES if dims == 3 else ())))
    windows = _Windows(name, x, dims, kernel_size, stride, padding, 1, ceil_mode)
    rows = list(zip(windows.extents, windows.counts, windows.kernel, windows.stride, windows.padding, strict=True))
    widths: list[int] = []
    for extent, count, kernel, step, around in reversed(rows):
        widths += [around, max(0, (count - 1) * step + kernel - extent - around)]
    x = pad(x, widths)
    lead = x.ndim - dims
    for axis in range(dims):
        x = read_windows(x, lead + axis, windows.positions(axis, 0)).sum(lead + axis + 1)
    if divisor_override is not None:
        return _divided(x, divisor_override)
    sizes = np.ones((1,) * dims)
    for axis, (extent, count, kernel, step, around) in enumerate(rows):
        start = np.arange(count) * step - around
        end = np.minimum(start + kernel, extent + around)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, extent)
        sizes = sizes * (end - start).reshape((-1,) + (1,) * (dims - axis - 1))
    return _divided(x, table_of(sizes, x).reshape(windows.counts))


def _divided(x: Any, count: Any) -> Any:
    """Sums as means; of integers, rounded towards 0."""
    return x / count if x.dtype.is_floating_point else div(x, count, rounding_mode="trunc")


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
    rows = None if ceil_mode or not count_include_pad else _rows(input, kernel_size, stride, padding)
    if rows is not None:
        return avg_pool2d(input.unsqueeze(-2), *rows).squeeze(-2)
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
    lead = tuple(x.shape[:-dims])
    flat = x.new_zeros((*lead, math.prod(sizes)))
    found = flat.scatter(-1, indices.reshape(*lead, -1), x.reshape(*lead, -1))
    return reshape_result(found, (*lead, *sizes))


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
