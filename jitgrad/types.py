"""Names for annotations, as ``torch.types``."""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.devices import Device as _Device

__all__ = ["Device", "FileLike", "Number"]

Number = int | float | bool
Device = _Device | str | int | None
FileLike = str | bytes | object
_size = Sequence[int]
