"""Views and other changes of shape.

Owns: their public signatures; ``reshape``'s choice between a view and a copy.
"""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import INTEGER, DType, int64
from jitgrad.functions._bind import ints
from jitgrad.functions.from_data import tensor
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, check_allocatable, is_dense, make_aval
from jitgrad.ops.shapes import wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.ops.views.splitting import check_parts
from jitgrad.ops.views.views import infer_shape, view_strides
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = [
    "adjoint",
    "as_strided",
    "broadcast_to",
    "chunk",
    "conjugate_matrix_transpose",
    "conjugate_transpose",
    "conjugated",
    "detach",
    "diagonal",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "repeat",
    "repeat_interleave",
    "reshape",
    "reshape_as",
    "reverse_dims",
    "roll",
    "select",
    "slice_",
    "split",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "tile",
    "transpose",
    "unbind",
    "unflatten",
    "unfold",
    "unsafe_chunk",
    "unsafe_split",
    "unsqueeze",
    "view",
    "view_as",
]

_STORAGES = LazyModule("jitgrad.functions.storages")


_VIEW, _UNSAFE_VIEW, _CONTIGUOUS = OPS["view"], OPS["unsafe_view"], OPS["contiguous"]
_TRANSPOSE, _T, _PERMUTE, _EXPAND = OPS["transpose"], OPS["t"], OPS["permute"], OPS["expand"]
_SQUEEZE, _UNSQUEEZE, _SELECT, _SLICE = OPS["squeeze"], OPS["unsqueeze"], OPS["select"], OPS["slice"]
_SQUEEZE_DIM, _SQUEEZE_DIMS = OPS["squeeze_dim"], OPS["squeeze_dims"]
_DIAGONAL, _UNFOLD, _AS_STRIDED, _DETACH = OPS["diagonal"], OPS["unfold"], OPS["as_strided"], OPS["detach"]
_SPLIT, _SPLIT_WITH_SIZES, _UNBIND = OPS["split"], OPS["split_with_sizes"], OPS["unbind"]
_UNSAFE_SPLIT = OPS["unsafe_split"]
_FLIP, _ROLL, _REPEAT = OPS["flip"], OPS["roll"], OPS["repeat"]


def reshape(input: Any, *shape: Any) -> Any:
    """The same elements in another shape: a view where the layout allows it, else a copy. -1 infers one extent."""
    wanted = ints(shape)
    aval = input._aval
    if aval.is_contiguous or _is_a_view(aval, wanted):
        return door.apply(_VIEW, input, wanted)
    return door.apply(_UNSAFE_VIEW, door.apply(_CONTIGUOUS, input, None), wanted)


@functools.lru_cache(maxsize=4096)
def _is_a_view(aval: Aval, shape: tuple[int, ...]) -> bool:
    """Whether the memory of ``aval`` can be looked at in another shape: a walk over strides, the same at each step."""
    return view_strides(aval, infer_shape(shape, aval.numel)) is not None


def reshape_result(result: Any, shape: tuple[int, ...]) -> Any:
    """What a function has just made, in another shape. Nobody else sees it, so to the user it is no view."""
    return door.apply(_UNSAFE_VIEW, result, shape)


def own_result(result: Any) -> Any:
    """A view of what a function has just made. Nobody else sees the rest, so to the user it is no view.

    A part with gaps is copied: in a compiled step what is no view has memory of its own, without gaps.
    """
    aval = result._aval
    if aval.offset or not is_dense(aval):
        return door.apply(_CONTIGUOUS, result, None)
    return door.apply(_UNSAFE_VIEW, result, aval.shape)


def reshaped_copy(input: Any, shape: tuple[int, ...]) -> Any:
    """The same elements in another shape and in memory of their own, also where a view would do."""
    return door.apply(_UNSAFE_VIEW, door.apply(_CONTIGUOUS, input, None), shape)


def view(input: Any, *shape: Any) -> Any:
    """The same memory in another shape, or as elements of another dtype (``view(int32)``), outside of any graph.

    Elements of another size change the last extent. RuntimeError if the layout does not allow it.
    """
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _STORAGES.view_as_dtype(input, shape[0])
    return door.apply(_VIEW, input, ints(shape))


