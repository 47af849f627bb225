"""Words, atomics, loops and libc calls of the native driver and worker, as LLVM IR.

Owns: the small pieces that both are written with.
Must not know: what the words mean, apart from the libc addresses of the pool block, Note [Pool block].
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.abi import (
    POOL_CLOCK,
    POOL_FUTEX_NUMBER,
    POOL_GETCPU,
    POOL_SYSCALL,
    POOL_WAKE,
)
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = [
    "adopt_float_mode",
    "at",
    "atomic_load",
    "atomic_store",
    "branch",
    "call_libc",
    "core_number",
    "cycles",
    "float_mode",
    "forever",
    "futex",
    "has",
    "is_x86",
    "jump",
    "load_word",
    "minmax",
    "now",
    "pause",
]

_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1


def at(b: FnBuilder, base: str, index: str | int) -> str:
    return b.op(f"getelementptr i64, ptr {base}, i64 {index}")


def load_word(b: FnBuilder, base: str, index: str | int, kind: str = "i64") -> str:
    return b.op(f"load {kind}, ptr {at(b, base, index)}")


def atomic_load(b: FnBuilder, base: str, index: int, order: str = "acquire", kind: str = "i64") -> str:
    return b.op(f"load atomic {kind}, ptr {at(b, base, index)} {order}, align 8")


def atomic_store(b: FnBuilder, value: str, base: str, index: int, order: str, kind: str = "i64") -> None:
    b.do(f"store atomic {kind} {value}, ptr {at(b, base, index)} {order}, align 8")


def jump(b: FnBuilder, label: str) -> None:
    b.do(f"br label %{label}")


def branch(b: FnBuilder, cond: str, yes: str, no: str) -> None:
    b.do(f"br i1 {cond}, label %{yes}, label %{no}")


@contextmanager
def forever(b: FnBuilder) -> Iterator[tuple[str, str]]:
    """An endless loop; yields the labels of its head and of the block after it."""
    head, done = b.label("again"), b.label("out")
    jump(b, head)
    b.start(head)
    yield head, done
    jump(b, head)
    b.start(done)


def minmax(b: FnBuilder, kind: str, x: str, y: str | int) -> str:
    return b.call("i64", f"llvm.{kind}.i64", f"i64 {x}", f"i64 {y}")


def is_x86(target: Target) -> bool:
    """Whether the target is of the x86-64 family."""
    return target.triple.startswith(("x86_64", "amd64"))


def pause(b: FnBuilder, target: Target) -> None:
    """Tell the core that this is a spin loop."""
    if is_x86(target):
        b.declare("declare void @llvm.x86.sse2.pause()")
        b.do("call void @llvm.x86.sse2.pause()")
    elif target.triple.startswith(("aarch64", "arm64")):
        b.declare("declare void @llvm.aarch64.hint(i32)")
        b.do("call void @llvm.aarch64.hint(i32 1)")


def cycles(b: FnBuilder, target: Target) -> str:
    """The time-stamp counter; constant on targets where user code may not read it, which turns resting off."""
    return b.call("i64", "llvm.readcyclecounter") if is_x86(target) else "0"


def float_mode(b: FnBuilder, target: Target) -> str:
    """The control word of this thread's floating-point unit, by way of the slot ``%floats``; 0 where there is none."""
    if not is_x86(target):
        return "0"
    b.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    b.do("store i64 0, ptr %floats")
    b.do("call void @llvm.x86.sse.stmxcsr(ptr %floats)")
    return b.op("load i64, ptr %floats")


def adopt_float_mode(b: FnBuilder, target: Target, word: str) -> None:
    """Set this thread's floating-point unit as another one's is, by way of the slot ``%floats``."""
    if is_x86(target):
        b.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
        b.do(f"store i64 {word}, ptr %floats")
        b.do("call void @llvm.x86.sse.ldmxcsr(ptr %floats)")


def has(b: FnBuilder, pool: str, word: int) -> str:
    return b.op(f"icmp ne i64 {load_word(b, pool, word)}, 0")


def call_libc(b: FnBuilder, pool: str, word: int, args: str = "") -> None:
    """Call a libc function by its address in the pool block, if there is one."""
    with b.when(has(b, pool, word)):
        b.op(f"call i32 {load_word(b, pool, word, 'ptr')}({args})")


def core_number(b: FnBuilder, pool: str, unknown: str) -> str:
    """The number of the core this thread is on."""
    b.do(f"store i64 {unknown}, ptr %core")
    with b.when(has(b, pool, POOL_GETCPU)):
        number = b.op(f"call i32 {load_word(b, pool, POOL_GETCPU, 'ptr')}()")
        b.do(f"store i64 {b.op(f'zext i32 {number} to i64')}, ptr %core")
    return b.op("load i64, ptr %core")


def now(b: FnBuilder, pool: str) -> str:
    """Nanoseconds of the monotonic clock."""
    b.op(f"call i32 {load_word(b, pool, POOL_CLOCK, 'ptr')}(i32 {_CLOCK_MONOTONIC}, ptr %time)")
    seconds = b.op(f"mul i64 {load_word(b, '%time', 0)}, 1000000000")
    return b.op(f"add i64 {seconds}, {load_word(b, '%time', 1)}")


def futex(b: FnBuilder, pool: str, operation: int, value: str) -> None:
    """futex(2) on the wake word, through libc's ``syscall``."""
    call, number = load_word(b, pool, POOL_SYSCALL, "ptr"), load_word(b, pool, POOL_FUTEX_NUMBER)
    args = f"ptr {at(b, pool, POOL_WAKE)}, i64 {operation}, i64 {value}, ptr null, ptr null, i64 0"
    b.op(f"call i64 (i64, ...) {call}(i64 {number}, {args})")
