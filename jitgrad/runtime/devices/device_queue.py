"""``DeviceQueue``: work of one device, in order, on one worker thread.

Owns: FIFO order, tickets and waiting for them, poisoning.
Must not know: what the work is.
In: callables. Out: their effects, in submission order; errors at ``synchronize()``.

Every piece of work has a *ticket*, its number in the queue: a queue that has finished one has finished all before it.

# Note [Poisoned queue]
# ~~~~~~~~~~~~~~~~~~~~~
# Work that was submitted after work that failed would see buffers that were never written. So the first error poisons
# the queue: work already submitted is skipped and new work is refused, until a synchronization raises that error and
# thereby clears it. A synchronization is ``synchronize()``, or reading a value that the queue wrote after the error.
# What failed or was skipped may tell somebody (``on_failure``): a tensor that was never written raises the same error
# whenever it is read or used (``device_storage.py``), also after the queue took work again. An error goes where
# values go: a stream that waits for a poisoned one is poisoned too.
#
# Note [Queues at a fork]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A BLAS library ends its threads before a fork and at the process's exit. If a worker is in the middle of a product
# then, the library waits for ever for threads that it has ended, in the parent or in the child. So both wait until the
# queues are empty, and a fork keeps workers from starting new work (``_running``) until it is done. The child then has
# every value that was submitted before.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from jitgrad.errors import DeviceError
from jitgrad.probe import probe

__all__ = ["DeviceQueue", "QueueMark"]

# A lock that is waited for without a timeout cannot be interrupted by Ctrl-C on every platform.
_WAIT_SLICE_S = 0.5
_IDLE_S = 10.0
_MAX_PENDING = 256
"""Then ``submit`` waits: work that waits holds its memory, and Python is faster than most work."""

_STUCK_S = 60.0
"""A fork waits no longer for a queue that finishes nothing: its work may wait for the thread that forks."""

_Work = Callable[[], None]
_OnFailure = Callable[[BaseException], None]


class QueueMark:
    """A point in a queue's order: reached when everything submitted before it has ended (or was skipped)."""

    __slots__ = ("queue", "ticket")

    def __init__(self, queue: DeviceQueue, ticket: int) -> None:
        self.queue = queue
        self.ticket = ticket

    def query(self) -> bool:
        """Whether the point has been reached."""
        return self.queue.has_finished(self.ticket)

    def wait(self) -> None:
        """Block until the point is reached. Ctrl-C interrupts the wait, not the work."""
        self.queue.wait(self.ticket)