def view_as(input: Any, other: Any) -> Any:
    """``input.view(other.shape)``."""
    return door.apply(_VIEW, input, other.shape)


def reshape_as(input: Any, other: Any) -> Any:
    """``input.reshape(other.shape)``."""
    return reshape(input, other.shape)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""
    shape = input._aval.shape
    merged = _flattened(shape, start_dim, end_dim)
    return input if merged == shape and shape else reshape(input, merged)


@functools.lru_cache(maxsize=4096)
def _flattened(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...]:
    first, last = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several; one of ``sizes`` may be -1."""
    if not isinstance(sizes, tuple | list) or not all(isinstance(n, int) for n in sizes):
        if not sizes:
            raise RuntimeError("unflatten: sizes must be non-empty")
        raise TypeError(f"unflatten(): argument 'sizes' must be tuple of ints, not {type(sizes).__name__}")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    shape = input._aval.shape
    d = wrap_dim(dim, len(shape))
    if not shape:
        raise RuntimeError("unflatten: Dimension specified as 0 but tensor has no dimensions")
    return reshape(input, (*shape[:d], *infer_shape(tuple(sizes), shape[d]), *shape[d + 1 :]))


def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    whole = input if input._aval.is_contiguous else door.apply(_CONTIGUOUS, input, None)
    return door.apply(_VIEW, whole, (-1,))


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions."""
    return door.apply(_TRANSPOSE, input, dim0, dim1)


def t(input: Any) -> Any:
    """Transpose a matrix. RuntimeError above two dimensions."""
    return door.apply(_T, input)


def permute(input: Any, *dims: Any) -> Any:
    """Reorder all dimensions."""
    return door.apply(_PERMUTE, input, ints(dims))


def matrix_transpose(input: Any) -> Any:
    """Swap the last two dimensions (``x.mT``)."""
    if not input.ndim:
        return input
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return door.apply(_TRANSPOSE, input, -2, -1)


def conjugate_transpose(input: Any) -> Any:
    """A matrix with its dimensions swapped, conjugated (``x.H``). RuntimeError for other ranks, but for 0."""
    if input.ndim not in (0, 2):
        hint = " For batches of matrices, consider using tensor.mH" if input.ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.{hint}")
    return conjugated(matrix_transpose(input))


def adjoint(input: Any) -> Any:
    """Matrices with their dimensions swapped, conjugated. RuntimeError for vectors."""
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conjugated(matrix_transpose(input))


def conjugate_matrix_transpose(input: Any) -> Any:
    """The last two dimensions swapped, conjugated (``x.mH``). RuntimeError for vectors."""
    return conjugated(matrix_transpose(input))


def conjugated(x: Any) -> Any:
    """The conjugate; a real tensor itself."""
    return door.apply(OPS["conj_physical"], x) if x._aval.dtype.is_complex else x


