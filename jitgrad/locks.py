"""Locks that belong to the process.

Owns: ``process_lock``.
Must not know: what is protected.

A lock that another thread holds at the moment of a fork would be held for ever in the child, where that thread does not
exist. So a fork waits until it has these locks itself. They are acquired in the reverse order of their creation, that
is of imports: who holds one may take another that was made before it, as modules use those that they import.

They are reentrant, because a collection may run anywhere, and with it a finalizer that needs the same lock.
"""

from __future__ import annotations

import os
import threading

__all__ = ["process_lock"]


def process_lock() -> threading.RLock:
    """A new reentrant lock for a module's own state; never free it."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
