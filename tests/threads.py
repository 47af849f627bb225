"""What tests with several threads share: starting them, and waiting for a condition instead of a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jitgrad import vcpu
from jitgrad.autograd import engine

__all__ = ["LONGEST_WAIT_S", "Gate", "run_threads", "sleeps_on", "wait_for_devices", "wait_until"]

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
