"""Padding as modules: constants, reflections, borders and circles around the last one, two or three dimensions.

Each holds its widths, (before, after) from the last dimension backwards, and calls ``functional.pad``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.nn import functional as F
from jitgrad.nn.conv import times
from jitgrad.nn.module import Module
from jitgrad.tensor import Tensor

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

Widths = int | Sequence[int]


def _widths(padding: Widths, dims: int) -> tuple[int, ...]:
    return times(padding, 2 * dims)


class _Pad(Module):
    """Base of all: how many dimensions, and what is put there."""

    dims = 1
    mode = "constant"

    def __init__(self, padding: Widths) -> None:
        super().__init__()
        self.padding = _widths(padding, self.dims)

    def forward(self, input: Tensor) -> Tensor:
        """The same rank, larger."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The same rank, larger."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"padding={self.padding}, value={self.value}"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """The same rank, larger. ValueError for another rank."""
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise ValueError(f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class ConstantPad1d(_ConstantPad):
    """A constant around (N, C, L)."""


class ConstantPad2d(_ConstantPad):
    """A constant around (N, C, H, W)."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """A constant around (N, C, D, H, W)."""

    dims = 3


class _Zeros:
    """The part of paddings with zeros: their constant is not given, and not printed."""

    def __init__(self: Any, padding: Widths) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]

    def extra_repr(self: Any) -> str:
        """As PyTorch prints it."""
        return f"{self.padding}"


class ZeroPad1d(_Zeros, ConstantPad1d):
    """Zeros around (N, C, L)."""


class ZeroPad2d(_Zeros, ConstantPad2d):
    """Zeros around (N, C, H, W)."""


class ZeroPad3d(_Zeros, ConstantPad3d):
    """Zeros around (N, C, D, H, W)."""


class ReflectionPad1d(_ReflectionPad):
    """The reflection of (N, C, L) in its border, which is not repeated."""


class ReflectionPad2d(_ReflectionPad):
    """The reflection of (N, C, H, W) in its border, which is not repeated."""

    dims = 2


class ReflectionPad3d(_ReflectionPad):
    """The reflection of (N, C, D, H, W) in its border, which is not repeated."""

    dims = 3


class ReplicationPad1d(_ReplicationPad):
    """The border of (N, C, L), repeated."""


class ReplicationPad2d(_ReplicationPad):
    """The border of (N, C, H, W), repeated."""

    dims = 2


class ReplicationPad3d(_ReplicationPad):
    """The border of (N, C, D, H, W), repeated."""

    dims = 3


class CircularPad1d(_CircularPad):
    """(N, C, L) as if it were a circle."""


class CircularPad2d(_CircularPad):
    """(N, C, H, W) as if it were a circle."""

    dims = 2


class CircularPad3d(_CircularPad):
    """(N, C, D, H, W) as if it were a circle."""

    dims = 3
