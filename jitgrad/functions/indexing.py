"""Indexing: ``x[...]``, ``x[...] = v``, gather, select, masks.

Owns: what an index expression means: which views, then which one gather.
Must not know: how either is computed.

An index is read from left to right: integers, slices, None and Ellipsis become views; tensors, lists and masks are
collected and become one ``index`` operation over the view (PyTorch's ``applySlicing`` and ``dispatch_index``).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.dtypes import FLOATING, INTEGER, bool_, int64, uint8
from jitgrad.formatting import type_name
from jitgrad.functions.creation import full
from jitgrad.functions.devices import index_beside, moved
from jitgrad.functions.from_data import tensor
from jitgrad.functions.views import expand, reshape
from jitgrad.layouts import Size
from jitgrad.ops.aval import make_aval
from jitgrad.ops.indexing.indexing import MAX_INDICES
from jitgrad.ops.shapes import as_real, broadcast, check_fits, torch_dtype_name, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.assign import assign
from jitgrad.runtime.eager.overlap import check_apart
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result, new_tensor, tensor_class
from jitgrad.user_line import warn_user

__all__ = [
    "argwhere",
    "gather",
    "getitem",
    "index_add",
    "index_put",
    "index_select",
    "masked_fill",
    "masked_select",
    "nonzero",
    "scatter_add",
    "setitem",
    "take_along_dim",
    "tril",
    "triu",
]

_SELECT, _SLICE, _UNSQUEEZE, _ALIAS = OPS["select"], OPS["slice"], OPS["unsqueeze"], OPS["alias"]
_INDEX: tuple[Any, ...] = (None, *(OPS[f"index{k}"] for k in range(1, MAX_INDICES + 1)))
_PUT: tuple[Any, ...] = (None, *(OPS[f"index_put{k}"] for k in range(1, MAX_INDICES + 1)))
_PUT_ADD: tuple[Any, ...] = (None, *(OPS[f"index_put_accumulate{k}"] for k in range(1, MAX_INDICES + 1)))
_GATHER, _SCATTER_ADD, _INDEX_SELECT = OPS["gather"], OPS["scatter_add"], OPS["index_select"]
_MASKED_FILL, _TRIL, _TRIU, _COPY = OPS["masked_fill"], OPS["tril"], OPS["triu"], OPS["copy"]

Indexed = list[tuple[int, Any]]


def getitem(input: Any, index: Any) -> Any:
    """``input[index]``: a view for integers, slices, None and Ellipsis, a copy as soon as a tensor is involved."""
    kind = type(index)
    if kind is int:
        return door.apply(_SELECT, _needs_dimension(input), 0, index)
    if kind is slice:
        return door.apply(_SLICE, input, 0, *_slice_parts(index))
    picked = _picked(input, index if kind is tuple else (index,))
    if picked is not None:
        return door.apply(_INDEX[len(picked)], input, *picked, _FIRST_DIMS[len(picked)])
    view, indexed = _apply_views(input, index)
    if not indexed:
        if state.handler is not None:
            _note_pick(view, input, index)
        return door.apply(_ALIAS, input) if view is input else view
    dims, tensors = _split(indexed)
    return door.apply(_INDEX[len(dims)], view, *tensors, dims)


_FIRST_DIMS = tuple([tuple(range(k)) for k in range(MAX_INDICES + 1)])


def _picked(input: Any, items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Positions in the first dimensions, if an index is nothing else, or a mask: then there are no parts to look at."""
    own, plain = input._aval, tensor_class()
    if not 0 < len(items) <= min(len(own.shape), MAX_INDICES):
        return None
    for item in items:
        if type(item) is not plain:
            return None
        aval = item._aval
        if not aval.shape or aval.device is not own.device:
            return None
        if aval.dtype is not int64:
            is_mask = aval.dtype is bool_ and len(items) == 1 and aval.shape == own.shape[: len(aval.shape)]
            return nonzero(item, as_tuple=True) if is_mask and len(aval.shape) <= MAX_INDICES else None
    return items


