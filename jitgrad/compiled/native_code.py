"""A module of native code that the runtime is made faster by: compiled once, here or by a builder.

Owns: ``NativeCode``.
Must not know: what the code does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, build_beside, compile_kernels
from jitgrad.state import native_cell

__all__ = ["NativeCode"]


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

    def give_up(self) -> None:
        """Nothing is waited for any more."""
        with contextlib.suppress(ValueError):
            native_cell.waiting.remove(self._install)
