"""``Future``: the result of a graph task, or its error, set exactly once.

Owns: completion and the threads that wait for it.
Must not know: graph tasks.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Future", "longest_wait_s"]

_SIGNAL_SLICE_S = 0.5


def longest_wait_s() -> float | None:
    """How long this thread may wait at a time. A signal that comes just before a wait does not end it: so the main
    thread, which handles them, looks again now and then."""
    return _SIGNAL_SLICE_S if threading.current_thread() is threading.main_thread() else None


class Future:
    """A value that some thread will set; any thread may wait for it.

    Every backward call makes one and hardly any is waited for, so the first wait makes what waiting needs.
    """

    __slots__ = ("_completed", "_error", "_event", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._completed = False
        self._error: BaseException | None = None
        self._value: Any = None

    def completed(self) -> bool:
        """Whether there is a value or an error."""
        return self._completed

    def has_error(self) -> bool:
        """Whether it was completed by an error."""
        return self._error is not None

    def mark_completed(self, value: Any) -> None:
        """Set the value; RuntimeError if it is completed already."""
        self._complete(value, None)

    def set_error(self, error: BaseException) -> None:
        """Set an error, which ``value`` will raise; RuntimeError if it is completed already."""
        self._complete(None, error)

    def set_error_if_needed(self, error: BaseException) -> None:
        """``set_error``, unless it is completed already."""
        with self._lock:
            if not self._completed:
                self._finish(None, error)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is completed, or for ``timeout`` seconds; returns whether it is."""
        with self._lock:
            if self._completed:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        if timeout is not None:
            return event.wait(timeout)
        while not event.wait(longest_wait_s()):
            pass
        return True

    def value(self) -> Any:
        """The value; raises the error instead, if it was one. RuntimeError if it is not completed."""
        if not self._completed:
            raise RuntimeError("the future is not completed")
        error = self._error
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del self, error  # the error refers to this frame: if that referred to the error, both would live on

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._completed:
                raise RuntimeError("the future is completed already")
            self._finish(value, error)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self._completed = True
        if self._event is not None:
            self._event.set()
