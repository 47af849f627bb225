"""LLVM, imported when it is first needed: llvmlite takes 40 ms to load, two thirds of what ``import jitgrad`` adds.

Owns: the one import of llvmlite.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from jitgrad.lazy import importing

__all__ = ["binding", "version"]


@functools.cache
def binding() -> Any:
    """The module ``llvmlite.binding``."""
    with importing:
        return importlib.import_module("llvmlite.binding")


def version() -> str:
    """Of llvmlite and its LLVM, for cache keys."""
    return f"{importlib.import_module('llvmlite').__version__}|{binding().llvm_version_info}"
