"""``Device``: the name of a place where tensors live.

Owns: how devices are spelled and compared.
Must not know: what a device does, or whether it exists (``runtime/devices/device.py`` knows).
"""

from __future__ import annotations

import re
import threading
from typing import Any

from jitgrad.state import state

__all__ = ["CPU", "META", "Device"]

_SPELLING = re.compile(r"([a-z]+)(?::(\d+))?")
_TYPES = ("cpu", "vcpu", "meta")
_ABSENT = frozenset(
    "cuda fpga hip hpu ideep ipu lazy maia mkldnn mps mtia opencl opengl privateuseone ve vulkan xla xpu".split()
)
"""Types of devices that PyTorch knows: scripts name them before they ask whether there is one."""


class Device:
    """A device, as ``torch.device``: ``Device("vcpu:1")`` is ``Device("vcpu", 1)``.

    Interned: equal devices are identical. ``cpu`` is the caller's own thread; ``vcpu:n`` are virtual devices, each a
    worker thread that takes work through streams; tensors on ``meta`` have a shape and no data. Names of PyTorch's
    other devices, ``cuda``, can be compared; no tensor can be made there or moved there.

    Attributes:
        type: ``"cpu"``, ``"vcpu"`` or ``"meta"``, or the type of a device that is absent.
        index: number of the device among those of its type; None where the name has none.

    Raises:
        RuntimeError: there is no such type of device, or the index is given twice or negative.
        TypeError: not a string.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __enter__(self) -> Device:
        """New tensors are made here inside the block, unless they are told otherwise."""
        _outer().append(state.default_device)
        state.default_device = self
        return self

    def __exit__(self, *_: object) -> None:
        state.default_device = _outer().pop()

    def __new__(cls, name: str | Device, index: int | None = None) -> Device:
        if isinstance(name, Device):
            return name
        if not isinstance(name, str):
            raise TypeError(f"Device(): argument 'name' must be str, not {type(name).__name__}")
        match = _SPELLING.fullmatch(name)
        if match is None:
            raise RuntimeError(f"Invalid device string: '{name}'")
        if match[2] is not None:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed: {name}")
            index = int(match[2])
        if match[1] not in _TYPES and match[1] not in _ABSENT:
            known = ", ".join((*_TYPES, *sorted(_ABSENT)))
            raise RuntimeError(f"Expected one of {known} device type at start of device string: {match[1]}")
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        return _intern(match[1], index)

    def check_present(self) -> None:
        """AssertionError for ``cuda`` and ``xpu``, RuntimeError for other devices that are absent, as in PyTorch."""
        if self.type in ("cuda", "xpu"):
            raise AssertionError(
                f"Torch not compiled with {self.type.upper()} enabled: tensors are on the CPU; ask "
                f"torch.{self.type}.is_available() before you use device '{self}'"
            )
        if self.type in _ABSENT:
            raise RuntimeError(f"PyTorch is not linked with support for {self.type} devices: tensors are on the CPU")

    @property
    def is_virtual(self) -> bool:
        """Whether work for this device goes through streams."""
        return self.type == "vcpu"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Device, (str(self),))


def _outer() -> list[Device | None]:
    """The default devices of the blocks that this thread is in."""
    try:
        return _blocks.outer
    except AttributeError:
        _blocks.outer = []
        return _blocks.outer


_blocks = threading.local()
_interned: dict[tuple[str, int | None], Device] = {}


def _intern(kind: str, index: int | None) -> Device:
    found = _interned.get((kind, index))
    if found is None:
        found = object.__new__(Device)
        found.type, found.index = kind, index
        found = _interned.setdefault((kind, index), found)  # two threads that race here end with one object
    return found


CPU = Device("cpu")
META = Device("meta")