def _note_pick(part: Any, input: Any, index: Any) -> None:
    """Tell the recorder of a part that was picked by positions it does not know, see Note [Picked parts]."""
    items = _as_items(index)
    handler = state.handler
    if handler is None or not any(map(_is_position, items)):
        return
    now = tuple([item.clone() if _is_position(item) else item for item in items])
    handler.note_pick(part, input, lambda x: getitem(x, now), lambda x, value: setitem(x, now, value))


def _is_position(item: Any) -> bool:
    """An integer tensor without dimensions."""
    return isinstance(item, TensorBase) and not item.ndim and item.dtype.category is INTEGER


def setitem(input: Any, index: Any, value: Any) -> None:
    """``input[index] = value``, in place."""
    if assign(input, index, value):
        return
    if not isinstance(value, TensorBase):
        value = _checked_number(input, value)
        if isinstance(index, TensorBase) and index.dtype is bool_ and index.shape == input.shape:
            door.apply_inplace(_MASKED_FILL, (input,), input, index, value)
            return
    if isinstance(index, bool):
        if index:
            copy_into(door.apply(_UNSQUEEZE, input, 0), value)
        return
    view, indexed = _apply_views(input, index, is_written=True)
    if not indexed:
        copy_into(view, value)
        return
    if not isinstance(value, TensorBase):
        value = full((), value, dtype=input.dtype, device=input.device)
    elif value.dtype is not input.dtype and value.numel() == 1 and _is_one_mask(index):
        value = value.to(input.dtype)
    dims, tensors = _split(indexed)
    value = _without_leading_ones(value, view.ndim - len(dims) + max(t.ndim for t in tensors))
    check_apart(view, value, *tensors)
    door.apply_inplace(_PUT[len(dims)], (view,), view, value, *tensors, dims)


def _without_leading_ones(value: Any, rank: int) -> Any:
    """Leading extents of 1 that a target of ``rank`` dimensions lacks are dropped, as PyTorch does."""
    extra = value.ndim - rank
    return reshape(value, value.shape[extra:]) if extra > 0 and all(n == 1 for n in value.shape[:extra]) else value


