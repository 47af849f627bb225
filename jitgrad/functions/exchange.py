"""Memory that other libraries share with tensors: DLPack, the buffer protocol, files mapped into memory.

Owns: ``asarray``, ``from_dlpack``, ``frombuffer``, ``from_file``, and a tensor's side of DLPack.
Must not know: the layout of DLPack's structures, but for the type of elements: NumPy knows them, and not bfloat16.
"""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import DType, as_dtype, bfloat16, from_numpy_dtype, get_default_dtype, int16
from jitgrad.functions.devices import clone, to
from jitgrad.functions.from_data import from_numpy, tensor
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.runtime.devices.device import canonical
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = [
    "DLDeviceType",
    "asarray",
    "dlpack_capsule",
    "dlpack_device",
    "from_dlpack",
    "from_file",
    "frombuffer",
    "wrapped_array",
]


class DLDeviceType(IntEnum):
    """DLPack's kinds of devices. Tensors on virtual devices are not handed out: they have queued work."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16


def dlpack_device(self: Any) -> tuple[DLDeviceType, int]:
    """(kind of device, its number), as ``Tensor.__dlpack_device__``. BufferError unless it is the CPU."""
    if self._aval.device is not CPU:
        raise BufferError(f"Can't export tensors on device {self._aval.device}: use tensor.cpu()")
    return DLDeviceType.kDLCPU, 0


def dlpack_capsule(
    self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The tensor's memory for another library, which shares it, as ``Tensor.__dlpack__``.

    Args:
        stream: None: there are no streams on the CPU.
        max_version: the newest DLPack version that the other library knows.
        dl_device: None, or the CPU.
        copy: True = a copy; False or None = shared.

    Raises:
        BufferError: the tensor requires grad, is on another device, or has a dtype that NumPy cannot export.
    """
    dlpack_device(self)
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and stream != -1:
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and tuple(map(int, dl_device)) != (1, 0):
        raise BufferError(f"Can't export to device {dl_device}")
    is_bfloat16 = self._aval.dtype is bfloat16
    array = (self.view(int16) if is_bfloat16 else self).numpy()
    options = {"max_version": max_version} if max_version is not None and _EXPORTS_VERSIONS else {}
    capsule = (array.copy() if copy else array).__dlpack__(**options)
    if is_bfloat16:
        _element_type(capsule).code = _BFLOAT
    return capsule


_INT, _BFLOAT = 0, 4
"""DLPack's codes of integers and of bfloat16, which NumPy does not know: to NumPy they are integers of that size."""


class _ElementType(ctypes.Structure):
    """DLPack's type of an element."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


# where it is: in a DLTensor behind a pointer, a device and the rank; in a versioned capsule, behind four more words
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}
_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _element_type(capsule: Any) -> _ElementType:
    """What a capsule says of its elements; it may be changed there."""
    name = _name_of(capsule)
    return _ElementType.from_address(_pointer_of(capsule, name) + _PLACES[name])


_EXPORTS_VERSIONS = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)


class _Exporter:
    """What a bare capsule came from, as far as its reader needs to know."""

    def __init__(self, capsule: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of another library's array, or over a DLPack capsule.

    Args:
        ext_tensor: an object with ``__dlpack__`` whose memory is the CPU's; or a capsule, which is used up.
        device: where the tensor is; None = where the memory is.
        copy: True = a copy; False = an error where one would be needed.

    Raises:
        TypeError: it is neither, or has a dtype that jitgrad has not.
        ValueError: a negative stride, or ``copy=False`` for another device.
        BufferError: the other library does not share the memory.
    """
    source = ext_tensor
    if type(source).__name__ == "PyCapsule":
        source = _Exporter(source)
    elif not hasattr(source, "__dlpack__"):
        raise TypeError(f"from_dlpack() takes an object with __dlpack__, not {type(source).__name__}")
    if isinstance(source, TensorBase) and source._aval.device is not CPU:
        found = source.detach()
    else:
        found = _from_capsule(_capsule_of(source), source.__dlpack_device__())
    if device is not None and canonical(device) is not found._aval.device:
        if copy is False:
            raise ValueError(f"can't alias a tensor on {found._aval.device} on {canonical(device)}")
        return to(found, device=device)
    return clone(found) if copy else found


def _capsule_of(source: Any) -> Any:
    """A capsule, of the newest kind that both sides know."""
    try:
        return source.__dlpack__(max_version=(1, 0)) if _EXPORTS_VERSIONS else source.__dlpack__()
    except TypeError:  # the library knows nothing of versions
        return source.__dlpack__()


