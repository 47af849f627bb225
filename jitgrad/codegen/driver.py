"""The native driver, as LLVM IR: runs a program's stages, task by task.

Owns: the text of ``driver``.
Must not know: kernels' contents, Python objects.
In: a program record, Note [Program ABI]. Out: the status word.
"""

from __future__ import annotations

from jitgrad.abi import STAGE_WORDS, TASK_WORDS
from jitgrad.codegen.jit import KernelSource
from jitgrad.codegen.text import FnBuilder

__all__ = ["driver_source"]


def _word(b: FnBuilder, base: str, index: str | int) -> str:
    return b.op(f"getelementptr i64, ptr {base}, i64 {index}")


def _load_ptr(b: FnBuilder, base: str, index: str | int) -> str:
    return b.op(f"load ptr, ptr {_word(b, base, index)}")


def _load(b: FnBuilder, base: str, index: str | int) -> str:
    return b.op(f"load i64, ptr {_word(b, base, index)}")


def _driver_text() -> str:
    b = FnBuilder("jitgrad_driver", "ptr %record")
    bufs, tasks, stages = (_load_ptr(b, "%record", i) for i in range(3))
    count, abort = _load(b, "%record", 3), _load_ptr(b, "%record", 5)
    b.do(f"store i64 0, ptr {bufs}")
    with b.loop("0", count) as stage:
        at = b.op(f"mul i64 {stage}, {STAGE_WORDS}")
        row = _word(b, stages, at)
        with b.loop(_load(b, row, 0), _load(b, row, 1)) as index:
            stop = b.op(f"load atomic i64, ptr {abort} monotonic, align 8")
            go = b.op(f"icmp eq i64 {stop}, 0")
            with b.when(go):
                task = _word(b, tasks, b.op(f"mul i64 {index}, {TASK_WORDS}"))
                kernel, args = _load_ptr(b, task, 0), _load_ptr(b, task, 1)
                begin, end = _load(b, task, 2), _load(b, task, 3)
                b.do(f"call void {kernel}(ptr {bufs}, ptr {args}, i64 {begin}, i64 {end})")
    status = b.op(f"load i64, ptr {bufs}")
    return b.finish(f"ret i64 {status}", "i64")


def driver_source() -> KernelSource:
    """``i64 jitgrad_driver(ptr record)``."""
    return KernelSource("jitgrad_driver", "driver", _driver_text)
