"""Writing values as ``torch.save`` pickles them.

Owns: ``Written``: the pickle of a value, and the memory of its storages.
Must not know: archives.

Names of PyTorch stand in the file, though PyTorch may not be there: ``_FileName`` is written as such. The pickler is
Python's own in its Python form, which lets a table say how objects of a class are written.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any, ClassVar

import numpy as np

from jitgrad.devices import META, Device
from jitgrad.dtypes import DType, bool_
from jitgrad.functions.storages import TypedStorage, UntypedStorage
from jitgrad.layouts import Size, layout, memory_format
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.aval import make_aval
from jitgrad.serialization.allowed import STORAGE_DTYPES
from jitgrad.sparse import SparseTensor
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase

__all__ = ["Written"]

_PROTOCOL = 2
_PLAIN: Any = pickle._Pickler
_NUMBERS: set[type] = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)}
"""NumPy's scalars: Python's numbers are written, which PyTorch reads without running code."""
_STORAGE_TYPES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}


class Written:
    """A value as a file holds it.

    Attributes:
        pickled: the pickle.
        records: the bytes of each storage, as arrays, in the order of their numbers.
    """

    def __init__(self, obj: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(obj)
        except (pickle.PicklingError, AttributeError) as error:
            raise TypeError(f"cannot save an object that cannot be pickled: {error}") from error
        self.pickled, self.records = file.getvalue(), pickler.records


class _FileName:
    """A name in the file, of PyTorch or of Python."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise AssertionError("only written")


class _Memory:
    """A storage, by its number."""

    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


_REBUILD = {
    name: _FileName("torch._utils", f"_rebuild_{name}")
    for name in ("tensor_v2", "parameter", "parameter_with_state", "sparse_tensor", "meta_tensor_no_storage")
}
_FROM_TYPE, _TENSOR = _FileName("torch._tensor", "_rebuild_from_type_v2"), _FileName("torch", "Tensor")
_ORDERED_DICT, _LAYOUT = _FileName("collections", "OrderedDict"), _FileName("torch.serialization", "_get_layout")
_DEVICE, _SIZE, _ENCODE = _FileName("torch", "device"), _FileName("torch", "Size"), _FileName("_codecs", "encode")


def _with_attributes(tensor: Any, rebuild: _FileName, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """How a tensor is made again, and what users have set on it."""
    kept = tensor.__dict__
    return (_FROM_TYPE, (rebuild, _TENSOR, parts, kept)) if kept else (rebuild, parts)


class _Pickler(_PLAIN):  # type: ignore[misc]
    """Pickles values, and collects the storages of tensors."""

    dispatch: ClassVar[dict[type, Any]] = dict(_PLAIN.dispatch)

    def __init__(self, file: Any) -> None:
        super().__init__(file, _PROTOCOL)
        self.records: list[Any] = []
        self._numbers: dict[tuple[int, int], tuple[int, DType]] = {}
        self._names: dict[tuple[str, str], _FileName] = {}
        self._keep: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        """The reference that stands for a storage."""
        if isinstance(obj, UntypedStorage):
            dtype = obj.dtype if isinstance(obj, TypedStorage) else None
            obj = self._memory(obj._tensor, dtype)
        return obj.pid if type(obj) is _Memory else None

    def reducer_override(self, obj: Any) -> Any:
        """How a tensor or an ordered dictionary is made again."""
        if isinstance(obj, TensorBase):
            return self._reduced(obj)
        if isinstance(obj, OrderedDict) and type(obj).__module__.startswith("jitgrad."):
            return (_ORDERED_DICT, *obj.__reduce__()[1:])
        return NotImplemented

    def _reduced(self, tensor: Any) -> tuple[Any, ...]:
        if isinstance(tensor, Parameter):
            return self._parameter(tensor)
        if isinstance(tensor, SparseTensor):
            parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
            return _REBUILD["sparse_tensor"], (tensor.layout, parts)
        if type(tensor) is not Tensor:
            raise TypeError(f"cannot save {type(tensor).__qualname__}, a subclass of Tensor")
        return self._dense(tensor)

    def _dense(self, tensor: Any) -> tuple[Any, ...]:
        tensor._sync()  # its memory is what is saved, so it must hold the value
        aval = tensor._aval
        parts: tuple[Any, ...]
        if aval.device is META:
            parts = (aval.dtype, aval.shape, aval.stride, tensor.requires_grad)
            return _with_attributes(tensor, _REBUILD["meta_tensor_no_storage"], parts)
        memory = self._memory(tensor, aval.dtype)
        parts = (memory, aval.offset, aval.shape, aval.stride, tensor.requires_grad, OrderedDict())
        return _with_attributes(tensor, _REBUILD["tensor_v2"], parts)

    def _parameter(self, parameter: Any) -> tuple[Any, ...]:
        if type(parameter) is not Parameter:
            raise TypeError(f"cannot save {type(parameter).__qualname__}, a subclass of Parameter")
        data = parameter.detach()
        self._keep.append(data)
        if parameter.__dict__:
            return _REBUILD["parameter_with_state"], (data, parameter.requires_grad, OrderedDict(), parameter.__dict__)
        return _REBUILD["parameter"], (data, parameter.requires_grad, OrderedDict())

    def _memory(self, tensor: Any, dtype: DType | None) -> _Memory:
        """The reference to a tensor's storage, which is recorded once. ``dtype`` None: bytes."""
        tensor._sync()
        storage, aval = tensor._storage, tensor._aval
        kind = dtype.name if dtype is not None else ""
        itemsize = dtype.itemsize if dtype is not None else 1
        known = self._numbers.get((storage.addr, storage.nbytes))
        if known is None:
            known = len(self.records), aval.dtype
            self._numbers[storage.addr, storage.nbytes] = known
            self._keep.append(storage)
            self.records.append(storage.array(make_aval((storage.nbytes,), bool_)).view(np.uint8))
        elif known[1] is not aval.dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        numel = storage.nbytes // itemsize
        storage_type = self._name("torch.storage" if not kind else "torch", _STORAGE_TYPES[kind])
        return _Memory(("storage", storage_type, str(known[0]), str(aval.device), numel))

    def _name(self, module: str, name: str) -> _FileName:
        """One object per name, which the pickle then refers to."""
        return self._names.setdefault((module, name), _FileName(module, name))

    def _save_name(self, obj: _FileName) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def _save_dtype(self, obj: DType) -> None:
        self.save(self._name("torch", obj.name))

    def _save_memory_format(self, obj: memory_format) -> None:
        self.save(self._name("torch", obj._name))

    def _save_layout(self, obj: layout) -> None:
        self.save_reduce(_LAYOUT, (repr(obj),), obj=obj)

    def _save_device(self, obj: Device) -> None:
        self.save_reduce(_DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index), obj=obj)

    def _save_size(self, obj: Size) -> None:
        self.save_reduce(_SIZE, (tuple(obj),), obj=obj)

    def _save_bytes(self, obj: bytes) -> None:
        """As protocol 2 does it; PyTorch does not read the form that it has for none."""
        self.save_reduce(_ENCODE, (obj.decode("latin1"), "latin1"), obj=obj)

    def _save_number(self, obj: Any) -> None:
        self.save(obj.item())

    dispatch |= dict.fromkeys(_NUMBERS, _save_number)
    dispatch |= {
        _FileName: _save_name,
        DType: _save_dtype,
        Device: _save_device,
        Size: _save_size,
        bytes: _save_bytes,
        layout: _save_layout,
        memory_format: _save_memory_format,
    }
