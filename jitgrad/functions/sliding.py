"""Rearranging channels and patches: sliding windows as columns, and their sum; pixel and channel shuffles.

Owns: ``nn.functional``'s ``unfold`` and ``fold`` (tensors' ``unfold`` is another function), ``pixel_shuffle``,
``pixel_unshuffle``, ``channel_shuffle``. Must not know: modules. Imported late, by ``nn.functional``.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import WHOLE
from jitgrad.functions.views import reshaped_copy
from jitgrad.functions.windows import each
from jitgrad.ops.shapes import refuse
from jitgrad.ops.table import OPS

__all__ = ["channel_shuffle", "fold", "pixel_shuffle", "pixel_unshuffle", "unfold"]

_IM2COL, _COL2IM = OPS["im2col"], OPS["col2im"]


def _pair(name: str, value: Any) -> tuple[int, int]:
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value, value
    height, width = each(name, value, 2)
    return height, width


def _params(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> tuple[tuple[int, int], ...]:
    """(Extents of the image, kernel, dilation, padding, stride), a number each for height and width."""
    params = (
        _pair("output_size", size),
        _pair("kernel_size", kernel),
        _pair("dilation", dilation),
        _pair("padding", padding),
        _pair("stride", stride),
    )
    for name, values in (("kernel size", params[1]), ("dilation", params[2]), ("stride", params[4])):
        if min(values) <= 0:
            raise RuntimeError(f"{name} should be greater than zero, but got {name} {values}")
    if min(params[3]) < 0:
        raise RuntimeError(f"padding should be non-negative, but got padding {params[3]}")
    return params


def _counts(params: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """How many windows there are along each dimension."""
    rows = zip(*params, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in rows)


def _text(params: tuple[tuple[int, int], ...]) -> str:
    return f"kernel_size={params[1]}, dilation={params[2]}, padding={params[3]}"


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Sliding windows as columns.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, dilation, padding, stride: one number, or one each for height and width.

    Returns:
        (N, C * kernel elements, windows), without N likewise.

    Raises:
        RuntimeError: for another rank, or a window that does not fit.
    """
    refuse("im2col_out_cpu", input, WHOLE[1:])
    if input.ndim not in (3, 4):
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor for input, but got: {list(input.shape)}")
    params = _params(input._aval.shape[-2:], kernel_size, dilation, padding, stride)
    counts = _counts(params)
    if min(counts) <= 0:
        raise RuntimeError(
            f"Given input with spatial size {params[0]}, {_text(params)}, calculated shape of the array of sliding "
            f"blocks as {counts}, but its components must be at least one."
        )
    return door.apply(_IM2COL, input, *params)


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The sum of columns where ``unfold`` would have read them.

    Args:
        input: (N, C * kernel elements, windows), or without N.
        output_size: height and width, or one number for both.
        kernel_size, dilation, padding, stride: see ``unfold``.

    Returns:
        (N, C, H, W), without N likewise.

    Raises:
        RuntimeError: for shapes that do not fit.
    """
    refuse("col2im_out_cpu", input, WHOLE[1:])
    if input.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2D or 3D (batch mode) tensor for input, but got: {list(input.shape)}")
    params = _params(output_size, kernel_size, dilation, padding, stride)
    columns, blocks = input._aval.shape[-2:]
    if columns % math.prod(params[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={columns} and kernel_size={params[1]}."
        )
    rows, columns = _counts(params)
    if min(rows, columns) <= 0 or blocks != rows * columns:
        raise RuntimeError(
            f"Given output_size={params[0]}, {_text(params)}, stride={params[4]}, expected size of input's "
            f"dimension 2 to match the calculated number of sliding blocks {rows} * {columns} = {rows * columns}, "
            f"but got input.size(2)={blocks}."
        )
    return door.apply(_COL2IM, input, *params)


def _check_image(name: str, x: Any, factor: int, what: str) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(*, C * r^2, H, W) to (*, C, H * r, W * r): r^2 channels become the pixels of one.

    Raises:
        RuntimeError: for a rank below 3, channels that do not divide, or a factor that is not positive.

    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016.
    """
    _check_image("pixel_shuffle", input, upscale_factor, "upscale_factor")
    r, (channels, height, width), lead = upscale_factor, input.shape[-3:], tuple(input.shape[:-3])
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    x = input.reshape(math.prod(lead), channels // (r * r), r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return reshaped_copy(x, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of ``pixel_shuffle``: (*, C, H * r, W * r) to (*, C * r^2, H, W).

    Raises:
        RuntimeError: for a rank below 3, extents that do not divide, or a factor that is not positive.
    """
    _check_image("pixel_unshuffle", input, downscale_factor, "downscale_factor")
    r, (channels, height, width), lead = downscale_factor, input.shape[-3:], tuple(input.shape[:-3])
    for name, dim, extent in (("height", -2, height), ("width", -1, width)):
        if extent % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({dim})={extent} "
                f"is not divisible by {r}"
            )
    x = input.reshape(math.prod(lead), channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return reshaped_copy(x, (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Any, groups: int) -> Any:
    """(N, G * C, *) with the G groups of channels interleaved.

    Raises:
        RuntimeError: for a rank below 3, or channels that ``groups`` does not divide.

    Source: Zhang et al., "ShuffleNet", 2018.
    """
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    channels = input.shape[1]
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    shape = tuple(input.shape)
    return reshaped_copy(input.reshape(shape[0], groups, channels // groups, -1).transpose(1, 2), shape)
