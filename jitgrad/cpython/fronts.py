"""Native code in front of Python functions.

Owns: where a function keeps what calls it, and the table of what each front knows of its function.
Must not know: what the functions are for, when their fronts answer.

# Note [Native fronts]
# ~~~~~~~~~~~~~~~~~~~~
# A Python function keeps the address of the C function that runs it (``PyFunctionObject.vectorcall``). A *front* is
# native code at this place: it tries a hit, and else goes on to where the address led before, to the interpreter. So
# the function stays the object that it is, with its name, its signature, its source and its pickles, and
# references to it from before stay good; only the frame of a call that is a hit is saved. Example: in a compiled step
# that repeats, the call ``jitgrad.tanh(x)`` is one comparison with a trie node.
# A front is compiled once per kind of hit. What it must know of its own function (which operation, how many arguments)
# is its *row*, an object that it finds in a table by the function's address. Arguments by name are hits where they
# stand in the order of the parameters, as in ``softmax(x, dim=1)``: then values lie as they do without names.
# CPython has ``PyFunction_SetVectorcall`` since 3.12. In 3.11 the interpreter runs a call of a function without looking
# at the address, where the function's class is exactly ``function``; so there such functions get a subclass of it that
# adds nothing.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from jitgrad.cpython.kept import keep_for_ever
from jitgrad.cpython.layout import TYPE, TYPE_FLAGS, function_runner, vectorcall_offset

__all__ = ["FRONT_ROWS", "ROWS_ADDRESS", "front_class", "put_fronts", "runs_as_python"]

FRONT_ROWS = 2048
"""How many rows the table has room for; a power of two, several times the number of fronts."""

_MAY_BE_BASE, _HAS_VECTORCALL, _IS_METHOD = 1 << 10, 1 << 11, 1 << 17
"""Flags of types: Py_TPFLAGS_BASETYPE, Py_TPFLAGS_HAVE_VECTORCALL, Py_TPFLAGS_METHOD_DESCRIPTOR."""

_rows = (ctypes.c_size_t * (2 * FRONT_ROWS))()
"""Pairs: a function's address, its row's; a function is at its own place, or at the next free one."""

keep_for_ever(_rows)

ROWS_ADDRESS = ctypes.addressof(_rows)


def put_fronts(address: int, fronts: Iterable[tuple[Callable[..., Any], Any]]) -> None:
    """Put a front before some functions, each with its row; a function can have one front.

    Args:
        address: of the front's native code.
        fronts: (a plain Python function, its row).
    """
    for function, row in fronts:
        assert type(function) is FunctionType, function
        _note_row(function, row)
        if sys.version_info >= (3, 12):
            _set_vectorcall()(function, address)
        else:
            ctypes.c_size_t.from_address(id(function) + vectorcall_offset()).value = address
            keep_for_ever(front_class())  # an object holds its class
            ctypes.c_size_t.from_address(id(function) + TYPE).value = id(front_class())


def runs_as_python(function: Callable[..., Any]) -> bool:
    """Whether a function has no front."""
    return ctypes.c_size_t.from_address(id(function) + vectorcall_offset()).value == function_runner()


def _note_row(function: Any, row: Any) -> None:
    keep_for_ever(function, row)
    at = (id(function) >> 4) & (FRONT_ROWS - 1)
    while _rows[2 * at]:
        at = (at + 1) & (FRONT_ROWS - 1)
    _rows[2 * at + 1] = id(row)
    _rows[2 * at] = id(function)


def _set_vectorcall() -> Any:
    function = ctypes.pythonapi.PyFunction_SetVectorcall
    function.argtypes, function.restype = [ctypes.py_object, ctypes.c_void_p], None
    return function


_classes: list[type] = []


def front_class() -> type:
    """The subclass of ``function``, see Note [Native fronts]."""
    if not _classes:
        flags = ctypes.c_ulong.from_address(id(FunctionType) + TYPE_FLAGS)
        before = flags.value
        flags.value = before | _MAY_BE_BASE
        try:
            made = type("function", (FunctionType,), {"__slots__": (), "__reduce__": _by_name})
        finally:
            flags.value = before
        (names,) = gc.get_referents(made.__dict__)
        for name in ("__doc__", "__slots__"):  # the class's own would hide those of each function
            names.pop(name, None)
        names["__module__"] = _ModuleName("builtins")
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(made))
        ctypes.c_ulong.from_address(id(made) + TYPE_FLAGS).value |= _HAS_VECTORCALL | _IS_METHOD
        _classes.append(made)
    return _classes[0]


_of_functions: Any = FunctionType.__dict__["__module__"]


class _ModuleName(str):
    """``__module__`` of the class; of each function, its own."""

    __slots__ = ()

    def __get__(self, function: Any, cls: Any = None) -> Any:
        return _of_functions.__get__(function, cls)

    def __set__(self, function: Any, value: Any) -> None:
        _of_functions.__set__(function, value)


def _by_name(function: Any) -> str:
    """As functions are pickled and copied."""
    name: str = function.__qualname__
    return name
