"""Memory formats of convolutions' weights: accepted, as everywhere; all tensors here are in row-major order."""

from __future__ import annotations

from typing import Any, TypeVar

from jitgrad.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The module itself: a format changes no value, and kernels choose their own."""
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The module itself: a format changes no value, and kernels choose their own."""
    return module
