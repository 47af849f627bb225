"""A tensor that goes on as another: ``detach_``, ``.data``, ``set_``, ``resize_``, ``swap_tensors``.

Owns: what each of them keeps of the old tensor - identity, version, graph - and which uses it refuses.
Must not know: how operations run. A trace learns of it: memory changes hands outside the trace.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import ref

from jitgrad.devices import CPU, META
from jitgrad.door import door
from jitgrad.functions._bind import ints
from jitgrad.functions.devices import made_on
from jitgrad.ops.aval import check_inside, make_aval
from jitgrad.ops.shapes import numel
from jitgrad.ops.table import OPS
from jitgrad.runtime.engine.graph.accumulate_grad import existing_accumulator
from jitgrad.runtime.engine.graph.copy_slices import check_writable
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.tracer.recording.recorder_state import looks_at, sets_grad
from jitgrad.version_counter import count_write, plain_version

__all__ = ["REPLACING_METHODS", "check_new_grad", "move_memory", "swap_tensors"]

_DETACH = OPS["detach"]
_SLOTS = tuple(name for name in TensorBase.__slots__ if name not in ("__dict__", "__weakref__"))


def detach_(self: Any) -> Any:
    """Take this tensor out of its graph, in place. RuntimeError for views."""
    if self._base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    recorder = state.handler
    if recorder is not None:
        recorder.set_requires_grad(self, False)
    elif self._graph is not None and self._graph.tid == self._tid:
        self._graph.detach(self)
    self._requires_grad, self._grad_fn, self._graph, self._output_nr = False, None, None, 0
    if recorder is not None:
        recorder.detached(self)
    return self


def _get_data(self: Any) -> Any:
    """The same storage outside the graph, with a version counter of its own."""
    recorder = state.handler
    source = self if recorder is None else recorder.data_source(self)
    out = door.apply(_DETACH, source)
    out._storage  # noqa: B018 - a recorded view is linked first, see Note [Links of views]
    out._vc = plain_version()
    if recorder is not None:
        recorder.note_data(source, out)
    return out


def _set_data(self: Any, value: Any) -> None:
    if not isinstance(value, TensorBase):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if self._requires_grad and not value._aval.dtype.is_inexact:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if value._aval is self._aval and value._storage is self._storage and self._storage is not None:
        return  # ``x.data -= y``: what is set is the alias that was written
    if value._aval.dtype is not self._aval.dtype or value._aval.device is not self._aval.device:
        self._accumulator = None  # what is accumulated from here on is of another kind
    self._sync()
    value._sync()
    if state.handler is not None:
        state.handler.replace_data(self, value)
    _adopt_memory(self, value)


def _adopt_memory(self: Any, value: Any) -> None:
    """Look at another tensor's storage through its layout; version counter, graph and views stay as they are."""
    self._sync()
    value._sync()
    looks_at((self,), is_written=True)
    recorder = state.handler
    if recorder is not None:
        recorder.forget(self)
    self._aval, self._storage, self._array = value._aval, value._storage, None


def set_(self: Any, source: Any = None, storage_offset: Any = None, size: Any = None, stride: Any = None) -> Any:
    """Look at the memory of ``source`` from now on; at none without one.

    Args:
        source: a tensor or a storage.
        storage_offset: elements before the first one; None = those of ``source``.
        size: extents; None = those of ``source``: all elements of a storage.
        stride: elements between neighbours; None = row-major.

    Raises:
        RuntimeError: the tensor is part of a graph that is being recorded, the dtypes or devices differ, or the layout
            goes beyond the memory.
    """
    dtype = self._aval.dtype
    if source is None:
        source = made_on(self._aval.device, OPS["full"], 0, (0,), dtype)
    elif hasattr(source, "as_tensor"):
        source = source.as_tensor(dtype)
    elif not isinstance(source, TensorBase):
        raise TypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")
    check_writable((self,), (self,))
    if state.grad_enabled and (self.requires_grad or source.requires_grad):
        raise RuntimeError("the derivative for 'set_' is not implemented")
    if source._aval.dtype is not dtype:
        raise RuntimeError(f"Could not set tensor of type {source._aval.dtype!r} to a tensor of {dtype!r}")
    if source._aval.device is not self._aval.device:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self._aval.device}" to a storage on different '
            f'device "{source._aval.device}".  This is no longer allowed; the devices must match.'
        )
    if size is not None:
        source = _through(source, storage_offset or 0, tuple(size), stride)
    _adopt_memory(self, source)
    count_write(self)
    return self


def _through(source: Any, offset: int, size: tuple[int, ...], stride: Any) -> Any:
    """A tensor over the memory of ``source`` in another layout. RuntimeError if that goes beyond it."""
    source._sync()
    if stride is not None and len(stride) != len(size):
        raise RuntimeError(f"unequal size length ({len(size)}) and stride length ({len(stride)})")
    aval = make_aval(size, source._aval.dtype, None if stride is None else tuple(stride), offset)
    check_inside(aval, source._storage.nbytes)
    return new_tensor(aval.on(source._aval.device), source._storage)


