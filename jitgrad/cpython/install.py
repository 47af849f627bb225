"""Putting native functions in place.

Owns: the words of the loaded module, and the Python callables over its entries.
Must not know: what the functions are for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["callables", "fill_words", "operator_method"]

_METH_FASTCALL, _METH_O = 0x0080, 0x0008


class _MethodDef(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_keep: list[Any] = []
"""What native code points at: method tables, and the objects of its words."""


def fill_words(address: int, objects: Sequence[tuple[str, Any]], symbols: dict[str, int]) -> None:
    """Write the table of words.

    Args:
        address: of the table.
        objects: ("object", a Python object) or ("api", a C function's name), in order.
        symbols: addresses of functions that are not in the C API.
    """
    words = (ctypes.c_int64 * len(objects)).from_address(address)
    for nr, (kind, value) in enumerate(objects):
        if kind == "object":
            _keep.append(value)
            words[nr] = id(value)
        elif value in symbols:
            words[nr] = symbols[value]
        else:
            words[nr] = ctypes.cast(getattr(ctypes.pythonapi, value), ctypes.c_void_p).value or 0


def callables(
    functions: Sequence[Callable[..., Any]], addresses: Sequence[int], entries: dict[str, int]
) -> dict[str, Any]:
    """Name -> a builtin function: over each function's entry, over the stubs that are no operators, ``activate``."""
    made = {f.__name__: _builtin(f.__name__, at, _METH_FASTCALL) for f, at in zip(functions, addresses, strict=True)}
    for symbol, at in entries.items():
        if symbol.startswith("stub_") and not symbol.startswith("stub_operator"):
            made[symbol.removeprefix("stub_")] = _builtin(symbol.removeprefix("stub_"), at, _METH_FASTCALL)
    made["activate"] = _builtin("activate", entries["activate"], _METH_O)
    return made


def _builtin(name: str, address: int, flags: int) -> Any:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return make(_definition(name, address, flags), None, None)


def operator_method(cls: type, name: str, address: int) -> Any:
    """A method of one operand over a C function ``ptr (ptr self, ptr other)``."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(cls, _definition(name, address, _METH_O))


def _definition(name: str, address: int, flags: int) -> int:
    definition = _MethodDef(name.encode(), address, flags, None)
    _keep.append(definition)
    return ctypes.addressof(definition)
