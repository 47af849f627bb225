"""Threads for backward calls that are nested too deep for one stack.

Owns: ``ThreadPoolShared``: the graph tasks that wait for a thread, and the threads.
Must not know: how a graph task is run.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from jitgrad.runtime.engine.run import trace

if TYPE_CHECKING:
    from jitgrad.runtime.engine.run.graph_task import GraphTask

__all__ = ["MAX_DEPTH", "ThreadPoolShared"]

MAX_DEPTH = 60
"""Nested calls on one thread (PyTorch's figure); each takes about ten Python frames, of the thousand there are."""


class ThreadPoolShared:
    """Threads that run graph tasks while the calling threads wait.

    A thread is created only when none is idle; each holds one stretch of the nesting, so there is no bound but the
    nesting's own. Idle threads stay, for the next nesting as deep, until ``stop``.

    Args:
        run: called on a thread of the pool with a graph task; must not raise.

    Attributes:
        num_workers: idle threads.
        graphtasks_queue: weak references; None sends one thread home.
        threads: all of them.
    """

    def __init__(self, run: Callable[[GraphTask], None]) -> None:
        self._run = run
        self.num_workers = 0
        self.graphtasks_queue: deque[weakref.ref[GraphTask] | None] = deque()
        self.work = threading.Condition()
        self.threads: list[threading.Thread] = []

    def add_task(self, graph_task: GraphTask) -> None:
        """Have a thread run ``graph_task``, which the caller keeps alive; returns at once."""
        with self.work:
            create_thread = self.num_workers <= len(self.graphtasks_queue)
            if create_thread:
                name = f"jitgrad-reentrant-{len(self.threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                thread.start()
                self.threads.append(thread)
                trace.emit("thread", detail=name)
            self.graphtasks_queue.append(graph_task.base)
            self.work.notify()

    def stop(self, timeout: float) -> None:
        """Send idle threads home, and wait ``timeout`` seconds at most for each."""
        with self.work:
            threads, self.threads = self.threads, []
            self.graphtasks_queue.extend([None] * len(threads))
            self.work.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _serve(self) -> None:
        while True:
            with self.work:
                self.num_workers += 1
                while not self.graphtasks_queue:
                    self.work.wait()
                self.num_workers -= 1
                base = self.graphtasks_queue.popleft()
            if base is None:
                return
            task = base()
            if task is not None:
                self._run(task)
            del task
