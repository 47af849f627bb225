"""Object code on disk: one file per kernel, trusted only if it is the user's own and intact.

Owns: the files under ``config.cache_dir``: their trust, their number (``formats.py``: what one holds).
Must not know: what a kernel is, LLVM.
In: a key digest, object code. Out: the object code, or None. Nothing here raises: a cache that fails costs speed only.

# Note [Cache trust]
# ~~~~~~~~~~~~~~~~~~
# What is loaded from here is executed. So the directory is opened once, without following a link at its end, and used
# through its descriptor: it cannot be swapped later. It, and each file (also opened without following links), must be
# owned by this user and writable by nobody else. A checksum over key and payload catches truncation and damage; files
# appear under their name only when complete (``os.replace``), so two processes may fill the cache at once. Whoever
# closes descriptors that are not his, as daemons do, may close the directory's, and its number may become another
# directory's: it is looked at before each use. It is none of 0 to 2, which programs open again and give to others.
# Example: a file that another user owns, or that ends early, is passed over; the kernel is compiled again.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import stat
import time
from pathlib import Path

from jitgrad.codegen.llvm.formats import entry, file_name, payload_of
from jitgrad.events import logger
from jitgrad.probe import probe
from jitgrad.user_line import OwnErrorsIgnored, let_through

__all__ = ["ObjectCache", "open_cache"]

_STALE_S = 3600.0
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # the opening of a FIFO would wait for somebody to write
_HAS_DIR_FD = os.open in os.supports_dir_fd
_STANDARD = 3  # descriptors below this are those of the standard streams


def _why_untrusted(info: os.stat_result, is_kind: bool) -> str:
    """Why something that was opened must not be used; empty if it may."""
    if not is_kind:
        return "is of the wrong kind"
    if hasattr(os, "geteuid") and info.st_uid != os.geteuid():
        return "belongs to another user"
    if hasattr(os, "geteuid") and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users"
    return ""


def _not_standard(fd: int) -> int:
    """The same file under a number that is not one of the standard streams'."""
    taken = []
    try:
        while fd < _STANDARD:
            taken.append(fd)
            fd = os.dup(fd)
    finally:
        for low in taken:
            os.close(low)
    return fd


def _status(fd: int) -> os.stat_result:
    """``fstat``; a descriptor that has none is closed."""
    try:
        return os.fstat(fd)
    except OSError:
        os.close(fd)
        raise


