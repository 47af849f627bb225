"""Devices of this process: which there are, and each thread's current one.

Owns: the number of virtual devices, ``canonical``, the current device and the default device for new tensors.
Must not know: streams, queues' work, tensors.
In: what a user may write as ``device=``. Out: one ``Device`` object per existing device.
"""

from __future__ import annotations

import threading
from typing import Any

from jitgrad.config import config
from jitgrad.devices import CPU, META, Device

__all__ = ["CPU", "META", "Device", "canonical", "current_device", "device_count", "set_device", "vcpu"]


class _CurrentDevice(threading.local):
    """The virtual device that a bare ``"vcpu"`` names on this thread."""

    index: int = 0


_current = _CurrentDevice()


def device_count() -> int:
    """How many virtual devices there are (``config.vcpus``)."""
    return config.vcpus


def vcpu(index: int) -> Device:
    """The virtual device of that number.

    Raises:
        RuntimeError: there is no such device.
    """
    if not 0 <= index < config.vcpus:
        raise RuntimeError(
            f"invalid device ordinal: vcpu:{index}; this process has {config.vcpus} virtual devices (JITGRAD_VCPUS)"
        )
    return Device("vcpu", index)


def current_device() -> int:
    """The number of this thread's current virtual device."""
    return _current.index


def set_device(index: int) -> None:
    """Make a virtual device this thread's current one; RuntimeError if it does not exist."""
    _current.index = vcpu(index).index or 0


def canonical(device: Any) -> Device:
    """The device that tensors made with ``device=`` are on: ``cpu:0`` is ``cpu``, ``vcpu`` is the current one.

    Args:
        device: a Device, its name, or the number of a virtual device; None means ``cpu``.

    Raises:
        RuntimeError, AssertionError: there is no such device.
        TypeError: for anything else.
    """
    if device is None or device is CPU or device == "cpu":
        return CPU
    if type(device) is int:
        return vcpu(device)
    device = Device(device)
    device.check_present()
    if device.type == "vcpu":
        return vcpu(_current.index if device.index is None else device.index)
    return CPU if device.type == "cpu" else META
