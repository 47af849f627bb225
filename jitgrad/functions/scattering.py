"""Writes by position: copies with parts replaced, and their in-place forms.

Owns: the public signatures of scatter, scatter_reduce, index_copy, index_fill, masked_scatter, put, take, and of the
``*_scatter`` forms of views.
Must not know: how either is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import promote_types
from jitgrad.functions.creation import full_like
from jitgrad.functions.devices import to
from jitgrad.ops.shapes import wrap_dim
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.eager.overlap import check_apart
from jitgrad.state import autocasts
from jitgrad.tensor_base import TensorBase

__all__ = [
    "as_strided_scatter",
    "diagonal_scatter",
    "index_copy",
    "index_fill",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_reduce",
    "select_scatter",
    "slice_scatter",
    "take",
]

_SCATTER, _SCATTER_ADD, _MUL = OPS["scatter"], OPS["scatter_add"], OPS["mul"]
_INDEX_COPY, _INDEX_FILL = OPS["index_copy"], OPS["index_fill"]
_SCATTER_REDUCE = OPS["scatter_reduce"]
_MASKED_SCATTER, _PUT, _TAKE = OPS["masked_scatter"], OPS["put"], OPS["take"]


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy whose ``select(dim, index)`` is ``src``."""
    return door.apply(OPS["select_scatter"], input, src, dim, index)


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy whose slice ``start:end:step`` of ``dim`` is ``src``. RuntimeError for steps below 1."""
    wrap_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return door.apply(OPS["slice_scatter"], input, src, dim, start, end, step)


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy whose ``diagonal(offset, dim1, dim2)`` is ``src``."""
    return door.apply(OPS["diagonal_scatter"], input, src, offset, dim1, dim2)


def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A row-major copy whose ``as_strided(size, stride, storage_offset)`` is ``src``."""
    return door.apply(OPS["as_strided_scatter"], input, src, tuple(size), tuple(stride), storage_offset)


def _scatter_call(input: Any, dim: int, index: Any, src: Any, reduce: str | None, value: Any) -> tuple[Op, Any]:
    """The operation and its source, of ``scatter`` and ``scatter_``."""
    source = value if src is None else src
    if source is None:
        raise TypeError("scatter() missing 1 required argument: 'src' or 'value'")
    if isinstance(source, np.generic):
        source = source.item()
    if reduce is None:
        return _SCATTER, source
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    op = _SCATTER_ADD if reduce == "add" else _SCATTER_REDUCE
    return op, source if isinstance(source, TensorBase) else full_like(index, source, dtype=input.dtype)


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """``out = input; out[index[i][j]][j] = src[i][j]`` for dim 0, and so on.

    Args:
        input: what is copied.
        dim: along which ``index`` counts.
        index: positions, none negative; where two are equal, one of the sources is kept.
        src: a tensor at least as large as ``index``, or a number.
        value: the number, under PyTorch's other name.
        reduce: ``"add"`` adds and ``"multiply"`` multiplies instead of replacing.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or a position out of bounds.
    """
    op, source = _scatter_call(input, dim, index, src, reduce, value)
    if op is _SCATTER_REDUCE:
        return door.apply(op, input, index, _narrowed(source, index), dim, "prod", True)
    return door.apply(op, input, index, source, dim)


def scatter_(self: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """In-place ``scatter``."""
    check_apart(self, index, src)
    op, source = _scatter_call(self, dim, index, src, reduce, value)
    if op is _SCATTER_REDUCE:
        return _write(op, self, index, _narrowed(source, index), dim, "prod", True)
    return _write(op, self, index, source, dim)


def _narrowed(src: Any, index: Any) -> Any:
    """The part of a source that the index reaches."""
    have, wanted = src._aval.shape, index._aval.shape
    if have == wanted or len(have) != len(wanted) or any(n > m for n, m in zip(wanted, have, strict=True)):
        return src
    for dim, extent in enumerate(wanted):
        src = door.apply(OPS["slice"], src, dim, 0, extent, 1)
    return src


def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """``out = input; out[index[i][j]][j]`` combined with ``src[i][j]``, for dim 0, and so on.

    Args:
        input: what is copied.
        dim: along which ``index`` counts.
        index: positions, none negative.
        src: at least as large as ``index``, of the input's dtype.
        reduce: ``"sum"``, ``"prod"``, ``"mean"`` (of integers, rounded down), ``"amax"`` or ``"amin"``.
        include_self: whether the input's own elements count where a source arrives.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, a position out of bounds, no such reduction.
    """
    return door.apply(_SCATTER_REDUCE, input, index, _narrowed(src, index), dim, reduce, bool(include_self))


def scatter_reduce_(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place ``scatter_reduce``."""
    check_apart(self, index, src)
    return _write(_SCATTER_REDUCE, self, index, _narrowed(src, index), dim, reduce, bool(include_self))


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy whose rows of ``dim`` that ``index`` names are those of ``source``."""
    if autocasts and input.dtype.is_floating_point and source.dtype.is_floating_point:
        dtype = promote_types(input.dtype, source.dtype)
        input, source = to(input, dtype), to(source, dtype)
    return door.apply(_INDEX_COPY, input, index, source, dim)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy whose rows of ``dim`` that ``index`` names hold ``value``, a number or a 0-d tensor."""
    return door.apply(_INDEX_FILL, input, index, value, dim)


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy whose masked elements are those of ``source``, in order. RuntimeError if it has too few."""
    return door.apply(_MASKED_SCATTER, input, mask, source)


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with ``source`` written (or added) at positions of the flattened input."""
    return door.apply(_PUT, input, index, source, bool(accumulate))


def take(input: Any, index: Any) -> Any:
    """The elements at positions of the flattened input, in the shape of ``index``."""
    return door.apply(_TAKE, input, index)


def _write(op: Any, self: Any, *args: Any) -> Any:
    door.apply_inplace(op, (self,), self, *args)
    return self


def index_copy_(self: Any, dim: int, index: Any, source: Any) -> Any:
    """In-place ``index_copy``."""
    check_apart(self, index, source)
    return _write(_INDEX_COPY, self, index, source, dim)


def index_fill_(self: Any, dim: int, index: Any, value: Any) -> Any:
    """In-place ``index_fill``."""
    check_apart(self, index)
    return _write(_INDEX_FILL, self, index, value, dim)


def masked_scatter_(self: Any, mask: Any, source: Any) -> Any:
    """In-place ``masked_scatter``."""
    return _write(_MASKED_SCATTER, self, mask, source)


def put_(self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """In-place ``put``."""
    check_apart(self, index, source)
    return _write(_PUT, self, index, source, bool(accumulate))


INPLACE_SCATTERING: tuple[Callable[..., Any], ...] = (
    scatter_,
    scatter_reduce_,
    index_copy_,
    index_fill_,
    masked_scatter_,
    put_,
)