def _checked_number(input: Any, value: Any) -> bool | int | float | complex:
    """The number to be assigned, as the tensor's dtype can hold it.

    Raises:
        TypeError: it is no number.
        RuntimeError: the dtype does not hold it; halves take what is too large as infinity, as PyTorch's do.
        ValueError: an int of more than 64 bits.
    """
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if isinstance(value, complex):
        return _fitting_complex(input, value)
    if not isinstance(value, bool | int | float):
        module, name = type(value).__module__, type(value).__name__
        shown = name if module == "builtins" else f"{module}.{name}"
        raise TypeError(f"can't assign a {shown} to a {type_name(input._aval)}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    dtype = input.dtype
    category = dtype.category
    if category is INTEGER or dtype.itemsize > 2:
        check_fits(value, dtype)
    return value if category >= FLOATING else int(value) if category is INTEGER else bool(value)


def _fitting_complex(input: Any, value: complex) -> Any:
    """A complex number to be assigned. RuntimeError where the tensor is real and the number is not."""
    if input.dtype.is_complex:
        return value
    return _checked_number(input, as_real(value, input.dtype.c_name))


def _is_one_mask(index: Any) -> bool:
    """Whether all that indexes by value is one mask: what is assigned is then cast, otherwise it is not."""
    tensors = [x for x in _as_items(index) if isinstance(x, TensorBase) and (x.ndim or x.dtype is bool_)]
    return len(tensors) == 1 and tensors[0].dtype is bool_ and tensors[0].ndim > 0


def copy_into(view: Any, value: Any) -> None:
    """Overwrite a view with a number, or with a tensor that is broadcast and cast."""
    if isinstance(value, TensorBase):
        shape = view._aval.shape
        if value._aval.shape != shape:
            value = _without_leading_ones(value, len(shape))
            OPS["expand"].aval(value._aval, shape)  # raises what PyTorch raises
        if value._aval.device is not view._aval.device:
            value = moved(value, view._aval.device)
    door.apply_inplace(_COPY, (view,), view, value)


def put_into(view: Any, value: Any) -> None:
    """``copy_into`` of what is assigned to a part by a hit: a number may be another one at each call."""
    copy_into(view, value if isinstance(value, TensorBase) else _checked_number(view, value))


def _needs_dimension(input: Any) -> Any:
    if not input._aval.shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    return input


_BOUNDS = (int, type(None))
"""The types of a slice's bounds."""


def _slice_parts(index: slice) -> tuple[int | None, int | None, int]:
    start, stop, step = index.start, index.stop, index.step
    if step is None and type(start) in _BOUNDS and type(stop) in _BOUNDS:
        return start, stop, 1
    try:
        start, stop, step = (None if x is None else operator.index(x) for x in (start, stop, step))
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    step = 1 if step is None else step
    if step <= 0:
        raise ValueError("step must be greater than zero" if step else "slice step cannot be zero")
    return start, stop, step


def _as_items(index: Any) -> tuple[Any, ...]:
    """The index as a tuple; lists, arrays and ranges become tensors."""
    items = index if type(index) in (tuple, Size) else (index,)
    if type(index) is list and len(index) < 32 and any(map(_makes_a_tuple, index)):
        warn_user(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of "
            "x[seq]."
        )
        items = tuple(index)
    return tuple(_as_item(item) for item in items)


def _makes_a_tuple(item: Any) -> bool:
    """Whether a list with such an item is read as a tuple: NumPy's old rule, which PyTorch keeps."""
    return item is None or item is Ellipsis or isinstance(item, TensorBase | list | tuple | slice | np.ndarray)


def _as_item(item: Any) -> Any:
    if isinstance(item, bool):
        return tensor(item, device=CPU)
    if isinstance(item, TensorBase):
        return _as_mask(item) if item.dtype is uint8 else item
    if item is None or item is Ellipsis or isinstance(item, int | slice):
        return item
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, list | tuple | np.ndarray | range):
        made = tensor(list(item) if isinstance(item, range) else item, device=CPU)
        return made.long() if made.numel() == 0 else made
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type(item).__name__})"
    )


