"""Modules of native functions that an earlier process has made.

Owns: ``module_of``; what is noted of a module, and how its objects are found again.
Must not know: how a module is made, where notes are kept, LLVM.

# Note [Known modules]
# ~~~~~~~~~~~~~~~~~~~~
# To translate the native functions takes Python 90 ms, in each process that compiles something, though the object code
# of the text is on disk. All that a process needs of the text is which object or C function each word stands for. So
# that is noted beside the object code: a constant by its value, an object by the module and the name under which the
# native functions find it, or by its place among what the caller has given. The text is made if the object code has
# gone, or if a name leads nowhere.
# A note holds for one state of the package's files: their paths, times and sizes, which is what Python looks at for its
# own bytecode. It holds for one interpreter, one NumPy and one list of functions, since imports decide which there are.
# Example: the word of ``hits.operate``'s first constant is ("part", 12), that of ``None`` is ("value", None).
"""

from __future__ import annotations

import functools
import hashlib
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jitgrad.cpython.fronts import front_class
from jitgrad.cpython.layout import finds_attributes
from jitgrad.cpython.native import ModuleParts, NativeModule, make_module

__all__ = ["Notes", "module_of"]

Recipe = tuple[Any, ...]

_LITERALS = (str, int, float, bool, bytes, type(None))
_SMALL = range(-5, 257)
_MODULES = ("builtins", "types", "numpy")
"""Where objects are looked for after the modules of the native functions and of this package."""


class Notes(Protocol):
    """Where notes are kept."""

    def load(self, key: str) -> bytes | None:
        """What was kept under a key."""

    def store(self, key: str, data: bytes) -> None:
        """Keep it."""


def module_of(parts: ModuleParts, notes: Notes) -> NativeModule:
    """The module of some native functions, by a note if there is one."""
    sources = _sources()
    if not sources:
        return make_module(parts)
    key = _key(parts, sources)
    data = notes.load(key)
    module = _noted(parts, data) if data is not None else None
    if module is None:
        module = make_module(parts)
        if (note := _note_of(parts, module)) is not None:
            notes.store(key, note)
    return module


@functools.cache
def _sources() -> str:
    """The state of the package's files; empty where they are no files."""
    root = Path(__file__).parent.parent
    try:
        rows = sorted(_files(str(root)))
    except OSError:  # in an archive
        return ""
    return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_mtime_ns, status.st_size
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def _key(parts: ModuleParts, sources: str) -> str:
    """Everything that a note depends on."""
    compared = None if parts.compare is None else parts.compare[0]
    called = [*parts.functions, None, *parts.entries, None, *[stub.function for stub in parts.stubs],
              *[number.function for number in parts.numbers], compared, *[front.function for front in parts.fronts],
              *[maker.function for maker in parts.makers]]  # fmt: skip
    forms = [s.name for s in parts.stubs], [(s.slot, s.method, s.reflected, s.arity) for s in parts.numbers]
    names = [None if f is None else (f.__module__, f.__qualname__) for f in called]
    instead = [front.instead is not None for front in parts.fronts]
    handles = parts.handles.wiped, parts.handles.owned
    given = [(type(x).__name__, *_name_of(x)) for x in _given(parts)]  # one object that is given twice is one word
    return repr((sources, sys.version, np.__version__, finds_attributes(), names, forms, instead, handles, given))


def _given(parts: ModuleParts) -> list[Any]:
    """The objects that the caller gives, in order."""
    found = [parts.missed, parts.handles.cls, front_class() if parts.fronts else None]
    for stub in parts.stubs:
        found += [*stub.constants, stub.slow]
    for number in parts.numbers:
        found += number.constants
    found += [] if parts.compare is None else parts.compare[1]
    return [*found, *[front.instead for front in parts.fronts], *[maker.cls for maker in parts.makers]]


def _note_of(parts: ModuleParts, module: NativeModule) -> bytes | None:
    """What is noted of a module; None if some object has no name."""
    given = _given(parts)
    names: dict[int, Recipe] = {}
    for name, value in _named(parts, given):
        names.setdefault(id(value), name)
    recipes: list[Recipe] = []
    for kind, value in module.objects:
        recipe: Recipe | None = ("api", value) if kind == "api" else _recipe(value, names)
        if recipe is None:
            return None
        recipes.append(recipe)
    return marshal.dumps((module.key, recipes, module.symbols))


def _named(parts: ModuleParts, given: list[Any]) -> Iterator[tuple[Recipe, Any]]:
    """What objects are called."""
    yield from ((("part", nr), value) for nr, value in enumerate(given))
    own = [name for name in sys.modules if name.startswith("jitgrad.cpython.")]
    for module in sorted({f.__module__ for f in parts.functions}) + sorted(own) + [*_MODULES]:
        values = dict(vars(sys.modules[module]))
        yield from ((("global", module, name), value) for name, value in values.items())
        for name, owner in values.items():
            if isinstance(owner, type):
                inside = [(n, getattr(owner, n, None)) for n in vars(owner) if not n.startswith("__")]
                yield from ((("global", module, name, n), value) for n, value in inside)


def _recipe(value: Any, names: dict[int, Recipe]) -> Recipe | None:
    """How an object of a word is found again."""
    if _is_one_object(value):
        return "value", value
    found = names.get(id(value))
    module, name = _name_of(value)
    if found is None and module and getattr(sys.modules.get(module), name, None) is value:
        return "global", module, name
    owner = names.get(id(getattr(value, "__self__", None)))
    if found is None and owner is not None and owner[0] == "global" and getattr(value, "__name__", ""):
        return (*owner, value.__name__)  # a method of an object, such as a lock's
    return found or (("value", value) if _is_literal(value) else None)


def _is_one_object(x: Any) -> bool:
    """Whether all that has this value is one object, in every process, so that it is the same under any name.

    Others may be compared by identity. Example: the key "<in>" of an input's event is no identifier, so Python has as
    many objects of this value as there are constants, and hits look for that of ``keys.IN``.
    """
    return x is None or type(x) is bool or (type(x) is int and x in _SMALL) or (type(x) is str and x.isidentifier())


def _name_of(x: Any) -> tuple[str, str]:
    """The module and name under which a class or function was made; empty for others."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    return (module, name) if isinstance(module, str) and isinstance(name, str) else ("", "")


def _is_literal(value: Any) -> bool:
    return all(map(_is_literal, value)) if type(value) is tuple else type(value) in _LITERALS


def _noted(parts: ModuleParts, data: bytes) -> NativeModule | None:
    """The module of a note; None if some name leads nowhere."""
    given = _given(parts)
    try:
        key, recipes, symbols = marshal.loads(data)
        objects = [("api", r[1]) if r[0] == "api" else ("object", _found(r, given)) for r in recipes]
    except (AttributeError, EOFError, LookupError, TypeError, ValueError):
        return None
    return NativeModule(key, objects, symbols, functools.partial(_text_of, parts))


def _text_of(parts: ModuleParts) -> str:
    return make_module(parts).text()


def _found(recipe: Recipe, given: list[Any]) -> Any:
    kind, *where = recipe
    if kind == "value":  # names in dictionaries are interned
        return sys.intern(where[0]) if type(where[0]) is str else where[0]
    if kind == "part":
        return given[where[0]]
    value: Any = sys.modules[where[0]]
    for name in where[1:]:
        value = getattr(value, name)
    return value
