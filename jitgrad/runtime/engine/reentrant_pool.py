"""Threads for backward calls that are nested too deep for one stack.

Owns: ``ReentrantPool`` and the depth at which it takes over.
Must not know: what it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["MAX_DEPTH", "pool"]

MAX_DEPTH = 60
"""Nested calls on one thread (PyTorch's figure); each takes about ten Python frames, of the thousand there are."""


class ReentrantPool:
    """Runs a call on another thread while the caller waits.

    A thread is started only when none is idle. Each holds one level of the nesting, so there is no bound but the
    nesting's own.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def run(self, call: Callable[[], Any]) -> Any:
        """The result of ``call()``; its exception is raised here."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=10_000, thread_name_prefix="jitgrad-reentrant")
        return self._executor.submit(call).result()

    def forget(self) -> None:
        """After a fork: the threads are the parent's."""
        self._executor = None


pool = ReentrantPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.forget)
