"""Pooling as modules: each holds its arguments and calls the function of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.functions.windows import each, each_number
from jitgrad.nn import functional as F
from jitgrad.nn.conv import AvgPoolNd, MaxPoolNd, Size, times
from jitgrad.nn.module import Module
from jitgrad.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Sizes = int | Sequence[int | None] | None


class MaxPool1d(MaxPoolNd):
    """The largest element of each window of (N, C, L); arguments as ``MaxPool2d``."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, L) to (N, C, L')."""
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool3d(MaxPoolNd):
    """The largest element of each window of (N, C, D, H, W); arguments as ``MaxPool2d``."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        return F.max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AvgPool1d(Module):
    """The mean of each window of (N, C, L); arguments as ``AvgPool2d``."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = times(kernel_size, 1), times(padding, 1)
        self.stride = self.kernel_size if stride is None else times(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) to (N, C, L')."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPoolNd):
    """The mean of each window of (N, C, D, H, W); arguments as ``AvgPool2d``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _LPPoolNd(Module):
    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _MaxUnpoolNd(Module):
    dims = 2

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = times(kernel_size, self.dims), times(padding, self.dims)
        self.stride = self.kernel_size if stride is None else times(stride, self.dims)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptivePoolNd(Module):
    def __init__(self, output_size: Sizes) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    def __init__(self, output_size: Sizes, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class LPPool1d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window of (N, C, L), p being ``norm_type``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) to (N, C, L')."""
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window of (N, C, H, W), p being ``norm_type``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window of (N, C, D, H, W), p being ``norm_type``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class MaxUnpool1d(_MaxUnpoolNd):
    """Zeros with each element of (N, C, L) where ``MaxPool1d`` found it."""

    dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, L') and positions to (N, C, L)."""
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Zeros with each element of (N, C, H, W) where ``MaxPool2d`` found it."""

    dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, H', W') and positions to (N, C, H, W)."""
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Zeros with each element of (N, C, D, H, W) where ``MaxPool3d`` found it."""

    dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, D', H', W') and positions to (N, C, D, H, W)."""
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AdaptiveAvgPool1d(_AdaptivePoolNd):
    """Means of ``output_size`` parts of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) to (N, C, L')."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each of ``output_size`` parts of (N, C, L); with positions if ``return_indices``."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, L) to (N, C, L')."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """Means of ``output_size`` parts of (N, C, H, W); None keeps an extent."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each of ``output_size`` parts of (N, C, H, W); with positions if ``return_indices``."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool3d(_AdaptivePoolNd):
    """Means of ``output_size`` parts of (N, C, D, H, W); None keeps an extent."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each of ``output_size`` parts of (N, C, D, H, W); with positions if ``return_indices``."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _FractionalMaxPoolNd(Module):
    dims = 2
    _random_samples: Any

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name, dims = type(self).__name__, self.dims
        self.kernel_size, self.return_indices = each("kernel_size", kernel_size, dims), return_indices
        self.output_size = None if output_size is None else each("output_size", output_size, dims)
        self.output_ratio = None if output_ratio is None else each_number("output_ratio", output_ratio, dims)
        self.register_buffer("_random_samples", _random_samples)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """(N, C, *) to (N, C, *'), or without N; with positions if they are asked for."""
        pool = F.fractional_max_pool2d if self.dims == 2 else F.fractional_max_pool3d
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of windows at random places; see ``functional.fractional_max_pool2d``.

    Args:
        kernel_size: of the windows.
        output_size: (H', W'), or one number for both.
        output_ratio: of the input's extents, in (0, 1), instead of ``output_size``.
        return_indices: return positions in H * W too.
        _random_samples: (N, C, 2) numbers that decide where windows lie; drawn at every call if None.

    Raises:
        ValueError: unless there is a size or a ratio, and for another ratio.
    """


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """``FractionalMaxPool2d`` of (N, C, D, H, W)."""

    dims = 3
