"""A module of native code that the runtime is made faster by: compiled once, here or by a builder.

Owns: ``NativeCode``; what is noted of such modules, on disk.
Must not know: what the code does.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable

from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, build_beside, compile_kernels, disk_cache
from jitgrad.cpython.native import NativeModule
from jitgrad.state import native_cell

__all__ = ["NativeCode", "source_of"]


class NativeCode:
    """Asks for the code, and has its owner called again until it has come, Note [Builders].

    Args:
        install: called at the ends of compiled calls while a builder makes the code.
    """

    def __init__(self, install: Callable[[], object]) -> None:
        self._install = install
        self._asked: KernelSource | None = None

    def is_on_the_way(self) -> bool:
        """Whether a builder still makes what it was asked for: nothing else need be looked at."""
        return self._asked is not None and not build_beside(self._asked)

    def compiled(self, source: KernelSource) -> CompiledKernel | None:
        """The code; None if a builder makes it."""
        if self._asked is None and not build_beside(source):
            self._asked = source
            native_cell.waiting.append(self._install)
            return None
        self._asked = None
        self.give_up()
        return compile_kernels([source])[0]

    def load(self, key: str) -> bytes | None:
        """What was noted, Note [Known modules]."""
        cache = disk_cache()
        return None if cache is None else cache.load(_digest(key))

    def store(self, key: str, data: bytes) -> None:
        """Note something, where there is a cache."""
        cache = disk_cache()
        if cache is not None:
            cache.store(_digest(key), data)

    def give_up(self) -> None:
        """Nothing is waited for any more."""
        with contextlib.suppress(ValueError):
            native_cell.waiting.remove(self._install)


def source_of(module: NativeModule) -> KernelSource:
    """What the code of a module of native functions is compiled from."""
    return KernelSource("native_hits", module.key, module.text, needs_passes=True)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(f"note\0{key}".encode(), digest_size=32).digest()