class ObjectCache:
    """The files of one directory.

    Args:
        directory: made with mode 0700 if it does not exist.
        limit_nbytes: least recently used files go when the total exceeds this.
    """

    def __init__(self, directory: Path, limit_nbytes: int) -> None:
        self._limit = limit_nbytes
        self._path = directory
        self._serial = itertools.count()
        self._total = -1  # bytes, unknown until the first store
        self._fd: int | None = None
        self.readable = self.writable = self._open()

    def _open(self) -> bool:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _HAS_DIR_FD:
                return True
            fd = _not_standard(os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW))
            info = _status(fd)
        except OSError as error:
            let_through(error)
            logger().info("no object cache: %s", error)
            return False
        why = _why_untrusted(info, stat.S_ISDIR(info.st_mode))
        if why:
            os.close(fd)
            logger().warning("no object cache: the directory %s %s", self._path, why)
            return False
        self._fd, self._identity = fd, (info.st_dev, info.st_ino)
        return True

    def _is_there(self) -> bool:
        """Whether the descriptor is still that of the directory; if not, the cache is off from now on."""
        if self._fd is None:
            return True
        with contextlib.suppress(OSError):
            info = os.fstat(self._fd)
            if (info.st_dev, info.st_ino) == self._identity:
                return True
        logger().info("no object cache any more: its descriptor was closed")
        self._fd, self.readable, self.writable = None, False, False  # the number is somebody else's: it stays open
        return False

    def _at(self, name: str) -> str:
        return name if self._fd is not None else str(self._path / name)

    def load(self, digest: bytes) -> bytes | None:
        """The object code stored under a key digest, None if there is none that can be trusted."""
        if not (self.readable and self._is_there()):
            return None
        session = probe.session  # Note [Profiling points]
        return self._load(digest) if session is None else session.call("cache", "cache read", self._load, digest)

    def holds(self, digest: bytes) -> bool:
        """Whether there is a file for a key digest; ``load`` says whether it can be trusted."""
        if not (self.readable and self._is_there()):
            return False
        try:
            os.stat(self._at(file_name(digest)), dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            let_through(error)
            return False
        return True

    def _load(self, digest: bytes) -> bytes | None:
        try:
            fd = os.open(self._at(file_name(digest)), os.O_RDONLY | _NOFOLLOW | _NONBLOCK, dir_fd=self._fd)
        except OSError as error:
            let_through(error)
            return None
        try:
            info = os.fstat(fd)
            why = _why_untrusted(info, stat.S_ISREG(info.st_mode))
            if why:
                logger().warning("cached object %s.. ignored: it %s", digest.hex()[:12], why)
                return None
            with open(fd, "rb", closefd=False) as file:
                payload = payload_of(digest, file.read())
            if payload is not None and time.time() - info.st_mtime > _STALE_S:
                os.utime(fd)  # keeps the file among the recently used; hourly is exact enough
        except OSError as error:
            let_through(error)
            return None
        finally:
            with OwnErrorsIgnored(OSError):
                os.close(fd)
        return payload

    def store(self, digest: bytes, payload: bytes) -> bool:
        """Keep object code under a key digest; False if that was not possible."""
        if not (self.writable and self._is_there()):
            return False
        data = entry(digest, payload)
        temporary = self._at(f".{os.getpid()}.{next(self._serial)}.{time.monotonic_ns()}.tmp")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW
            with open(os.open(temporary, flags, 0o600, dir_fd=self._fd), "wb") as file:
                file.write(data)
            fds = {"src_dir_fd": self._fd, "dst_dir_fd": self._fd}
            os.replace(temporary, self._at(file_name(digest)), **fds)
        except OSError as error:
            let_through(error)
            self.writable = False  # a full or read-only disk stays so: do not try again for every kernel
            logger().info("object cache not written: %s", error)
            with OwnErrorsIgnored(OSError):
                os.unlink(temporary, dir_fd=self._fd)
            return False
        self._grow(len(data))
        return True

    def _grow(self, nbytes: int) -> None:
        if self._total >= 0:
            self._total += nbytes
        if self._total < 0 or self._total > self._limit:
            self._trim()

    def _trim(self) -> None:
        """Count the files; beyond the limit delete the least recently used ones until a tenth is free."""
        files: list[tuple[float, int, str]] = []
        with OwnErrorsIgnored(OSError):
            for name in os.listdir(self._path if self._fd is None else self._fd):
                with OwnErrorsIgnored(OSError):
                    info = os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
                    if not name.endswith(".tmp"):
                        files.append((info.st_mtime, info.st_size, name))
                    elif time.time() - info.st_mtime > _STALE_S:  # a younger one is being written
                        files.append((0.0, info.st_size, name))
        total = sum(size for _, size, _ in files)
        goal = self._limit if total <= self._limit else self._limit * 9 // 10
        for mtime, size, name in sorted(files):
            if total <= goal and mtime > 0.0:
                break
            with OwnErrorsIgnored(OSError):
                os.unlink(self._at(name), dir_fd=self._fd)
            total -= size
        self._total = total

    def descriptor(self) -> int:
        """Of the directory, for a process that is to write there; -1 where it cannot be had."""
        return self._fd if self._fd is not None and self.writable and self._is_there() else -1

    def close(self) -> None:
        """Let go of the directory; the cache then holds nothing."""
        if self._fd is not None and self._is_there():
            os.close(self._fd)
        self._fd, self.readable, self.writable = None, False, False


@functools.cache
def open_cache(directory: str | None, limit_nbytes: int) -> ObjectCache | None:
    """The process's cache for a directory; None where the disk cache is off."""
    return None if directory is None else ObjectCache(Path(directory), limit_nbytes)
