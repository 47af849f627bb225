"""How this interpreter was built.

Owns: ``is_free_threaded``, ``is_known_interpreter``.
Must not know: what depends on it.
"""

from __future__ import annotations

import sys

from jitgrad.lazy import LazyModule

__all__ = ["is_cpython", "is_free_threaded", "is_known_interpreter"]

_sysconfig = LazyModule("sysconfig")

KNOWN_VERSIONS = ((3, 11), (3, 13))
"""The first and the last version whose object heads and method tables the native hits know."""


def is_cpython() -> bool:
    """Whether this is CPython, and not another implementation of the language."""
    return sys.implementation.name == "cpython"


def is_free_threaded() -> bool:
    """Whether the interpreter was built to run without the GIL.

    The build decides how objects are laid out and how references are counted, whether or not the GIL is on today
    (``PYTHON_GIL=1``, or an extension that asked for it).
    """
    flags = getattr(sys, "abiflags", None)  # Windows has none; elsewhere this saves an import that takes milliseconds
    return bool(_sysconfig.get_config_var("Py_GIL_DISABLED")) if flags is None else "t" in flags


def is_known_interpreter() -> bool:
    """Whether native code may read this interpreter's objects: CPython of a known version, with the GIL, 64 bits."""
    first, last = KNOWN_VERSIONS
    return is_cpython() and first <= sys.version_info[:2] <= last and not is_free_threaded() and sys.maxsize > 2**32