def reverse_dims(input: Any) -> Any:
    """All dimensions in reverse order (``x.T``)."""
    if input.ndim != 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return door.apply(_PERMUTE, input, tuple(range(input.ndim - 1, -1, -1)))


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to new places, the others keeping their order."""
    sources, destinations = ((source,), (destination,)) if isinstance(source, int) else (source, destination)
    return door.apply(_PERMUTE, input, _order_of(len(input._aval.shape), tuple(sources), tuple(destinations)))


@functools.lru_cache(maxsize=256)
def _order_of(rank: int, sources: tuple[int, ...], destinations: tuple[int, ...]) -> tuple[int, ...]:
    """Which dimension comes to each place where some are moved."""
    if len(sources) != len(destinations):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same "
            f"number of dims as destination ({list(destinations)} dims)"
        )
    for name, dims in (("source", sources), ("destination", destinations)):
        if len({wrap_dim(d, rank) for d in dims}) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    placed = {wrap_dim(b, rank): wrap_dim(a, rank) for a, b in zip(sources, destinations, strict=True)}
    rest = iter(d for d in range(rank) if d not in placed.values())
    return tuple(placed[d] if d in placed else next(rest) for d in range(rank))


def expand(input: Any, *sizes: Any) -> Any:
    """Broadcast without copying; -1 keeps an extent."""
    return door.apply(_EXPAND, input, ints(sizes))


def expand_as(input: Any, other: Any) -> Any:
    """``input.expand(other.shape)``."""
    return door.apply(_EXPAND, input, other.shape)


def broadcast_to(input: Any, size: Any) -> Any:
    """As ``expand``."""
    return door.apply(_EXPAND, input, tuple(size))


def squeeze(input: Any, dim: Any = None) -> Any:
    """Drop dimensions of extent 1 (all, or those of ``dim`` that have it)."""
    if dim is None:
        return door.apply(_SQUEEZE, input)
    if isinstance(dim, int):
        return door.apply(_SQUEEZE_DIM, input, dim)
    return door.apply(_SQUEEZE_DIMS, input, tuple(dim))


def unsqueeze(input: Any, dim: int) -> Any:
    """Insert a dimension of extent 1."""
    return door.apply(_UNSQUEEZE, input, dim)


def select(input: Any, dim: int, index: int) -> Any:
    """One index of one dimension, which goes away."""
    return door.apply(_SELECT, input, dim, index)


def slice_(input: Any, dim: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    """``x[..., start:stop:step, ...]`` along ``dim``."""
    return door.apply(_SLICE, input, dim, start, stop, step)


def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """``length`` indices of one dimension, from ``start``."""
    if isinstance(start, TensorBase):
        if start.ndim or start.dtype.category is not INTEGER:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    extent = input._aval.shape[wrap_dim(dim, input.ndim)]
    first = start + extent if start < 0 else start
    if not -extent <= start <= extent:
        raise IndexError(f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})")
    if first + length > extent:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({extent}).")
    return door.apply(_SLICE, input, dim, first, first + length, 1)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All indices of one dimension, as a tuple of views."""
    if not input._aval.numel and input.ndim and not input._aval.shape[wrap_dim(dim, input.ndim)]:
        return ()
    return door.apply(_UNBIND, input, dim)


