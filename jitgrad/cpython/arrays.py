"""Where a NumPy array's object keeps the address of its elements.

Owns: ``ARRAY_DATA``.
Must not know: which code reads it.
"""

from __future__ import annotations

import ctypes

import numpy as np

__all__ = ["ARRAY_DATA"]


def _data_offset() -> int:
    """It follows the object's header in ``PyArrayObject``; measured on an array and a view. -1: not found."""
    whole = np.zeros(4)
    for offset in range(16, 64, 8):
        if all(ctypes.c_size_t.from_address(id(a) + offset).value == a.ctypes.data for a in (whole, whole[1:])):
            return offset
    return -1


ARRAY_DATA = _data_offset()
"""The byte of an array's object at which the address of its first element is; -1 where that is not known."""