def _as_mask(item: Any) -> Any:
    """Bytes index as bools do, an old rule that PyTorch keeps."""
    warn_user("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
    return item.to(bool_)


def _consumed(item: Any) -> int:
    """How many dimensions of the input an item indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, TensorBase) and item.dtype is bool_ else 1


def _used_by_basic(items: tuple[Any, ...]) -> tuple[int, bool]:
    """(How many dimensions the items index, whether all are integers, slices, None and Ellipsis, as most are)."""
    used = 0
    for item in items:
        kind = type(item)
        if kind is int or kind is slice:
            used += 1
        elif item is not None and item is not Ellipsis:
            return 0, False
    return used, True


def _apply_views(input: Any, index: Any, is_written: bool = False) -> tuple[Any, Indexed]:
    """The view that the basic items make, and the tensors that index it, by dimension.

    An integer tensor without dimensions selects: a view, as an integer does, which needs its value. In a trace that is
    only read this would end the segment and make another path for every value: there it is a gather, of the same
    values, but of memory of its own (Note [Picked parts]).
    """
    reads_value = is_written or state.handler is None
    rank = len(input._aval.shape)
    items = index if type(index) is tuple else (index,)
    used, is_basic = _used_by_basic(items)
    if not is_basic:
        items = _as_items(index)
        used = sum(_consumed(item) for item in items)
    if used > rank:
        if isinstance(index, slice):
            _slice_parts(index)
        if not rank:
            _needs_dimension(input)
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    if items.count(Ellipsis) > 1 if is_basic else sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    view, dim = input, 0
    indexed: Indexed = []
    for item in items:
        if type(item) is int:
            view = door.apply(_SELECT, view, dim, item)
        elif item is Ellipsis:
            dim += rank - used
        elif item is None:
            view = door.apply(_UNSQUEEZE, view, dim)
            dim += 1
        elif isinstance(item, TensorBase):
            if reads_value and _is_position(item) and getattr(item, "_level", None) is None:
                view = door.apply(_SELECT, view, dim, int(item))
            else:
                view, dim = _collect(view, dim, item, indexed, is_written)
        elif isinstance(item, slice):
            parts = _slice_parts(item)
            if parts != (None, None, 1):
                view = door.apply(_SLICE, view, dim, *parts)
            dim += 1
        else:
            view = door.apply(_SELECT, view, dim, item)
    if len(indexed) > MAX_INDICES:
        raise IndexError(f"more than {MAX_INDICES} tensors in one index are not supported")
    return view, indexed


def _collect(view: Any, dim: int, item: Any, indexed: Indexed, is_written: bool) -> tuple[Any, int]:
    """Note a tensor as the index of ``dim``; a mask indexes as many dimensions as it has."""
    if item.dtype is not bool_:
        if not item.ndim and item.dtype.category is INTEGER and not is_written:
            # an index without dimensions selects, so it takes no part in the placement of the others
            return door.apply(_INDEX[1], view, _beside(view, item), (dim,)), dim
        indexed.append((dim, _beside(view, item)))
        return view, dim + 1
    if item.ndim == 0:
        view = door.apply(_UNSQUEEZE, view, dim)
        item = reshape(item, (1,))
    for k, (n, m) in enumerate(zip(item.shape, view.shape[dim : dim + item.ndim], strict=True)):
        if n != m:
            raise IndexError(
                f"The shape of the mask {list(item.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(view.shape)} at index {dim + k}"
            )
    positions = [_beside(view, p) for p in nonzero(item, as_tuple=True)]
    indexed.extend((dim + k, position) for k, position in enumerate(positions))
    return view, dim + item.ndim


def _beside(view: Any, item: Any) -> Any:
    return item if item._aval.device is view._aval.device else index_beside(view, item)


def _split(indexed: Indexed) -> tuple[tuple[int, ...], list[Any]]:
    return tuple(d for d, _ in indexed), [t for _, t in indexed]


# --- named functions ---


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of nonzero elements: [count, ndim], or one vector per dimension. Reads the values."""
    array = input._ndarray()
    found = (array if array.ndim else np.atleast_1d(array)).nonzero()
    if as_tuple and input._aval.device is CPU and state.handler is None:
        aval = make_aval((found[0].size,), int64)
        return tuple([new_result(aval, p if p.base is None else p.copy()) for p in found])
    if as_tuple:
        return tuple(tensor(positions, device=input.device) for positions in found)
    # PyTorch's result lies in memory column by column
    count, width = found[0].size, input.ndim
    if width and input._aval.device is CPU and state.handler is None:
        rows = np.empty((count, width), np.int64, "F")
        for d, positions in enumerate(found):
            rows[:, d] = positions
        return new_result(make_aval((count, width), int64, (1, count)), rows)
    columns = np.array(found) if input.ndim else np.zeros((0, len(found[0])), np.int64)
    is_plain = state.handler is None
    made = new_result(make_aval(columns.shape, int64), columns) if is_plain else tensor(columns, device=CPU)
    aval = make_aval(columns.shape[::-1], int64, (1, columns.shape[1]))
    return moved(new_tensor(aval, made._storage), input.device)


argwhere = nonzero


def masked_select(input: Any, mask: Any) -> Any:
    """The elements where ``mask`` holds, in a vector. Reads the mask."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast("masked_select", input.shape, mask.shape)
    positions = np.flatnonzero(np.broadcast_to(mask._ndarray(), shape))
    return door.apply(OPS["masked_select"], input, tensor(positions, device=input.device), shape)


def index_select(input: Any, dim: int, index: Any) -> Any:
    """Rows of ``dim`` by a vector of positions."""
    return door.apply(_INDEX_SELECT, input, index, dim)


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """``out[i][j] = input[i][index[i][j]]`` for dim 1, and so on. RuntimeError for positions out of bounds.

    Args:
        input: of any shape.
        dim: along which positions are given.
        index: of integers, of as many dimensions, each but ``dim`` no larger.
        sparse_grad: the gradient of ``input`` is a sparse tensor, with one entry per position.
    """
    return door.apply(_GATHER, input, index, dim, True) if sparse_grad else door.apply(_GATHER, input, index, dim)


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """As ``gather``, the other dimensions broadcasting; without ``dim``, over the flattened input."""
    if dim is None:
        indices = _counted_from_the_end(reshape(indices, (-1,)), input._aval.numel)
        return door.apply(_GATHER, reshape(input, (-1,)), indices, 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if indices.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {torch_dtype_name(indices.dtype)}"
        )
    d = wrap_dim(dim, input.ndim)
    indices = _counted_from_the_end(indices, input._aval.shape[d] if input.ndim else 1)
    if not input.ndim:
        return door.apply(_GATHER, input, indices, 0)
    one = [tuple(1 if k == d else n for k, n in enumerate(x.shape)) for x in (input, indices)]
    common = broadcast("take_along_dim", *one)
    x = expand(input, (*common[:d], input.shape[d], *common[d + 1 :]))
    return door.apply(_GATHER, x, expand(indices, (*common[:d], indices.shape[d], *common[d + 1 :])), d)


def _counted_from_the_end(indices: Any, extent: int) -> Any:
    """Negative positions count from the end."""
    return door.apply(OPS["where"], indices < 0, indices + extent, indices)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """``out = input; out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
    return door.apply(_SCATTER_ADD, input, index, src, dim)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Add rows of ``source`` to the rows of ``dim`` that ``index`` names."""
    return door.apply(OPS["index_add"], input, index, source if alpha == 1 else source * alpha, dim)


def _check_indices(indices: Any) -> None:
    if not indices:
        raise RuntimeError("index_put_: at least one index tensor is needed")


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with ``values`` written (or added) where the index tensors point."""
    _check_indices(indices)
    items = tuple(indices)
    view, indexed = _apply_views(input, items)
    dims, tensors = _split(indexed)
    return door.apply((_PUT_ADD if accumulate else _PUT)[len(dims)], view, values, *tensors, dims)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``value`` where the mask holds, the input elsewhere."""
    return door.apply(_MASKED_FILL, input, mask, value)


def tril(input: Any, diagonal: int = 0) -> Any:
    """Zeros above the diagonal."""
    return door.apply(_TRIL, input, diagonal)


def triu(input: Any, diagonal: int = 0) -> Any:
    """Zeros below the diagonal."""
    return door.apply(_TRIU, input, diagonal)


def _write(op: Any, self: Any, *args: Any) -> Any:
    door.apply_inplace(op, (self,), self, *args)
    return self


def masked_fill_(self: Any, mask: Any, value: Any) -> Any:
    """In-place ``masked_fill``; the value may be one of the tensor's own elements."""
    if isinstance(value, TensorBase) and value._vc is self._vc and not value.ndim:
        value = door.apply(OPS["clone"], value)
    return _write(_MASKED_FILL, self, mask, value)


def scatter_add_(self: Any, dim: int, index: Any, src: Any) -> Any:
    """In-place ``scatter_add``."""
    check_apart(self, index, src)
    return _write(_SCATTER_ADD, self, index, src, dim)


def index_add_(self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """In-place ``index_add``."""
    check_apart(self, index, source)
    return _write(OPS["index_add"], self, index, source if alpha == 1 else source * alpha, dim)


def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In-place ``index_put``."""
    _check_indices(indices)
    view, indexed = _apply_views(self, tuple(indices))
    dims, tensors = _split(indexed)
    check_apart(view, values, *tensors)
    _write((_PUT_ADD if accumulate else _PUT)[len(dims)], view, values, *tensors, dims)
    return self


def tril_(self: Any, diagonal: int = 0) -> Any:
    """In-place ``tril``."""
    return _write(_TRIL, self, diagonal)


def triu_(self: Any, diagonal: int = 0) -> Any:
    """In-place ``triu``."""
    return _write(_TRIU, self, diagonal)


INPLACE_INDEXING = (masked_fill_, scatter_add_, index_add_, index_put_, tril_, triu_)
