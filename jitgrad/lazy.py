"""Parts of the package that are imported when they are first used.

Owns: ``LazyModule``, ``BeingImportedError``, ``late_names``, ``import_late``, ``importing``.
Must not know: which parts.

# Note [Lazy modules]
# ~~~~~~~~~~~~~~~~~~~
# ``import jitgrad`` is part of every start of every script, so what most scripts never touch - transforms, gradcheck,
# files, the profiler - is not imported by it. A package lists such names for ``late_names``; code that needs such a
# module now and then holds a ``LazyModule``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from jitgrad.locks import process_lock

__all__ = ["BeingImportedError", "LazyModule", "import_late", "importing", "late_module", "late_names"]

importing = process_lock()
"""Held during a late import. A child that is forked while another thread imports a module can never import it: Python's
lock of the module is taken for ever."""


def import_late(name: str) -> Any:
    """Import a module by its name.

    Where the system had not let Python look into a folder, Python takes it for empty ever after: so it looks again.
    """
    with importing:
        try:
            return importlib.import_module(name)
        except ImportError:
            importlib.invalidate_caches()
            return importlib.import_module(name)


class BeingImportedError(ImportError):
    """A signal's handler has come in the middle of an import, and needs what that has not made yet."""


class LazyModule:
    """Stands for a module; looking up the first name imports it.

    Raises:
        BeingImportedError: the caller has interrupted the module's import.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is not None:
            return getattr(self._module, attribute)
        module = import_late(self._name)
        is_whole = not getattr(module.__spec__, "_initializing", False)
        if is_whole and self._name.startswith("jitgrad."):  # later looks need not ask the import system
            self._module = module
        try:
            return getattr(module, attribute)
        except AttributeError as error:
            if not is_whole:
                raise BeingImportedError(f"{self._name} is being imported, and has no {attribute!r} yet") from error
            raise


def late_module(
    namespace: dict[str, Any], places: Mapping[str, str], wrap: Callable[[Any], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``; arguments as ``late_names``."""
    find = late_names(namespace, places, wrap)

    def get(name: str) -> Any:
        """Names that are imported at their first use, Note [Lazy modules]."""
        if name in places:
            return find(name)
        raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")

    return get, lambda: sorted({*namespace, *places})


def late_names(
    namespace: dict[str, Any], places: Mapping[str, str], wrap: Callable[[Any], Any] | None = None
) -> Callable[[str], Any]:
    """A lookup for a package's ``__getattr__``.

    Args:
        namespace: the package's ``globals()``; names that were found are kept there.
        places: name -> the module it is (a name of one part after the package's own), or is found in.
        wrap: what becomes of a function that is found.

    Returns:
        A function of a name that raises KeyError for names not in ``places``.
    """

    def find(name: str) -> Any:
        place = places[name]
        module = import_late(place)
        found = module if place == f"{namespace['__name__']}.{name}" else getattr(module, name)
        if wrap is not None and type(found) is FunctionType:
            found = wrap(found)
        namespace[name] = found
        return found

    return find
