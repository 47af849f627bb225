"""Rearranging channels and patches: sliding windows as columns, and their sum; pixel and channel shuffles.

Owns: ``nn.functional``'s ``unfold`` and ``fold`` (tensors' ``unfold`` is another function), ``pixel_shuffle``,
``pixel_unshuffle``, ``channel_shuffle``. Must not know: modules. Imported late, by ``nn.functional``.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import WHOLE
from jitgrad.functions.joining import pad
from jitgrad.functions.views import own_result, reshaped_copy
from jitgrad.functions.windows import add_at, each, read_windows, window_positions
from jitgrad.ops.shapes import refuse

__all__ = ["channel_shuffle", "fold", "pixel_shuffle", "pixel_unshuffle", "unfold"]


class _Blocks:
    """How many windows there are along each of two dimensions, and where they are in the padded input."""

    def __init__(self, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> None:
        self.size = each("output_size", size, 2)
        self.kernel, self.dilation = each("kernel_size", kernel, 2), each("dilation", dilation, 2)
        self.padding, self.stride = each("padding", padding, 2), each("stride", stride, 2)
        for name, values in (("kernel size", self.kernel), ("dilation", self.dilation), ("stride", self.stride)):
            if min(values) <= 0:
                raise RuntimeError(f"{name} should be greater than zero, but got {name} {values}")
        if min(self.padding) < 0:
            raise RuntimeError(f"padding should be non-negative, but got padding {self.padding}")
        self.full = tuple(n + 2 * p for n, p in zip(self.size, self.padding, strict=True))
        rows = zip(self.full, self.kernel, self.dilation, self.stride, strict=True)
        self.counts = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, d, s in rows)

    def text(self) -> str:
        return f"kernel_size={self.kernel}, dilation={self.dilation}, padding={self.padding}"

    def positions(self, axis: int) -> Any:
        return window_positions(self.counts[axis], self.kernel[axis], self.stride[axis], self.dilation[axis])


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
    if input.ndim == 3:
        return own_result(unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0))
    if input.ndim != 4:
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor for input, but got: {list(input.shape)}")
    blocks = _Blocks(tuple(input.shape[2:]), kernel_size, dilation, padding, stride)
    if min(blocks.counts) <= 0:
        raise RuntimeError(
            f"Given input with spatial size {blocks.size}, {blocks.text()}, calculated shape of the array of sliding "
            f"blocks as {blocks.counts}, but its components must be at least one."
        )
    top, left = blocks.padding
    x = pad(input, (left, left, top, top)) if top or left else input
    x = read_windows(read_windows(x, 3, blocks.positions(1)), 2, blocks.positions(0))  # N, C, OH, KH, OW, KW
    batch, channels = input.shape[:2]
    columns = channels * blocks.kernel[0] * blocks.kernel[1]
    return reshaped_copy(x.permute(0, 1, 3, 5, 2, 4), (batch, columns, blocks.counts[0] * blocks.counts[1]))


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
    if input.ndim == 2:
        return own_result(fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0))
    if input.ndim != 3:
        raise RuntimeError(f"Expected 2D or 3D (batch mode) tensor for input, but got: {list(input.shape)}")
    blocks = _Blocks(output_size, kernel_size, dilation, padding, stride)
    (rows, columns), (kh, kw) = blocks.counts, blocks.kernel
    if input.shape[1] % (kh * kw):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input.shape[1]} and kernel_size={blocks.kernel}."
        )
    if min(rows, columns) <= 0 or input.shape[2] != rows * columns:
        raise RuntimeError(
            f"Given output_size={blocks.size}, {blocks.text()}, stride={blocks.stride}, expected size of input's "
            f"dimension 2 to match the calculated number of sliding blocks {rows} * {columns} = {rows * columns}, "
            f"but got input.size(2)={input.shape[2]}."
        )
    batch, channels = input.shape[0], input.shape[1] // (kh * kw)
    x = input.reshape(batch, channels, kh, kw, rows, columns).permute(0, 1, 4, 2, 5, 3)
    x = x.reshape(batch, channels, rows * kh, columns * kw)
    for axis in (0, 1):
        x = add_at(x, 2 + axis, blocks.positions(axis).ravel().tolist(), blocks.full[axis])
    top, left = blocks.padding
    return own_result(x.narrow(2, top, blocks.size[0]).narrow(3, left, blocks.size[1]))


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
