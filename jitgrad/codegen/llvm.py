"""LLVM, imported when it is first needed: its shared library takes 50 ms to load, a quarter of ``import jitgrad``.

Owns: the one import of llvmlite.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

__all__ = ["binding"]


@functools.cache
def binding() -> Any:
    """The module ``llvmlite.binding``."""
    return importlib.import_module("llvmlite.binding")
