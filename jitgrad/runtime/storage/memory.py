"""Raw memory: 64-byte aligned blocks from the system, and a cache of freed ones.

Owns: ``take`` and ``give``, the free lists and their bound.
Must not know: tensors, storages, NumPy.

A training step asks for the same sizes over and over, so blocks are cached under the exact size that was asked for:
one dict look-up and one list pop.

# Note [Staggered blocks]
# ~~~~~~~~~~~~~~~~~~~~~~~
# The system puts every large block at the same place of a page. A kernel that walks along ten arrays at once would then
# have all ten in one set of the first cache, which has eight ways, and each store would look like the address of later
# loads. Blocks that start at different lines of their pages cost nothing and are up to twice as fast.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from typing import Any

__all__ = ["ALIGNMENT", "CACHE_LIMIT_NBYTES", "cached_nbytes", "give", "release_cached", "take"]

ALIGNMENT = 64
CACHE_LIMIT_NBYTES = 256 << 20
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14
_PAGE = 4096
_STAGGER_FROM = 32 << 10
_STAGGER = 13 * ALIGNMENT  # 13 and the 64 lines of a page have no common divisor: the starts go round all of them

_libc = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
if sys.platform == "win32":
    _libc._aligned_malloc.restype = ctypes.c_void_p
    _libc._aligned_malloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    _free_block = _libc._aligned_free
else:
    _libc.aligned_alloc.restype = ctypes.c_void_p
    _libc.aligned_alloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    _free_block = _libc.free
_free_block.restype = None
_free_block.argtypes = (ctypes.c_void_p,)

_turn = itertools.count()
_starts: dict[int, int] = {}  # a staggered block's address -> the system's


def _aligned(alignment: int, nbytes: int) -> int:
    """An aligned block of the system's, 0 when there is none."""
    if sys.platform == "win32":
        return _libc._aligned_malloc(nbytes, alignment) or 0
    return _libc.aligned_alloc(alignment, nbytes) or 0


def _system_block(nbytes: int) -> int:
    """A new block; large ones start in turn at each cache line of a page, see Note [Staggered blocks]."""
    if nbytes < _STAGGER_FROM:
        return _aligned(ALIGNMENT, -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT)
    shift = next(_turn) * _STAGGER % _PAGE
    start = _large_block(nbytes + shift)
    if start and shift:
        _starts[start + shift] = start
    return start + shift if start else 0


def _large_block(nbytes: int) -> int:
    """On huge pages, where the system has them: fewer page faults and TLB misses."""
    if nbytes < 2 * _HUGE_PAGE or not sys.platform.startswith("linux"):
        return _aligned(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    huge, rest = divmod(nbytes, _HUGE_PAGE)
    if rest > _HUGE_PAGE // 2:  # less than that would waste most of its page
        huge, rest = huge + 1, 0
    addr = _aligned(_HUGE_PAGE, huge * _HUGE_PAGE + -(-rest // _PAGE) * _PAGE)
    if addr:
        _libc.madvise(ctypes.c_void_p(addr), ctypes.c_size_t(huge * _HUGE_PAGE), _MADV_HUGEPAGE)  # advice: may fail
    return addr


def _return_block(addr: int, _starts: dict[int, int] = _starts, _free: Any = _free_block) -> None:
    """Free what ``_system_block`` returned."""
    _free(_starts.pop(addr, addr))


_cached: dict[int, list[int]] = {}
# One counter for all sizes. A lost update between two threads would only shift the bound; ``_trim`` counts afresh.
_held = [0]
_trim_lock = threading.Lock()


def take(nbytes: int) -> int:
    """The address of at least ``nbytes`` bytes, 64-byte aligned, contents undefined.

    Raises:
        RuntimeError: the system has no such block (PyTorch's words).
    """
    try:
        addr = _cached[nbytes].pop()
    except (KeyError, IndexError):
        return _fresh(nbytes)
    _held[0] -= nbytes
    return addr


def _fresh(nbytes: int) -> int:
    addr = 0
    if nbytes < sys.maxsize // 2:
        addr = _system_block(nbytes)
        if not addr:
            release_cached()
            addr = _system_block(nbytes)
    if not addr:
        raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes.")
    return addr


def give(
    addr: int,
    nbytes: int,
    # Bound here, because a destructor may run after the interpreter has cleared this module's globals.
    _cached: dict[int, list[int]] = _cached,
    _held: list[int] = _held,
    _limit: int = CACHE_LIMIT_NBYTES,
    _return: Any = _return_block,
) -> None:
    """Take back a block that ``take(nbytes)`` returned."""
    if _held[0] + nbytes > _limit and not _trim(nbytes):
        _return(addr)
        return
    try:
        _cached[nbytes].append(addr)
    except KeyError:
        _cached.setdefault(nbytes, []).append(addr)
    _held[0] += nbytes


def _trim(nbytes: int) -> bool:
    """Make room for ``nbytes`` by freeing other sizes, oldest first; False if it cannot be made."""
    if nbytes > CACHE_LIMIT_NBYTES // 2 or not _trim_lock.acquire(blocking=False):
        return False
    try:
        _held[0] = sum(size * len(blocks) for size, blocks in list(_cached.items()))
        for size in list(_cached):
            if _held[0] <= CACHE_LIMIT_NBYTES // 2:
                break
            if size != nbytes:
                _drop(size)
        return _held[0] + nbytes <= CACHE_LIMIT_NBYTES
    finally:
        _trim_lock.release()


def _drop(size: int) -> None:
    """Free every cached block of one size. Another thread may take some meanwhile: pop, never iterate."""
    blocks = _cached.pop(size, [])
    while blocks:
        try:
            addr = blocks.pop()
        except IndexError:
            return
        _held[0] -= size
        _return_block(addr)


def release_cached() -> None:
    """Return every cached block to the system."""
    for size in list(_cached):
        _drop(size)


def cached_nbytes() -> int:
    """Bytes in the cache now."""
    return sum(size * len(blocks) for size, blocks in list(_cached.items()))


def _after_fork() -> None:
    global _trim_lock
    _trim_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