def split(input: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of ``split_size`` along ``dim`` (the last may be smaller), or of the sizes in a list."""
    if isinstance(split_size, int):
        return door.apply(_SPLIT, input, split_size, dim)
    if isinstance(split_size, TensorBase) and not split_size.ndim:
        return door.apply(_SPLIT, input, int(split_size), dim)
    if not isinstance(split_size, tuple | list) or not all(isinstance(n, int) for n in split_size):
        found = type(split_size).__name__
        raise TypeError(f"split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not {found}")
    if not split_size and input.ndim and not input._aval.shape[wrap_dim(dim, input.ndim)]:
        return ()
    return door.apply(_SPLIT_WITH_SIZES, input, tuple(split_size), dim)


def _extent_to_chunk(input: Any, chunks: int, dim: int) -> int:
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    extent: int = input._aval.shape[wrap_dim(dim, input.ndim)]
    return extent


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most ``chunks`` views of equal size along ``dim``, the last possibly smaller."""
    extent = _extent_to_chunk(input, chunks, dim)
    if not extent:
        check_parts("chunk", chunks)
        return door.apply(_SPLIT_WITH_SIZES, input, (0,) * chunks, dim)
    return door.apply(_SPLIT, input, -(-extent // chunks), dim)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views along ``dim``: so many of nearly equal size, or cut at the given indices."""
    cuts = indices_or_sections
    if isinstance(cuts, TensorBase):
        if cuts.ndim > 1 or cuts.dtype is not int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional long "
                f"tensor, but got a tensor with {cuts.ndim} dims"
            )
        cuts = cuts.tolist()
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    extent = input._aval.shape[wrap_dim(dim, input.ndim)]
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        check_parts("tensor_split", cuts)
        size, extra = divmod(extent, cuts)
        ends = [(k + 1) * size + min(k + 1, extra) for k in range(cuts)]
        return tuple(door.apply(_SLICE, input, dim, a, b, 1) for a, b in pairwise([0, *ends]))
    places = [None, *cuts, None]
    return tuple(door.apply(_SLICE, input, dim, a, b, 1) for a, b in pairwise(places))


def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """As ``split``, but the results own their memory, and may be written."""
    return door.apply(_UNSAFE_SPLIT, input, split_size, dim)


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """As ``chunk``, but the results own their memory, and may be written."""
    extent = _extent_to_chunk(input, chunks, dim)
    return door.apply(_UNSAFE_SPLIT, input, max(1, -(-extent // chunks)), dim)


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two dimensions, as a new last dimension."""
    return door.apply(_DIAGONAL, input, offset, dim1, dim2)


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Sliding windows along one dimension, as a new last dimension."""
    return door.apply(_UNFOLD, input, dimension, size, step)


def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Any layout over the same storage. RuntimeError if it reaches beyond the storage."""
    return door.apply(_AS_STRIDED, input, tuple(size), tuple(stride), storage_offset)


def detach(input: Any) -> Any:
    """The same storage, outside the graph."""
    return door.apply(_DETACH, input)


def flip(input: Any, *dims: Any) -> Any:
    """A copy with the order of ``dims`` reversed."""
    return door.apply(_FLIP, input, ints(dims))


def _as_tuple(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """A copy with elements moved along ``dims``, wrapping around; without dims, over the flattened tensor."""
    return door.apply(_ROLL, input, _as_tuple(shifts), () if dims is None else _as_tuple(dims))


def repeat(input: Any, *sizes: Any) -> Any:
    """Copies side by side, ``sizes[d]`` times along dimension d."""
    return door.apply(_REPEAT, input, ints(sizes))


def tile(input: Any, *dims: Any) -> Any:
    """As ``repeat``; dimensions that have no number are not repeated."""
    sizes = ints(dims)
    return door.apply(_REPEAT, input, (1,) * (input.ndim - len(sizes)) + tuple(sizes))


def repeat_interleave(input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Each element ``repeats`` times in a row: one number for all, or a tensor with one for each (which is read).

    Args:
        output_size: the new extent, if it is known; it is only compared.

    Raises:
        RuntimeError: numbers of repeats that do not fit, or are negative; the new extent is not ``output_size``.
    """
    if output_size is not None:
        out = repeat_interleave(input, repeats, dim)
        found = out._aval.shape[0 if dim is None else wrap_dim(dim, out.ndim)]
        if found != output_size:
            raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {found} but got {output_size}")
        return out
    if isinstance(repeats, TensorBase):
        return _repeat_each(input, repeats, dim)
    if dim is None:
        return repeat_interleave(input if input.ndim == 1 else reshape(input, (-1,)), repeats, 0)
    shape = input._aval.shape
    d = wrap_dim(dim, len(shape))
    if not shape:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    if repeats < 0:
        raise RuntimeError("repeats can not be negative")
    x = input
    wide = expand(unsqueeze(x, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return reshape(door.apply(_CONTIGUOUS, wide, None), (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))


def _repeat_each(input: Any, repeats: Any, dim: int | None) -> Any:
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.dtype.category is not INTEGER:
        raise RuntimeError("repeats has to be Long or Int tensor")
    d = wrap_dim(dim, input.ndim)
    extent = input._aval.shape[d] if input.ndim else 1
    if repeats.numel() not in (1, extent) and repeats.ndim:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.numel()} and "
            f"input.size({d}) = {extent}"
        )
    counts = repeats._ndarray()
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    total = int(counts.sum(dtype=np.float64)) * (1 if counts.size == extent else extent)
    check_allocatable([make_aval((total,), int64)])
    rows = run_quietly(np.repeat, np.arange(extent), counts if counts.size == extent else counts.reshape(-1)[:1])
    return door.apply(OPS["index_select"], input, tensor(rows, device=input.device), d)


swapaxes, swapdims, moveaxis = transpose, transpose, movedim
