"""The door to codegen, opened by the first compile of the process.

Owns: ``open_codegen``, the one place that imports codegen for compiled steps, and why it does so late.
Must not know: what the modules behind it do.

# Note [Lazy codegen]
# ~~~~~~~~~~~~~~~~~~~
# ``import jitgrad`` must cost little more than NumPy's own import, and many programs never compile: the fifty modules
# of codegen, and LLVM behind them, are half of the whole library's start. So nothing that is imported at start imports
# codegen; ``backend`` asks this module at its first segment, and what it gets has the types that are declared here.
# LLVM itself has such a door inside codegen (``llvm/binding.py``). Elsewhere imports are at the top of the file.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from jitgrad.lazy import import_late

if TYPE_CHECKING:
    from collections.abc import Callable

    from jitgrad.abi import Program
    from jitgrad.codegen.families import ProgramForm
    from jitgrad.tracer.recording.graph import Segment

__all__ = ["Codegen", "open_codegen"]


class Codegen(NamedTuple):
    """What is behind the door.

    Attributes:
        compile_segment: plans and compiles a segment (``codegen.pipeline``).
        form_for_symbols: the same of a segment with symbolic extents; under their ``ShapeEnv``.
        install_loops: puts the driver and the worker loop in place, once (``compiled.native_parts``).
        install_hits: the native hits, too.
    """

    compile_segment: Callable[[Segment], Program]
    form_for_symbols: Callable[[Segment], ProgramForm]
    install_loops: Callable[[], object]
    install_hits: Callable[[], None]


@functools.cache
def open_codegen() -> Codegen:
    """Import codegen; the same object at every call."""
    pipeline = import_late("jitgrad.codegen.pipeline")
    native = import_late("jitgrad.compiled.native_parts")
    return Codegen(pipeline.compile_segment, pipeline.form_for_symbols, native.install_loops, native.install_hits)
