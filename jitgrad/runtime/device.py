"""``Device``: where a tensor lives.

Owns: device names and the registry of devices.
Must not know: queues' work, tensors.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["CPU", "Device"]

_SPELLING = re.compile(r"([a-z]+)(?::(\d+))?")


class Device:
    """A device, as ``torch.device``: ``Device("cpu")``. Equal by type and index.

    Attributes:
        type: ``"cpu"``.
        index: number of the device among those of its type; None for ``cpu``.

    Raises:
        RuntimeError: there is no such device.
        TypeError: not a string.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, name: str | Device) -> None:
        if isinstance(name, Device):
            self.type, self.index = name.type, name.index
            return
        if not isinstance(name, str):
            raise TypeError(f"Device(): argument 'name' must be str, not {type(name).__name__}")
        match = _SPELLING.fullmatch(name)
        if match is None:
            raise RuntimeError(f"Invalid device string: '{name}'")
        self.type, self.index = match[1], None if match[2] is None else int(match[2])
        if self.type != "cpu":
            raise RuntimeError(f"Expected one of cpu device type at start of device string: {self.type}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Device, (str(self),))


CPU = Device("cpu")
"""The one device of this process that every tensor lives on."""
