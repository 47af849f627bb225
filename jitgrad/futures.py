"""``torch.futures``: a value that another thread sets.

Owns: ``Future``, ``collect_all``, ``wait_all``.
Must not know: tensors.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from jitgrad.user_line import warn_once

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value, or an exception, that is there now or later. It is set once.

    Args:
        devices: of the tensors in the value; accepted for PyTorch's sake.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the value, or the exception, is there."""
        return self._inner.done()

    def wait(self) -> Any:
        """The value as soon as it is there; an exception that was set is raised."""
        return self._inner.result()

    def value(self) -> Any:
        """The value. RuntimeError if it is not there; an exception that was set is raised."""
        if not self.done():
            raise RuntimeError("the Future has no value yet: call wait(), or value() in a callback")
        return self._inner.result()

    def set_result(self, result: Any) -> None:
        """Set the value and run the callbacks. RuntimeError if the Future is done."""
        self._set(self._inner.set_result, result)

    def set_exception(self, result: Any) -> None:
        """Set the exception that ``wait`` raises. AssertionError if it is none, RuntimeError if the Future is done."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(self._inner.set_exception, result)

    def _set(self, put: Callable[[Any], None], result: Any) -> None:
        try:
            put(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future can be marked completed only once") from None

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """A Future of what the callback returns; it is called with this Future when this one is done.

        What the callback raises is the cause of the RuntimeError that the new Future's ``wait`` raises.
        """
        following: Future[Any] = Future()

        def run(_: Any) -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                failed = RuntimeError(f"the callback of a Future raised {type(error).__name__}: {error}")
                failed.__cause__ = error
                following.set_exception(failed)

        self._inner.add_done_callback(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        """Call the callback with this Future when it is done; what the callback raises is a warning."""

        def run(_: Any) -> None:
            try:
                callback(self)
            except Exception as error:
                warn_once(f"a callback of a Future raised {type(error).__name__}: {error}")

        self._inner.add_done_callback(run)


def collect_all(futures: Sequence[Future[Any]]) -> Future[Any]:
    """A Future, done when all are, of the list of these Futures; with the first exception if one has an exception."""
    together: Future[Any] = Future()
    waiting = _Waiting(list(futures), together)
    if not waiting.futures:
        together.set_result([])
    for future in waiting.futures:
        future._inner.add_done_callback(waiting.one_is_done)
    return together


class _Waiting:
    """Futures of which some are not done yet; the last one that is done sets ``together``."""

    def __init__(self, futures: list[Future[Any]], together: Future[Any]) -> None:
        self.futures, self.together = futures, together
        self._left = len(futures)
        self._lock = threading.Lock()

    def one_is_done(self, _: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        failed = next((f._inner.exception() for f in self.futures if f._inner.exception() is not None), None)
        if failed is None:
            self.together.set_result(self.futures)
        else:
            self.together._inner.set_exception(failed)


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all as soon as they are there; the first exception is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
