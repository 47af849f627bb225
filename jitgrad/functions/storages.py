"""``tensor.untyped_storage()``: the memory that a tensor and its views lay out, as users see it.

Owns: ``TypedStorage``, ``UntypedStorage``, and ``view(dtype)``: the same memory as elements of another dtype.
Must not know: how memory is allocated (``runtime.storage``).

A storage here is a handle on some tensor over the memory: so it finds the memory after a compiled step has given the
tensor some, and after ``resize_``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META, Device
from jitgrad.dtypes import DType, bool_
from jitgrad.functions.devices import moved, placed
from jitgrad.functions.from_data import from_array_copy
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.runtime.storage.resize import resize
from jitgrad.runtime.storage.storage import Storage, root_of
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = ["TypedStorage", "UntypedStorage", "view_as_dtype"]


class UntypedStorage:
    """The bytes of a tensor's memory; all views of one memory have equal ones.

    Args:
        source: a number of bytes, or their values. A tensor: the memory that it is laid out in.
        device: where new memory is; None = the default device.

    Raises:
        NotImplementedError: a sparse tensor.
        TypeError: anything else.
    """

    _element: Any = np.dtype(np.uint8)

    def __init__(self, source: Any = 0, *, device: Any = None) -> None:
        if isinstance(source, int):
            source = _row(np.zeros(source, np.uint8), device)
        elif isinstance(source, Sequence):
            source = _row(np.array(source, np.uint8), device)
        elif not isinstance(source, TensorBase):
            raise TypeError(f"{type(self).__name__}() takes a size or a sequence, not {type(source).__name__}")
        if source.is_sparse:
            raise NotImplementedError("Cannot access storage of a sparse tensor: it has no dense memory")
        source._sync()
        self._tensor = source

    @property
    def device(self) -> Device:
        """Where the memory is."""
        found: Device = self._tensor._aval.device
        return found

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's: never."""
        return False

    def _root(self) -> Storage:
        return root_of(self._tensor._storage)

    def data_ptr(self) -> int:
        """Address of the first byte; 0 on ``meta``."""
        return int(self._root().addr)

    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self._root().nbytes)

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self._element.itemsize)

    def size(self) -> int:
        """Number of elements."""
        return self.nbytes() // self.element_size()

    def resizable(self) -> bool:
        """Whether ``resize_`` may be called."""
        return self.device is CPU

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked: never."""
        return False

    def tolist(self) -> list[Any]:
        """The elements."""
        found: list[Any] = self._memory().tolist()
        return found

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def as_tensor(self, dtype: DType) -> Any:
        """All elements as a tensor of one dimension, of a dtype. RuntimeError for elements of another one."""
        if self._element != dtype.np and isinstance(self, TypedStorage):
            raise RuntimeError(f"Expected a Storage of type {dtype!r} or an UntypedStorage, but got {self.dtype!r}")
        self._tensor._sync()
        aval = make_aval((self.nbytes() // dtype.itemsize,), dtype).on(self.device)
        return new_tensor(aval, self._root())

    def _settle(self) -> None:
        """Run everything that a compiled step has recorded so far: the memory is what it says."""
        recorder = state.handler
        if recorder is not None:
            recorder.flush()
        self._tensor._sync()

    def _memory(self) -> Any:
        """The elements as a NumPy array."""
        self._settle()
        if self.device is META:
            raise NotImplementedError("Not available for 'meta' device storage")
        return self._root().array(make_aval((self.nbytes(),), bool_)).view(self._element)

    def resize_(self, size: int) -> UntypedStorage:
        """Another number of elements, in new memory with the old contents, for every tensor over this storage.

        A tensor that looks beyond the end must not be used until there is memory again.

        Raises:
            RuntimeError: the memory is not on the CPU, or the size is negative.
        """
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size < 0:
            raise RuntimeError(f"Storage size must not be negative, got {size}")
        self._settle()
        resize(self._root(), size * self.element_size())
        return self

    def fill_(self, value: Any) -> UntypedStorage:
        """Every element becomes ``value``."""
        self._memory()[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Take over the elements of another storage of this size. RuntimeError for another size."""
        if source.size() != self.size():
            raise RuntimeError(f"size does not match, self was {self.size()} and src was {source.size()}")
        self._memory()[...] = source._memory()
        return self

    def clone(self) -> Any:
        """A storage with the same elements in memory of its own."""
        row = _row(self._memory(), CPU, self._tensor._aval.dtype)
        return type(self)(moved(row, self.device))

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._memory().copy(), self._tensor._aval.dtype)

    def cpu(self) -> Any:
        """The storage itself if it is on the CPU, else a copy there."""
        return self if self.device is CPU else type(self)(moved(self._tensor, CPU))

    def _checked(self, index: Any) -> Any:
        if isinstance(index, slice):
            return index
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        if not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        return index

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        found = self._memory()[self._checked(index)]
        if not isinstance(index, slice):
            return found.item()
        if index.step not in (None, 1):
            raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
        part = Storage.from_array(found.view(np.uint8))
        dtype = self._tensor._aval.dtype
        return type(self)(new_tensor(make_aval((len(found) * self.element_size() // dtype.itemsize,), dtype), part))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._memory()[self._checked(index)] = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.data_ptr() == other.data_ptr() and self._element == other._element

    def __hash__(self) -> int:
        return self.data_ptr()

    def __repr__(self) -> str:
        values = "...\n" if self.device is META else "".join(f" {x}\n" for x in self.tolist())
        kind = type(self).__name__
        return f"{values}[torch.storage.{kind}({self._about()}device={self.device}) of size {self.size()}]"

    def _about(self) -> str:
        return ""


class TypedStorage(UntypedStorage):
    """The elements of a tensor's memory, of the tensor's dtype, in order of their addresses.

    Writing an element changes every tensor over the memory, and no version counter, as in PyTorch.

    Attributes:
        dtype: of the elements.
    """

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor)
        self.dtype: DType = tensor._aval.dtype
        self._element = self.dtype.np

    def _checked(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super()._checked(index)

    def _about(self) -> str:
        return f"dtype={self.dtype}, "


def _row(values: Any, device: Any, dtype: DType = bool_) -> Any:
    """A tensor of one dimension over a copy of an array's bytes."""
    octets = np.ascontiguousarray(values).view(np.uint8)
    made = from_array_copy(octets.view(np.bool_))
    aval = make_aval((len(octets) // dtype.itemsize,), dtype)
    return placed(new_tensor(aval, made._storage), device)


def _rebuild(cls: Any, values: Any, dtype: DType) -> Any:
    return cls(_row(values, CPU, dtype))


def view_as_dtype(input: Any, dtype: DType) -> Any:
    """``input.view(dtype)``: the same bytes as elements of another dtype, outside of any graph.

    In a compiled step the view is not part of the trace: its operations run at once.

    Raises:
        RuntimeError: the elements have another size, and do not fit the layout.
    """
    aval = _as_elements(input._aval, dtype)
    input._sync()
    out = new_tensor(aval, input._storage)
    out._vc = input._vc
    if state.handler is not None:
        state.handler.shares(input, out)
    return out


def _as_elements(aval: Aval, dtype: DType) -> Aval:
    """The layout of the same bytes in elements of ``dtype``."""
    old, new = aval.dtype.itemsize, dtype.itemsize
    if old == new:
        return make_aval(aval.shape, dtype, aval.stride, aval.offset).on(aval.device)
    what = f"to view {aval.dtype.type_name} as {dtype.type_name} (different element sizes)"
    if not aval.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 {what}")
    if aval.stride[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {aval.stride[-1]}")
    if old > new:
        times = old // new
        shape, stride = (*aval.shape[:-1], aval.shape[-1] * times), (*(s * times for s in aval.stride[:-1]), 1)
        return make_aval(shape, dtype, stride, aval.offset * times).on(aval.device)
    by = new // old
    numbers = [("self.size(-1)", aval.shape[-1]), ("self.storage_offset()", aval.offset)]
    numbers += [(f"self.stride({d})", s) for d, s in enumerate(aval.stride[:-1])]
    for name, number in numbers:
        if number % by:
            raise RuntimeError(f"{name} must be divisible by {by} {what}, but got {number}")
    shape, stride = (*aval.shape[:-1], aval.shape[-1] // by), (*(s // by for s in aval.stride[:-1]), 1)
    return make_aval(shape, dtype, stride, aval.offset // by).on(aval.device)
