"""Which storage the memory of an array has, see Note [Storage on demand].

Owns: the table of storages by their arrays; ``storage_now``, where a hit asks for a new tensor's storage.
Must not know: where memory comes from, what arrays without memory of their own lie in (``runtime/storage/``).
"""

from __future__ import annotations

from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # as the standard library does
from typing import Any
from weakref import ref

from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.primitives import blank, once_per_call, was_set, word_at
from jitgrad.ops.aval import Aval
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase

__all__ = ["STORAGES", "StorageRef", "forget_storage", "noted_storage", "storage_now"]


class StorageRef(ref):  # type: ignore[type-arg]
    """A weak reference to a storage.

    Attributes:
        key: ``id`` of the storage's array.
    """

    __slots__ = ("key",)

    key: int


STORAGES: dict[int, StorageRef] = {}
"""Of arrays that own their memory, by ``id``: a storage keeps its array alive."""

def drop_entry(reference: StorageRef) -> None:
    """The storage of an entry is gone; another one may have taken the entry's place."""
    _remove_dead_weakref(STORAGES, reference.key)


def noted_storage(array: Any, storage: Any) -> Any:
    """``storage``, as that of ``array`` from now on; or the one that another thread has noted before."""
    key = id(array)
    made = StorageRef(storage, drop_entry)
    made.key = key
    while True:
        noted = STORAGES.setdefault(key, made)
        if noted is made:
            return storage
        known = noted()
        if known is not None:
            return known
        _remove_dead_weakref(STORAGES, key)


def forget_storage(storage: StorageBase) -> None:
    """The memory of the storage is no longer that of the array it was made over."""
    if storage.owner is None:
        return
    noted = STORAGES.get(id(storage.owner))
    if noted is not None and noted() is storage:
        STORAGES.pop(id(storage.owner), None)


@once_per_call
def storage_now(x: TensorBase) -> Any:
    """``x._storage``. That of a new result, or of a view of one, is made here; Python makes all others.

    Every tensor that a compiled call meets for the first time needs one: a batch, what was drawn or computed eagerly.
    """
    if was_set(x, "_storage") or x._array is None or x._source is not None:
        return x._storage
    array = x._array
    aval: Aval = x._aval
    if x._base is not None:
        base: TensorBase = x._base
        if base._array is None or array.base is not base._array:
            return x._storage
        x._storage = storage_now(base)
        return x._storage
    is_whole = array.base is None and aval.is_contiguous and int(aval.offset) == 0 and int(aval.numel) > 0
    table: dict[int, Any] = STORAGES
    key = id(array)
    if not is_whole or ARRAY_DATA < 0 or table.get(key) is not None:
        return x._storage
    storage: StorageBase = blank(StorageBase.kind)
    storage.owner = array  # first: memory with an owner does not go back to the free lists
    storage.nbytes = array.nbytes
    storage.addr = word_at(id(array) + ARRAY_DATA)
    made: StorageRef = StorageRef(storage, drop_entry)
    made.key = key
    if table.setdefault(key, made) is made:
        x._storage = storage
    return x._storage
