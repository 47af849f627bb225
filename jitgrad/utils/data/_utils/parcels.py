"""Results of workers on their way to the loader's process.

Owns: ``Outbox`` (the worker's end) and ``Inbox`` (the loader's), the shared memory between them.
Must not know: data sets, what the results are for.
In: any object that can be pickled. Out: an equal one, whose large tensors and arrays were not sent through a pipe.

# Note [Slabs]
# ~~~~~~~~~~~~
# A pipe copies a batch twice, in pieces, and both processes wait for each other. So large arrays go through memory
# that both processes map: *slabs*. A worker makes a slab when it has no free one that is large enough, sends its file
# descriptor along with the first message that uses it, and closes it: the file has no name, and is gone with the
# processes. The loader's process gives out tensors that lie in the slab itself. Once the last of them is gone, the
# slab's number goes back to the worker with the next request, and the slab is used again: its pages are there already,
# on both sides. If a program keeps its batches, their number would grow without bound: above ``_MAX_SLABS`` tensors
# are copied out, and the slab is free at once.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import multiprocessing.reduction
import os
import pickle
import struct
import tempfile
import threading
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import DType
from jitgrad.functions.from_data import from_array_copy
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import new_tensor

__all__ = ["Inbox", "Outbox"]

SHARE_FROM_NBYTES = 16 << 10
"""Smaller arrays go through the pipe."""
_MAX_SLABS = 32
_ALIGNMENT = 64
_ROUNDING = 64 << 10
_HEADER = struct.Struct("<qq?")  # a slab's number (-1: none), its bytes, whether its descriptor follows
_CAN_SHARE = os.name == "posix" and multiprocessing.reduction.HAVE_SEND_HANDLE


class _Slab:
    """Memory that both processes map.

    Attributes:
        nr: its number, the worker's.
        nbytes: size.
        address: in this process.
    """

    __slots__ = ("_memory", "address", "nbytes", "nr")

    def __init__(self, nr: int, descriptor: int, nbytes: int) -> None:
        self.nr, self.nbytes = nr, nbytes
        self._memory = mmap.mmap(descriptor, nbytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def array(self, offset: int, dtype: Any, shape: tuple[int, ...], owner: Any = None) -> np.ndarray[Any, Any]:
        """An array in the slab, which keeps ``owner`` alive."""
        memory: Any = (ctypes.c_char * (self.nbytes - offset)).from_address(self.address + offset)
        memory.owner = owner or self
        return np.ndarray(shape, dtype, memory)


class _Lease:
    """Says that a slab is in use; the last array in it that is gone gives the slab back."""

    __slots__ = ("_returned", "slab")

    def __init__(self, slab: _Slab, returned: deque[int]) -> None:
        self.slab, self._returned = slab, returned

    def __del__(self) -> None:
        self._returned.append(self.slab.nr)  # a finalizer may run on any thread: appending needs no lock


# --- the worker's end ---


class _Packer(pickle.Pickler):
    """Pickles an object without its large arrays, which it lays out one after the other.

    Attributes:
        arrays: (where it begins, array) of each.
        nbytes: of all.
    """

    def __init__(self, file: io.BytesIO, shares: bool) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
        self.nbytes = 0
        self._share_from = SHARE_FROM_NBYTES if shares else float("inf")

    def reducer_override(self, obj: Any) -> Any:
        """How tensors and arrays travel; other objects as ever."""
        if type(obj) is Tensor and obj.device is CPU:
            return self._reduce_tensor(obj)
        if type(obj) is np.ndarray and obj.nbytes >= self._share_from and not obj.dtype.hasobject:
            return _array_at, (self._place(np.ascontiguousarray(obj)), obj.dtype, obj.shape)
        return NotImplemented

    def _reduce_tensor(self, tensor: Any) -> Any:
        if not tensor.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        tensor._sync()
        aval, storage = tensor._aval, tensor._storage
        if not aval.is_contiguous and storage.nbytes == aval.nbytes:  # all of the memory, in whatever order
            layout, array = aval.stride, storage.array(make_aval((aval.numel,), aval.dtype))
        else:
            layout, array = None, np.ascontiguousarray(tensor._ndarray())
        how = (aval.shape, aval.dtype, layout, tensor.requires_grad)
        if aval.nbytes < self._share_from:
            return _small_tensor, (array.tobytes(), *how)
        return _tensor_at, (self._place(array), *how)

    def _place(self, array: np.ndarray[Any, Any]) -> int:
        offset = self.nbytes
        self.arrays.append((offset, array))
        self.nbytes = -(-(offset + array.nbytes) // _ALIGNMENT) * _ALIGNMENT
        return offset


class Outbox:
    """Sends results."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._slabs: dict[int, _Slab] = {}
        self._free: set[int] = set()
        self._num_made = 0

    def take_back(self, numbers: list[int]) -> None:
        """These slabs are not in use any more."""
        self._free.update(numbers)

    def send(self, obj: Any) -> None:
        """Send any object.

        Raises:
            Exception: whatever pickling raises; nothing has been sent then.
        """
        try:
            self._send(obj, _CAN_SHARE)
        except _NoSlab:
            self._send(obj, False)

    def _send(self, obj: Any, shares: bool) -> None:
        file = io.BytesIO()
        file.write(bytes(_HEADER.size))
        packer = _Packer(file, shares)
        packer.dump(obj)
        message = file.getbuffer()
        if not packer.arrays:
            _HEADER.pack_into(message, 0, -1, 0, False)
            self._connection.send_bytes(message)
            return
        slab, descriptor = self._slab(packer.nbytes)
        for offset, array in packer.arrays:
            slab.array(offset, array.dtype, array.shape)[...] = array
        _HEADER.pack_into(message, 0, slab.nr, slab.nbytes, descriptor is not None)
        self._connection.send_bytes(message)
        if descriptor is not None:
            multiprocessing.reduction.send_handle(self._connection, descriptor, os.getppid())
            os.close(descriptor)

    def _slab(self, nbytes: int) -> tuple[_Slab, int | None]:
        """A slab of at least so many bytes, and its descriptor if it is new."""
        fitting = [self._slabs[nr] for nr in self._free if self._slabs[nr].nbytes >= nbytes]
        if fitting:
            slab = min(fitting, key=lambda slab: slab.nbytes)
            self._free.discard(slab.nr)
            return slab, None
        nbytes = -(-nbytes // _ROUNDING) * _ROUNDING
        nr, self._num_made = self._num_made, self._num_made + 1
        descriptor = -1
        try:
            descriptor = _nameless_file()
            os.ftruncate(descriptor, nbytes)
            slab = self._slabs[nr] = _Slab(nr, descriptor, nbytes)
        except (OSError, ValueError):
            if descriptor >= 0:
                os.close(descriptor)
            raise _NoSlab from None
        return slab, descriptor


class _NoSlab(Exception):
    """The system has no memory to share."""


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("jitgrad-slab")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


# --- the loader's end ---


class Inbox:
    """Receives what an ``Outbox`` sends.

    Attributes:
        returned: numbers of slabs that may be used again: the next request takes them along.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._slabs: dict[int, _Slab] = {}
        self.returned: deque[int] = deque()

    def receive(self) -> Any:
        """The next object; waits for it.

        Raises:
            EOFError, OSError: the worker is gone.
        """
        message = self._connection.recv_bytes()
        nr, nbytes, is_new = _HEADER.unpack_from(message)
        lease = None
        if nr >= 0:
            if is_new:
                descriptor = multiprocessing.reduction.recv_handle(self._connection)
                self._slabs[nr] = _Slab(nr, descriptor, nbytes)
                os.close(descriptor)
            lease = _Lease(self._slabs[nr], self.returned)
        _reading.lease, _reading.copies = lease, len(self._slabs) > _MAX_SLABS
        try:
            return pickle.loads(memoryview(message)[_HEADER.size :])
        finally:
            _reading.lease = None

    def skip(self) -> None:
        """Read the next message and forget it. Raises as ``receive`` does."""
        message = self._connection.recv_bytes()
        if _HEADER.unpack_from(message)[2]:
            os.close(multiprocessing.reduction.recv_handle(self._connection))

    def take_returned(self) -> list[int]:
        """The numbers in ``returned``, and forget them."""
        return [self.returned.popleft() for _ in range(len(self.returned))]


class _Reading(threading.local):
    """What the functions below need, while ``Inbox.receive`` unpickles.

    Attributes:
        lease: on the message's slab.
        copies: whether its arrays are copied out of it.
    """

    lease: Any = None
    copies = False


_reading = _Reading()


def _array_at(offset: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array = _reading.lease.slab.array(offset, dtype, shape, _reading.lease)
    return array.copy() if _reading.copies else array


def _tensor_at(
    offset: int, shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...] | None, requires_grad: bool
) -> Any:
    numel = make_aval(shape, dtype).numel
    array = _reading.lease.slab.array(offset, dtype.np, (numel,) if stride else shape, _reading.lease)
    if _reading.copies:
        return _in_layout(from_array_copy(array), shape, stride, requires_grad)
    tensor = new_tensor(make_aval(array.shape, dtype), Storage.from_array(array), array)
    return _in_layout(tensor, shape, stride, requires_grad)


def _small_tensor(
    values: bytes, shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...] | None, requires_grad: bool
) -> Any:
    array = np.frombuffer(values, dtype.np)
    return _in_layout(from_array_copy(array if stride else array.reshape(shape)), shape, stride, requires_grad)


def _in_layout(tensor: Any, shape: tuple[int, ...], stride: tuple[int, ...] | None, requires_grad: bool) -> Any:
    """A tensor, in a layout that is not row-major if there is a stride: then ``tensor`` is all of the memory."""
    if stride is not None:
        tensor = new_tensor(make_aval(shape, tensor._aval.dtype, stride), tensor._storage)
    return tensor.requires_grad_() if requires_grad else tensor
