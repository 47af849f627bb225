"""NumPy's arrays as native code knows them: where their object keeps an address, and what makes one over memory.

Owns: ``ARRAY_DATA``; ``numpy_functions``.
Must not know: which code reads and calls these.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

__all__ = ["ARRAY_DATA", "numpy_functions"]


def _data_offset() -> int:
    """It follows the object's header in ``PyArrayObject``; measured on an array and a view. -1: not found."""
    whole = np.zeros(4)
    for offset in range(16, 64, 8):
        if all(ctypes.c_size_t.from_address(id(a) + offset).value == a.ctypes.data for a in (whole, whole[1:])):
            return offset
    return -1


ARRAY_DATA = _data_offset()
"""The byte of an array's object at which the address of its first element is; -1 where that is not known."""

_PLACES = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}
"""Where NumPy's table of functions has them, the same place in every version (``numpy/__multiarray_api.h``)."""
_WRITEABLE = 0x0400


@functools.cache
def numpy_functions() -> dict[str, int]:
    """The addresses of the functions of NumPy's C API that native code calls; zeros where they are not as known."""
    try:
        found = _found_functions()
        return found if _make_arrays(found) else dict.fromkeys(_PLACES, 0)
    except (AttributeError, ImportError, ValueError):
        return dict.fromkeys(_PLACES, 0)


def _found_functions() -> dict[str, int]:
    core: Any = np._core if hasattr(np, "_core") else np.core
    look = ctypes.pythonapi.PyCapsule_GetPointer
    look.restype, look.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = look(core._multiarray_umath._ARRAY_API, None)
    if not table:
        raise ValueError("NumPy's table of functions is empty")
    return {name: ctypes.c_size_t.from_address(table + 8 * nr).value for name, nr in _PLACES.items()}


def _make_arrays(addresses: dict[str, int]) -> bool:
    """Whether the functions make a window of an array and hold that array, as native code has them do."""
    address, held = ctypes.c_void_p, ctypes.py_object
    sizes = ctypes.POINTER(ctypes.c_ssize_t)
    make = ctypes.PYFUNCTYPE(
        held, held, held, ctypes.c_int, sizes, sizes, address, ctypes.c_int, address
    )(addresses["PyArray_NewFromDescr"])  # fmt: skip
    hold = ctypes.PYFUNCTYPE(ctypes.c_int, held, held)(addresses["PyArray_SetBaseObject"])
    whole, kind = np.arange(6.0), np.dtype(np.float64)
    pair = ctypes.c_ssize_t * 2
    for lent in (kind, whole):  # each function takes a reference over
        ctypes.pythonapi.Py_IncRef(held(lent))
    part = make(np.ndarray, kind, 2, pair(2, 2), pair(16, 8), whole.ctypes.data + 8, _WRITEABLE, None)
    is_held = hold(part, whole) == 0
    return is_held and part.base is whole and part.flags.writeable and bool((part == [[1, 2], [3, 4]]).all())
