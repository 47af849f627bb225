"""cat, stack and their relatives: pieces, turns, diagonals, products of sets.

Owns: their public signatures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations as index_combinations
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import float_param, get_default_dtype, int64
from jitgrad.functions._bind import ints
from jitgrad.functions.from_data import tensor
from jitgrad.functions.views import (
    expand,
    flip,
    reshape,
    reshape_result,
    tensor_split,
    transpose,
    unsqueeze,
)
from jitgrad.layouts import Size
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import check_allocatable, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import broadcast, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.ops.views.splitting import check_parts
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cat",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "diag",
    "diag_embed",
    "diagflat",
    "dsplit",
    "dstack",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "kron",
    "meshgrid",
    "pad",
    "rot90",
    "row_stack",
    "split_with_sizes",
    "stack",
    "sum_to_size",
    "vsplit",
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
    if indexing is None:
        warn_once(
            "meshgrid: in an upcoming release, it will be required to pass the indexing argument (\"ij\", as now, or "
            "\"xy\")."
        )
    if indexing == "xy" and len(vectors) > 1:
        y, x, *rest = meshgrid(vectors[1], vectors[0], *vectors[2:], indexing="ij")
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
    if mode != "constant":
        return _padding_modes.pad_by_content(input, pad, mode, value)
    if not isinstance(pad, tuple | list):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}")
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension")
    lo, hi = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        lo[-1 - i], hi[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return door.apply(_PAD, input, tuple(lo), tuple(hi), 0.0 if value is None else float_param(value))


row_stack = vstack


def dstack(tensors: Sequence[Any]) -> Any:
    """Join along dimension 2, vectors as rows of a matrix of depth 1."""
    if not tensors:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return cat([_at_least_3(x) for x in tensors], 2)


def column_stack(tensors: Sequence[Any]) -> Any:
    """Join along dimension 1, vectors and numbers as columns."""
    if not tensors:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    return cat([reshape(x, (x.numel(), 1)) if x.ndim < 2 else x for x in tensors], 1)


def _at_least_3(x: Any) -> Any:
    if x.ndim == 2:
        return unsqueeze(x, -1)
    return reshape(x, (1, x.numel(), 1)) if x.ndim < 2 else x


def _each(tensors: tuple[Any, ...], convert: Callable[[Any], Any]) -> Any:
    """Of one tensor the result, of several or of a list a tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return convert(tensors[0])
    found = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    _check_tensors(found)
    return tuple(convert(x) for x in found)


def _check_tensors(tensors: Sequence[Any]) -> None:
    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")


def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors; of several tensors a tuple."""
    return _each(tensors, lambda x: _at_least(1, x))


def atleast_2d(*tensors: Any) -> Any:
    """Vectors as rows; of several tensors a tuple."""
    return _each(tensors, lambda x: _at_least(2, x))


def atleast_3d(*tensors: Any) -> Any:
    """Vectors as [1, n, 1], matrices as [m, n, 1]; of several tensors a tuple."""
    return _each(tensors, _at_least_3)


# --- pieces ---


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of these extents along ``dim``, which they must fill."""
    if not split_sizes and input.ndim and not input.shape[wrap_dim(dim, input.ndim)]:
        return ()
    return tuple(door.apply(OPS["split_with_sizes"], input, tuple(split_sizes), dim))


