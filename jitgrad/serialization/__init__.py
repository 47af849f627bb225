"""``save`` and ``load``: PyTorch's files, read without running code.

Owns: the two functions, which format a file has, what a damaged one raises.
Must not know: the formats (``archive``, ``reading``, ``old_format``).

A file is what ``torch.save`` writes, and ``torch.load`` reads it. Whatever a file says is checked before memory is
touched, no more is allocated than the file is long, and it can name nothing but what is listed in ``allowed``.
"""

from __future__ import annotations

import os
import pickle
import struct
import tokenize
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.serialization.allowed import (
    RefusedError,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from jitgrad.serialization.archive import Archive, write_archive
from jitgrad.serialization.legacy import LEGACY_MAGIC, LegacyFile
from jitgrad.serialization.old_format import OldReader
from jitgrad.serialization.places import Places
from jitgrad.serialization.reading import read_pickle
from jitgrad.serialization.replacement import new_contents
from jitgrad.serialization.writing import Written

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_DAMAGE = (
    zipfile.BadZipFile, struct.error, KeyError, TypeError, ValueError, IndexError, EOFError, RecursionError,
    AttributeError, OverflowError, MemoryError, pickle.UnpicklingError, SyntaxError, tokenize.TokenError,
)  # fmt: skip
"""What reading a file that is not what it should be may raise."""


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2) -> None:
    """Write ``obj`` to a file, as ``torch.save`` does.

    Tensors keep dtype, shape, strides, ``requires_grad`` and device; those that share memory, share it again; one that
    occurs twice is one again. Gradients and graphs are not saved.

    Args:
        obj: tensors, numbers, strings, containers of them; a module's or optimizer's ``state_dict()``. Also whatever
            ``pickle`` takes, such as whole modules; ``load`` reads those if their classes were declared safe.
        f: a path, or a binary file open for writing. A path is written under another name first: what is there is
            whole at any time, and stays as it was if the disk is full. The file at the end of links gets the new
            contents, and keeps its mode. A device or a pipe is written as it is.
        pickle_module: None: there is no other.
        pickle_protocol: accepted; PyTorch reads protocol 2 without running code, so that is what is written.

    Raises:
        TypeError: a subclass of Tensor, or what cannot be pickled.
        OSError: as ``open``.
    """
    if pickle_module not in (None, pickle):
        raise ValueError("save() knows no pickle_module but pickle")
    written = Written(obj)
    with _writable(f) as file:
        write_archive(file, written.pickled, written.records)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """Read what ``save`` or ``torch.save`` wrote. Safe for files from anywhere: nothing in them is executed.

    Args:
        f: a path, or a binary file open for reading that can seek.
        map_location: the device that tensors go to; a dict maps names of devices; a function of (storage, location)
            returns the storage, or None; None = where they were.
        pickle_module: None: there is no other.
        weights_only: must be True. A file may name tensors, plain containers, jitgrad's own layers and optimizers, and
            the classes that ``add_safe_globals`` was given.
        mmap: do not read the file but map it into memory; what is written to tensors stays in this process. Needs a
            path.

    Raises:
        RuntimeError: not such a file, or a damaged one.
        pickle.UnpicklingError: it names something else; the message says what to do.
        ValueError: ``weights_only=False``; ``mmap`` without a path.
        OSError: as ``open``.
    """
    if weights_only is False:
        raise ValueError(
            "weights_only=False is not supported: it would run whatever code the file names. Load with "
            "weights_only=True; if the file holds objects of your own classes, declare them first: "
            "jitgrad.serialization.add_safe_globals([MyModel]). Better, save model.state_dict()."
        )
    if pickle_module not in (None, pickle):
        raise ValueError("load() knows no pickle_module: files hold values, never code")
    if mmap and hasattr(f, "read"):
        raise ValueError("f must be a string filename in order to use mmap argument")
    with _readable(f) as file:
        name = getattr(file, "name", "the file")
        try:
            if _begins(file, LEGACY_MAGIC):
                if mmap:
                    raise RuntimeError(f"{name} is in the format of PyTorch before 1.6, which cannot be mapped")
                return read_pickle(LegacyFile(file), Places(map_location))
            with zipfile.ZipFile(file) as opened:
                archive = Archive(opened, file, bool(mmap))
                places = Places(map_location)
                return OldReader(archive, places).read() if archive.is_old else read_pickle(archive, places)
        except RefusedError:
            raise
        except _DAMAGE as error:
            raise RuntimeError(_about(file, name) or f"{name} is not a whole file of jitgrad.save: {error}") from error


def _begins(file: Any, head: bytes) -> bool:
    """Whether these are the file's first bytes; it is at its beginning before and after."""
    start = file.tell()
    found: bytes = file.read(len(head))
    file.seek(start)
    return found == head


def _about(file: Any, name: str) -> str:
    """What a file is that is none of ours, if its first bytes say so."""
    file.seek(0)
    head = file.read(512)
    if head[257:262] == b"ustar":
        return (
            f"{name} is in the format of PyTorch before 0.1.10, which cannot be read without running code. Load it "
            "with PyTorch and save it again: torch.save(torch.load(path), path)"
        )
    if head[8:10] == b'{"':
        return f"{name} is a safetensors file: read it with jitgrad.safetensors.load_file"
    return ""


@contextmanager
def _writable(f: Any) -> Iterator[Any]:
    """The file to write to; a path gets its new contents at the end, or keeps its old ones."""
    if hasattr(f, "write"):
        yield f
    else:
        with new_contents(os.fsdecode(f)) as file:
            yield file


@contextmanager
def _readable(f: Any) -> Iterator[Any]:
    if hasattr(f, "read"):
        yield f
        return
    with open(f, "rb") as file:
        yield file
