"""Storages that change their size.

Owns: ``resize``.
Must not know: what tensors are over a storage, but that they remember NumPy views of it.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

from jitgrad.array_storages import forget_storage
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor_base import TensorBase

__all__ = ["resize"]


def resize(storage: Storage, nbytes: int) -> None:
    """Give a storage new memory of another size, with the old contents as far as they go, and zeros behind them.

    The old memory stays until the storage goes: NumPy views may look at it. Tensors look at the new one, which has room
    for whatever the storage has held before: kernels take a tensor's extents from the tensor. A storage that goes back
    and forth between sizes stays where it is.
    """
    owner = storage.owner
    _forget_views(storage)
    if not isinstance(owner, Storage) or owner.nbytes < nbytes:
        old, new = _part(storage), Storage(max(nbytes, storage.nbytes))
        ctypes.memmove(new.addr, old.addr, old.nbytes)
        storage.addr, storage.owner = new.addr, _part(new)
        storage.owner.owner = (old, new)
    if nbytes > storage.nbytes:
        ctypes.memset(storage.addr + storage.nbytes, 0, nbytes - storage.nbytes)
    storage.nbytes = nbytes


def _part(storage: Storage) -> Storage:
    """The storage's memory as it is now, in a storage that frees it."""
    part = Storage.pending()
    part.addr, part.nbytes, part.owner = storage.addr, storage.nbytes, storage.owner
    return part


def _forget_views(storage: Storage) -> None:
    """Let no tensor remember a NumPy view of the memory: the collector lists what refers to a storage, or its array.

    A view of an eager result may refer to neither: its array does, and the collector does not know arrays.
    """
    holders: list[Any] = gc.get_referrers(storage)
    owner = storage.owner
    if owner is not None and not isinstance(owner, Storage):
        holders += gc.get_referrers(owner)
        holders += [x for x in gc.get_objects() if _is_tensor(x) and _array_base(x) is owner]
    for holder in holders:
        if _is_tensor(holder) and holder._storage is storage:
            holder._array = None
    forget_storage(storage)


def _is_tensor(x: Any) -> bool:
    """``isinstance`` asks objects for their class: a weak proxy of what is gone raises then."""
    return issubclass(type(x), TensorBase)


def _array_base(tensor: TensorBase) -> Any:
    """What the tensor's array is a NumPy view of, or None."""
    array = tensor._array
    return None if array is None else array.base
