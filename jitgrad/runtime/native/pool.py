"""The worker pool: Python threads that are parked inside a native loop.

Owns: the pool block, the worker threads, the number of threads.
Must not know: code generation (the worker's address is installed), programs.
In: ``set_num_threads``. Out: the address of the pool block, for program records. See Note [Pool block] in abi.py.

A worker thread enters the native loop once, without the GIL, and leaves it only when it is no longer wanted. So fork
and join cost no Python at all.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

from jitgrad.abi import (
    MAX_PARTIES,
    PARTY_THREAD,
    POOL_AFFINITY_NUMBER,
    POOL_CLOCK,
    POOL_FUTEX_NUMBER,
    POOL_GETCPU,
    POOL_LINE,
    POOL_MOVED,
    POOL_PARTY,
    POOL_SYSCALL,
    POOL_USLEEP,
    POOL_WAKE,
    POOL_WANTED,
    POOL_WORDS,
    POOL_YIELD,
)
from jitgrad.config import config

__all__ = ["Pool", "get_num_threads", "pool", "set_num_threads"]

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_AFFINITY_NUMBERS = {"x86_64": 203, "aarch64": 122, "riscv64": 122, "ppc64le": 222, "s390x": 239}
_FUTEX_WAKE_PRIVATE = 129
_EXIT_WAIT_S = 2.0


def libc_address(name: str) -> int:
    """The address of a libc function; 0 where there is none."""
    if sys.platform == "win32":
        return 0
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


class Pool:
    """The process's one pool. Its block never moves, so program records can hold its address for ever.

    Attributes:
        address: of the pool block; 64-byte aligned.
    """

    def __init__(self) -> None:
        self._memory = (ctypes.c_int64 * (POOL_WORDS + 8))()
        self.address = -(-ctypes.addressof(self._memory) // 64) * 64
        self._words = (ctypes.c_int64 * POOL_WORDS).from_address(self.address)
        self._num_threads = min(config.num_threads, MAX_PARTIES)
        self._worker: Callable[[int, int], int] | None = None
        self._reset()

    def _reset(self) -> None:
        """The state of a pool without workers: at the start, and in a forked child."""
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._in_use = False  # no worker is started before the first step that has work for one
        ctypes.memset(self.address, 0, 8 * POOL_WORDS)
        number = _FUTEX_NUMBERS.get(platform.machine(), 0) if sys.platform.startswith("linux") else 0
        syscall, clock = libc_address("syscall"), libc_address("clock_gettime")
        if number and syscall and clock:
            self._words[POOL_SYSCALL], self._words[POOL_FUTEX_NUMBER] = syscall, number
            self._words[POOL_AFFINITY_NUMBER] = _AFFINITY_NUMBERS[platform.machine()]
        self._words[POOL_CLOCK], self._words[POOL_USLEEP] = clock, libc_address("usleep")
        self._words[POOL_YIELD], self._words[POOL_GETCPU] = libc_address("sched_yield"), libc_address("sched_getcpu")

    def install(self, worker_address: int, keep_alive: Any) -> None:
        """Set the native worker loop. ``keep_alive`` owns its code."""
        worker = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(worker_address)
        worker.keep_alive = keep_alive  # type: ignore[attr-defined]
        self._worker = worker

    @property
    def num_threads(self) -> int:
        """Threads that kernels use, the caller's own included."""
        return self._num_threads

    @property
    def workers_moved(self) -> int:
        """How many times a worker was woken on another core than the caller's, Note [Waking elsewhere]."""
        return self._words[POOL_MOVED]

    def set_num_threads(self, count: int) -> None:
        """Grow or shrink. Workers that are no longer wanted leave after the task they are in."""
        with self._lock:
            self._num_threads = config.num_threads = min(count, MAX_PARTIES)
            self._stop_from(self._num_threads - 1)
        if self._in_use:
            self.start()

    def start(self) -> None:
        """Make sure that the wanted workers run. Called when a step that can use them is loaded."""
        self._in_use = True
        if self._worker is None or len(self._threads) == self._num_threads - 1:
            return
        with self._lock:
            for index in range(len(self._threads), self._num_threads - 1):
                thread_id = POOL_PARTY + POOL_LINE * (index + 1) + PARTY_THREAD
                self._words[thread_id] = 0  # of the worker that was here before
                self._words[POOL_WANTED] = index + 1
                name = f"jitgrad-worker-{index}"
                thread = threading.Thread(target=self._worker, args=(self.address, index), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads: kernels run on those that there are
                    self._words[POOL_WANTED] = index
                    return
                self._words[thread_id] = thread.native_id or 0
                self._threads.append(thread)

    def stop(self) -> None:
        """Let every worker leave, and wait for them."""
        with self._lock:
            self._stop_from(0)

    def _stop_from(self, first: int) -> None:
        leaving, self._threads = self._threads[first:], self._threads[:first]
        if not leaving:
            return
        self._words[POOL_WANTED] = len(self._threads)
        self._wake()
        for thread in leaving:
            thread.join(_EXIT_WAIT_S)

    def _wake(self) -> None:
        """Wake sleeping workers, as the driver does."""
        wake = ctypes.c_int32.from_address(self.address + 8 * POOL_WAKE)
        wake.value += 1
        if self._words[POOL_SYSCALL]:
            call = ctypes.CDLL(None).syscall
            at = ctypes.c_void_p(ctypes.addressof(wake))
            call(ctypes.c_long(self._words[POOL_FUTEX_NUMBER]), at, _FUTEX_WAKE_PRIVATE, 2**31 - 1, None, None, 0)


pool = Pool()


def get_num_threads() -> int:
    """Threads that kernels use, the caller's own included."""
    return pool.num_threads


def set_num_threads(count: int) -> None:
    """Set how many threads kernels use. Results never depend on it.

    Raises:
        RuntimeError: ``count`` is not positive.
        TypeError: ``count`` is not an int.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    pool.set_num_threads(count)


atexit.register(pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool._reset)
