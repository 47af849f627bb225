"""``Storage``: a block of memory whose address is a plain int, always at hand.

Owns: the lifetime of tensor memory, and its border with NumPy.
Must not know: tensors, programs, devices.
In: byte counts, NumPy arrays. Out: addresses, NumPy views.

# Note [Storage lifetime]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A storage's memory goes back to the free lists when the last reference to the storage is dropped. NumPy views made by
# ``Storage.array`` hold the storage through their ``base``, so memory that NumPy can still reach is never recycled.
# Memory that came from NumPy is held through ``owner`` and is never recycled either.
#
# Note [Storage on demand]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# The result of an eager operation has an ``_array`` that owns its memory, and no ``_storage``: few results are ever
# asked for theirs, and making one costs as much as an operation. Two tensors may share such an array (a result and its
# saved alias). Each of them, on any thread, may be the first to need the storage, and the other must get the same one:
# so a table finds the storage by the array (``array_storages.py``). A view of a result is another such tensor: its
# array has the result's as its ``base``. So is a result in another shape (``matmul`` of four dimensions), which is no
# view to users: views of it lie in the array of the first. A kernel's large result is the exception: its array lies in
# a storage from the start, and refers to it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jitgrad.array_storages import noted_storage
from jitgrad.ops.aval import Aval, check_inside
from jitgrad.runtime.storage.memory import free_lists, give, take
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import install_storage

__all__ = ["Storage", "StorageWindow", "root_of", "storage_behind"]

_byte: Any = ctypes.c_char


class Storage(StorageBase):
    """Memory of one or more tensors.

    ``Storage(nbytes)`` allocates (64-byte aligned, contents undefined); ``Storage.from_array`` shares a NumPy array's
    memory; ``Storage.pending`` has no memory yet.

    Attributes:
        addr: address of the first byte; 0 while pending.
        nbytes: size.
        owner: what keeps the memory alive, if it is not the storage's own.
    """

    __slots__ = ()

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes  # before the address: an interrupt may come between, and a block goes back by its size
        # memory.take, spelled out: this is the hot path of every output of every program
        try:
            self.addr = free_lists.blocks[nbytes].pop()
            free_lists.nbytes -= nbytes
        except (KeyError, IndexError):
            self.addr = take(nbytes)
        self.owner = None

    def __del__(self, _give: Any = give) -> None:
        try:
            if self.owner is None and self.addr:
                _give(self.addr, self.nbytes)
        except AttributeError:  # allocation failed: there is nothing to give back
            pass

    @staticmethod
    def pending() -> Storage:
        """A storage without memory, to be given some by ``materialize`` or ``adopt``."""
        storage = Storage.__new__(Storage)
        storage.addr = storage.nbytes = 0
        storage.owner = None
        return storage

    def materialize(self, nbytes: int) -> None:
        """Give a pending storage memory of its own."""
        self.nbytes = nbytes
        self.addr = take(nbytes)

    def adopt(self, other: Storage) -> None:
        """Let a pending storage share the memory of another one, and keep that one alive."""
        self.addr, self.nbytes, self.owner = other.addr, other.nbytes, other

    @staticmethod
    def from_array(array: np.ndarray[Any, Any]) -> Storage:
        """Share the memory of ``array`` and keep it alive; the same storage again for an array that owns its memory.

        ``addr`` is the address of the array's first element, whatever its alignment. The caller sees to layouts that
        an ``Aval`` cannot express: negative strides, strides that are no multiple of the item size, read-only memory.
        """
        if array.base is not None:
            return _over(array)
        storage: Storage = noted_storage(array, _over(array))
        return storage

    @staticmethod
    def over(array: np.ndarray[Any, Any]) -> Storage:
        """A storage of the memory of an array that nobody else knows, or will know."""
        return _over(array)

    def array(self, aval: Aval) -> np.ndarray[Any, Any]:
        """A writable NumPy view laid out as ``aval``; it keeps the storage alive. RuntimeError if it is too small."""
        dtype = aval.dtype
        if not aval.numel:  # a view of nothing may start beyond the end
            return np.empty(aval.shape, dtype.np)
        memory: Any = (_byte * self.nbytes).from_address(self.addr)
        memory.storage = self
        size = dtype.itemsize
        try:
            if aval.is_contiguous:
                return np.ndarray(aval.shape, dtype.np, memory, aval.offset * size)
            return np.ndarray(aval.shape, dtype.np, memory, aval.offset * size, tuple(s * size for s in aval.stride))
        except (TypeError, ValueError):  # the storage became smaller than the tensor
            check_inside(aval, self.nbytes)
            raise

    def __repr__(self) -> str:
        return f"Storage({self.nbytes} bytes at {self.addr:#x})" if self.addr else "Storage(pending)"


class StorageWindow(Storage):
    """The memory of another storage from some byte on: ``owner`` is that storage, which is no window itself.

    ``tracer/hits/batch_hits.py`` makes them, see Note [Batches of a data set].
    """

    __slots__ = ()


def root_of(storage: Storage) -> Storage:
    """Whose memory it is: the storage itself, or what it is a window of."""
    while type(storage) is StorageWindow:
        storage = storage.owner
    return storage


def _over(array: np.ndarray[Any, Any]) -> Storage:
    storage = Storage.__new__(Storage)
    storage.owner = array
    try:
        storage.addr = ctypes.addressof(_byte.from_buffer(array))  # three times faster than array.ctypes.data
        storage.nbytes = array.nbytes
    except (TypeError, ValueError):  # read-only, strided or empty
        storage.addr = array.__array_interface__["data"][0] or 1
        storage.nbytes = _span(array)
    return storage


def _span(array: np.ndarray[Any, Any]) -> int:
    """Bytes from the first element to the end of the last, for non-negative strides."""
    if array.size == 0:
        return 0
    last: int = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return array.itemsize + last


def _of_result(array: np.ndarray[Any, Any]) -> Storage:
    """The storage of an eager result, or of a view of one: that which its array lies in, or one over the array."""
    if type(array.base) is np.ndarray:
        array = array.base
    storage = storage_behind(array)
    return Storage.from_array(array) if storage is None else storage


def storage_behind(array: np.ndarray[Any, Any]) -> Storage | None:
    """The storage that an array lies in, made by ``Storage.array`` or ``array_over``; None for any other array.

    Another library's objects may have an attribute of the same name: ``Tensor.storage`` of PyTorch is a method.
    """
    memory: Any = array.base
    if isinstance(memory, Storage):
        return memory
    found: Storage | None = getattr(memory, "storage", None) if isinstance(memory, ctypes.Array) else None
    return found


StorageBase.lists, StorageBase.kind, StorageBase.window_kind = free_lists, Storage, StorageWindow
install_storage(_of_result)