def _from_capsule(capsule: Any, device: tuple[int, int]) -> Any:
    is_bfloat16 = False
    if _name_of(capsule) in _PLACES:
        element = _element_type(capsule)
        is_bfloat16 = (element.code, element.bits, element.lanes) == (_BFLOAT, 16, 1)
        if is_bfloat16:
            element.code = _INT
    array = np.from_dlpack(_Exporter(capsule, device))
    return _over(array.view(bfloat16.np) if is_bfloat16 else array)


def _over(array: Any) -> Any:
    """A tensor over an array's memory, also where NumPy does not know whether it may be written."""
    if array.flags.writeable:
        return from_numpy(array)
    dtype = from_numpy_dtype(array.dtype)
    if any(s < 0 or s % dtype.itemsize for s in array.strides):
        raise ValueError("tensors with negative strides, or strides that are no multiple of an element, do not exist")
    aval = make_aval(array.shape, dtype, tuple(s // dtype.itemsize for s in array.strides))
    made = new_tensor(aval, Storage.from_array(array))
    if state.handler is not None:
        state.handler.shares(made, made)
    return made


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A tensor of one dimension over an object's bytes; over a copy of them if they are read-only.

    Args:
        buffer: what has the buffer protocol: ``bytearray``, ``array.array``, ``memoryview``, ...
        dtype: how the bytes are read.
        count: elements; negative = all that there are.
        offset: bytes before the first one.

    Raises:
        ValueError: it has no bytes, or not so many.
    """
    dtype = as_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, dtype.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count > 0 and count * size > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({size})"
        )
    array = np.frombuffer(view, dtype.np, count, offset)
    made = from_numpy(array if array.flags.writeable else array.copy())
    return made.requires_grad_(True) if requires_grad else made


def from_file(
    filename: Any, shared: bool | None = None, size: int | None = 0, *, dtype: DType | None = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of one dimension over a file that is mapped into memory.

    Args:
        shared: what is written goes to the file, which is made, or made longer, if need be; else it stays here.
        size: number of elements.
        dtype: how the bytes are read; None = the default dtype.

    Raises:
        RuntimeError: the file is shorter, and not ``shared``.
        OSError: as ``open``.
    """
    kind, count = dtype or get_default_dtype(), int(size or 0)
    path, nbytes = os.fspath(filename), count * kind.itemsize
    if shared:
        with open(path, "ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    elif os.path.getsize(path) < nbytes:
        raise RuntimeError(f"file <{path}> size <{os.path.getsize(path)}> is smaller than the required size <{nbytes}>")
    if not count:
        return tensor([], kind)
    mapped: Any = np.memmap(path, kind.np, "r+" if shared else "c", shape=(count,))
    made = from_numpy(mapped)
    return made.requires_grad_(True) if requires_grad else made


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _taken_over(obj: Any, dtype: DType | None) -> Any:
    """A tensor over the memory of ``obj``; None if it is plain data."""
    if isinstance(obj, TensorBase):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj) if obj.flags.writeable else from_numpy(obj.copy())
    if type(obj).__name__ == "PyCapsule" or hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    if _has_buffer(obj) and not isinstance(obj, np.generic):
        return frombuffer(obj, dtype=dtype or get_default_dtype())
    return None


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:
    """``obj`` as a tensor, which shares memory with it where it can.

    Args:
        obj: a tensor, a NumPy array, what has ``__dlpack__`` or the buffer protocol, numbers in nested sequences.
        dtype: None = that of ``obj``.
        device: None = where ``obj`` is.
        copy: True = a copy; False = an error where one would be needed; None = a copy where one is needed.
        requires_grad: of the result; None = that of ``obj``. A leaf that is returned as it is gets it, too.

    Raises:
        ValueError: ``copy=False``, and memory cannot be shared.
    """
    dtype = as_dtype(dtype)
    found = _taken_over(obj, dtype)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype, device, bool(requires_grad))
    aval = found._aval
    wanted, place = dtype or aval.dtype, aval.device if device is None else canonical(device)
    if copy is False and wanted is not aval.dtype:
        names = torch_dtype_name(aval.dtype), torch_dtype_name(wanted)
        raise ValueError(f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'.")
    if copy is False and place is not aval.device:
        raise ValueError(f"can't alias tensor on device '{aval.device}' to '{place}'.")
    if wanted is not aval.dtype or place is not aval.device:
        found = to(found, dtype=wanted, device=place)
    elif copy:
        found = clone(found)
    if requires_grad is None:
        return found
    if not found.is_leaf and not requires_grad:
        return found.detach()
    return found.requires_grad_(requires_grad)


def wrapped_array(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """What a function of NumPy returns for a tensor: a tensor, as ``Tensor.__array_wrap__``."""
    return from_numpy(np.array(array) if not array.flags.writeable or not array.ndim else array)
