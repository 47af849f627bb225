"""When each task of a native step ran, and on which thread.

Owns: ``TaskTime``, ``run_timed``, ``task_times``.
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
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.native.pool import libc_address

__all__ = ["TaskTime", "prepare", "run_timed", "task_times"]

_WORD = 8

_CLOCK_MONOTONIC = 1


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


_ARGUMENTS = {"kernel": "ptr", "own": "ptr", "log": "ptr", "nr": "i64", "clock": "ptr", "self": "ptr"}
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
  %at = mul i64 %slot, {_COLUMNS}
  %first = add i64 %at, 1
  %row = getelementptr i64, ptr %log, i64 %first
{_stores("row", _ROW)}
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

    def words(self) -> bytes:
        """A copy of the log's rows."""
        return ctypes.string_at(ctypes.addressof(self.log) + _WORD, self.log[0] * _COLUMNS * _WORD)


def task_times(words: bytes) -> list[TaskTime]:
    """The rows of a log; named late, because a step is faster than this."""
    found = []
    for launch, thread, s0, n0, s1, n1 in struct.iter_unpack(f"={_COLUMNS}q", words):
        found.append(TaskTime(launch, thread, s0 * 1_000_000_000 + n0, s1 * 1_000_000_000 + n1))
    return found


def prepare() -> None:
    """Make what the first timed step would wait for."""
    open_codegen().install_loops()
    _timer()


_steps: WeakKeyDictionary[LoadedStep, _TimedStep] = WeakKeyDictionary()


def run_timed(step: LoadedStep, addresses: list[int], scalars: Any) -> tuple[int, bytes]:
    """Run a step; (its status word, the rows for ``task_times``). Without rows where the system has no such clock."""
    timer = _timer()
    if timer is None:
        return step.run(addresses, (), scalars), b""
    timed = _steps.get(step)
    if timed is None:
        timed = _steps.setdefault(step, _TimedStep(step.step, timer))
    with timed.lock:  # the log is of one run
        timed.log[0] = 0
        status = timed.step.run(addresses, (), scalars)
        return status, timed.words()
