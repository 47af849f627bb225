"""``Conv2d`` and pooling.

Must not know: how a convolution runs.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["AvgPool2d", "Conv2d", "MaxPool2d"]

Size = int | tuple[int, int]


def _pair(value: Size) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class Conv2d(Module):
    """Cross-correlation of (N, C, H, W) with ``out_channels`` filters.

    Args:
        in_channels, out_channels: both divisible by ``groups``.
        kernel_size, stride, dilation: one number, or one for each of height and width.
        padding: of zeros, likewise; or "same", "valid".
        groups: channels are split into so many independent convolutions.
        bias: whether there is one.
        device, dtype: of the parameters.

    Both start uniform in +-1/sqrt(fan in), as PyTorch's.

    Raises:
        ValueError: channels that ``groups`` does not divide.
    """

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
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = _pair(kernel_size), _pair(stride), _pair(dilation)
        self.padding = padding if isinstance(padding, str) else _pair(padding)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        self.bias: Parameter | None
        offset = Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in = math.prod(self.weight.shape[1:])
        if self.bias is not None and fan_in:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, out_channels, H', W'); without N likewise."""
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        options = (("padding", self.padding, (0, 0)), ("dilation", self.dilation, (1, 1)), ("groups", self.groups, 1))
        text += "".join(f", {name}={value}" for name, value, default in options if value != default)
        return text if self.bias is not None else text + ", bias=False"


class _Pool2d(Module):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool2d):
    """The largest element of each window."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding)


class AvgPool2d(_Pool2d):
    """The mean of each window, padding counted as zeros."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding)
