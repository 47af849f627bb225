"""What tests with several threads share: starting them, and waiting for a condition instead of a time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad import vcpu
from jitgrad.autograd import engine

__all__ = [
    "LONGEST_WAIT_S",
    "Gate",
    "Pause",
    "run_threads",
    "sleeps_on",
    "switching_often",
    "wait_for_devices",
    "wait_until",
]

LONGEST_WAIT_S = 60.0
"""Only a test that fails waits so long: a busy machine may let a thread stand for seconds."""


def wait_until(condition: Callable[[], Any]) -> None:
    """Come back once ``condition()`` holds; AssertionError if it never does."""
    end = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        assert time.monotonic() < end, "this never came"
        time.sleep(0.001)


def run_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """``work(i)`` on threads of their own at once; their results in order, the first error raised."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LONGEST_WAIT_S)
        assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]
    return results


class Gate:
    """Holds a stream until it is opened: what waits for the stream must wait, and nothing else."""

    def __init__(self, stream: vcpu.Stream | None = None) -> None:
        self._open = threading.Event()
        self.stream = vcpu.current_stream(0) if stream is None else stream
        self.stream._queue.submit(lambda: self._open.wait(LONGEST_WAIT_S) and None)

    def open(self) -> None:
        self._open.set()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()


def wait_for_devices() -> None:
    """Nothing is left to do for streams, and the engine's workers sleep: they have said all that a trace could hear."""
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)
    for queue in engine.device_ready_queues:
        wait_until(lambda queue=queue: queue.empty() and sleeps_on(queue))


def sleeps_on(queue: Any) -> bool:
    """Whether some thread sleeps until a ready queue has work for it."""
    return bool(queue.not_empty._waiters) and not queue.mutex.locked()


class Pause:
    """Stops a step in its middle, on the thread that it runs on, until the block is over."""

    def __init__(self) -> None:
        self._reached, self._goes_on = threading.Event(), threading.Event()
        self.is_on = False

    def __call__(self) -> None:
        if self.is_on:
            self._reached.set()
            goes_on = self._goes_on.wait(LONGEST_WAIT_S)  # not within the assert, which ``python -O`` leaves out
            assert goes_on

    def go_on(self) -> None:
        """Let the step go on."""
        self._goes_on.set()

    @contextmanager
    def inside(self, call: Callable[[], Any]) -> Iterator[list[Any]]:
        """While the block runs, ``call()`` stands at its pause on another thread. Yields where its result will be."""
        results: list[Any] = []

        def work() -> None:
            try:
                results.append(call())
            except Exception as error:
                results.append(error)

        self.is_on = True
        thread = threading.Thread(target=work)
        thread.start()
        is_reached = self._reached.wait(LONGEST_WAIT_S)
        assert is_reached
        self.is_on = False
        try:
            yield results
        finally:
            self._goes_on.set()
            thread.join(LONGEST_WAIT_S)
            assert not thread.is_alive()
            self._reached.clear()
            self._goes_on.clear()


@contextmanager
def switching_often() -> Iterator[None]:
    """Inside, the interpreter switches threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
