"""The zip archive of a file: its records, read, mapped into memory, or written.

Owns: names and places of records; that no record is longer than the file.
Must not know: pickles, tensors.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import bool_
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage

__all__ = ["Archive", "fill", "write_archive"]

_OLD_INDEX = "jitgrad.json"
_PICKLE = "data.pkl"
_ALIGNMENT = 64
_HEADER = 30  # bytes of a member's header, before its name
_CHUNK = 1 << 22


class Archive:
    """An open archive.

    Args:
        opened: the archive.
        file: that it is in.
        is_mapped: map storages into memory instead of reading them.

    Attributes:
        is_old: it is in jitgrad's first format.
    """

    def __init__(self, opened: zipfile.ZipFile, file: Any, is_mapped: bool) -> None:
        self._opened, self._file = opened, file
        self._left = self._size = file.seek(0, os.SEEK_END)
        names = opened.namelist()
        self.is_old = _OLD_INDEX in names
        found = [name for name in names if name.endswith(f"/{_PICKLE}")]
        if not found and not self.is_old:
            raise ValueError(f"it has no {_PICKLE}")
        if any(name.endswith("/constants.pkl") for name in names):
            raise ValueError("it is a TorchScript archive, which holds code")
        self._folder = found[0].removesuffix(_PICKLE) if found else ""
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if is_mapped else None

    def member(self, name: str) -> zipfile.ZipInfo:
        """A record's entry; KeyError if there is none, ValueError if it cannot be what it says."""
        info = self._opened.getinfo(self._folder + name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > self._size:
            raise ValueError(f"{name} is compressed, or longer than the file")
        return info

    def record(self, name: str) -> bytes:
        """A small record."""
        return self._opened.read(self.member(name))

    def pickled(self) -> bytes:
        """The record that says what the file holds."""
        return self.record(_PICKLE)

    def open(self, info: zipfile.ZipInfo) -> Any:
        """A record, to be read piece by piece."""
        return self._opened.open(info)

    def storage(self, name: str, itemsize: int) -> Storage:
        """A record as memory.

        Args:
            itemsize: of its elements, which are turned round if the file's order of bytes is another one, and copied
                if they do not lie at a multiple of this.
        """
        info = self.member(name)
        turns = itemsize > 1 and self._order() != sys.byteorder
        if self._map is not None and info.file_size and not turns:
            at = self._place(info)
            if at % itemsize == 0:
                return Storage.from_array(np.frombuffer(self._map, np.uint8, info.file_size, at))
        storage = self._read(info)
        if turns:
            octets = octets_of(storage, info.file_size)[: info.file_size - info.file_size % itemsize]
            octets.reshape(-1, itemsize)[...] = octets.reshape(-1, itemsize)[:, ::-1].copy()
        return storage

    def _read(self, info: zipfile.ZipInfo) -> Storage:
        self._left -= info.file_size
        if self._left < 0:  # records that overlap
            raise ValueError("its records are longer than the file")
        storage = Storage(info.file_size or 1)
        with self._opened.open(info) as member:
            fill(memoryview(octets_of(storage, info.file_size)), member)
        return storage

    def _order(self) -> str:
        if f"{self._folder}byteorder" not in self._opened.namelist():
            return "little"
        return self.record("byteorder").decode("ascii").strip()

    def _place(self, info: zipfile.ZipInfo) -> int:
        """Where a record's bytes begin: behind a header whose length it says itself."""
        self._file.seek(info.header_offset)
        header = self._file.read(_HEADER)
        if header[:4] != b"PK\3\4":
            raise ValueError("a record has no header")
        name, extra = struct.unpack("<HH", header[26:30])
        at: int = info.header_offset + _HEADER + name + extra
        if at + info.file_size > self._size:
            raise ValueError("a record goes beyond the end")
        return at


def fill(memory: memoryview, member: Any) -> None:
    """Read from a record until memory is full. EOFError if the record ends before that."""
    while memory:
        count = member.readinto(memory[:_CHUNK])
        if not count:
            raise EOFError("a record ends too early")
        memory = memory[count:]


def octets_of(storage: Storage, nbytes: int) -> Any:
    """The first bytes of a storage, as an array over its memory."""
    octets: Any = storage.array(make_aval((nbytes,), bool_)).view(np.uint8)
    return octets


def write_archive(file: Any, pickled: bytes, records: Sequence[Any]) -> None:
    """Write an archive as ``torch.save`` does: what it holds, and the memory of its storages.

    Args:
        file: open for writing; it need not seek.
        records: an array of bytes per storage.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, _PICKLE, pickled)
        _write(archive, ".format_version", b"1")
        _write(archive, ".storage_alignment", str(_ALIGNMENT).encode())
        _write(archive, "byteorder", sys.byteorder.encode())
        for nr, octets in enumerate(records):
            _write(archive, f"data/{nr}", memoryview(octets))
        _write(archive, "version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """One record, whose bytes begin at a multiple of 64, as PyTorch's do: so a file can be mapped into memory."""
    info = zipfile.ZipInfo(f"archive/{name}")
    longer = 20 if len(data) > zipfile.ZIP64_LIMIT else 0
    begins = archive.fp.tell() + _HEADER + len(info.filename) + 4 + longer  # type: ignore[union-attr]
    padding = -begins % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(info, data)
