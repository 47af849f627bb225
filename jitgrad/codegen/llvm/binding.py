"""LLVM, imported when it is first needed: llvmlite takes 40 ms to load, two thirds of what ``import jitgrad`` adds.

Owns: the one import of llvmlite.
"""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.lazy import import_late
from jitgrad.locks import process_lock

__all__ = ["asking_llvm", "binding", "version"]

asking_llvm = process_lock()
"""Held where LLVM is asked outside of compiling: a forked child may find llvmlite's own lock taken."""


@functools.cache
def binding() -> Any:
    """The module ``llvmlite.binding``."""
    return import_late("llvmlite.binding")


def version() -> str:
    """Of llvmlite and its LLVM, for cache keys."""
    with asking_llvm:
        return f"{import_late('llvmlite').__version__}|{binding().llvm_version_info}"
