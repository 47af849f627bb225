"""``jitgrad.vcpu``: virtual devices, as ``torch.cuda`` has GPUs.

Owns: the public names of devices, streams and events.
Must not know: how streams run work.

A virtual device is a thread of this process that takes work through streams, so that code for several devices is real
on any machine. How many there are: ``config.vcpus``, from the environment variable ``JITGRAD_VCPUS``.

Example::

    x = jitgrad.randn(512, 512, device="vcpu:0")
    s = jitgrad.vcpu.Stream("vcpu:0")
    with jitgrad.vcpu.stream(s):
        s.wait_stream(jitgrad.vcpu.default_stream("vcpu:0"))
        y = x @ x  # submitted; Python goes on
    y.sum().item()  # waits
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from jitgrad.runtime.devices.device import current_device, device_count, set_device
from jitgrad.runtime.devices.stream import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    synchronize,
    use_stream,
    virtual,
)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "is_available",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there are virtual devices."""
    return device_count() > 0


def stream(stream: Stream | None) -> AbstractContextManager[None]:
    """Make ``stream`` current for its device inside the block; None changes nothing."""
    return use_stream(stream)


class device:
    """Make a virtual device the current one inside the block: what a bare ``"vcpu"`` means.

    Args:
        device: its number or name; None changes nothing.

    Raises:
        RuntimeError: there is no such device.
    """

    def __init__(self, device: Any) -> None:
        self.index = None if device is None else virtual(device).index
        self._outer: list[int] = []

    def __enter__(self) -> None:
        self._outer.append(current_device())
        if self.index is not None:
            set_device(self.index)

    def __exit__(self, *_: object) -> None:
        set_device(self._outer.pop())
