"""Sampling of images at positions that are a tensor: ``affine_grid`` and ``grid_sample``.

Owns: them. Must not know: modules. Imported late, by ``nn.functional``.

Source: Jaderberg et al., "Spatial Transformer Networks", 2015.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import COMPLEX_DTYPES, WHOLE, int64
from jitgrad.functions import pointwise
from jitgrad.functions.linalg import matmul
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.resampling import cubic_weights
from jitgrad.functions.windows import table_of
from jitgrad.ops.shapes import check_same_dtype, refuse

__all__ = ["affine_grid", "grid_sample"]


def _aligned(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired.",
            stacklevel=3,
        )
    return bool(align_corners)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Where each element of an output comes from, under affine maps; for ``grid_sample``.

    Args:
        theta: (N, 2, 3) or (N, 3, 4) matrices.
        size: of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the centres of the corner elements, not their edges.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3) positions in [-1, 1], x first.

    Raises:
        ValueError: for matrices or a size that do not fit.
        NotImplementedError: for a size of another length.
    """
    is_aligned = _aligned(align_corners)
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {list(size)}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {list(size)}. "
            f"Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(size)}")
    axes = []
    for extent in size[2:]:
        axis = np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        axes.append(axis if is_aligned else axis * (extent - 1) / extent)
    places = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(tuple(size[2:]))], -1)
    base = table_of(places, theta).reshape(1, -1, dims + 1)
    return matmul(base, theta.transpose(1, 2)).reshape(theta.shape[0], *size[2:], dims)


@float32_in_autocast
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """``input`` at the positions of ``grid``.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H', W', 2) or (N, D', H', W', 3), positions in [-1, 1], x first.
        mode: "bilinear", "nearest", or "bicubic" for four dimensions.
        padding_mode: what lies outside: "zeros", "border" (the nearest element) or "reflection".
        align_corners: -1 and 1 are the centres of the corner elements, not their edges.

    Returns:
        (N, C, H', W') or (N, C, D', H', W').

    Raises:
        ValueError: for another mode.
        RuntimeError: for shapes that do not fit, and mode "bicubic" of five dimensions.
    """
    if not isinstance(mode, str) or mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if not isinstance(padding_mode, str) or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    is_aligned = _aligned(align_corners)
    dims = input.ndim - 2
    if dims not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != dims or grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected input of 4 or 5 dimensions and grid to have the same batch size and number of "
            f"dimensions, and size {dims} in its last one, but got input with sizes {list(input.shape)} and grid with "
            f"sizes {list(grid.shape)}"
        )
    refuse(f"grid_sampler_{dims}d_cpu_kernel_impl", input, (*WHOLE, *COMPLEX_DTYPES))
    check_same_dtype("grid_sampler", input, grid)
    if mode == "bicubic":
        if dims != 2:
            raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
        return _cubic_sample(input, grid, padding_mode, is_aligned)
    places = [
        _inside(_scaled(grid.select(-1, dims - 1 - axis), extent, is_aligned), extent, padding_mode, is_aligned)
        for axis, extent in enumerate(input.shape[2:])
    ]
    if mode == "nearest":
        nothing = grid.sum(-1).unsqueeze(1)  # the grid takes part: its gradient is zero
        nothing = nothing.masked_fill((nothing == nothing).logical_or(nothing != nothing), 0.0)
        return _picked(input, [at.detach().round() for at in places]) + nothing
    lows = [at.detach().floor() for at in places]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=dims):
        weight: Any = None
        for at, low, step in zip(places, lows, corner, strict=True):
            part = at - low if step else 1 - (at - low)
            weight = part if weight is None else weight * part
        term = _picked(input, [low + step for low, step in zip(lows, corner, strict=True)]) * weight.unsqueeze(1)
        total = term if total is None else total + term
    return total


def _cubic_sample(input: Any, grid: Any, padding_mode: str, is_aligned: bool) -> Any:
    """Sixteen elements around each position; the mode moves each of them into the input."""
    axes = []
    for axis, extent in enumerate(input.shape[2:]):
        at = _scaled(grid.select(-1, 1 - axis), extent, is_aligned)
        low = at.detach().floor()
        taps = [_inside(low + step, extent, padding_mode, is_aligned) for step in (-1, 0, 1, 2)]
        axes.append(list(zip(taps, cubic_weights(at - low), strict=True)))
    total: Any = None
    for row, row_weight in axes[0]:
        line: Any = None
        for column, weight in axes[1]:
            term = _picked(input, [row, column]) * weight.unsqueeze(1)
            line = term if line is None else line + term
        line = line * row_weight.unsqueeze(1)
        total = line if total is None else total + line
    return total


def _scaled(at: Any, extent: int, is_aligned: bool) -> Any:
    """[-1, 1] as positions of elements."""
    return (at + 1) * ((extent - 1) / 2) if is_aligned else ((at + 1) * extent - 1) / 2


def _inside(at: Any, extent: int, padding_mode: str, is_aligned: bool) -> Any:
    """Positions that the mode moves into the input."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, extent - 1) if is_aligned else (-0.5, extent)
        if not span:
            at = at * 0.0
        else:
            distance = (at - low).abs()
            flips = (distance.detach() / span).floor()
            rest = distance - flips * span
            at = pointwise.where(flips % 2 == 0, rest, span - rest) + low
    return at.clamp(0, extent - 1)


def _picked(x: Any, places: Sequence[Any]) -> Any:
    """Elements at whole positions, one tensor of them per dimension; zeros outside."""
    batch, channels = x.shape[:2]
    flat: Any = None
    is_there: Any = None
    for at, extent in zip(places, x.shape[2:], strict=True):
        seen = (at >= 0).logical_and(at < extent)
        inner = pointwise.where(seen, at, 0.0).to(int64)
        flat = inner if flat is None else flat * extent + inner
        is_there = seen if is_there is None else is_there.logical_and(seen)
    shape = tuple(flat.shape[1:])
    index = flat.reshape(batch, 1, -1).expand(batch, channels, -1)
    found = x.reshape(batch, channels, -1).gather(2, index).reshape(batch, channels, *shape)
    return found.masked_fill(is_there.unsqueeze(1).logical_not(), 0.0)
