"""``torch.cpu``: the one device that is always there.

Owns: its answers. Work on a CPU is done when a call returns, so streams and synchronization have nothing to wait for.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "get_capabilities",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The order in which a CPU works: there is one."""

    def __init__(self, priority: int = -1) -> None: ...

    def wait_stream(self, stream: Any) -> None:
        """Nothing: the work is done."""

    def record_event(self) -> Event:
        """A new event."""
        return Event()

    def wait_event(self, event: Any) -> None:
        """Nothing: the work is done."""


class Event:
    """A point in that order, which has passed."""

    def query(self) -> bool:
        """Whether the work before is done: True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing: the work is done."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: the work is done."""


class StreamContext:
    """A block whose work is in a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


_STREAM = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """How many CPU devices there are: 1, whatever the number of cores."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: the work is done."""


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _STREAM


def stream(stream: Any) -> StreamContext:
    """A block whose work is in the stream."""
    return StreamContext(stream)


def get_capabilities() -> dict[str, Any]:
    """What is known of the processor."""
    return {"num_cores": os.cpu_count() or 1}
