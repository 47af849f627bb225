"""When each task of a native step ran, and on which thread.

Owns: ``TaskTime``, ``run_timed``.
Must not know: how kernels are made, what the times are for.
In: a ``LoadedStep`` and what it runs on. Out: its status word, and a row per task.

# Note [Timed kernels]
# ~~~~~~~~~~~~~~~~~~~~
# The driver and the pool call kernels by address (Note [Program ABI]). A timed step is the same step with another
# kernel at every launch: it looks at the clock, calls the kernel that its argument words name, looks again, and writes
# a row. So stages, tasks, sharing and threads are those of the ordinary step, which itself is not touched, and what is
# not timed costs nothing. A task costs two looks at the clock more, some 50 ns. The clock is that of
# ``perf_counter_ns``.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.native.pool import libc_address

__all__ = ["TaskTime", "prepare", "run_timed"]

_COLUMNS = 6
_CLOCK_MONOTONIC = 1
_TEXT = f"""
define void @jitgrad_timed(ptr %bufs, ptr %args, i64 %begin, i64 %end) {{
  %t0 = alloca [2 x i64]
  %t1 = alloca [2 x i64]
  %kernel = load ptr, ptr %args
  %a1 = getelementptr i64, ptr %args, i64 1
  %own = load ptr, ptr %a1
  %a2 = getelementptr i64, ptr %args, i64 2
  %log = load ptr, ptr %a2
  %a3 = getelementptr i64, ptr %args, i64 3
  %nr = load i64, ptr %a3
  %a4 = getelementptr i64, ptr %args, i64 4
  %clock = load ptr, ptr %a4
  %a5 = getelementptr i64, ptr %args, i64 5
  %self = load ptr, ptr %a5
  %thread = call i64 %self()
  %r0 = call i32 %clock(i32 {_CLOCK_MONOTONIC}, ptr %t0)
  call void %kernel(ptr %bufs, ptr %own, i64 %begin, i64 %end)
  %r1 = call i32 %clock(i32 {_CLOCK_MONOTONIC}, ptr %t1)
  %slot = atomicrmw add ptr %log, i64 1 monotonic
  %at = mul i64 %slot, {_COLUMNS}
  %first = add i64 %at, 1
  %row = getelementptr i64, ptr %log, i64 %first
  store i64 %nr, ptr %row
  %p1 = getelementptr i64, ptr %row, i64 1
  store i64 %thread, ptr %p1
  %s0 = load i64, ptr %t0
  %p2 = getelementptr i64, ptr %row, i64 2
  store i64 %s0, ptr %p2
  %q0 = getelementptr i64, ptr %t0, i64 1
  %n0 = load i64, ptr %q0
  %p3 = getelementptr i64, ptr %row, i64 3
  store i64 %n0, ptr %p3
  %s1 = load i64, ptr %t1
  %p4 = getelementptr i64, ptr %row, i64 4
  store i64 %s1, ptr %p4
  %q1 = getelementptr i64, ptr %t1, i64 1
  %n1 = load i64, ptr %q1
  %p5 = getelementptr i64, ptr %row, i64 5
  store i64 %n1, ptr %p5
  ret void
}}
"""


class TaskTime(NamedTuple):
    """A task of a native step.

    Attributes:
        launch: which kernel, counted over all stages.
        thread: as ``threading.get_ident`` says it.
        start_ns, end_ns: by ``time.perf_counter_ns``.
    """

    launch: int
    thread: int
    start_ns: int
    end_ns: int


@functools.cache
def _timer() -> tuple[CompiledKernel, int, int] | None:
    """The kernel around kernels, ``clock_gettime``, ``pthread_self``; None where these are not."""
    clock, self_address = libc_address("clock_gettime"), libc_address("pthread_self")
    if not (clock and self_address):
        return None
    (kernel,) = compile_kernels([KernelSource("jitgrad_timed", "jitgrad_timed 1", lambda: _TEXT)])
    return kernel, clock, self_address


class _TimedStep:
    """A step whose launches are timed, and the log that they write."""

    def __init__(self, step: NativeStep, timer: tuple[CompiledKernel, int, int]) -> None:
        kernel, clock, self_address = timer
        tasks = sum(-(-launch.units // max(1, launch.grain)) for stage in step.stages for launch in stage)
        self.lock = threading.Lock()
        self.log = (ctypes.c_int64 * (1 + _COLUMNS * max(tasks, 1)))()
        log_address = ctypes.addressof(self.log)
        keep: list[Any] = [step.keep_alive, kernel]
        stages: list[tuple[Launch, ...]] = []
        for stage in step.stages:
            timed: list[Launch] = []
            for launch in stage:
                own = (ctypes.c_int64 * max(len(launch.args), 1))(*launch.args)
                keep.append(own)
                nr = sum(map(len, stages)) + len(timed)
                words = (launch.kernel, ctypes.addressof(own), log_address, nr, clock, self_address)
                timed.append(Launch(kernel.address, words, launch.units, launch.grain, launch.cost, launch.name))
            stages.append(tuple(timed))
        self.step = LoadedStep(
            NativeStep(step.inputs, step.outputs, step.arena_nbytes, step.scalars, tuple(stages), keep)
        )

    def times(self) -> list[TaskTime]:
        rows = []
        for nr in range(self.log[0]):
            launch, thread, s0, n0, s1, n1 = self.log[1 + nr * _COLUMNS : 1 + (nr + 1) * _COLUMNS]
            rows.append(TaskTime(launch, thread, s0 * 1_000_000_000 + n0, s1 * 1_000_000_000 + n1))
        return rows


def prepare() -> None:
    """Make what the first timed step would wait for."""
    open_codegen().install_loops()
    _timer()


_steps: WeakKeyDictionary[LoadedStep, _TimedStep] = WeakKeyDictionary()


def run_timed(step: LoadedStep, addresses: list[int], scalars: Any) -> tuple[int, list[TaskTime]]:
    """Run a step; (its status word, when its tasks ran). Without times where the system has no such clock."""
    timer = _timer()
    if timer is None:
        return step.run(addresses, (), scalars), []
    timed = _steps.get(step)
    if timed is None:
        timed = _steps.setdefault(step, _TimedStep(step.step, timer))
    with timed.lock:  # the log is of one run
        timed.log[0] = 0
        status = timed.step.run(addresses, (), scalars)
        return status, timed.times()
