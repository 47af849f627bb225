"""Tensors as Python and NumPy take them: ``copy.copy``, ``copy.deepcopy``, ``pickle``, ``np.asarray``, DLPack.

Owns: what of a tensor is copied, and what copies share.
Must not know: files (``serialization/``).
"""

from __future__ import annotations

import copy
import ctypes
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META
from jitgrad.functions.devices import clone, moved
from jitgrad.functions.from_data import from_array_copy
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor_base import TensorBase

__all__ = [
    "array_namespace",
    "as_array",
    "as_buffer",
    "as_dlpack",
    "deep_copy",
    "dlpack_device",
    "reduce",
    "shallow_copy",
    "to_device",
    "wrap_array",
]

_API, _EXCHANGE = LazyModule("jitgrad.array_api"), LazyModule("jitgrad.functions.exchange")


def _leaf(cls: type, aval: Aval, storage: Any, requires_grad: bool) -> Any:
    """A leaf of any class over a storage."""
    out: Any = TensorBase.__new__(cls)
    out._aval, out._storage, out._requires_grad = aval, storage, requires_grad
    return out


def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    """A leaf of the same class and layout with its own memory, gradient and attributes; hooks stay behind.

    What shares memory shares it again if it is copied together.

    Raises:
        RuntimeError: the tensor is no leaf.
    """
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        )
    self._sync()
    aval, storage = self._aval, self._storage
    if aval.device is CPU:
        twin = memo.get(id(storage))
        if twin is None:
            twin = memo[id(storage)] = _storage_copy(storage)
    elif aval.device is not META:
        dense = clone(self.detach())
        aval, twin = dense._aval, dense._storage
    else:
        twin = storage
    out = memo[id(self)] = _leaf(type(self), aval, twin, self._requires_grad)
    if self._grad is not None:
        out._grad = copy.deepcopy(self._grad, memo)
    if kept := self.__dict__:
        out.__dict__.update(copy.deepcopy(kept, memo))
    return out


def _storage_copy(storage: Any) -> Storage:
    twin = Storage(storage.nbytes or 1)
    ctypes.memmove(twin.addr, storage.addr, storage.nbytes)
    return twin


def shallow_copy(self: Any) -> Any:
    """A leaf of the same class over the same memory."""
    self._sync()
    out = _leaf(type(self), self._aval, self._storage, self.requires_grad)
    if kept := self.__dict__:
        out.__dict__.update(kept)
    return out


def reduce(self: Any) -> Any:
    """What ``pickle`` keeps: class, values, layout, device, ``requires_grad`` and attributes; no gradient, no graph."""
    self._sync()
    aval, storage = self._aval, self._storage
    parts: tuple[Any, ...]
    if aval.device is META:
        parts = (None, aval)
    elif aval.device is CPU and storage.nbytes == aval.nbytes:  # all of the memory, in whatever order
        parts = (storage.array(make_aval((aval.numel,), aval.dtype)).copy(), aval)
    else:
        dense = np.array(self.detach().numpy(force=True), order="C")
        parts = (dense, make_aval(aval.shape, aval.dtype).on(aval.device))
    return (_rebuild, (type(self), *parts, self.requires_grad), self.__dict__ or None)


def _rebuild(cls: type, array: Any, aval: Aval, requires_grad: bool) -> Any:
    if array is None:
        return _leaf(cls, aval, moved(from_array_copy(np.empty(0)), META)._storage, requires_grad)
    made = moved(from_array_copy(array), aval.device)
    return _leaf(cls, aval, made._storage, requires_grad)


# --- for NumPy, and other libraries ---


def as_array(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """A NumPy array that shares the tensor's memory, if it can. ValueError if ``copy=False`` and it cannot."""
    array = self.numpy()
    if dtype is None or array.dtype == dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return array.astype(dtype)


def as_buffer(self: Any, flags: int) -> memoryview:
    """The tensor's memory by the buffer protocol, which Python 3.12 and newer ask for. BufferError if it cannot be."""
    try:
        return memoryview(self.numpy())
    except (RuntimeError, TypeError) as error:
        raise BufferError(str(error)) from error


def wrap_array(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """See ``exchange.wrapped_array``."""
    return _EXCHANGE.wrapped_array(self, array, context, return_scalar)


def array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    """``jitgrad.array_api``, as the array API asks for. ValueError for a version of the standard that it is not."""
    found = _API.__array_api_version__
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", found):
        raise ValueError(f"jitgrad.array_api is of version {found} of the standard, not {api_version}")
    return _API.itself


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The array on another device, as the array API has it. ValueError for a stream: there are none."""
    if stream is not None:
        raise ValueError("to_device() takes no stream")
    return moved(self, device)


def as_dlpack(self: Any, **options: Any) -> Any:
    """See ``exchange.dlpack_capsule``."""
    return _EXCHANGE.dlpack_capsule(self, **options)


def dlpack_device(self: Any) -> Any:
    """See ``exchange.dlpack_device``."""
    return _EXCHANGE.dlpack_device(self)
