"""Resampling of images: ``interpolate``, ``affine_grid``, ``grid_sample``.

Owns: them, and their older names. Must not know: modules. Imported late, by ``nn.functional``.

Along each dimension an output element is a weighted sum of input elements at positions that depend on extents only: see
Note [Tables of positions].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, WHOLE, float32, uint8
from jitgrad.functions.adaptive import adaptive_avg_pool
from jitgrad.functions.devices import moved
from jitgrad.functions.linalg import matmul
from jitgrad.functions.precision import outside_autocast
from jitgrad.functions.windows import is_whole, kept
from jitgrad.ops.shapes import refuse, torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.ops.windows.upsampling import taps_of
from jitgrad.tensor_base import TensorBase

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5}


@outside_autocast
def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Another extent of the dimensions after (N, C), by interpolation.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the new extents, or one for all.
        scale_factor: instead of ``size``: what the extents are multiplied by.
        mode: "nearest", "nearest-exact", "area"; "linear", "bilinear", "trilinear" (3, 4, 5 dimensions), "bicubic" (4).
        align_corners: corners' centres are kept, not their edges; of the interpolating modes.
        recompute_scale_factor: take the factor from the rounded extents.
        antialias: smaller extents average all elements that they cover; of "bilinear" and "bicubic".

    Raises:
        ValueError: for arguments that do not go together.
        NotImplementedError: for a mode and a rank that do not go together.

    Source of the cubic weights: Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981 (a = -0.75,
    with ``antialias`` -0.5).
    """
    if not isinstance(mode, str):
        _check_mode(input, "?")
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if not isinstance(align_corners, bool | np.bool_ | None):
        raise TypeError(f"interpolate(): argument 'align_corners' must be bool, not {type(align_corners).__name__}")
    sizes, factors = _extents(input, size, scale_factor, mode, bool(recompute_scale_factor))
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    _check_mode(input, mode)
    if min(sizes) <= 0:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input (extents: {list(input.shape[2:])}) "
            f"output (extents: {list(sizes)})"
        )
    if mode == "area":
        return adaptive_avg_pool(input, sizes)
    if mode.startswith("nearest"):
        refuse("compute_indices_weights_nearest", input, (*(d for d in WHOLE if d is not uint8), *COMPLEX_DTYPES))
    elif input.dtype.is_complex:
        raise NotImplementedError(f"\"upsample_{mode}\" not implemented for '{torch_dtype_name(input.dtype)}'")
    if input.dtype.is_inexact or mode.startswith("nearest"):
        return _resampled(input, sizes, factors, mode, bool(align_corners), antialias)
    if input.dtype is not uint8 or input.ndim != 4:
        name = torch_dtype_name(input.dtype)
        raise NotImplementedError(f"\"upsample_{mode}{input.ndim - 2}d\" not implemented for '{name}'")
    for dim in (3, 2):
        factor = None if factors is None else factors[dim - 2]
        input = _mixed_bytes(input, dim, sizes[dim - 2], factor, bool(align_corners), mode == "bicubic", antialias)
    return input


def _resampled(input: Any, sizes: Any, factors: Any, mode: str, is_aligned: bool, antialias: bool) -> Any:
    """The input with the last dimensions at ``sizes``, by a mode that is not "area"."""
    if not antialias:
        extents, known = input._aval.shape[2:], factors or (None,) * len(sizes)
        rows = tuple((*row, is_aligned) for row in zip(extents, sizes, known, strict=True))
        return door.apply(OPS[f"upsample_{mode.replace('-', '_')}{len(sizes)}d"], input, rows)
    for axis, extent in enumerate(sizes):
        dim, factor = axis + 2, None if factors is None else factors[axis]
        matrix = _smoothing(input.shape[dim], extent, factor, is_aligned, mode == "bicubic", input.dtype)
        matrix = moved(matrix, input.device)
        input = matmul(matrix, input) if axis == 0 else matmul(input, matrix.t())
    return input


