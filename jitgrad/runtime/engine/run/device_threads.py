"""One ready queue and one worker thread for each virtual device.

Owns: ``DeviceThreads``: starting them once, waiting until they have started, and stopping them.
Must not know: what a worker does with its queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from jitgrad.runtime.engine.run import trace
from jitgrad.runtime.engine.run.ready_queue import ReadyQueue

__all__ = ["DeviceThreads"]


class DeviceThreads:
    """The workers that run nodes on virtual devices; started by the first graph that has such nodes.

    Args:
        thread_init: what a worker runs: ``thread_init(device index, queue)``, until a shutdown task.

    Attributes:
        queues: by device index; safe to read once ``start`` has returned, for it only ever grows.
        threads: the workers, in the same order.
        count: workers that have started and not ended.
    """

    def __init__(self, thread_init: Callable[[int, ReadyQueue], None]) -> None:
        self._thread_init = thread_init
        self.queues: list[ReadyQueue] = []
        self.threads: list[threading.Thread] = []
        self.count = 0
        self._changed = threading.Condition()
        self._start_lock = threading.Lock()

    def start(self, num_devices: int) -> None:
        """Make sure that each device has its queue and its worker; all of them have started when this returns.

        Threads that race here start them once.
        """
        if len(self.queues) >= num_devices:
            return
        with self._start_lock:
            queues = [*self.queues]
            try:
                for index in range(len(queues), num_devices):
                    name = f"jitgrad-autograd-vcpu:{index}"
                    queue = ReadyQueue()
                    thread = threading.Thread(target=self._serve, args=(index, queue), name=name, daemon=True)
                    thread.start()
                    queues.append(queue)
                    self.threads.append(thread)
                    trace.emit("thread", device=f"vcpu:{index}", detail=name)
            finally:  # also of those that have started before the system had no more threads
                with self._changed:
                    self._changed.wait_for(lambda: self.count == len(queues))
                self.queues = queues  # assigned last: a reader that sees its length needs no lock

    def stop(self, timeout: float) -> None:
        """Send the workers home when they have done what is queued; wait ``timeout`` seconds at most for each."""
        with self._start_lock:
            threads, self.threads = self.threads, []
            queues, self.queues = self.queues, []
        for queue in queues:
            queue.push_shutdown_task()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _serve(self, index: int, queue: ReadyQueue) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        try:
            self._thread_init(index, queue)
        finally:
            with self._changed:
                self.count -= 1