def resize_(self: Any, *sizes: Any) -> Any:
    """Another row-major shape over the same memory; more elements than it has room for get fresh memory, zero-filled.

    Raises:
        RuntimeError: the tensor requires grad, or would have to grow while others look at its memory.
    """
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    shape = ints(sizes)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"numel: integer multiplication overflow (resize_ to {list(shape)})")
    if shape == self._aval.shape:
        return self
    self._sync()
    old = self._aval
    if old.device.is_virtual:
        self._storage.wait()  # work that is queued holds it
    aval = make_aval(shape, old.dtype, None, old.offset).on(old.device)
    if (old.offset + numel(shape)) * old.dtype.itemsize > self._storage.nbytes:
        aval = make_aval(shape, old.dtype).on(old.device)
        larger = _grown(self, aval)
        _release_memory(self, "resize_: memory that other tensors look at cannot grow; clone() the tensor first")
        self._storage = larger
    recorder = state.handler
    if recorder is not None:
        recorder.forget(self)
    self._aval, self._array = aval, None
    count_write(self)
    return self


def _release_memory(self: Any, refusal: str) -> None:
    """Let go of the storage; RuntimeError, and nothing has changed, if others look at its memory, NumPy included."""
    owner: Any = self._storage.owner
    if self._base is None and not isinstance(owner, Storage):
        find_storage, find_owner = ref(self._storage), _finder(owner)
        self._storage = self._array = owner = None
        storage, owner = find_storage(), find_owner()
        if storage is None and owner is None:
            return
        self._storage = Storage.from_array(owner) if storage is None else storage
    raise RuntimeError(refusal)


def move_memory(self: Any, storage: Storage) -> None:
    """Copy the memory into another storage and look at that one from now on.

    Raises:
        RuntimeError: others look at the memory too, NumPy included; nothing has changed then.
    """
    kept = bytes((ctypes.c_char * self._storage.nbytes).from_address(self._storage.addr))
    _release_memory(self, "the memory cannot be moved while other tensors look at it; clone() the tensor first")
    ctypes.memmove(storage.addr, kept, len(kept))
    if state.handler is not None:
        state.handler.forget(self)
    self._storage, self._array = storage, None


def _finder(obj: Any) -> Callable[[], Any]:
    return ref(obj) if obj is not None else lambda: None


def _grown(self: Any, aval: Any) -> Storage:
    larger = made_on(aval.device, OPS["full"], 0, (aval.numel,), aval.dtype)
    larger._sync()
    if aval.device is META:
        return larger._storage
    old = self._aval
    if old.device is CPU:  # the memory as it lies: an expanded tensor has fewer elements there than it shows
        room = make_aval((self._storage.nbytes // old.dtype.itemsize - old.offset,), old.dtype, None, old.offset)
        kept = self._storage.array(room)[: aval.numel]
    else:
        kept = self._ndarray().reshape(-1)[: aval.numel]
    larger._ndarray()[: kept.size] = kept
    storage: Storage = larger._storage
    return storage


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange two tensors: each object becomes what the other was, ``.grad`` and graph included.

    Raises:
        RuntimeError: a graph holds on to one of them as a leaf.
    """
    if type(t1) is not type(t2) and not (isinstance(t1, TensorBase) and isinstance(t2, TensorBase)):
        raise TypeError(f"swap_tensors() takes two tensors, not {type(t1).__name__} and {type(t2).__name__}")
    for name, tensor in (("t1", t1), ("t2", t2)):
        if existing_accumulator(tensor) is not None:
            raise RuntimeError(f"Cannot swap {name} because a graph holds on to it: its gradient would go astray")
        tensor._sync()
    recorder = state.handler
    if recorder is not None:
        recorder.flush()
        recorder.forget(t1)
        recorder.forget(t2)
    for slot in _SLOTS:
        first, second = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, second)
        setattr(t2, slot, first)
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = type(t2), type(t1)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__


REPLACING_METHODS: dict[str, Any] = {
    "detach_": detach_,
    "data": property(_get_data, _set_data, doc=_get_data.__doc__),
    "set_": set_,
    "resize_": resize_,
}


def check_new_grad(self: Any, value: Any) -> None:
    """What ``self.grad = value`` refuses.

    Raises:
        TypeError: no tensor, nor None.
        RuntimeError: a tensor that does not fit, as in PyTorch; a compiled step on another thread has set the gradient.
    """
    sets_grad(self)
    if value is None:
        return
    if not isinstance(value, TensorBase):
        kind = type(value).__name__
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {kind}")
    if value is self:
        raise RuntimeError("can't assign Variable as its own grad")
    if value._aval.shape != self._aval.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._aval.shape)}' to a tensor of size "
            f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
    if value._aval.dtype is not self._aval.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value._aval.dtype}' to a tensor with dtype "
            f"'{self.dtype}'. Please ensure that the gradient and the tensor have the same dtype"
        )
    if value._aval.device is not self._aval.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{value.device}' to a tensor with device type "
            f"'{self.device}'. Please ensure that the gradient and the tensor are on the same device"
        )
