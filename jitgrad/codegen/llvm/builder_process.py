"""What a process beside this one runs: requests from a pipe, object code into another, Note [Builders].

Owns: ``main``.
Must not know: the rest of jitgrad but ``emit.py`` and ``formats.py``: NumPy alone would triple its start.
"""

from __future__ import annotations

import contextlib
import os
import select
import zlib
from typing import NoReturn

import llvmlite.binding  # type: ignore[import-untyped]

from jitgrad.codegen.llvm.emit import Emitter
from jitgrad.codegen.llvm.formats import ANSWER, REQUEST, entry, file_name

__all__ = ["main"]

_IDLE_MS = 5_000
"""A builder without work ends after that: it holds some 60 MB."""
_PATIENCE_MS = 60_000
"""Of a builder whose answer nobody takes, such as code that only eager operations ask for, where there are none."""


def main(triple: str, cpu: str, features: str, directory: int) -> NoReturn:
    """Answer requests from descriptor 0 on descriptor 1 until nobody writes there, or nothing comes for a while.

    Args:
        directory: descriptor of the object cache, or -1.
    """
    with contextlib.suppress(OSError):
        _answer_all(Emitter(llvmlite.binding, triple, cpu, features), directory)
    os._exit(0)  # nothing is left to do, and nobody looks at how it ends


def _answer_all(emitter: Emitter, directory: int) -> None:
    requests = select.poll()
    requests.register(0, select.POLLIN)
    while requests.poll(_IDLE_MS):
        nr, length, needs_passes, digest = REQUEST.unpack(_read(REQUEST.size))
        text = zlib.decompress(_read(length)).decode()
        try:
            is_made, answer = True, emitter.emit(text, needs_passes)
        except RuntimeError as error:
            is_made, answer = False, str(error).encode()
        try:
            _write(ANSWER.pack(nr, len(answer), is_made) + answer)
        except BrokenPipeError:  # who asked is gone, or busy: the work is kept for the next that asks
            if is_made and directory >= 0:
                _keep(directory, digest, answer)
            return


def _keep(directory: int, digest: bytes, obj: bytes) -> None:
    """Write a file of the cache, as ``ObjectCache.store`` does."""
    temporary = f".{os.getpid()}.builder.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(entry(digest, obj))
    os.replace(temporary, file_name(digest), src_dir_fd=directory, dst_dir_fd=directory)


def _read(count: int) -> bytes:
    """So many bytes; BrokenPipeError where nobody writes any more."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            raise BrokenPipeError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    """Write all of it; BrokenPipeError where nobody reads."""
    os.set_blocking(1, False)
    answers = select.poll()
    answers.register(1, select.POLLOUT)
    left = memoryview(data)
    while left:
        if not answers.poll(_PATIENCE_MS):
            raise BrokenPipeError
        with contextlib.suppress(BlockingIOError):
            left = left[os.write(1, left) :]
