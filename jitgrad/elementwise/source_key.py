"""What a Python function's machine code depends on, without Numba.

Owns: ``source_key``.
Must not know: how functions are compiled.

A second process finds the function's LLVM IR in the object cache by this key, and never imports Numba. What the key
cannot describe - a global that is an object, say - makes it None, and the function is compiled again.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from jitgrad.elementwise.numba_source import INSTALL

__all__ = ["source_key"]

_PLAIN = (bool, int, float, str, bytes, type(None))


class _Unknown(Exception):
    """Something that a key cannot describe."""


def source_key(function: Callable[..., Any], kinds: Sequence[str]) -> bytes | None:
    """A digest of all that the compiled function depends on; None where that cannot be known.

    Raises:
        ImportError: there is no Numba.
    """
    try:
        version = metadata.version("numba")
    except metadata.PackageNotFoundError as error:
        raise ImportError(INSTALL) from error
    try:
        parts = [version, sys.version, *kinds, *_function(getattr(function, "py_func", function), set())]
    except _Unknown:
        return None
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=32).digest()


def _function(function: Any, seen: set[int]) -> list[str]:
    if id(function) in seen:
        return ["again"]
    seen.add(id(function))
    code = function.__code__
    names = {*code.co_names, *(n for c in code.co_consts if isinstance(c, types.CodeType) for n in c.co_names)}
    parts = [*_code(code), repr(function.__defaults__)]
    for name in sorted(names):
        if name in function.__globals__:
            parts += [name, *_value(function.__globals__[name], seen)]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        parts += [name, *_value(cell.cell_contents, seen)]
    return parts


def _code(code: types.CodeType) -> list[str]:
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars)]
    for constant in code.co_consts[1 if isinstance(code.co_consts[:1], str) else 0 :]:
        parts += _code(constant) if isinstance(constant, types.CodeType) else [repr(constant)]
    return parts


def _value(value: Any, seen: set[int]) -> list[str]:
    if isinstance(value, _PLAIN):
        return [repr(value)]
    if isinstance(value, tuple):
        return ["(", *(part for item in value for part in _value(item, seen)), ")"]
    if isinstance(value, types.ModuleType):
        if value.__name__ not in ("math", "numpy", "cmath", "numba"):
            raise _Unknown
        return [value.__name__]
    if isinstance(value, types.BuiltinFunctionType) or type(value).__name__ == "ufunc":
        return [repr(value.__name__), str(getattr(value, "__module__", ""))]
    if hasattr(value, "py_func") and type(value).__module__.startswith("numba"):
        options = sorted(getattr(value, "targetoptions", {}).items())
        return [repr(options), *_function(value.py_func, seen)]
    raise _Unknown
