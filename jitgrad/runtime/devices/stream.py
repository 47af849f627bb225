"""``Stream`` and ``Event``: how work for virtual devices is ordered.

Owns: streams, events, each thread's current stream per device.
Must not know: tensors, operations.
In: callables that read and write storages. Out: their effects, in each stream's order.

# Note [Streams]
# ~~~~~~~~~~~~~~
# An operation on a virtual device goes to the current stream of that device, and Python goes on. A stream is a FIFO
# with a worker of its own; between streams there is no order but what the user asks for (``wait_stream``,
# ``wait_event``), as in CUDA. The engine asks for it by itself: a node runs on the stream of its forward, and
# ``InputBuffer`` makes the consumer's stream wait for the producer's. A copy from the CPU is done when it returns, so
# that nodes on the CPU, which have no stream, give nobody anything to wait for. The host, too, always waits: whatever
# reads a value waits for the work that writes it.
# The current stream belongs to a thread; ``default_stream`` is every thread's first one.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from jitgrad.devices import Device
from jitgrad.locks import process_lock
from jitgrad.runtime.devices.device import canonical
from jitgrad.runtime.devices.device_queue import DeviceQueue
from jitgrad.runtime.devices.device_storage import DeviceStorage

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "synchronize", "use_stream", "virtual"]

_ids = itertools.count(1)
_lock = process_lock()
_queues: dict[Device, weakref.WeakSet[DeviceQueue]] = {}
"""Of all streams, by device: a queue outlives its stream for as long as it has work."""


class Stream:
    """Work of one virtual device in order, as ``torch.cuda.Stream``. Work is run by a thread of its own.

    Args:
        device: a virtual device; None = the current one.

    Attributes:
        device: the device.
        stream_id: 0 for a device's default stream, else a number of its own.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is no virtual device.
    """

    __slots__ = ("__weakref__", "_outer", "_queue", "device", "stream_id")

    def __init__(self, device: Any = None) -> None:
        self.device = virtual(device)
        self.stream_id = next(_ids)
        self._outer: list[Stream] = []
        self._queue = DeviceQueue(str(self.device))
        with _lock:
            _queues.setdefault(self.device, weakref.WeakSet()).add(self._queue)

    def __del__(self) -> None:
        with suppress(AttributeError):  # there was no such device
            self._queue.is_retired = True

    def launch(
        self, work: Callable[[], None], fresh: Sequence[DeviceStorage] = (), written: Sequence[DeviceStorage] = ()
    ) -> None:
        """Submit work that fills new storages or overwrites old ones, and note in them that it does.

        Args:
            work: reads and writes through ``DeviceStorage.memory``.
            fresh: storages that have no value unless the work succeeds.
            written: storages that keep the value they have if it does not.

        Raises:
            DeviceError: the stream is poisoned, see Note [Poisoned queue].
        """

        def fail(error: BaseException) -> None:
            for storage in fresh:
                storage.error = error

        queue = self._queue
        ticket = queue.submit(work, fail if fresh else None)
        for storages in (fresh, written):
            for storage in storages:
                storage.queue, storage.ticket = queue, ticket

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one if None) after what was submitted so far; returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Run what is submitted from here on after the event. Python does not wait; nothing is waited for if the event
        was never recorded."""
        source = event._queue
        if source is None or source is self._queue:
            return
        ticket = event._ticket

        def wait() -> None:
            source.wait(ticket)
            error = source.error_before(ticket)
            if error is not None:
                try:
                    raise error
                finally:
                    del error

        self._queue.submit(wait)

    def wait_stream(self, stream: Stream) -> None:
        """Run what is submitted from here on after everything that ``stream`` has been given so far."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Whether everything submitted has ended."""
        return self._queue.record().query()

    def synchronize(self) -> None:
        """Wait for everything submitted so far; raises the first error of it, and takes work again."""
        self._queue.synchronize()

    def __enter__(self) -> Stream:
        """As ``with jitgrad.vcpu.stream(self)``."""
        self._outer.append(current_stream(self.device))
        set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_stream(self._outer.pop())

    def __repr__(self) -> str:
        return f"<jitgrad.vcpu.Stream device={self.device} stream_id={self.stream_id}>"


class Event:
    """A point in a stream's order, as ``torch.cuda.Event``.

    Args:
        enable_timing: keep the time at which the point is reached, for ``elapsed_time``.
    """

    __slots__ = ("_enable_timing", "_queue", "_ticket", "_time", "device")

    def __init__(self, enable_timing: bool = False) -> None:
        self._enable_timing = enable_timing
        self._queue: DeviceQueue | None = None
        self._ticket = 0
        self._time: list[float] = []
        self.device: Device | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Mark the point after what ``stream`` (None = the current one) was given so far."""
        stream = current_stream() if stream is None else stream
        self.device = stream.device
        self._queue = stream._queue
        self._time = times = []
        if self._enable_timing:
            self._ticket = self._queue.submit(lambda: times.append(time.perf_counter()))
        else:
            self._ticket = self._queue.record().ticket

    def wait(self, stream: Stream | None = None) -> None:
        """Make ``stream`` (None = the current one) wait for the event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether the point has been reached; True if it was never recorded."""
        return self._queue is None or self._queue.has_finished(self._ticket)

    def synchronize(self) -> None:
        """Wait, in Python, until the point is reached; raises the error that came before it."""
        if self._queue is not None:
            self._queue.synchronize(self._ticket)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``.

        Raises:
            ValueError: one of them was made without ``enable_timing``.
            RuntimeError: one of them was not recorded, or not reached yet.
        """
        if not (self._enable_timing and end_event._enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._queue is None or end_event._queue is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self._time and end_event._time):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end_event._time[0] - self._time[0]) * 1e3


def virtual(device: Any = None) -> Device:
    """A virtual device; None = the current one.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is another kind of device.
    """
    found = canonical("vcpu" if device is None else device)
    if not found.is_virtual:
        raise ValueError(f"Expected a vcpu device, but got: {found}")
    return found


class _CurrentStream(threading.local):
    """This thread's stream per device, where it is not the default one."""

    def __init__(self) -> None:
        self.streams: dict[Device, Stream] = {}


_current = _CurrentStream()
_defaults: dict[Device, Stream] = {}


def default_stream(device: Any = None) -> Stream:
    """The stream of a device that every thread begins with."""
    device = virtual(device)
    found = _defaults.get(device)
    if found is None:
        made = Stream(device)
        made.stream_id = 0
        found = _defaults.setdefault(device, made)  # threads that race here end with one stream
    return found


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's operations on a device go to."""
    found = _current.streams.get(device) or _defaults.get(device)
    if found is not None:  # the device as a Device: every operation on it comes here
        return found
    device = virtual(device)
    return _current.streams.get(device) or default_stream(device)


def set_stream(stream: Stream) -> None:
    """Make a stream this thread's current one for the stream's device."""
    _current.streams[stream.device] = stream


@contextmanager
def use_stream(stream: Stream | None) -> Iterator[None]:
    """Make ``stream`` current for its device inside the block; None changes nothing."""
    if stream is None:
        yield
        return
    before = current_stream(stream.device)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


def synchronize(device: Any = None) -> None:
    """Wait for all work of a device, in all of its streams.

    Raises:
        The first error of any of them; all take work again.
    """
    device = virtual(device)
    with _lock:
        queues = list(_queues.get(device, ()))
    errors: list[BaseException] = []
    for queue in queues:
        try:
            queue.synchronize()
        except BaseException as error:
            if not errors:
                errors.append(error)
    if errors:
        raise errors.pop()
