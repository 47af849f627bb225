"""Where loaded tensors go.

Owns: ``Places``: what ``map_location`` means.
Must not know: files.
"""

from __future__ import annotations

from typing import Any

from jitgrad.devices import Device
from jitgrad.functions.storages import UntypedStorage

__all__ = ["Places"]


class Places:
    """The device of every storage of a file.

    Args:
        map_location: see ``load``.
    """

    def __init__(self, map_location: Any) -> None:
        self._map = map_location

    def of(self, location: str, storage: UntypedStorage | None = None) -> Device:
        """The device for a storage that was at ``location``; the storage itself is on the CPU.

        Raises:
            RuntimeError: it was on a device that is not there.
        """
        wanted: Any = self._map
        if isinstance(wanted, dict):
            wanted = wanted.get(location, location)
        elif callable(wanted):
            found = wanted(storage, location)
            wanted = location if found is None else found.device
        elif wanted is None:
            wanted = location
        if wanted is location and location.split(":")[0] not in ("cpu", "meta", "vcpu"):
            raise RuntimeError(
                f"Attempting to deserialize object on a {location.split(':')[0].upper()} device, which is not there. "
                "Use load(..., map_location='cpu') to map the storages to the CPU."
            )
        place = Device(wanted)
        place.check_present()
        return place
