"""Files of PyTorch before 1.6: pickles one after another, then the storages' elements. Read, never written.

Owns: ``LegacyFile``, which answers as ``Archive`` does.
Must not know: what a pickle may hold (``reading``, ``allowed``).

The pickles are a number that says what the file is, a version, facts about the machine, the object, and the keys of its
storages. Then come the storages in the order of the keys: the number of elements, and the elements. Only the object
says how long an element is: so its pickle is first skimmed for references to storages, and read once all their places
are known.
"""

from __future__ import annotations

import os
import pickle
import struct
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jitgrad.runtime.storage.storage import Storage
from jitgrad.serialization.allowed import STORAGE_DTYPES, Call, StorageType
from jitgrad.serialization.archive import fill, octets_of
from jitgrad.serialization.reading import Unpickler, item_size

__all__ = ["LEGACY_MAGIC", "LegacyFile"]

LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The first pickle, byte by byte."""
_VERSION = 1001


class _Place(NamedTuple):
    """Where a storage's elements lie.

    Attributes:
        start: in the file, in bytes.
        file_size: in bytes.
    """

    start: int
    file_size: int


class _Skimmed:
    """Stands for whatever a skimmed pickle makes."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Of a list."""

    extend = add = update = append


class _Skimmer(Unpickler):
    """Reads a pickle for its references to storages, and makes nothing else.

    Attributes:
        widths: key of a storage -> bytes of an element.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, None, None)
        self.widths: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A storage's class, or something unknown. RefusedError for a name that is not allowed."""
        found = super().find_class(module, name)
        return found if isinstance(found, StorageType) else Call(_Skimmed)

    def persistent_load(self, pid: Any) -> Any:
        """Note the storage."""
        _, kind, key, *_ = pid
        if type(key) is not str or not isinstance(kind, StorageType):
            raise ValueError("a reference to something else than a storage")
        self.widths[key] = item_size(STORAGE_DTYPES[kind.name])
        return _Skimmed()

    def load_reduce(self) -> None:
        """A call."""
        self.stack.pop()
        self.stack[-1] = _Skimmed()

    def load_newobj(self) -> None:
        """A new object."""
        self.load_reduce()

    def load_build(self) -> None:
        """The state of an object."""
        self.stack.pop()

    dispatch: ClassVar[dict[int, Any]] = {
        **Unpickler.dispatch, pickle.REDUCE[0]: load_reduce, pickle.NEWOBJ[0]: load_newobj, pickle.BUILD[0]: load_build,
    }  # fmt: skip


def _plain(file: Any) -> Any:
    """The next pickle, of numbers and texts; ValueError if there are references in it."""
    skimmer = _Skimmer(file)
    found = skimmer.load()
    if skimmer.widths:
        raise ValueError("a reference where there should be none")
    return found


class LegacyFile:
    """The pickle of the object, and the storages by ``data/`` and their key.

    Raises:
        ValueError, EOFError: the file is damaged.
        RefusedError: it names what is not allowed.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(len(LEGACY_MAGIC))
        if _plain(file) != _VERSION:
            raise ValueError("an unknown version")
        facts = _plain(file)
        self._is_little = bool(facts["little_endian"])
        start = file.tell()
        skimmer = _Skimmer(file)
        skimmer.load()
        self._pickle = start, file.tell()
        self._places: dict[str, _Place] = {}
        for key in _plain(file):
            (count,) = struct.unpack("<q" if self._is_little else ">q", file.read(8))
            nbytes = count * skimmer.widths[key]
            at = file.tell()
            if not 0 <= nbytes <= size - at:
                raise ValueError("a storage goes beyond the end")
            self._places[f"data/{key}"] = _Place(at, nbytes)
            file.seek(at + nbytes)

    def pickled(self) -> bytes:
        """The pickle of the object."""
        start, end = self._pickle
        self._file.seek(start)
        found: bytes = self._file.read(end - start)
        return found

    def member(self, name: str) -> _Place:
        """Where a storage lies; KeyError if the file has none of this name."""
        return self._places[name]

    def storage(self, name: str, itemsize: int) -> Storage:
        """A storage as memory."""
        start, nbytes = self._places[name]
        storage = Storage(nbytes or 1)
        octets = octets_of(storage, nbytes)
        self._file.seek(start)
        fill(memoryview(octets), self._file)
        if itemsize > 1 and not self._is_little:
            octets.reshape(-1, itemsize)[...] = np.flip(octets.reshape(-1, itemsize), 1).copy()
        return storage
