"""Reading the pickle of a file without running code.

Owns: ``read_pickle``: which operations of a pickle there are, and tensors over the file's storages.
Must not know: where records come from.

The machine is Python's own, ``pickle._Unpickler``, with three operations less and four others: calls, new objects and
state are only for what ``allowed`` lists.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jitgrad.devices import CPU, META
from jitgrad.dtypes import DType, bool_
from jitgrad.functions.creation import empty
from jitgrad.functions.devices import moved
from jitgrad.functions.storages import TypedStorage, UntypedStorage
from jitgrad.layouts import sparse_coo
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.aval import make_aval
from jitgrad.serialization.allowed import (
    DTYPES,
    STORAGE_DTYPES,
    Call,
    RefusedError,
    StorageType,
    find_global,
    is_declared,
    is_safe_class,
)
from jitgrad.serialization.places import Places
from jitgrad.sparse import sparse_coo_tensor
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = ["Unpickler", "checked_sparse", "counts", "item_size", "laid_out", "read_pickle"]

_OPERATIONS = (
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT "
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BINSTRING SHORT_BINSTRING TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET DICT LIST APPEND APPENDS SETITEM SETITEMS ADDITEMS "
    "FROZENSET GLOBAL STACK_GLOBAL BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE BINPERSID"
).split()
_CODES = [getattr(pickle, name)[0] for name in _OPERATIONS]
_MAX_NBYTES = 1 << 62
_PLAIN: Any = pickle._Unpickler


def item_size(name: str) -> int:
    """Bytes of an element of a storage of a dtype; 1 for a storage of bytes."""
    return DTYPES.get(name, bool_).itemsize


def read_pickle(archive: Any, places: Places) -> Any:
    """What a file holds; ``archive`` is an ``Archive`` or a ``LegacyFile``.

    Raises:
        RefusedError: it names what is not allowed.
    """
    return Unpickler(io.BytesIO(archive.pickled()), archive, places).load()


def _count(value: Any) -> int:
    """A number that may be an extent, a stride or an offset."""
    if type(value) is not int or not 0 <= value < _MAX_NBYTES:
        raise ValueError(f"{value!r} is no count")
    return value


def counts(values: Any) -> tuple[int, ...]:
    """Extents, strides or numbers of records. ValueError if they cannot be."""
    if not isinstance(values, tuple | list):
        raise ValueError(f"{values!r} are no counts")
    return tuple(map(_count, values))


def laid_out(row: Any, offset: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    """A tensor over the memory of ``row``, a tensor of one dimension.

    Raises:
        ValueError: it would lie outside, or is otherwise impossible.
    """
    offset, shape, steps = _count(offset), counts(size), counts(stride)
    if len(shape) != len(steps):
        raise ValueError("a tensor has another number of strides than of dimensions")
    aval = make_aval(shape, row._aval.dtype, steps, offset).on(row._aval.device)
    last = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    if aval.numel and (last >= row._aval.numel or aval.nbytes >= _MAX_NBYTES):
        raise ValueError("a tensor lies outside its storage")
    return _flagged(new_tensor(aval, row._storage), requires_grad)


def _flagged(tensor: Any, requires_grad: Any) -> Any:
    if type(requires_grad) is not bool or (requires_grad and not tensor._aval.dtype.is_inexact):
        raise ValueError("a tensor cannot require grad")
    return tensor.requires_grad_(requires_grad)


def checked_sparse(indices: Any, values: Any, size: Any, is_coalesced: Any) -> Any:
    """A sparse tensor of parts from a file. ValueError if they do not fit each other."""
    shape = counts(size)
    if any(part._aval.nbytes > part._storage.nbytes for part in (indices, values)):  # few bytes would ask for many
        raise ValueError("a part of a sparse tensor is longer than its storage")
    limits = np.array(shape[: indices.shape[0]], np.int64).reshape(-1, 1)
    places = indices.numpy(force=True)
    if ((places < 0) | (places >= limits)).any():
        raise ValueError("an index of a sparse tensor is outside")
    return sparse_coo_tensor(indices, values, shape, is_coalesced=bool(is_coalesced))


def _tensor(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} was expected")
    return value


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    return laid_out(_tensor(TypedStorage, storage)._tensor, offset, size, stride, False)


def _rebuild_tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Any:
    return laid_out(_tensor(TypedStorage, storage)._tensor, offset, size, stride, requires_grad)


def _rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Any:
    row = _tensor(UntypedStorage, storage)._tensor
    aval = make_aval((row._aval.nbytes // _tensor(DType, dtype).itemsize,), dtype).on(row._aval.device)
    row = new_tensor(aval, row._storage)
    _check_bools(row)
    return laid_out(row, offset, size, stride, requires_grad)


def _check_bools(row: Any) -> None:
    """ValueError for bytes that are neither True nor False in a tensor of bools."""
    if row._aval.dtype is bool_ and (row.cpu()._ndarray().view(np.uint8) > 1).any():
        raise ValueError("a bool that is neither True nor False")


def _rebuild_meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    aval = make_aval(counts(size), _tensor(DType, dtype), counts(stride)).on(META)
    return _flagged(new_tensor(aval, empty(0, dtype=dtype, device=META)._storage), requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    if layout is not sparse_coo:
        raise ValueError(f"tensors of layout {layout!r} are not supported")
    indices, values, size, *rest = data
    return checked_sparse(_tensor(TensorBase, indices), _tensor(TensorBase, values), size, *(rest or [False]))


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Any:
    if requires_grad and not _tensor(TensorBase, data)._aval.dtype.is_inexact:
        raise ValueError("a parameter cannot require grad")
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    made = _rebuild_parameter(data, requires_grad, hooks)
    made.__dict__.update(_tensor(dict, state[0] if isinstance(state, tuple) else state))
    return made


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor, and what users have set on it."""
    if kind is not Tensor:
        raise RefusedError(f"the file holds a subclass of Tensor, {kind!r}")
    made = _tensor(TensorBase, _tensor(Call, function).function(*_tensor(tuple, args)))
    made.__dict__.update(_tensor(dict, state[0] if isinstance(state, tuple) else state))
    return made


