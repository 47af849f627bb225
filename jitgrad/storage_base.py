"""``StorageBase``: what a storage holds. ``FreeLists``: where its memory goes.

Owns: the slots that the tracer and native code look at.
Must not know: where memory comes from (``runtime/storage/``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.cpython.primitives import blank, inlined, native, take_last

__all__ = ["FreeLists", "StorageBase", "new_storage", "part_of"]


class StorageBase:
    """The state of a storage.

    Attributes:
        addr: address of the first byte; 0 while pending.
        nbytes: size.
        owner: what keeps the memory alive, if it is not the storage's own.
        tid: stamp of the call that met it last.
        is_window: it is part of another storage's memory, see Note [Batches of a data set].
        passed: of such a part: the argument in whose place a tensor looks at it, if that comes with a graph; or None.
    """

    __slots__ = ("__weakref__", "addr", "is_window", "nbytes", "owner", "passed", "tid")

    NATIVE_DEFAULTS: ClassVar[dict[str, Any]] = {
        "addr": 0, "owner": None, "tid": 0, "is_window": False, "passed": None,
    }  # fmt: skip

    lists: ClassVar[FreeLists]
    """Where the memory of new storages comes from; installed there."""

    kind: ClassVar[type]
    """The class of new storages; ``runtime/storage/storage.py`` installs it."""

    window_kind: ClassVar[type]
    """The class of windows of a storage; installed there, too."""

    addr: int
    is_window: bool
    nbytes: int
    owner: Any
    passed: Any
    tid: int

    def __getattr__(self, name: str) -> Any:
        if name == "is_window":  # remember it: no storage becomes one
            self.is_window = False
        if name in self.NATIVE_DEFAULTS:
            return self.NATIVE_DEFAULTS[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@inlined
def new_storage(nbytes: int) -> Any:
    """``StorageBase.kind(nbytes)``; a block that was freed is taken here."""
    lists: FreeLists = StorageBase.lists
    blocks: dict[int, Any] = lists.blocks
    freed: Any = blocks.get(nbytes)
    if freed is None or len(freed) == 0:
        return StorageBase.kind(nbytes)
    storage: StorageBase = blank(StorageBase.kind)
    storage.nbytes = nbytes  # before the address: an interrupt may come between, and a block goes back by its size
    storage.owner = None
    storage.addr = take_last(freed)
    if storage.addr is None:  # another thread was faster
        storage.addr = 0
        return StorageBase.kind(nbytes)
    lists.nbytes = int(lists.nbytes) - nbytes
    return storage


@native
def part_of(storage: StorageBase, first: int) -> Any:
    """A window of a storage, from byte ``first`` on."""
    window: StorageBase = blank(StorageBase.window_kind)
    window.nbytes = int(storage.nbytes) - first
    window.owner = storage  # before the address: what has no owner would give its memory back
    window.addr = int(storage.addr) + first
    window.is_window = True
    window.tid = 0
    return window


class FreeLists:
    """Freed blocks of memory, ready to be taken again, and where new ones come from.

    Attributes:
        blocks: per size that was asked for, the addresses.
        nbytes: of all of them. A lost update between two threads only shifts the bound; ``memory._trim`` counts afresh.
        limit: a freed block goes back to the system where it would make ``nbytes`` more than this.
        starts: of a block that begins later than the system's, the address of the system's.
        allocate: makes a block of so many bytes: its address, or 0.
        release: takes back the system's address of a block.
    """

    __slots__ = ("allocate", "blocks", "limit", "nbytes", "release", "starts")

    allocate: Callable[[int], int]
    blocks: dict[int, list[int]]
    limit: int
    nbytes: int
    release: Callable[[int], object]
    starts: dict[int, int]

    def __init__(
        self,
        limit: int,
        starts: dict[int, int],
        allocate: Callable[[int], int],
        release: Callable[[int], object],
    ) -> None:
        self.blocks, self.nbytes = {}, 0
        self.limit, self.starts, self.allocate, self.release = limit, starts, allocate, release
