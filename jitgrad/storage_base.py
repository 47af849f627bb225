"""``StorageBase``: what a storage holds.

Owns: the slots that the tracer and native code look at.
Must not know: where memory comes from (``runtime/storage/``).
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["StorageBase"]


class StorageBase:
    """The state of a storage.

    Attributes:
        addr: address of the first byte; 0 while pending.
        nbytes: size.
        owner: what keeps the memory alive, if it is not the storage's own.
        tid: stamp of the call that met it last.
        is_window: it is part of another storage's memory, see Note [Batches of a data set].
    """

    __slots__ = ("__weakref__", "addr", "is_window", "nbytes", "owner", "tid")

    NATIVE_DEFAULTS: ClassVar[dict[str, Any]] = {"addr": 0, "owner": None, "tid": 0, "is_window": False}

    kind: ClassVar[type]
    """The class of new storages; ``runtime/storage/storage.py`` installs it."""

    addr: int
    is_window: bool
    nbytes: int
    owner: Any
    tid: int

    def __getattr__(self, name: str) -> Any:
        if name in self.NATIVE_DEFAULTS:
            return self.NATIVE_DEFAULTS[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
