"""The native driver, as LLVM IR: runs a program's stages, task by task, alone or shared.

Owns: the text of ``jitgrad_driver``, and the compiled pair of driver and worker.
Must not know: kernels' contents, Python objects, threads.
In: a program record, Note [Program ABI]. Out: the status word.
"""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.abi import (
    POOL_BUSY,
    POOL_REST,
    POOL_WANTED,
    STAGE_SHARE,
    STAGE_WORDS,
    TASK_WORDS,
)
from jitgrad.codegen.driver.native_text import at, atomic_load, atomic_store, branch, cycles, jump, load_word
from jitgrad.codegen.driver.placement import mask_slot
from jitgrad.codegen.driver.stage_sharing import run_task, share_stage
from jitgrad.codegen.driver.worker import worker_source
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["NativeLoops", "driver_source", "load"]


def _run_alone(b: FnBuilder, bufs: str, tasks: str, abort: str, stage: str) -> None:
    with b.loop(load_word(b, stage, 0), load_word(b, stage, 1)) as index:
        run_task(b, bufs, at(b, tasks, b.op(f"mul i64 {index}, {TASK_WORDS}")), abort)


def _find_data(b: FnBuilder, bufs: str) -> None:
    """Where bufs name NumPy arrays by their objects' addresses, put the addresses of their elements instead."""
    arrays, offset = load_word(b, "%record", 6), load_word(b, "%record", 7)
    with b.loop("0", arrays) as index:
        slot = at(b, bufs, b.op(f"add i64 {index}, 1"))
        found = b.op(f"getelementptr i8, ptr {load_word(b, slot, 0, 'ptr')}, i64 {offset}")
        b.do(f"store i64 {load_word(b, found, 0)}, ptr {slot}")


def _driver_text(target: Target) -> str:
    b = FnBuilder("jitgrad_driver", "ptr %record")
    for slot in ("%ran", "%spins", "%core", "%floats"):
        b.do(f"{slot} = alloca i64")
    mask_slot(b)
    bufs, tasks, stages = (load_word(b, "%record", i, "ptr") for i in range(3))
    count, pool, abort = (
        load_word(b, "%record", 3),
        load_word(b, "%record", 4, "ptr"),
        load_word(b, "%record", 5, "ptr"),
    )
    b.do(f"store i64 0, ptr {bufs}")
    _find_data(b, bufs)
    with b.loop("0", count) as index:
        stage = at(b, stages, b.op(f"mul i64 {index}, {STAGE_WORDS}"))
        go, ask, take, share, alone, ended = (b.label(x) for x in ("go", "ask", "take", "share", "alone", "ended"))
        status = b.op(f"load atomic i64, ptr {bufs} monotonic, align 8")
        branch(b, b.op(f"icmp eq i64 {status}, 0"), go, ended)  # a kernel reported an error: no further stage
        b.start(go)
        flags = load_word(b, stage, 2)
        branch(b, b.op(f"icmp ne i64 {b.op(f'and i64 {flags}, {STAGE_SHARE}')}, 0"), ask, alone)
        b.start(ask)
        workers = b.op(f"icmp ne i64 {atomic_load(b, pool, POOL_WANTED, 'monotonic')}, 0")
        rested = b.op(f"icmp uge i64 {cycles(b, target)}, {atomic_load(b, pool, POOL_REST, 'monotonic')}")
        branch(b, b.op(f"and i1 {workers}, {rested}"), take, alone)
        b.start(take)  # one program at a time has the pool; others run alone meanwhile
        swap = b.op(f"cmpxchg ptr {at(b, pool, POOL_BUSY)}, i64 0, i64 1 acquire monotonic, align 8")
        branch(b, b.op(f"extractvalue {{ i64, i1 }} {swap}, 1"), share, alone)
        b.start(share)
        share_stage(b, pool, bufs, tasks, abort, stage, target)
        atomic_store(b, "0", pool, POOL_BUSY, "release")
        jump(b, ended)
        b.start(alone)
        _run_alone(b, bufs, tasks, abort, stage)
        jump(b, ended)
        b.start(ended)
    status = b.op(f"load i64, ptr {bufs}")
    return b.finish(f"ret i64 {status}", "i64")


def driver_source(target: Target) -> KernelSource:
    """``i64 jitgrad_driver(ptr record)``, Note [Program ABI]."""
    return KernelSource("jitgrad_driver", "driver", lambda: _driver_text(target))


class NativeLoops(NamedTuple):
    """The compiled driver and worker loop, for ``runtime.native.executor.install``. Keep it as long as they may run."""

    driver: int
    worker: int
    code: tuple[CompiledKernel, ...]


def load() -> NativeLoops:
    """Compile the driver and the worker loop, or find them in the cache."""
    target = host_target()
    driver, worker = compile_kernels([driver_source(target), worker_source(target)])
    return NativeLoops(driver.address, worker.address, (driver, worker))
