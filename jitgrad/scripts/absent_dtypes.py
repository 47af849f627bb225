"""Dtypes of PyTorch that no tensor has here: libraries ask whether a dtype is one of them.

Owns: ``AbsentDType``, and one of each name; ``finfo`` for these too.
Must not know: dtypes that are there.
"""

from __future__ import annotations

from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import PACKAGE

__all__ = ["AbsentDType", "finfo"]

_FORMATS = {
    "float8_e4m3fn": (0.125, 2.0**-6, 448.0),
    "float8_e4m3fnuz": (0.125, 2.0**-7, 240.0),
    "float8_e5m2": (0.25, 2.0**-14, 57344.0),
    "float8_e5m2fnuz": (0.125, 2.0**-15, 57344.0),
}
"""Dtype -> eps, the smallest normal number, the largest number."""


class AbsentDType:
    """A dtype's name. It is equal to no tensor's dtype, and functions refuse it with a TypeError.

    Attributes:
        name: without ``torch.``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_floating_point(self) -> bool:
        """Whether it is floating."""
        return self.name.startswith("float")

    @property
    def is_complex(self) -> bool:
        """Whether it is complex."""
        return self.name.startswith("complex")

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        digits = "".join(c for c in self.name.removeprefix("float").partition("_")[0] if c.isdigit())
        return max(int(digits) // 8, 1)

    def __repr__(self) -> str:
        return f"{PACKAGE[0]}.{self.name}"


class finfo(dtypes.finfo):
    """As ``jitgrad.finfo``, also of floating dtypes with 8 bits."""

    def __init__(self, dtype: Any = None) -> None:
        if not isinstance(dtype, AbsentDType):
            super().__init__(dtype)
            return
        if dtype.name not in _FORMATS:
            raise TypeError(f"torch.finfo() knows nothing of {dtype!r}")
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        self.eps, self.tiny, self.max = _FORMATS[dtype.name]
        self.smallest_normal, self.min, self.resolution = self.tiny, -self.max, 1.0


def __getattr__(name: str) -> Any:
    """Each name has one object."""
    if name.startswith(("bits", "complex", "float", "uint")):
        found = globals()[name] = AbsentDType(name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