def _split_along(name: str, rank: int, input: Any, cuts: Any) -> tuple[Any, ...]:
    if input.ndim < rank:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with {input.ndim} "
            "dimensions!"
        )
    dim = 0 if name == "vsplit" or input.ndim == 1 else rank - 1 if name == "dsplit" else 1
    if isinstance(cuts, int) and (cuts == 0 or input.shape[dim] % cuts):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} "
            f"is not divisible by the split_size {cuts}!"
        )
    return tensor_split(input, cuts, dim)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along dimension 1 (0 of vectors): so many equal ones, or cut at indices."""
    return _split_along("hsplit", 1, input, indices_or_sections)


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along dimension 0 of at least a matrix: so many equal ones, or cut at indices."""
    return _split_along("vsplit", 2, input, indices_or_sections)


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along dimension 2: so many equal ones, or cut at indices."""
    return _split_along("dsplit", 3, input, indices_or_sections)


# --- turns ---


def fliplr(input: Any) -> Any:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


def flipud(input: Any) -> Any:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Turned ``k`` times by 90 degrees, from the first of ``dims`` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (wrap_dim(d, input.ndim) for d in dims)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    if k % 2 == 0:
        return flip(input, (first, second)) if k % 4 else input.clone()
    return transpose(flip(input, (second,) if k % 4 == 1 else (first,)), first, second).clone()


# --- diagonals ---


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Zeros with the last dimension of ``input`` on the diagonals of dimensions ``dim1`` and ``dim2``."""
    rank = input.ndim + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not input.ndim:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    shape = list(input.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, input.shape[-1] + abs(offset))
    return call("diagonal_backward", input, tuple(shape), offset, first, second)


def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on a diagonal, or a copy of a matrix's diagonal."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal) if input.ndim == 1 else input.diagonal(diagonal).clone()


def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix with all elements on a diagonal."""
    return diag_embed(reshape(input, (input.numel(),)), offset)


def block_diag(*tensors: Any) -> Any:
    """The matrix with these matrices along its diagonal, zeros elsewhere; vectors are rows.

    Raises:
        TypeError: for anything but tensors.
        RuntimeError: for a tensor of more than two dimensions.
    """
    _check_tensors(tensors)
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    blocks = [_at_least(2, x) for x in tensors]
    if not blocks:
        return call("full", 0.0, (1, 0), get_default_dtype())
    width, start, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(call("constant_pad", x, (0, start), (0, width - start - x.shape[1]), 0.0))
        start += x.shape[1]
    return cat(rows, 0)


# --- products of sets ---


def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: every element of ``input`` times the whole of ``other``."""
    rank = max(input.ndim, other.ndim)
    a, b = (x if x.ndim == rank else reshape(x, (1,) * (rank - x.ndim) + x.shape) for x in (input, other))
    wide = reshape(a, tuple(n for m in a.shape for n in (m, 1))) * reshape(b, tuple(n for m in b.shape for n in (1, m)))
    return reshape_result(wide, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def cartesian_prod(*tensors: Any) -> Any:
    """All tuples of elements of vectors: [n1 * n2 * .., k], or the vector itself if it is alone."""
    for nr, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {nr} in argument 0, but got {type(x).__name__}")
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(x, (x.numel(),)) for x in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of ``r`` elements of a vector, in order: [count, r]."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return call("full", 0, (0,), input.dtype)
    count = math.comb(input.shape[0] + (r - 1 if with_replacement else 0), r)
    check_parts("combinations", r)
    check_allocatable([make_aval((count, r), int64)])  # it counts them one by one
    choose = combinations_with_replacement if with_replacement else index_combinations
    chosen = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return stack([input.index_select(0, tensor(column)) for column in chosen.T.copy()], 1)


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All expanded to their common shape. RuntimeError if they have none."""
    found = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    _check_tensors(found)
    shape = broadcast("broadcast_tensors", *(x.shape for x in found)) if found else ()
    return tuple(expand(x, shape) for x in found) if len(found) > 1 else tuple(found)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to; an int is a shape of one dimension. RuntimeError if none."""
    for s in shapes:
        if not isinstance(s, int | tuple | list):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s}")
    rows = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return Size(broadcast("broadcast_shapes", *rows) if rows else ())


def sum_to_size(input: Any, *size: Any) -> Any:
    """Sums over the dimensions that broadcasting from ``size`` would expand. RuntimeError if it could not."""
    wanted, shape = ints(size), input.shape
    missing = len(shape) - len(wanted)
    if missing < 0 or any(n not in (1, m) for n, m in zip(wanted, shape[missing:], strict=True)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    if not wanted:
        return input.sum()
    dims = [*range(missing), *(d for d in range(missing, len(shape)) if wanted[d - missing] != shape[d])]
    summed = input.sum(tuple(dims), True) if dims else input
    return reshape(summed, wanted) if missing else summed
