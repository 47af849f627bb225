"""Sampling of images at positions that are a tensor: ``affine_grid`` and ``grid_sample``.

Owns: them. Must not know: modules. Imported late, by ``nn.functional``.

Source: Jaderberg et al., "Spatial Transformer Networks", 2015.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, WHOLE
from jitgrad.functions.devices import moved
from jitgrad.functions.linalg import matmul
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.functions.windows import kept
from jitgrad.ops.shapes import check_same_dtype, refuse
from jitgrad.ops.table import OPS

__all__ = ["affine_grid", "grid_sample"]

_SAMPLERS = {dims: OPS[f"grid_sampler_{dims}d"] for dims in (2, 3)}


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
    base = moved(_places(tuple(size[2:]), is_aligned, theta.dtype), theta.device)
    return matmul(base, theta.transpose(1, 2)).reshape(theta.shape[0], *size[2:], dims)


@kept
def _places(extents: tuple[int, ...], is_aligned: bool, dtype: Any) -> Any:
    """[1, elements, dims + 1]: where elements are in [-1, 1], x first, and a 1 for the shift."""
    axes = []
    for extent in extents:
        axis = np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        axes.append(axis if is_aligned else axis * (extent - 1) / extent)
    places = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(extents)], -1)
    return places.astype(dtype.np).reshape(1, -1, len(extents) + 1)


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
    if mode == "bicubic" and dims != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    return door.apply(_SAMPLERS[dims], input, grid, mode, padding_mode, is_aligned, (0,) * dims)
