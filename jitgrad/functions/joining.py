"""cat, stack and their relatives.

Owns: their public signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.door import door
from jitgrad.functions.views import reshape, unsqueeze
from jitgrad.lazy import LazyModule
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = [
    "cat",
    "concat",
    "concatenate",
    "hstack",
    "meshgrid",
    "pad",
    "stack",
    "vstack",
]


_padding_modes = LazyModule("jitgrad.functions.padding_modes")
_CAT, _STACK, _PAD = OPS["cat"], OPS["stack"], OPS["constant_pad"]


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Join along an existing dimension."""
    return door.apply(_CAT, tensors, dim)


concat = concatenate = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Join along a new dimension."""
    return door.apply(_STACK, tensors, dim)


def _at_least(rank: int, x: Any) -> Any:
    if x.ndim == 1 and rank == 2:
        return unsqueeze(x, 0)
    return reshape(x, (1,) * (rank - x.ndim) + x.shape) if x.ndim < rank else x


def hstack(tensors: Sequence[Any]) -> Any:
    """Join along dimension 1 (0 for vectors)."""
    if not tensors:
        raise RuntimeError("hstack expects a non-empty TensorList")
    parts = [_at_least(1, x) for x in tensors]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Any:
    """Join along dimension 0, vectors as rows."""
    if not tensors:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return cat([_at_least(2, x) for x in tensors], 0)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Coordinates of the grid that vectors span, in matrix order (``"ij"``) or with the first two swapped (``"xy"``).

    Raises:
        TypeError: for anything but tensors.
        RuntimeError: for tensors of several dtypes or of more than one dimension, or another order.
    """
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    for i, v in enumerate(vectors):
        if not isinstance(v, TensorBase):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(v).__name__}")
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for v in vectors:
        if v.ndim > 1:
            raise RuntimeError(f"Expected 0D or 1D tensor in the tensor list but got: {list(v.shape)}")
        if v.dtype is not vectors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing == "xy" and len(vectors) > 1:
        y, x, *rest = meshgrid(vectors[1], vectors[0], *vectors[2:])
        return (x, y, *rest)
    shape = tuple(v.numel() for v in vectors)
    grids = []
    for d, v in enumerate(vectors):
        grids.append(reshape(v, (1,) * d + (shape[d],) + (1,) * (len(shape) - d - 1)).expand(shape))
    return tuple(grids)


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Constants around a tensor: (before, after) pairs from the last dimension backwards; negative widths crop.

    Mode "reflect" puts the reflection there, "replicate" the border, "circular" the other end: of the last one to
    three dimensions of a tensor with one or two more.

    Raises:
        NotImplementedError: for another mode, or a rank that the mode does not take.
        RuntimeError: for an odd number of widths, or more than two per dimension.
    """
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if mode != "constant":
        return _padding_modes.pad_by_content(input, pad, mode, value)
    if len(pad) > 2 * input.ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension")
    lo, hi = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        lo[-1 - i], hi[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return door.apply(_PAD, input, tuple(lo), tuple(hi), 0.0 if value is None else value)
