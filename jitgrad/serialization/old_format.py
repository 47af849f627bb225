"""Files of jitgrad's first format, which are read for ever and no longer written.

Owns: ``OldReader``.
Must not know: pickles.

``storages/0.npy``, ... hold the memory that tensors share, ``jitgrad.json`` says what stands where.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META, Device
from jitgrad.dtypes import bool_, from_numpy_dtype
from jitgrad.functions.creation import empty
from jitgrad.functions.devices import moved
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.serialization.allowed import DTYPES
from jitgrad.serialization.archive import Archive, fill
from jitgrad.serialization.places import Places
from jitgrad.serialization.reading import checked_sparse, counts, laid_out
from jitgrad.tensor_base import new_tensor

__all__ = ["OldReader"]

_VERSION = 1
_MAKERS: dict[str, Any] = {
    kind.__name__: kind for kind in (dict, OrderedDict, list, tuple, set, frozenset)
}


class OldReader:
    """Makes values of JSON, doubting everything."""

    def __init__(self, archive: Archive, places: Places) -> None:
        self._archive, self._places = archive, places
        self._rows: dict[int, Any] = {}
        self._records: list[Any] = []
        self._tensors: dict[int, Any] = {}

    def read(self) -> Any:
        """What the file holds. ValueError and the like for a file that contradicts itself."""
        index = json.loads(self._archive.record("jitgrad.json"))
        if index["version"] != _VERSION:
            raise ValueError(f"its version is {index['version']!r}, and only {_VERSION} is known")
        self._records = index["tensors"]
        return self._decode(index["root"])

    def _decode(self, value: Any) -> Any:
        if not isinstance(value, list):
            if isinstance(value, dict):
                raise ValueError("an object where a value was expected")
            return value
        tag, content = value
        if tag == "tensor":
            return self._tensor(content)
        if tag == "dtype":
            return DTYPES[content]
        if tag == "device":
            return Device(content)
        if tag == "bytes":
            return base64.b64decode(content, validate=True)
        make = _MAKERS[tag]
        if issubclass(make, dict):
            return make((self._decode(k), self._decode(v)) for k, v in content)
        return make([self._decode(v) for v in content])

    def _tensor(self, number: Any) -> Any:
        (number,) = counts([number])
        found = self._tensors.get(number)
        if found is None:
            record = self._records[number]
            sparse = record["class"] == "SparseTensor"
            found = self._tensors[number] = self._sparse(record, number) if sparse else self._dense(record)
        return found

    def _sparse(self, record: dict[str, Any], number: int) -> Any:
        if not all(part < number for part in counts(record["parts"])):
            raise ValueError("a sparse tensor stands before its parts")
        indices, values = (self._tensor(part) for part in record["parts"])
        return checked_sparse(indices, values, record["shape"], record["coalesced"])

    def _dense(self, record: dict[str, Any]) -> Any:
        dtype, device, requires_grad = DTYPES[record["dtype"]], Device(record["device"]), bool(record["requires_grad"])
        if device is META:
            out = empty(counts(record["shape"]), dtype=dtype, device=META).to(self._places.of("meta"))
        else:
            row = self._row(record["storage"], str(device))
            if row._aval.dtype is not dtype:
                raise ValueError("a tensor of another dtype than its storage")
            out = laid_out(row, record["offset"], record["shape"], record["stride"], requires_grad)
        return Parameter(out.detach(), requires_grad) if record["class"] == "Parameter" else out

    def _row(self, number: Any, location: str) -> Any:
        (number,) = counts([number])
        found = self._rows.get(number)
        if found is None:
            row = self._read_storage(f"storages/{number}.npy")
            place = self._places.of(location)
            found = self._rows[number] = row if place is CPU else moved(row, place)
        return found

    def _read_storage(self, name: str) -> Any:
        info = self._archive.member(name)
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
            fill(memoryview(octets), member)
        if dtype is bool_ and (octets > 1).any():
            raise ValueError("a bool that is neither True nor False")
        return new_tensor(make_aval((length,), dtype), storage)
