"""Files of jitgrad's first format, as its first version wrote them: ``jitgrad.load`` reads them for ever."""

from __future__ import annotations

import base64
import json
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

import jitgrad
from jitgrad.dtypes import DType
from jitgrad.ops.aval import make_aval
from jitgrad.sparse import SparseTensor

__all__ = ["save_old"]


def save_old(obj: Any, file: Any) -> None:
    """Write ``obj``: tensors, numbers, strings, bytes, None, dtypes, devices and containers of such."""
    writer = _Writer()
    index = {"version": 1, "root": writer.encode(obj), "tensors": writer.tensors}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("jitgrad.json", json.dumps(index))
        for nr, array in enumerate(writer.arrays):
            with archive.open(f"storages/{nr}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


class _Writer:
    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.arrays: list[Any] = []
        self._storages: dict[tuple[int, int], int] = {}
        self._known: dict[int, int] = {}
        self._keep: list[Any] = []

    def encode(self, value: Any) -> Any:
        kind = OrderedDict if isinstance(value, OrderedDict) else type(value)
        if isinstance(value, jitgrad.Tensor):
            return ["tensor", self._tensor(value)]
        if isinstance(value, DType):
            return ["dtype", value.name]
        if isinstance(value, jitgrad.device):
            return ["device", str(value)]
        if isinstance(value, bytes):
            return ["bytes", base64.b64encode(value).decode()]
        if isinstance(value, dict):
            return [kind.__name__, [[self.encode(k), self.encode(v)] for k, v in value.items()]]
        if isinstance(value, list | tuple | set | frozenset):
            return [kind.__name__, [self.encode(v) for v in value]]
        return value

    def _tensor(self, tensor: Any) -> int:
        number = self._known.get(id(tensor))
        if number is None:
            record = self._sparse(tensor) if tensor.is_sparse else self._dense(tensor)
            number = self._known[id(tensor)] = len(self.tensors)
            self.tensors.append(record)
            self._keep.append(tensor)
        return number

    def _sparse(self, tensor: SparseTensor) -> dict[str, Any]:
        parts = [self._tensor(tensor._indices()), self._tensor(tensor._values())]
        return {"class": "SparseTensor", "parts": parts, "shape": tensor.shape, "coalesced": tensor.is_coalesced()}

    def _dense(self, tensor: Any) -> dict[str, Any]:
        aval, is_meta = tensor._aval, tensor.device.type == "meta"
        return {
            "class": type(tensor).__name__,
            "dtype": aval.dtype.name,
            "shape": aval.shape,
            "stride": aval.stride,
            "offset": aval.offset,
            "requires_grad": tensor.requires_grad,
            "device": str(aval.device),
            "storage": None if is_meta else self._storage(tensor._storage, aval.dtype),
        }

    def _storage(self, storage: Any, dtype: DType) -> int:
        key = (storage.addr, storage.nbytes)
        number = self._storages.get(key)
        if number is None:
            number = self._storages[key] = len(self.arrays)
            self.arrays.append(storage.array(make_aval((storage.nbytes // dtype.itemsize,), dtype)))
            self._keep.append(storage)
        return number
