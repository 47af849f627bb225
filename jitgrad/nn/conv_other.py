"""Convolutions in one and three dimensions, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.nn import functional as F
from jitgrad.nn.conv import ConvNd, PlainConv, Size
from jitgrad.tensor import Tensor

__all__ = ["Conv1d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class Conv1d(PlainConv):
    """Cross-correlation of (N, C, L) with ``out_channels`` filters; arguments as ``Conv2d``."""

    dims = 1

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) to (N, out_channels, L'); without N likewise."""
        input, padding = self._padded(input)
        return F.conv1d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(PlainConv):
    """Cross-correlation of (N, C, D, H, W) with ``out_channels`` filters; arguments as ``Conv2d``."""

    dims = 3

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) to (N, out_channels, D', H', W'); without N likewise."""
        input, padding = self._padded(input)
        return F.conv3d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(ConvNd):
    """What transposed convolutions are: a convolution's derivative as a layer."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
            output_padding,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, *) to (N, out_channels, *), of ``output_size`` if it is given; ValueError if that cannot be."""
        function = getattr(F, f"conv_transpose{self.dims}d")
        after = self.output_padding if output_size is None else self._rest(input, tuple(output_size))
        out: Tensor = function(
            input, self.weight, self.bias, self.stride, self.padding, after, self.groups, self.dilation
        )
        return out

    def _rest(self, input: Tensor, asked: tuple[int, ...]) -> tuple[int, ...]:
        """The output padding that makes the extents that are asked for."""
        dims = self.dims
        if len(asked) == input.ndim:
            asked = asked[-dims:]
        if len(asked) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.ndim}D input, output_size must have {dims} or {input.ndim} "
                f"elements (got {len(asked)})"
            )
        around = self.padding if not isinstance(self.padding, str) else (0,) * dims
        rows = zip(input.shape[-dims:], self.stride, around, self.dilation, self.kernel_size, strict=True)
        least = tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in rows)
        most = tuple(low + s - 1 for low, s in zip(least, self.stride, strict=True))
        if not all(low <= size <= high for low, size, high in zip(least, asked, most, strict=True)):
            raise ValueError(
                f"requested an output size of {asked}, but valid sizes range from {least} to {most} (for an input of "
                f"{list(input.shape[2:])})"
            )
        return tuple(size - low for size, low in zip(asked, least, strict=True))


class ConvTranspose2d(_ConvTransposeNd):
    """What a ``Conv2d``'s derivative makes of (N, C, H, W): each element places a kernel.

    Args:
        in_channels, out_channels: both divisible by ``groups``.
        kernel_size, stride, dilation: of the convolution.
        padding: of the convolution: cut from both sides here.
        output_padding: added to one side.
        groups: channels are split into so many independent ones.
        bias: whether there is one.
        padding_mode: "zeros".
        device, dtype: of the parameters.

    Raises:
        ValueError: channels that ``groups`` does not divide, or another padding mode.
    """


class ConvTranspose1d(_ConvTransposeNd):
    """``ConvTranspose2d`` of (N, C, L)."""

    dims = 1


class ConvTranspose3d(_ConvTransposeNd):
    """``ConvTranspose2d`` of (N, C, D, H, W)."""

    dims = 3
