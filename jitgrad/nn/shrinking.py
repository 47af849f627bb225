"""``Hardshrink``, ``Softshrink``, ``Threshold``, ``PReLU`` and ``Softmax2d``."""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import full
from jitgrad.nn import functional as F
from jitgrad.nn import init as initial
from jitgrad.nn.conv import times
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["Hardshrink", "PReLU", "Softmax2d", "Softshrink", "Threshold"]


class Hardshrink(Module):
    """x, but 0 where abs(x) <= ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved by ``lambd`` towards 0, where it stops."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.lambd}"


class Threshold(Module):
    """x where it is above ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"threshold={self.threshold}, value={self.value}{', inplace=True' if self.inplace else ''}"


class PReLU(Module):
    """max(x, 0) + weight * min(x, 0), with one weight, or one per channel (dimension 1).

    Args:
        num_parameters: how many weights.
        init: where they start.
        device, dtype: of the weights.

    Source: He et al., "Delving Deep into Rectifiers", 2015.
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full(times(num_parameters, 1), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Back to where they started."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    Raises:
        ValueError: from ``forward``, for another rank.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
