"""``save`` and ``load``: tensors, and lists and dictionaries of them, in files that cannot run code.

Owns: the format and its checks.
Must not know: modules and optimizers (they have state dictionaries), traces.
In: nested dicts, lists, tuples of tensors and plain values. Out: a file; and from such a file, equal values.

The format is a zip archive without compression, as ``numpy.savez`` writes: ``storages/0.npy``, ... hold the memory that
tensors share, ``jitgrad.json`` says what stands where. NumPy can read the arrays. Nothing is pickled. A file may come
from anybody: whatever it says is checked before memory is touched, and no more is allocated than the file is long.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META, Device
from jitgrad.dtypes import DType, bool_, float32, float64, from_numpy_dtype, int32, int64
from jitgrad.functions.creation import empty
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.sparse import SparseTensor, sparse_coo_tensor
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = ["load", "save"]

_VERSION = 1
_INDEX = "jitgrad.json"
_DTYPES = {dtype.name: dtype for dtype in (bool_, int32, int64, float32, float64)}


def save(obj: Any, f: Any) -> None:
    """Write ``obj`` to a file.

    Tensors keep dtype, shape, strides, ``requires_grad`` and device; those that share memory, share it again; one that
    occurs twice is one again. Gradients and graphs are not saved.

    Args:
        obj: tensors, numbers, strings, bytes, None, dtypes, devices, and dicts, lists, tuples and sets of such; a
            module's or optimizer's ``state_dict()``.
        f: a path, or a binary file open for writing. A path is written under another name first: what is there is
            whole at any time.

    Raises:
        TypeError: something in ``obj`` cannot be saved; the message says where it stands.
        ValueError: ``obj`` contains itself.
        OSError: as ``open``.
    """
    writer = _Writer()
    index = {"version": _VERSION, "root": writer.encode(obj, "obj"), "tensors": writer.tensors}
    with _writable(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_INDEX, json.dumps(index))
        for nr, array in enumerate(writer.arrays):
            with archive.open(f"storages/{nr}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def load(f: Any, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """Read what ``save`` wrote. Safe for files from anywhere: nothing in them is executed.

    Args:
        f: a path, or a binary file open for reading that can seek.
        map_location: the device that tensors go to; a dict maps names of devices; None = where they were.
        weights_only: must be True: there is nothing else.

    Raises:
        RuntimeError: not such a file, or a damaged one.
        ValueError: ``weights_only=False``.
        OSError: as ``open``.
    """
    if not weights_only:
        raise ValueError("weights_only=False is not supported: files hold values, never code")
    with _readable(f) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _Reader(archive, file.seek(0, os.SEEK_END), map_location).read()
        except _DAMAGE as error:
            name = getattr(file, "name", "the file")
            raise RuntimeError(f"{name} is not a whole file of jitgrad.save: {error}") from error


_DAMAGE = (
    zipfile.BadZipFile, struct.error, KeyError, TypeError, ValueError, IndexError, EOFError, RecursionError,
    AttributeError, OverflowError,
)  # fmt: skip
"""What reading a file that is not what it should be may raise."""


@contextmanager
def _writable(f: Any) -> Iterator[Any]:
    """The file to write to; a path gets its new contents at the end, or keeps its old ones."""
    if hasattr(f, "write"):
        yield f
        return
    path = os.fspath(f)
    scratch = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(scratch, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        if os.path.exists(scratch):
            os.unlink(scratch)
        raise


@contextmanager
def _readable(f: Any) -> Iterator[Any]:
    if hasattr(f, "read"):
        yield f
        return
    with open(f, "rb") as file:
        yield file


# --- writing ---


class _Writer:
    """Turns values into JSON.

    Attributes:
        tensors: one record per tensor.
        arrays: the storages, each an array of one dimension.
    """

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.arrays: list[Any] = []
        self._storages: dict[tuple[int, int], int] = {}
        self._known: dict[int, int] = {}
        self._keep: list[Any] = []
        self._inside: set[int] = set()

    def encode(self, value: Any, path: str) -> Any:
        """The JSON form of a value: itself, or a tag and its contents."""
        if isinstance(value, np.generic):
            value = value.item()
        kind: Any = OrderedDict if isinstance(value, OrderedDict) else type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, TensorBase):
            return ["tensor", self._tensor(value, path)]
        if kind is DType:
            return ["dtype", value.name]
        if kind is Device:
            return ["device", str(value)]
        if kind is bytes:
            return ["bytes", base64.b64encode(value).decode()]
        if kind in _CONTAINERS:
            return self._container(value, path)
        hint = "; save its state_dict()" if hasattr(value, "state_dict") else ""
        raise TypeError(f"cannot save {kind.__module__}.{kind.__qualname__} at {path}{hint}")

    def _container(self, value: Any, path: str) -> list[Any]:
        if id(value) in self._inside:
            raise ValueError(f"cannot save an object that contains itself, at {path}")
        self._inside.add(id(value))
        if isinstance(value, dict):
            items = [[self.encode(k, f"a key of {path}"), self.encode(v, f"{path}[{k!r}]")] for k, v in value.items()]
        else:
            items = [self.encode(v, f"{path}[{i}]") for i, v in enumerate(value)]
        self._inside.discard(id(value))
        return [_CONTAINERS[OrderedDict if isinstance(value, OrderedDict) else type(value)], items]

    def _tensor(self, tensor: Any, path: str) -> int:
        """The number of a tensor's record; one tensor has one."""
        number = self._known.get(id(tensor))
        if number is None:
            record = self._sparse(tensor, path) if tensor.is_sparse else self._dense(tensor, path)
            number = self._known[id(tensor)] = len(self.tensors)
            self.tensors.append(record)
            self._keep.append(tensor)  # or another one could get its id
        return number

    def _sparse(self, tensor: SparseTensor, path: str) -> dict[str, Any]:
        parts = [self._tensor(tensor._indices(), path), self._tensor(tensor._values(), path)]
        return {"class": "SparseTensor", "parts": parts, "shape": tensor.shape, "coalesced": tensor.is_coalesced()}

    def _dense(self, tensor: Any, path: str) -> dict[str, Any]:
        if type(tensor) not in (Tensor, Parameter):
            raise TypeError(f"cannot save {type(tensor).__qualname__}, a subclass of Tensor, at {path}")
        aval = tensor._aval
        tensor._sync()  # its memory is what is saved, so it must hold the value
        return {
            "class": type(tensor).__name__,
            "dtype": aval.dtype.name,
            "shape": aval.shape,
            "stride": aval.stride,
            "offset": aval.offset,
            "requires_grad": tensor.requires_grad,
            "device": str(aval.device),
            "storage": None if aval.device is META else self._storage(tensor._storage, aval.dtype),
        }

    def _storage(self, storage: Any, dtype: DType) -> int:
        key = (storage.addr, storage.nbytes)
        number = self._storages.get(key)
        if number is None:
            number = self._storages[key] = len(self.arrays)
            self.arrays.append(storage.array(make_aval((storage.nbytes // dtype.itemsize,), dtype)))
            self._keep.append(storage)
        return number


_CONTAINERS: dict[type, str] = {
    dict: "dict", OrderedDict: "OrderedDict", list: "list", tuple: "tuple", set: "set", frozenset: "frozenset",
}  # fmt: skip
_MAKERS: dict[str, Any] = {name: kind for kind, name in _CONTAINERS.items()}


# --- reading ---


class _Reader:
    """Makes values of JSON, doubting everything."""

    def __init__(self, archive: zipfile.ZipFile, size: int, map_location: Any) -> None:
        self._archive, self._size = archive, size
        self._map = map_location
        self._storages: dict[int, tuple[Any, DType, int]] = {}
        self._records: list[Any] = []
        self._tensors: dict[int, Any] = {}

    def read(self) -> Any:
        index = json.loads(self._archive.read(self._member(_INDEX)))
        if index["version"] != _VERSION:
            raise ValueError(f"its version is {index['version']!r}, and only {_VERSION} is known")
        self._records = index["tensors"]
        return self._decode(index["root"])

    def _member(self, name: str) -> zipfile.ZipInfo:
        info = self._archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > self._size:
            raise ValueError(f"{name} is compressed, or longer than the file")
        return info

    def _decode(self, value: Any) -> Any:
        if not isinstance(value, list):
            if isinstance(value, dict):
                raise ValueError("an object where a value was expected")
            return value
        tag, content = value
        if tag == "tensor":
            return self._tensor(content)
        if tag == "dtype":
            return _DTYPES[content]
        if tag == "device":
            return Device(content)
        if tag == "bytes":
            return base64.b64decode(content, validate=True)
        make = _MAKERS[tag]
        if issubclass(make, dict):
            return make((self._decode(k), self._decode(v)) for k, v in content)
        return make([self._decode(v) for v in content])

    def _tensor(self, number: Any) -> Any:
        number = _count(number)
        found = self._tensors.get(number)
        if found is None:
            record = self._records[number]
            sparse = record["class"] == "SparseTensor"
            found = self._tensors[number] = self._sparse(record, number) if sparse else self._dense(record)
        return found

    def _sparse(self, record: dict[str, Any], number: int) -> Any:
        if not all(_count(part) < number for part in record["parts"]):
            raise ValueError("a sparse tensor stands before its parts")
        indices, values = (self._tensor(part) for part in record["parts"])
        shape = tuple(map(_count, record["shape"]))
        limits = np.array(shape[: indices.shape[0]], np.int64).reshape(-1, 1)
        places = indices.numpy(force=True)
        if ((places < 0) | (places >= limits)).any():
            raise ValueError("an index of a sparse tensor is outside")
        return sparse_coo_tensor(indices, values, shape, is_coalesced=bool(record["coalesced"]))

    def _dense(self, record: dict[str, Any]) -> Any:
        dtype, device = _DTYPES[record["dtype"]], Device(record["device"])
        shape, stride = (tuple(map(_count, record[key])) for key in ("shape", "stride"))
        offset, requires_grad = _count(record["offset"]), bool(record["requires_grad"])
        if len(shape) != len(stride) or (requires_grad and not dtype.is_floating_point):
            raise ValueError("a tensor's record contradicts itself")
        aval = make_aval(shape, dtype, stride, offset)
        if device is META:
            out = empty(shape, dtype=dtype, device=META).to(self._place(device))
        else:
            storage, held, length = self._storage(_count(record["storage"]))
            last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
            if held is not dtype or (aval.numel and last >= length):
                raise ValueError("a tensor lies outside its storage")
            out = new_tensor(aval, storage)
            place = self._place(device)
            out = out if place is CPU else out.to(place)
        if record["class"] == "Parameter":
            return Parameter(out, requires_grad)
        return out.requires_grad_(requires_grad)

    def _place(self, device: Device) -> Device:
        if self._map is None:
            return device
        wanted = self._map.get(str(device), device) if isinstance(self._map, dict) else self._map
        return Device(wanted)

    def _storage(self, number: int) -> tuple[Any, DType, int]:
        """(storage, dtype, number of elements)."""
        found = self._storages.get(number)
        if found is None:
            found = self._storages[number] = self._read_storage(self._member(f"storages/{number}.npy"))
        return found

    def _read_storage(self, info: zipfile.ZipInfo) -> tuple[Any, DType, int]:
        with self._archive.open(info) as member:
            if np.lib.format.read_magic(member) != (1, 0):
                raise ValueError("an array of an unknown version")
            shape, _, np_dtype = np.lib.format.read_array_header_1_0(member)
            dtype = from_numpy_dtype(np_dtype)
            (length,) = shape
            nbytes = length * dtype.itemsize
            if nbytes != info.file_size - member.tell():
                raise ValueError("an array is not as long as it says")
            storage = Storage(nbytes or 1)
            data = storage.array(make_aval((length,), dtype))
            octets: Any = data.view(np.uint8)
            _fill(memoryview(octets), member)
        if dtype is bool_ and (octets > 1).any():
            raise ValueError("a bool that is neither True nor False")
        return storage, dtype, length


def _fill(memory: memoryview, member: Any) -> None:
    while memory:
        count = member.readinto(memory[: 1 << 22])
        if not count:
            raise EOFError("an array ends too early")
        memory = memory[count:]


def _count(value: Any) -> int:
    """A number that may be an extent, a stride or an offset."""
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{value!r} is no count")
    return value
