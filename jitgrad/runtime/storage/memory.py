"""Raw memory: 64-byte aligned blocks from the system, and a cache of freed ones.

Owns: ``take`` and ``give``, the free lists and their bound.
Must not know: tensors, storages, NumPy.

A training step asks for the same sizes over and over, so blocks are cached under the exact size that was asked for:
one dict look-up and one list pop. Only ``take`` makes room among old sizes: a block is given back in the middle of
anything, by native code where there is any (``tracer/hits/method_fronts.py``), so ``give`` is a few steps without
a search.

# Note [Staggered blocks]
# ~~~~~~~~~~~~~~~~~~~~~~~
# The system puts every large block at the same place of a page. A kernel that walks along ten arrays at once would then
# have all ten in one set of the first cache, which has eight ways, and each store would look like the address of later
# loads. Blocks that start at different lines of their pages cost nothing and are up to twice as fast.

# Note [Kept heap]
# ~~~~~~~~~~~~~~~~
# NumPy and SciPy take the memory of results and of what they need on the way from the system's ``malloc``. By default
# glibc maps blocks of 128 KiB and more by themselves and unmaps them when they go, so each call touches fresh pages, a
# quarter of a microsecond each: half of the time of a Fourier transform of a megabyte. It stops doing so for sizes that
# a process has freed once, but only for these. Here it is told at once: blocks below 2 MiB are from the heap, whose end
# goes back to the system when more than 32 MiB of it are free.
# Example: a step of a Fourier neural operator takes 7.3 ms instead of 9.6, and the process is no larger.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading

from jitgrad.storage_base import FreeLists

__all__ = ["ALIGNMENT", "CACHE_LIMIT_NBYTES", "cached_nbytes", "free_lists", "give", "release_cached", "take"]

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

_trim_heap = getattr(_libc, "malloc_trim", None)  # glibc has it
if _trim_heap is not None:
    _trim_heap.argtypes = (ctypes.c_size_t,)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_HEAP_BLOCK = _HUGE_PAGE  # larger ones are mapped: in the heap, a product of 4 MiB operands takes a fifth longer
_HEAP_SLACK = 32 << 20
_USERS_WORD = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def _keep_heap() -> None:
    """Have glibc keep what NumPy gives back, Note [Kept heap]; not if the environment says otherwise."""
    tune = getattr(_libc, "mallopt", None)
    if tune is not None and not any([name in os.environ for name in _USERS_WORD]):
        tune(_M_MMAP_THRESHOLD, _HEAP_BLOCK)
        tune(_M_TRIM_THRESHOLD, _HEAP_SLACK)


_keep_heap()

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


free_lists = FreeLists(CACHE_LIMIT_NBYTES, _starts, _system_block, _free_block)
"""The process's. Tests give it another source of blocks (``tests/guard``)."""

_trim_lock = threading.Lock()


def take(nbytes: int) -> int:
    """The address of at least ``nbytes`` bytes, 64-byte aligned, contents undefined.

    Raises:
        RuntimeError: the system has no such block (PyTorch's words).
    """
    try:
        addr = free_lists.blocks[nbytes].pop()
    except (KeyError, IndexError):
        return _fresh(nbytes)
    free_lists.nbytes -= nbytes
    return addr


def _fresh(nbytes: int) -> int:
    addr = 0
    if free_lists.nbytes + nbytes > free_lists.limit:
        _trim(nbytes)
    if nbytes < sys.maxsize // 2:
        addr = free_lists.allocate(nbytes)
        if not addr:
            release_cached()
            addr = free_lists.allocate(nbytes)
    if not addr:
        raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes.")
    return addr


def give(
    addr: int,
    nbytes: int,
    lists: FreeLists = free_lists,  # a destructor may run after the interpreter has cleared this module's globals
) -> None:
    """Take back a block that ``take(nbytes)`` returned."""
    held = lists.nbytes + nbytes
    if held > lists.limit:
        lists.release(lists.starts.pop(addr, addr))
        return
    lists.blocks.setdefault(nbytes, []).append(addr)
    lists.nbytes = held


def _trim(nbytes: int) -> None:
    """Make room for a block of ``nbytes``, once it is freed, by freeing other sizes, oldest first."""
    lists = free_lists
    if nbytes > lists.limit // 2 or not _trim_lock.acquire(blocking=False):
        return
    try:
        lists.nbytes = cached_nbytes()
        for size in list(lists.blocks):
            if lists.nbytes <= lists.limit // 2:
                break
            if size != nbytes:
                _drop(size)
    finally:
        _trim_lock.release()


def _drop(size: int) -> None:
    """Free every cached block of one size. Another thread may take some meanwhile: pop, never iterate."""
    blocks = free_lists.blocks.pop(size, [])
    while blocks:
        try:
            addr = blocks.pop()
        except IndexError:
            return
        free_lists.nbytes -= size
        free_lists.release(_starts.pop(addr, addr))


def release_cached() -> None:
    """Return every cached block to the system, and count afresh."""
    for size in list(free_lists.blocks):
        _drop(size)
    free_lists.nbytes = cached_nbytes()
    if _trim_heap is not None:
        _trim_heap(0)  # glibc keeps blocks of up to 32 MB otherwise, where anything behind them is in use


def cached_nbytes() -> int:
    """Bytes in the cache now."""
    return sum(size * len(blocks) for size, blocks in list(free_lists.blocks.items()))


def _after_fork() -> None:
    global _trim_lock
    _trim_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