class DeviceQueue:
    """A FIFO and its worker thread, which starts with the first work and leaves after ten idle seconds.

    Args:
        name: of the device, for messages and the thread.

    Attributes:
        is_retired: nobody will submit any more: the worker need not stay. A plain flag, because finalizers set it.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_error_ticket",
        "_finished",
        "_lock",
        "_progress",
        "_running",
        "_submitted",
        "_waiting",
        "_work",
        "_work_came",
        "_worker",
        "is_retired",
        "name",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_retired = False
        self._submitted = 0
        self._reset()
        _QUEUES[id(self)] = self

    def _reset(self) -> None:
        """Empty, without a worker: at the start, and in a forked child (whose parent keeps the pending work)."""
        self._work: deque[tuple[_Work, _OnFailure | None]] = deque()
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._work_came = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._waiting = 0
        self._finished = self._submitted
        self._worker: threading.Thread | None = None
        self._error: BaseException | None = None
        self._error_ticket = 0

    def submit(self, work: _Work, on_failure: _OnFailure | None = None) -> int:
        """Run ``work`` after everything submitted before; returns its ticket. Waits while the queue is full.

        Args:
            work: runs on the worker.
            on_failure: is called there with the error, if ``work`` raised it or was skipped because of it.

        Raises:
            DeviceError: an earlier error poisoned the queue; its ``__cause__`` is that error.
        """
        if self._submitted - self._finished >= _MAX_PENDING:
            self.wait(self._submitted - _MAX_PENDING + 1)
        with self._lock:
            if self._error is not None:
                raise DeviceError(f"device {self.name}: an earlier error was not synchronized") from self._error
            if self._worker is None:
                self._start_worker()  # first: where the system has no thread for it, nothing is queued
            self._work.append((work, on_failure))
            self._submitted += 1
            self._work_came.notify()
            return self._submitted

    def record(self) -> QueueMark:
        """An event that is reached when everything submitted so far has ended."""
        return QueueMark(self, self._submitted)

    def has_finished(self, ticket: int) -> bool:
        """Whether everything up to ``ticket`` has ended, or was skipped."""
        return self._finished >= ticket

    def wait(self, ticket: int) -> None:
        """Block until everything up to ``ticket`` has ended. Ctrl-C interrupts the wait, not the work."""
        if self._finished >= ticket:
            return
        session = probe.session  # Note [Profiling points]
        if session is None:
            self._wait(ticket)
        else:
            session.call("wait", f"wait for {self.name}", self._wait, ticket)

    def _wait(self, ticket: int) -> None:
        with self._lock:
            self._waiting += 1
            try:
                while self._finished < ticket:
                    self._progress.wait(_WAIT_SLICE_S)
            finally:
                self._waiting -= 1

    def error_before(self, ticket: int) -> BaseException | None:
        """The error that kept ``ticket`` from running, if the queue is still poisoned by it."""
        with self._lock:
            return self._error if self._error_ticket <= ticket else None

    def take_error(self, ticket: int | None = None) -> BaseException | None:
        """The same, and take work again; for any ticket if None."""
        with self._lock:
            error = self._error
            if error is None or (ticket is not None and self._error_ticket > ticket):
                return None
            self._error = None
            return error

    def synchronize(self, ticket: int | None = None) -> None:
        """Wait for everything up to ``ticket``, or submitted so far; raise the first error of it, take work again."""
        self.wait(self._submitted if ticket is None else ticket)
        error = self.take_error(ticket)
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame: if that referred to the error, both would live on

    def _start_worker(self) -> None:
        worker = threading.Thread(target=self._serve, name=f"jitgrad-queue-{self.name}", daemon=True)
        worker.start()
        self._worker = worker

    def _serve(self) -> None:
        has_run = False
        while True:
            with self._lock:
                if has_run:
                    self._finished += 1
                    if self._waiting:
                        self._progress.notify_all()
                    has_run = False
                if not self._work and not self._wait_for_work():
                    self._worker = None
                    return
                work, on_failure = self._work.popleft()
                error = self._error
            if error is None:
                error = self._run(work)
            if error is not None and on_failure is not None:
                on_failure(error)
            # what the work held is free before anybody hears that it is done
            work = on_failure = error = None  # type: ignore[assignment]
            has_run = True

    def _wait_for_work(self) -> bool:
        """Sleep until there is work; False after ten seconds without, or if nobody can submit any more."""
        idle = 0.0
        while idle < _IDLE_S and not self.is_retired:
            step = min(_WAIT_SLICE_S, _IDLE_S)
            if self._work_came.wait_for(lambda: bool(self._work), step):
                return True
            idle += step
        return False

    def drain(self) -> bool:
        """Wait until nothing is left to do; False if there is work that does not end."""
        seen, since = self._finished, time.monotonic()
        while self._finished < self._submitted:
            with self._lock:
                self._waiting += 1
                try:
                    self._progress.wait(_WAIT_SLICE_S)
                finally:
                    self._waiting -= 1
            if self._finished != seen:
                seen, since = self._finished, time.monotonic()
            elif time.monotonic() - since > _STUCK_S:
                return False
        return True

    def _stop_for_fork(self) -> bool:
        """Let the worker start nothing new; False if it cannot be stopped."""
        return self.drain() and self._running.acquire(timeout=_STUCK_S)

    def _run(self, work: _Work) -> BaseException | None:
        try:
            session = probe.session
            with self._running:
                if session is None:
                    work()
                else:
                    session.call("queue", f"work of {self.name}", work)
        except BaseException as error:  # whatever it is, it belongs to the thread that synchronizes
            with self._lock:
                self._error, self._error_ticket = error, self._finished + 1
            return error
        return None


_QUEUES: weakref.WeakValueDictionary[int, DeviceQueue] = weakref.WeakValueDictionary()
"""By identity; no ``WeakSet``, which raises where another thread makes a queue while it is looked through."""


def _all_queues() -> list[DeviceQueue]:
    return [queue for ref in _QUEUES.valuerefs() if (queue := ref()) is not None]


_stopped: list[DeviceQueue] = []


def _before_fork() -> None:
    """Stop the queues, see Note [Queues at a fork]. A worker that forks cannot wait for its own work."""
    queues = _all_queues()
    if any(queue._worker is threading.current_thread() for queue in queues):
        return
    _stopped.extend(queue for queue in queues if queue._stop_for_fork())


def _after_fork_in_parent() -> None:
    while _stopped:
        _stopped.pop()._running.release()


def _after_fork_in_child() -> None:
    _stopped.clear()
    for queue in _all_queues():
        queue._reset()


def _at_exit() -> None:
    for queue in _all_queues():
        queue.drain()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
