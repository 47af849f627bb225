"""A function of scalars over arrays in row-major order: what eager execution calls.

Owns: the kernel's text, ``run``: arrays in, arrays out, in chunks.
Must not know: tensors, how compiled steps use functions of scalars.
In: float64, int64 and bool arrays of one length. Out: float64 arrays.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.scalars.family import Component, ScalarFunction, lanes_text
from jitgrad.codegen.scalars.lanes import result_type

__all__ = ["run"]

_CHUNK = 1 << 16
_PATIENCE = 0.01  # seconds between looks for Ctrl-C while a loop that may not end runs on a thread of its own
_MEMORY = {"double": "double", "i64": "i64", "i1": "i8"}


def _text(function: ScalarFunction, components: tuple[Component, ...], name: str, target: Target) -> str:
    isa = target.isa
    width = max(1, target.width * 4 // 8)
    called, head, definition = lanes_text(function, components, width, isa)
    b = FnBuilder(name, isa=isa)
    for line in (*head.splitlines(), definition):
        b.declare(line)
    pointers = []
    for n in range(len(function.kinds) + len(components)):
        at = b.op(f"getelementptr i64, ptr %bufs, i64 {n + 1}")
        pointers.append(b.op(f"load ptr, ptr {at}"))
    flags, lanes = vector_type(width, "i1"), vector_type(width, "i64")
    steps = "0" if width == 1 else "<" + ", ".join(f"i64 {n}" for n in range(width)) + ">"
    with b.loop("%begin", "%end", width) as index:
        rest = b.splat(b.op(f"sub i64 %end, {index}"), "i64", width)
        mask = b.op(f"icmp slt {lanes} {steps}, {rest}")
        operands = ["ptr %bufs", f"{flags} {mask}"]
        for kind, pointer in zip(function.kinds, pointers, strict=False):
            operands.append(f"{vector_type(width, kind)} {_load(b, kind, pointer, index, mask, width)}")
        result = result_type(len(components), width)
        total = b.op(f"call {result} @{called}({', '.join(operands)})")
        for n, pointer in enumerate(pointers[len(function.kinds) :]):
            value = b.op(f"extractvalue {result} {total}, {n}")
            at = b.op(f"getelementptr double, ptr {pointer}, i64 {index}")
            _store(b, value, at, mask, width)
    return b.finish()


def _load(b: FnBuilder, kind: str, pointer: str, index: str, mask: str, width: int) -> str:
    held = _MEMORY[kind]
    at = b.op(f"getelementptr {held}, ptr {pointer}, i64 {index}")
    if width == 1:
        value = b.op(f"load {held}, ptr {at}")
    else:
        of = vector_type(width, held)
        suffix = f"v{width}{'f64' if held == 'double' else held}"
        zero = f"{of} zeroinitializer"
        flags = f"<{width} x i1> {mask}"
        value = b.call(of, f"llvm.masked.load.{suffix}.p0", f"ptr {at}", "i32 1", flags, zero)
    if kind != "i1":
        return value
    kind = vector_type(width, "i8")
    return b.op(f"icmp ne {kind} {value}, {b.const(0, 'i8', width)}")


def _store(b: FnBuilder, value: str, at: str, mask: str, width: int) -> None:
    if width == 1:
        b.do(f"store double {value}, ptr {at}")
        return
    kind = vector_type(width, "double")
    name = f"llvm.masked.store.v{width}f64.p0"
    b.declare(f"declare void @{name}({kind}, ptr, i32, <{width} x i1>)")
    b.do(f"call void @{name}({kind} {value}, ptr {at}, i32 1, <{width} x i1> {mask})")


@functools.lru_cache(maxsize=256)
def _kernel(function: ScalarFunction, components: tuple[Component, ...]) -> tuple[Any, CompiledKernel]:
    target = host_target()
    name = f"array_loop_{function.name}"
    source = KernelSource(name, repr((function, components)), lambda: _text(function, components, name, target))
    (kernel,) = compile_kernels([source])
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return prototype(kernel.address), kernel


def run(function: ScalarFunction, components: tuple[Component, ...], arrays: Sequence[Any]) -> list[Any]:
    """``components`` for each element.

    Args:
        arrays: one per parameter, of one shape, contiguous: float64, int64 or bool.

    Returns:
        float64 arrays of the same shape.

    Raises:
        KeyboardInterrupt: also out of a loop that does not end.
    """
    call, _ = _kernel(function, components)
    outs = [np.empty(arrays[0].shape, np.float64) for _ in components]
    count = outs[0].size if outs else 0
    words = (ctypes.c_int64 * (1 + len(arrays) + len(outs)))(0, *(a.ctypes.data for a in (*arrays, *outs)))

    def work() -> None:
        for begin in range(0, count, _CHUNK):
            if words[0]:
                return
            call(words, None, begin, min(begin + _CHUNK, count))

    if function.may_not_end and threading.current_thread() is threading.main_thread():
        _run_aside(work, words)
    else:
        work()
    return outs


def _run_aside(work: Any, words: Any) -> None:
    """On another thread, so that this one can receive Ctrl-C; its loops end once the status word is set."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_PATIENCE)
    except BaseException:
        words[0] = 1
        thread.join()
        raise
