"""The switch of a thread's floating-point unit, as LLVM IR; see Note [Float mode].

Owns: the text of ``jitgrad_flush_denormal``, and calling it.
Must not know: who sets it.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from jitgrad.codegen.driver.native_text import adopt_float_mode, float_mode, is_x86
from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["exchange"]

_FLUSH_RESULTS, _FLUSH_OPERANDS = 1 << 15, 1 << 6  # of the MXCSR register: Intel's manual, volume 1, section 10.2.3


def exchange(mode: bool) -> bool | None:
    """Set the calling thread's switch; how it was before, or None where the processor has none that is known."""
    return bool(_setter()(mode)) if is_x86(host_target()) else None


@functools.cache
def _setter() -> Any:
    target = host_target()
    (code,) = compile_kernels([KernelSource("jitgrad_flush_denormal", "flush", lambda: _text(target))])
    setter = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address)
    setter.keep_alive = code  # type: ignore[attr-defined]
    return setter


def _text(target: Target) -> str:
    b = FnBuilder("jitgrad_flush_denormal", "i64 %mode")
    b.do("%floats = alloca i64")
    bits = _FLUSH_RESULTS | _FLUSH_OPERANDS
    before = float_mode(b, target)
    kept = b.op(f"and i64 {before}, {~bits}")
    wanted = b.op(f"mul i64 %mode, {bits}")
    adopt_float_mode(b, target, b.op(f"or i64 {kept}, {wanted}"))
    return b.finish(f"ret i64 {b.op(f'and i64 {before}, {_FLUSH_RESULTS}')}", "i64")
