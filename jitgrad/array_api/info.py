"""What ``__array_namespace_info__`` answers.

Owns: ``ArrayNamespaceInfo``.
"""

from __future__ import annotations

from typing import Any

from jitgrad import dtypes
from jitgrad.array_api.dtype_functions import isdtype
from jitgrad.devices import CPU, Device
from jitgrad.dtypes import DType, get_default_dtype, int64
from jitgrad.state import state

__all__ = ["ArrayNamespaceInfo"]

_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_MAX_DIMS = 32


class ArrayNamespaceInfo:
    """The inspection functions of the standard."""

    def capabilities(self) -> dict[str, Any]:
        """What arrays can do."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _MAX_DIMS}

    def default_device(self) -> Device:
        """Where new arrays are."""
        return state.default_device or CPU

    def devices(self) -> list[Device]:
        """Where arrays may be. There are as many virtual devices as one asks for; these are not listed."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType | None]:
        """The dtypes that functions choose, by kind; None: there is none of the kind."""
        return {
            "real floating": get_default_dtype(), "complex floating": None, "integral": int64, "indexing": int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard that there are, by name.

        Args:
            kind: as of ``isdtype``; None = all.
        """
        there = {d.name: d for d in vars(dtypes).values() if isinstance(d, DType)}
        return {n: there[n] for n in _NAMES if n in there and (kind is None or isdtype(there[n], kind))}
