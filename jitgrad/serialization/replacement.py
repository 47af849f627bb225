"""New contents for a path: all of them, or the old ones stay.

Owns: ``new_contents``.
Must not know: what is written.

The contents are written beside the path and take its name once they are on the disk. What a path means stays as it is:
links are followed, a file keeps its mode and owner, devices and pipes are written themselves. A directory that takes no
new file leaves no choice but to write the file itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["new_contents"]

_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems answer that cannot be asked to write their memory to the disk."""
_NO_NEW_FILE = (errno.EACCES, errno.EPERM)


@contextmanager
def new_contents(path: str) -> Iterator[Any]:
    """A binary file; what is written to it becomes the contents of ``path`` at the end of the block.

    Raises:
        OSError: as ``open``, or what the disk answered to a write. An old file is as it was then.
    """
    path = os.path.realpath(path)
    old = _found(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            yield file
        return
    # a name of its own: one made of the path's might be too long, one of the process's may be left from another
    scratch = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.tmp")
    file = _beside(path, scratch, old)
    if file is None:
        with open(path, "wb") as file:
            yield file
        return
    try:
        with file:
            if old is not None:
                _make_alike(file.fileno(), old)
            yield file
            file.flush()
            _sync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise


def _found(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _beside(path: str, scratch: str, old: os.stat_result | None) -> Any:
    """The new file beside an old one; None if the directory takes none, and ``path`` can be written itself."""
    try:
        # others must not read in the meantime what they could not read before
        return open(scratch, "xb", opener=lambda name, flags: os.open(name, flags, 0o600 if old else 0o666))
    except OSError as error:
        if old is not None and error.errno in _NO_NEW_FILE and os.access(path, os.W_OK):
            return None
        error.filename = path
        raise


def _make_alike(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner and the mode of the old one, as far as this user may."""
    if not hasattr(os, "fchmod"):
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
