"""Locks that belong to the process.

Owns: ``process_lock``.
Must not know: what is protected.

A lock that another thread holds at the moment of a fork would be held for ever in the child, where that thread does not
exist. So a fork waits until it has these locks itself. They are acquired in the reverse order of their creation, that
is of imports: a thread that holds one may take another that was made before it, as modules use those that they import.

They are reentrant, because a collection may run anywhere, and with it a finalizer that needs the same lock.
"""

from __future__ import annotations

import os
import threading

__all__ = ["process_lock"]

_locks: list[threading.RLock] = []
_held_for_fork: list[tuple[threading.RLock, ...]] = []


def process_lock() -> threading.RLock:
    """A new reentrant lock for a module's own state; never free it."""
    lock = threading.RLock()
    _locks.append(lock)
    return lock


def _before_fork() -> None:
    """Acquire all locks. A late import, while this waits, may make more of them: then it begins again."""
    while True:
        locks = tuple(_locks)
        for lock in reversed(locks):
            lock.acquire()
        if len(_locks) == len(locks):
            _held_for_fork.append(locks)
            return
        for lock in locks:
            lock.release()


def _after_fork() -> None:
    """Release what was acquired, in the parent and in the child."""
    for lock in _held_for_fork.pop():
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