def upsample(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """PyTorch's old name of ``interpolate``."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """An old name of ``interpolate`` with mode "nearest"."""
    _warn_of_old_name("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """An old name of ``interpolate`` with mode "bilinear", corners aligned."""
    _warn_of_old_name("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _warn_of_old_name(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3
    )


def _extents(
    x: Any, size: Any, scale_factor: Any, mode: str, is_recomputed: bool
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """The new extents, and the factors that positions are computed with (None: the extents' ratios)."""
    dims = x.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    name, given = ("output size", size) if size is not None else ("scale_factor", scale_factor)
    if isinstance(given, list | tuple):
        if len(given) != dims:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(x.shape[2:])} and {name} of {given}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format."
            )
        values = tuple(given)
    else:
        values = (given,) * dims
    if size is not None:
        for n in values:
            if not is_whole(n):
                raise TypeError(f"interpolate(): expected size to be int or a tuple of ints, but got {size}")
        return tuple(int(n) for n in values), None
    for f in values:
        if not isinstance(f, int | float | np.generic | TensorBase):
            raise TypeError(f"interpolate(): scale_factor must be of floats, but got {type(f).__name__}")
    factors = tuple(float(f) for f in values)
    if not all(math.isfinite(f) and f * n < 1 << 63 for n, f in zip(x.shape[2:], factors, strict=False)):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    rounded = tuple(math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True))
    return rounded, None if is_recomputed or mode == "area" else factors


def _check_mode(x: Any, mode: str) -> None:
    if x.ndim not in (3, 4, 5) or not (mode in _LINEAR or mode in ("nearest", "nearest-exact", "area", "bicubic")):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.ndim}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    needed = 4 if mode == "bicubic" else _LINEAR.get(mode, x.ndim)
    if x.ndim != needed:
        raise NotImplementedError(f"Got {x.ndim}D input, but {mode} mode needs {needed}D input")


def _mixed_bytes(
    x: Any, dim: int, out: int, factor: float | None, align_corners: bool, is_cubic: bool, antialias: bool
) -> Any:
    """The dimension of a uint8 tensor at ``out`` places, in uint8: as PyTorch does, weights are rounded to fixed point.

    In float32 every sum of such products is exact: its numerator is below 2 ** 24.
    """
    matrix = moved(_rounded_weights(x.shape[dim], out, factor, align_corners, is_cubic, antialias), x.device)
    sums = matmul(x.to(float32).movedim(dim, -1), matrix.t())
    return (sums + 0.5).floor().clamp(0, 255).to(uint8).movedim(-1, dim)


@kept
def _rounded_weights(
    extent: int, out: int, factor: float | None, align_corners: bool, is_cubic: bool, antialias: bool
) -> Any:
    """[out, extent] in float32: integers of 16 bits over a power of 2.

    Source: PyTorch's UpSampleKernel.cpp, compute_index_ranges_int16_weights.
    """
    if antialias:
        weights = _smooth_weights(extent, out, factor, align_corners, is_cubic)
    else:
        weights = np.zeros((out, extent))
        for places, part in taps_of((extent, out, factor, align_corners), is_cubic):
            np.add.at(weights, (np.arange(out), places), part)
    bits = next(n for n in range(22) if n == 21 or int(0.5 + weights.max() * (2 << n)) >= 1 << 15)
    return (np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)) / (1 << bits)).astype(np.float32)


@kept
def _smoothing(extent: int, out: int, factor: float | None, align_corners: bool, is_cubic: bool, dtype: Any) -> Any:
    """``_smooth_weights`` in a dtype."""
    return _smooth_weights(extent, out, factor, align_corners, is_cubic).astype(dtype.np)


def _smooth_weights(extent: int, out: int, factor: float | None, align_corners: bool, is_cubic: bool) -> Any:
    """[out, extent] in float64: weights of a filter as wide as an output element, or as an input element if wider."""
    if align_corners:
        scale = (extent - 1) / (out - 1) if out > 1 else 0.0
    else:
        scale = 1.0 / factor if factor else extent / out
    width = max(scale, 1.0)
    support = (2.0 if is_cubic else 1.0) * width
    centre = scale * (np.arange(out) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + support + 0.5).astype(np.int64), extent)
    at = np.arange(extent)
    distance = np.abs((at + 0.5 - centre[:, None]) / width)
    if is_cubic:
        near = (1.5 * distance - 2.5) * distance * distance + 1
        far = (((distance - 5) * distance + 8) * distance - 4) * -0.5
        weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    else:
        weights = np.maximum(1 - distance, 0.0)
    weights = np.where((at >= first[:, None]) & (at < last[:, None]), weights, 0.0)
    return weights / weights.sum(1, keepdims=True)