_REBUILD: dict[str, Callable[..., Any]] = {
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
}


class Unpickler(_PLAIN):  # type: ignore[misc]
    """The machine that reads a pickle, with the operations that make values and no others."""

    dispatch: ClassVar[dict[int, Any]] = {code: _PLAIN.dispatch[code] for code in _CODES}

    def __init__(self, stream: Any, archive: Any, places: Any) -> None:
        super().__init__(stream, encoding="utf-8")
        self._archive, self._places = archive, places
        self._rows: dict[tuple[str, str], UntypedStorage] = {}
        self._records: dict[str, tuple[Any, int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """What a name stands for. RefusedError if it is not allowed."""
        return Tensor if (module, name) == ("torch", "Tensor") else find_global(module, name, _REBUILD)

    def persistent_load(self, pid: Any) -> UntypedStorage:
        """The storage that a reference in the file means, on its device."""
        tag, kind, key, location, numel, *view = pid  # the oldest files say of which other storage it is a part
        if view not in ([], [None]):
            raise ValueError("a storage that is a part of another one")
        if tag != "storage" or not isinstance(kind, StorageType) or type(key) is not str or type(location) is not str:
            raise ValueError("a reference to something else than a storage")
        dtype = STORAGE_DTYPES[kind.name]
        if dtype and dtype not in DTYPES:
            raise RefusedError(f"the file holds tensors of torch.{dtype}, and jitgrad has no such dtype")
        found = self._rows.get((key, dtype))
        if found is None:
            found = self._rows[key, dtype] = self._row(key, dtype, location)
        if _count(numel) > found._tensor._aval.numel:
            raise ValueError("a storage is longer than its record")
        return found

    def _row(self, key: str, name: str, location: str) -> UntypedStorage:
        """A record as a storage of a dtype, or of bytes."""
        dtype, cls = DTYPES.get(name, bool_), TypedStorage if name else UntypedStorage
        record = self._records.get(key)
        if record is None:
            place = f"data/{key}"
            record = self._archive.storage(place, dtype.itemsize), self._archive.member(place).file_size
            self._records[key] = record
        storage, nbytes = record
        row = new_tensor(make_aval((nbytes // dtype.itemsize,), dtype), storage)
        if name:
            _check_bools(row)
        device = self._places.of(location, cls(row))
        return cls(row if device is CPU else moved(row, device))

    def load_reduce(self) -> None:
        """A call: of a name of the list, or of what was declared safe."""
        args, function = self.stack.pop(), self.stack[-1]
        if type(args) is not tuple:
            raise ValueError("a call without arguments")
        if isinstance(function, Call):
            self.stack[-1] = function.function(*args)
        elif is_declared(function) or (is_safe_class(function) and not args):
            self.stack[-1] = function(*args)
        else:
            raise ValueError("a call of what is no name of the list")

    def load_newobj(self) -> None:
        """A new object of a class that is safe, without its ``__init__``."""
        args, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, type) or not is_safe_class(kind) or type(args) is not tuple:
            raise ValueError("a new object of what is no class of the list")
        self.stack.append(kind.__new__(kind, *args))

    def load_build(self) -> None:
        """The state of an object: attributes of an ordered dictionary, or of an object of a class that is safe."""
        state, made = self.stack.pop(), self.stack[-1]
        if isinstance(made, type) or not (type(made) in (OrderedDict, Counter) or is_safe_class(type(made))):
            raise ValueError(f"state of an object of class {type(made).__name__}")
        if hasattr(made, "__setstate__") and is_safe_class(type(made)):
            made.__setstate__(state)
            return
        state, slots = state if isinstance(state, tuple) else (state, None)
        for name, value in (state or {}).items():
            made.__dict__[name] = value
        for name, value in (slots or {}).items():
            setattr(made, name, value)

    dispatch |= {pickle.REDUCE[0]: load_reduce, pickle.NEWOBJ[0]: load_newobj, pickle.BUILD[0]: load_build}
