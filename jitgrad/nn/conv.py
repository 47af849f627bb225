"""``Conv2d`` and its pooling; the base of the other convolutions.

Must not know: how a convolution runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["AvgPool2d", "AvgPoolNd", "Conv2d", "ConvNd", "MaxPool2d", "MaxPoolNd", "PlainConv", "times"]

Size = int | Sequence[int]
_MODES = ("zeros", "reflect", "replicate", "circular")


def times(value: Size, count: int) -> tuple[int, ...]:
    """One number for each of ``count`` dimensions. TypeError for what is no number and no list."""
    if isinstance(value, int):
        return (value,) * count
    if not isinstance(value, Iterable):
        raise TypeError(f"expected an int or {count} ints, but got {type(value).__name__}")
    return tuple(value)


class ConvNd(Module):
    """What all convolutions are: a weight, a bias, and where the windows lie.

    Attributes:
        dims: dimensions that windows lie in.
        transposed: whether the weight begins with the input's channels.
    """

    dims = 2
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
        output_padding: Size = 0,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        dims = self.dims
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = times(kernel_size, dims), times(stride, dims)
        self.dilation, self.output_padding = times(dilation, dims), times(output_padding, dims)
        self.padding = padding if isinstance(padding, str) else times(padding, dims)
        self.padding_mode = padding_mode
        self._check_padding()
        ends = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty(*ends, *self.kernel_size, device=device, dtype=dtype))
        self.bias: Parameter | None
        offset = Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def _check_padding(self) -> None:
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {self.padding!r}, should be one of {{'same', 'valid'}}")
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{self.padding_mode}'")

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in = math.prod(self.weight.shape[1:])
        if self.bias is not None and fan_in:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input with what ``padding_mode`` puts around it, and the zeros that are left to put there."""
        if self.padding_mode == "zeros":
            return input, self.padding
        widths: list[int] = []
        dims = self.dims if isinstance(self.padding, str) else len(self.padding)
        for axis in reversed(range(dims)):
            if isinstance(self.padding, str):
                total = self.dilation[axis] * (self.kernel_size[axis] - 1) if self.padding == "same" else 0
                widths += [total // 2, total - total // 2]
            else:
                widths += [self.padding[axis]] * 2
        return F.pad(input, widths, self.padding_mode), 0

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros, ones = (0,) * self.dims, (1,) * self.dims
        plain = zeros if not isinstance(self.padding, str) else (0,) * len(self.padding)
        options = (
            ("padding", self.padding, plain),
            ("dilation", self.dilation, ones),
            ("output_padding", self.output_padding, zeros),
            ("groups", self.groups, 1),
        )
        text += "".join(f", {name}={value}" for name, value, default in options if value != default)
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class PlainConv(ConvNd):
    """What convolutions are that are not transposed; arguments as ``Conv2d``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
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
        )


class Conv2d(PlainConv):
    """Cross-correlation of (N, C, H, W) with ``out_channels`` filters.

    Args:
        in_channels, out_channels: both divisible by ``groups``.
        kernel_size, stride, dilation: one number, or one for each of height and width.
        padding: of zeros, likewise; or "same", "valid".
        groups: channels are split into so many independent convolutions.
        bias: whether there is one.
        padding_mode: "zeros", or a mode of ``functional.pad``: "reflect", "replicate", "circular".
        device, dtype: of the parameters.

    Both start uniform in +-1/sqrt(fan in), as PyTorch's.

    Raises:
        ValueError: channels that ``groups`` does not divide, or a padding that there is not.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, out_channels, H', W'); without N likewise."""
        if self.padding_mode == "zeros":
            return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        input, padding = self._padded(input)
        return F.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class MaxPoolNd(Module):
    """What all maximum pools are: where the windows lie, and whether positions are returned."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool2d(MaxPoolNd):
    """The largest element of each window; with its position in H * W if ``return_indices``.

    Args:
        kernel_size, stride, padding, dilation: of the windows; the stride is the kernel's size if None.
        return_indices: return positions too.
        ceil_mode: windows that begin inside count, though they end outside.
    """

    def forward(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AvgPoolNd(Module):
    """What average pools of two and three dimensions are; arguments as ``AvgPool2d``."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPoolNd):
    """The mean of each window, padding counted as zeros.

    Args:
        kernel_size, stride, padding: of the windows; the stride is the kernel's size if None.
        ceil_mode: windows that begin inside count, though they end outside.
        count_include_pad: the zeros of the padding count as elements.
        divisor_override: divides the sum instead of the number of elements.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
