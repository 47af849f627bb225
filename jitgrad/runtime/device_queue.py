"""``DeviceQueue``: work of one device, in order, on one worker thread.

Owns: FIFO order, waiting, events, poisoning.
Must not know: what the work is.
In: callables. Out: their effects, in submission order; errors at ``synchronize()``.

# Note [Poisoned queue]
# ~~~~~~~~~~~~~~~~~~~~~
# Work that was submitted after work that failed would see buffers that were never written. So the first error poisons
# the queue: work already submitted is skipped and new work is refused, until ``synchronize()`` raises that error and
# thereby clears it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from jitgrad.errors import DeviceError

__all__ = ["DeviceQueue", "Event", "wait_interruptibly"]

# A lock that is waited for without a timeout cannot be interrupted by Ctrl-C on every platform.
_WAIT_SLICE_S = 0.5
_IDLE_S = 10.0


class Event:
    """A point in a queue's order: set when everything submitted before it has ended (or was skipped)."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = threading.Event()

    def query(self) -> bool:
        """Whether the point has been reached."""
        return self._done.is_set()

    def wait(self) -> None:
        """Block until the point is reached. Ctrl-C interrupts the wait, not the work."""
        wait_interruptibly(self._done)

    def _set(self) -> None:
        self._done.set()


def wait_interruptibly(done: threading.Event) -> None:
    """Wait for an event such that the main thread still receives KeyboardInterrupt."""
    while not done.wait(_WAIT_SLICE_S):
        pass


class DeviceQueue:
    """A FIFO and its worker thread, which starts with the first work and leaves after ten idle seconds.

    Args:
        name: of the device, for messages and the thread.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._reset()
        _QUEUES.add(self)

    def _reset(self) -> None:
        """Empty, without a worker: at the start, and in a forked child (whose parent keeps the pending work)."""
        self._work: deque[Callable[[], None] | Event] = deque()
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` after everything submitted before.

        Raises:
            DeviceError: an earlier error poisoned the queue; its ``__cause__`` is that error.
        """
        with self._changed:
            if self._error is not None:
                raise DeviceError(f"device {self.name}: an earlier error was not synchronized") from self._error
            self._push(work)

    def record(self) -> Event:
        """An event that is set when everything submitted so far has ended."""
        event = Event()
        with self._changed:
            self._push(event)
        return event

    def synchronize(self) -> None:
        """Wait for everything submitted so far; raise the first error of it, and take work again."""
        if self._worker is not None or self._work:
            self.record().wait()
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _push(self, item: Callable[[], None] | Event) -> None:
        self._work.append(item)
        if self._worker is None:
            name = f"jitgrad-queue-{self.name}"
            self._worker = threading.Thread(target=self._serve, name=name, daemon=True)
            self._worker.start()
        else:
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._work and not self._changed.wait_for(lambda: bool(self._work), _IDLE_S):
                    self._worker = None
                    return
                item = self._work.popleft()
                skipped = self._error is not None
            if isinstance(item, Event):
                item._set()
            elif not skipped:
                self._run(item)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, it belongs to the thread that synchronizes
            with self._changed:
                self._error = error


_QUEUES: weakref.WeakSet[DeviceQueue] = weakref.WeakSet()


def _after_fork() -> None:
    for queue in list(_QUEUES):
        queue._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
