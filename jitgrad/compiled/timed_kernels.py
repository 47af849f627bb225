"""When each task of a native step ran, and on which thread.

Owns: ``TaskTime``, ``TaskLog``, ``run_timed``, ``prepare``, ``finish``.
Must not know: how kernels are made, what the times are for.
In: a ``LoadedStep`` and what it runs on. Out: its status word, and a log with a row per task.

# Note [Timed kernels]
# ~~~~~~~~~~~~~~~~~~~~
# The driver and the pool call kernels by address (Note [Program ABI]). A timed step is the same step with another
# kernel at every launch: it looks at the clock, calls the kernel that its argument words name, looks again, and writes
# a row. So stages, tasks, sharing and threads are those of the ordinary step, which itself is not touched, and what is
# not timed costs nothing. A task costs two looks at the clock more, some 50 ns. The clock is that of
# ``perf_counter_ns``. Kernels number their rows themselves, so a run needs nothing done before it or after it: a log
# has room for many, and ``LoadedStep.timed`` lends its records to hits (Note [Hits of an end]) until it is full. The
# next run takes the general way, which begins another log.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.locks import process_lock
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.native.pool import libc_address

__all__ = ["TaskLog", "TaskTime", "finish", "prepare", "run_timed"]

_WORD = 8

_CLOCK_MONOTONIC = 1
_LOG_ROWS = 1 << 14
"""Of a log, if a run has fewer tasks: 768 KiB."""


def _loads(base: str, names: dict[str, str]) -> str:
    """Words of a table, one after the other: name -> type."""
    lines = []
    for nr, (name, kind) in enumerate(names.items()):
        lines += [f"  %{name}_at = getelementptr i64, ptr %{base}, i64 {nr}"]
        lines += [f"  %{name} = load {kind}, ptr %{name}_at"]
    return "\n".join(lines)


def _stores(base: str, names: Sequence[str]) -> str:
    """Words into a table, one after the other."""
    lines = []
    for nr, name in enumerate(names):
        lines += [f"  %to_{name} = getelementptr i64, ptr %{base}, i64 {nr}", f"  store i64 %{name}, ptr %to_{name}"]
    return "\n".join(lines)


_ARGUMENTS = {
    "kernel": "ptr", "own": "ptr", "log": "ptr", "limit": "i64", "nr": "i64", "clock": "ptr", "self": "ptr",
}  # fmt: skip
_ROW = ("nr", "thread", "s0", "n0", "s1", "n1")
_COLUMNS = len(_ROW)
_TEXT = f"""
define void @jitgrad_timed(ptr %bufs, ptr %args, i64 %begin, i64 %end) {{
  %t0 = alloca [2 x i64]
  %t1 = alloca [2 x i64]
{_loads("args", _ARGUMENTS)}
  %thread = call i64 %self()
  %r0 = call i32 %clock(i32 {_CLOCK_MONOTONIC}, ptr %t0)
  call void %kernel(ptr %bufs, ptr %own, i64 %begin, i64 %end)
  %r1 = call i32 %clock(i32 {_CLOCK_MONOTONIC}, ptr %t1)
{_loads("t0", {"s0": "i64", "n0": "i64"})}
{_loads("t1", {"s1": "i64", "n1": "i64"})}
  %slot = atomicrmw add ptr %log, i64 1 monotonic
  %has_room = icmp ult i64 %slot, %limit
  br i1 %has_room, label %write, label %done
write:
  %at = mul i64 %slot, {_COLUMNS}
  %first = add i64 %at, 1
  %row = getelementptr i64, ptr %log, i64 %first
{_stores("row", _ROW)}
  br label %done
done:
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
    (kernel,) = compile_kernels([KernelSource("jitgrad_timed", "jitgrad_timed 2", lambda: _TEXT)])
    return kernel, clock, self_address


class TaskLog:
    """Rows that the tasks of one step have written, in the order in which they ended.

    Attributes:
        address: of the number of rows; they follow it.
        limit: there is room for so many.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._words = (ctypes.c_int64 * (1 + _COLUMNS * limit))()
        self.address = ctypes.addressof(self._words)

    def __len__(self) -> int:
        return min(self._words[0], self.limit)

    def times(self, first: int = 0) -> list[TaskTime]:
        """The rows from ``first`` on."""
        start, end = (1 + _COLUMNS * nr for nr in (first, len(self)))
        return [
            TaskTime(launch, thread, s0 * 1_000_000_000 + n0, s1 * 1_000_000_000 + n1)
            for launch, thread, s0, n0, s1, n1 in struct.iter_unpack(
                f"={_COLUMNS}q", memoryview(self._words).cast("B")[start * _WORD : end * _WORD]
            )
        ]


class _TimedStep:
    """A step whose launches are timed, and the log that they write."""

    def __init__(self, step: NativeStep, timer: tuple[CompiledKernel, int, int]) -> None:
        kernel, clock, self_address = timer
        tasks = sum(-(-launch.units // max(1, launch.grain)) for stage in step.stages for launch in stage)
        self.runs = max(1, _LOG_ROWS // max(tasks, 1))
        self.log = TaskLog(self.runs * max(tasks, 1))
        keep: list[Any] = [step.keep_alive, kernel, self.log]
        stages: list[tuple[Launch, ...]] = []
        for stage in step.stages:
            timed: list[Launch] = []
            for launch in stage:
                own = (ctypes.c_int64 * max(len(launch.args), 1))(*launch.args)
                keep.append(own)
                nr = sum(map(len, stages)) + len(timed)
                words = (
                    launch.kernel, ctypes.addressof(own), self.log.address, self.log.limit, nr, clock, self_address,
                )  # fmt: skip
                timed.append(Launch(kernel.address, words, launch.units, launch.grain, launch.cost, launch.name))
            stages.append(tuple(timed))
        self.step = LoadedStep(
            NativeStep(step.inputs, step.outputs, step.arena_nbytes, step.scalars, tuple(stages), keep)
        )


_steps: WeakKeyDictionary[LoadedStep, _TimedStep] = WeakKeyDictionary()
_lock = process_lock()


def prepare() -> None:
    """Make what the first timed step would wait for, and begin new logs."""
    open_codegen().install_loops()
    _timer()
    finish()


def finish() -> None:
    """No step is timed any more: logs live as long as who was handed them."""
    with _lock:
        for step in list(_steps):
            step.timed.left, step.timed.idle = 0, []
        _steps.clear()


def run_timed(step: LoadedStep, addresses: list[int], scalars: Any) -> tuple[int, TaskLog, int]:
    """Run a step; (its status word, the log, the first row of this run).

    The log stays empty where the system has no such clock.
    """
    timer = _timer()
    if timer is None:
        return step.run(addresses, (), scalars), TaskLog(0), 0
    with _lock:
        timed = _steps.get(step)
        if timed is None or step.timed.left <= 0:
            timed = _steps[step] = _TimedStep(step.step, timer)
            step.timed.left, step.timed.idle = timed.runs, timed.step.idle
        step.timed.left -= 1
    first = len(timed.log)
    return timed.step.run(addresses, (), scalars), timed.log, first
