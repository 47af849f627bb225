"""``tensor.storage()``: the memory that a tensor and its views lay out, as one row of elements.

Owns: ``TypedStorage`` and ``UntypedStorage``, as users see the memory.
Must not know: how memory is allocated (``runtime.storage``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.devices import META, Device
from jitgrad.dtypes import DType, bool_
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import root_of
from jitgrad.state import state

__all__ = ["TypedStorage", "UntypedStorage", "storage", "untyped_storage"]


class UntypedStorage:
    """The bytes of a tensor's memory; all views of one memory have equal ones."""

    _element: Any = np.dtype(np.uint8)

    def __init__(self, tensor: Any) -> None:
        if tensor.is_sparse:
            raise NotImplementedError("Cannot access storage of a sparse tensor: it has no dense memory")
        tensor._sync()
        self._tensor = tensor

    @property
    def device(self) -> Device:
        """Where the memory is."""
        found: Device = self._tensor._aval.device
        return found

    def data_ptr(self) -> int:
        """Address of the first byte; 0 on ``meta``."""
        return int(root_of(self._tensor._storage).addr)

    def nbytes(self) -> int:
        """Size in bytes."""
        return int(root_of(self._tensor._storage).nbytes)

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self._element.itemsize)

    def size(self) -> int:
        """Number of elements."""
        return self.nbytes() // self.element_size()

    def tolist(self) -> list[Any]:
        """The elements."""
        found: list[Any] = self._memory().tolist()
        return found

    def _memory(self) -> Any:
        """The elements as a NumPy array, after everything that a compiled step has recorded so far."""
        recorder = state.handler
        if recorder is not None:
            recorder.flush()
        self._tensor._sync()
        if self.device is META:
            raise NotImplementedError("Not available for 'meta' device storage")
        return root_of(self._tensor._storage).array(make_aval((self.nbytes(),), bool_)).view(self._element)

    def _checked(self, index: int) -> int:
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a storage with {type(index).__name__}")
        if not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        return index

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        return self._memory()[self._checked(index)].item()

    def __setitem__(self, index: int, value: Any) -> None:
        self._memory()[self._checked(index)] = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.data_ptr() == other.data_ptr() and self._element == other._element

    def __hash__(self) -> int:
        return self.data_ptr()

    def __repr__(self) -> str:
        values = "".join(f" {x}\n" for x in self.tolist())
        kind = type(self).__name__
        return f"{values}[jitgrad.{kind}(device={self.device}) of size {self.size()}]"


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

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)


def storage(self: Any) -> TypedStorage:
    """The memory that the tensor is laid out in, which its views share, as a row of elements.

    Raises:
        NotImplementedError: a sparse tensor.
    """
    return TypedStorage(self)


def untyped_storage(self: Any) -> UntypedStorage:
    """The memory that the tensor is laid out in, which its views share, as bytes.

    Raises:
        NotImplementedError: a sparse tensor.
    """
    return UntypedStorage(self)
