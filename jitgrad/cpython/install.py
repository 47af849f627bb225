"""Putting native functions in place.

Owns: the words of the loaded module, and the Python callables over its entries.
Must not know: what the functions are for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.cpython.kept import keep_for_ever
from jitgrad.cpython.layout import NUMBER_SLOTS, compare_slot, getattr_slot, number_slots

__all__ = ["callables", "fill_words", "native_slots", "put_in_compare_slot", "put_in_getattr_slot",
           "put_in_slots"]  # fmt: skip

_METH_FASTCALL, _METH_O = 0x0080, 0x0008


class _MethodDef(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


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
            keep_for_ever(value)
            words[nr] = id(value)
        elif value in symbols:
            words[nr] = symbols[value]
        else:
            words[nr] = ctypes.cast(getattr(ctypes.pythonapi, value), ctypes.c_void_p).value or 0


def callables(
    functions: Sequence[Callable[..., Any]], addresses: Sequence[int], entries: dict[str, int]
) -> dict[str, Any]:
    """Name -> a builtin function: over each function's entry, over the stubs, ``activate``."""
    made = {f.__name__: _builtin(f.__name__, at, _METH_FASTCALL) for f, at in zip(functions, addresses, strict=True)}
    for symbol, at in entries.items():
        if symbol.startswith("stub_"):
            made[symbol.removeprefix("stub_")] = _builtin(symbol.removeprefix("stub_"), at, _METH_FASTCALL)
    made["activate"] = _builtin("activate", entries["activate"], _METH_O)
    return made


def _builtin(name: str, address: int, flags: int) -> Any:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return make(_definition(name, address, flags), None, None)


native_slots: dict[str, int] = {}
"""Slot -> address of the native code that ``put_in_slots`` has put there last."""


def put_in_slots(cls: type, functions: dict[str, int], methods: dict[str, tuple[str, ...]]) -> None:
    """Put C functions into number slots of a class, and of those of its subclasses that inherit the operators.

    A class that defines one of the methods later gets the slot back that calls it: Python sees to that.

    Args:
        functions: slot -> address.
        methods: slot -> the special methods that it stands for.
    """
    native_slots.update(functions)
    pending, wanted = [cls], {name: getattr(cls, name) for names in methods.values() for name in names}
    while pending:
        heir = pending.pop()
        table = number_slots(heir)
        for slot, address in functions.items():
            if all(getattr(heir, name) is wanted[name] for name in methods[slot]):
                table[NUMBER_SLOTS[slot]] = address
        pending += heir.__subclasses__()


def put_in_getattr_slot(cls: type, address: int) -> None:
    """Put a C function into ``tp_getattro`` of a class, and of those of its subclasses that find attributes alike."""
    pending, before = [cls], getattr_slot(cls).value
    methods = [getattr(cls, name) for name in ("__getattr__", "__getattribute__")]
    while pending:
        heir = pending.pop()
        is_alike = [getattr(heir, name) for name in ("__getattr__", "__getattribute__")] == methods
        if is_alike and getattr_slot(heir).value == before:
            getattr_slot(heir).value = address
        pending += heir.__subclasses__()


def put_in_compare_slot(cls: type, address: int, names: tuple[str, ...]) -> None:
    """Put a C function into ``tp_richcompare`` of a class, and of those of its subclasses that inherit its methods."""
    pending, wanted = [cls], [getattr(cls, name) for name in names]
    while pending:
        heir = pending.pop()
        if [getattr(heir, name) for name in names] == wanted:
            compare_slot(heir).value = address
        pending += heir.__subclasses__()


def _definition(name: str, address: int, flags: int) -> int:
    definition = _MethodDef(name.encode(), address, flags, None)
    keep_for_ever(definition)  # the interpreter reads it when it drops the callable
    return ctypes.addressof(definition)
