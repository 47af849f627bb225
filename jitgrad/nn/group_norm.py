"""``GroupNorm``, the instance normalisations, and normalisation by neighbouring channels.

Sources: Wu and He, "Group Normalization", 2018; Ulyanov et al., "Instance Normalization: The Missing Ingredient for
Fast Stylization", 2016; Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012.
"""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import ones, zeros
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.normalization import NormBase
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = [
    "CrossMapLRN2d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LocalResponseNorm",
]


class GroupNorm(Module):
    """Zero mean and unit variance of groups of channels of each example, then an affine map per channel.

    Args:
        num_groups: how many groups.
        num_channels: divisible by ``num_groups``.
        eps: added to the variance.
        affine: whether there are weight (ones) and bias (zeros).
        device, dtype: of the parameters.
        bias: whether there is a bias among them.

    Raises:
        ValueError: channels that ``num_groups`` does not divide.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight: Parameter | None
        self.bias: Parameter | None
        for name, make, there in (("weight", ones, affine), ("bias", zeros, affine and bias)):
            self.register_parameter(name, Parameter(make(num_channels, device=device, dtype=dtype)) if there else None)

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0 again."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, num_channels, *), the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _InstanceNorm(NormBase):
    """Normalises each channel of each example; see the subclasses."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape. ValueError for another rank, for other channels, or one element per channel."""
        self._check_input_dim(input)
        dim = input.ndim - self.ndims[0]
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                    f"but got: {input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        by_input = self.training or not self.track_running_stats
        out: Tensor = F.instance_norm(
            input if dim else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            by_input,
            self.momentum or 0.0,
            self.eps,
        )
        return out if dim else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L).

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: how far the running statistics move towards the batch's.
        affine: whether there are weight (ones) and bias (zeros).
        track_running_stats: keep running statistics and use them in evaluation mode.
        device, dtype: of parameters and buffers.
        bias: whether there is a bias.
    """

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W); arguments as ``InstanceNorm1d``."""

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W); arguments as ``InstanceNorm1d``."""

    ndims = (4, 5)


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels; see ``functional.local_response_norm``."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` of (N, C, H, W), in the form of Lua Torch.

    PyTorch's own sums never drop the first channel from later windows, which its derivative does not follow; here they
    do, so values differ from channel (size + 1) // 2 on.

    Raises:
        ValueError: from ``forward``, for another rank.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        return super().forward(input)
