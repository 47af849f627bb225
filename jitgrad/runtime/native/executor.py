"""Native steps as tables in memory, and the one call that runs them.

Owns: the layout of a step's tables, its instances, the hot path of a run.
Must not know: code generation (the driver's address is installed by the composition root), tensors, value ids.
In: ``NativeStep``. Out: a status word; results in the caller's buffers. See Note [Program ABI].
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import struct
import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any, final

from jitgrad.abi import (
    MAX_STAGE_TASKS,
    STAGE_SHARE,
    STAGE_WAKE,
    TASK_WORDS,
    FlatLaunches,
    NativeStep,
    RunRecord,
    TimedRuns,
    flat_launches,
)
from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.primitives import install_driver
from jitgrad.runtime.devices.device_queue import DeviceQueue
from jitgrad.runtime.native.pool import pool
from jitgrad.runtime.storage.storage import Storage

__all__ = ["LoadedStep", "install"]

_WORD = 8
# From this size on, an arena is lent by the free lists for one run, so that all programs share the same warm memory.
LENT_ARENA_NBYTES = 64 << 10
# Estimated nanoseconds from which native code lets other threads run Python while a step runs.
RELEASE_COST = 30_000.0
# Estimated nanoseconds from which a step runs on the queue's thread, so that Ctrl-C can reach it.
LONG_COST = 20e6
# Estimated nanoseconds from which a stage is worth sharing with workers that spin, and from which the shared stages of
# a step are worth waking sleeping workers for (benchmarks/runtime.py measures both).
SHARE_COST = 1_000.0
WAKE_COST = 30_000.0
# What the status word is set to: there was Ctrl-C.
INTERRUPTED = -1
_NOT_INSTALLED = "runtime.executor.install() has not been called"


def _no_driver(record: int) -> int:
    raise RuntimeError(_NOT_INSTALLED)


_driver: Callable[[int], int] = _no_driver


def install(driver_address: int, worker_address: int, keep_alive: Any = None) -> None:
    """Set the native driver and worker loop. ``keep_alive`` owns their code. Call once, before the first step runs."""
    global _driver
    pool.install(worker_address, keep_alive)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)  # c_void_p converts an int 0.1 us faster than c_int64
    _driver = prototype(driver_address)
    _driver.keep_alive = keep_alive  # type: ignore[attr-defined]
    install_driver(_driver)


@functools.lru_cache(maxsize=1024)
def _layout(text: str) -> struct.Struct:
    """Steps of one program for other extents have the same layouts."""
    return struct.Struct(text)


def _words(values: Sequence[int]) -> array[int]:
    """A fixed table of int64 words."""
    made = array("q")
    # in half the time that the array itself takes to look at the values
    made.frombytes(_layout(f"={len(values)}q").pack(*values) if values else bytes(_WORD))
    return made


def _address(words: array[int]) -> int:
    return words.buffer_info()[0]


def _grains(flat: FlatLaunches) -> Sequence[int]:
    """Units per task, launch by launch: the emitter's grain, doubled until each stage has few enough tasks."""
    stages = flat.form.stages
    if max(flat.units, default=0) * max(stages, default=0) <= MAX_STAGE_TASKS:
        return flat.grains
    found: list[int] = []
    for count in stages:
        here = slice(len(found), len(found) + count)
        units, grains = flat.units[here], [grain or 1 for grain in flat.grains[here]]
        while sum([-(-n // grain) for n, grain in zip(units, grains, strict=True)]) > MAX_STAGE_TASKS:
            grains = [2 * grain for grain in grains]
        found += grains
    return found


def _stage_flags(costs: Sequence[float], task_counts: Sequence[int]) -> list[int]:
    """Which stages to share, and which of those to wake sleeping workers for.

    A wake-up takes long, but lasts for the rest of the step: what counts is the shared work from that stage on.
    """
    flags = []
    ahead = 0.0
    for cost, tasks in zip(reversed(costs), reversed(task_counts), strict=True):
        share = tasks > 1 and cost >= SHARE_COST
        ahead += cost if share else 0.0
        flags.append((STAGE_SHARE if share else 0) | (STAGE_WAKE if share and ahead >= WAKE_COST else 0))
    return flags[::-1]


def _size_class(nbytes: int) -> int:
    """The size that an arena is lent at, an eighth more at most: steps of ever new extents meet warm memory then."""
    part = 1 << max(0, nbytes.bit_length() - 4)
    return -(-nbytes // part) * part


class _Tables:
    """The tables that all instances of a step share: argument words, tasks, stages. Never written after this."""

    __slots__ = ("args", "shares", "stage_count", "stages", "tasks")

    def __init__(self, flat: FlatLaunches) -> None:
        form = flat.form
        self.args = _words(flat.words)
        args_addr = _address(self.args)
        tasks: list[int] = []
        ends, costs, cost = [0], [], 0.0
        # a loop without calls for most launches: few stages are of programs that are loaded at every call
        launches = zip(form.kernels, form.offsets, form.ends_stage, flat.units, _grains(flat), flat.costs, strict=True)
        for kernel, offset, ends_stage, units, grain, own in launches:
            args = args_addr + offset
            if 0 < units <= grain:
                tasks += (kernel, args, 0, units, 0)
            else:
                for begin in range(0, units, grain or 1):
                    tasks += (kernel, args, begin, min(begin + (grain or 1), units), 0)
            cost += own
            if ends_stage:
                ends.append(len(tasks) // TASK_WORDS)
                costs.append(cost)
                cost = 0.0
        flags = [0] * len(costs)
        if ends[-1] > len(costs):
            flags = _stage_flags(costs, [end - begin for begin, end in itertools.pairwise(ends)])
        rows = zip(ends, ends[1:], flags, strict=False)
        self.tasks = _words(tasks)
        self.stages = _words([word for row in rows for word in row])
        self.stage_count = len(costs)
        self.shares = any(flags)


class _Instance(RunRecord):
    """What one run at a time owns: bufs, record, and the arena unless it is lent."""

    __slots__ = ("abort", "arena", "bufs", "record")

    def __init__(self, tables: _Tables, slots: int, arena_slot: int, arena_nbytes: int, arrays: int) -> None:
        self.bufs = _words([0] * slots)
        self.abort = ctypes.c_int64(0)
        self.arena = Storage(arena_nbytes)
        self.bufs[arena_slot] = self.arena.addr
        self.bufs_addr = _address(self.bufs)
        self.record = _words((
            self.bufs_addr,
            _address(tables.tasks),
            _address(tables.stages),
            tables.stage_count,
            pool.address,
            ctypes.addressof(self.abort),
            arrays,
            ARRAY_DATA,
        ))
        self.record_addr = _address(self.record)


# Note [Interrupting a native step]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Python runs signal handlers between bytecodes of the main thread, so never during a native call. A long step of the
# main thread therefore runs on the device queue's thread while the caller waits in Python. An exception in that wait
# (KeyboardInterrupt) sets the step's abort word: the driver starts no further task. The buffers stay in use until the
# driver has returned, so the exception goes on only then. A task that is running sees nothing of the abort word, but a
# loop that may not end looks at the status word (Note [Lanes]), which is set as well. Other threads never receive
# Ctrl-C and just run.
_queue = DeviceQueue("cpu")


def _run_long(instance: _Instance) -> int:
    if threading.current_thread() is not threading.main_thread():
        return _driver(instance.record_addr)
    status: list[int] = []
    try:
        _queue.submit(lambda: status.append(_driver(instance.record_addr)))
        _queue.record().wait()
    except BaseException:
        instance.abort.value = 1
        instance.bufs[0] = INTERRUPTED
        _drain_queue()
        raise
    return status[0]


def _drain_queue() -> None:
    """Wait for an aborted step, if it was submitted; a second Ctrl-C must not free buffers that are still written."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            _queue.record().wait()
            return


@final
class LoadedStep:
    """A native step, ready to run. Threads may run it at the same time: each run takes an instance of its own.

    Attributes:
        step: what was loaded.
        cost: estimated nanoseconds on one core.
        idle: instances that no thread is using.
        is_short: it is run on the calling thread.
        are_floats: of its scalars, one by one; the others are integers.
        is_quick: native code runs it: it is short, and has an arena of its own.
        releases: it takes so long that other threads may run Python meanwhile.
        lent_nbytes: of an arena that is lent for one run; 0: each instance has its own.
        timed: what a hit runs in its place while tasks are timed.
    """

    __slots__ = (
        "__weakref__",
        "_arena_slot",
        "_arrays",
        "_pack",
        "_packs_arena",
        "_tables",
        "are_floats",
        "cost",
        "idle",
        "is_quick",
        "is_short",
        "lent_nbytes",
        "releases",
        "step",
        "timed",
    )

    are_floats: tuple[bool, ...]
    idle: list[Any]
    is_quick: bool
    is_short: bool
    releases: bool

    def __init__(self, step: NativeStep, takes_arrays: bool = False) -> None:
        self.step = step
        flat = step.flat or flat_launches(step.stages)
        self.cost = sum(flat.costs)
        self._tables = _Tables(flat)
        self._arena_slot = 1 + len(step.inputs) + len(step.outputs)
        self.are_floats = tuple([is_float for _, is_float in step.scalars])
        kinds = "".join("d" if is_float else "q" for is_float in self.are_floats)
        self._arrays = self._arena_slot - 1 if takes_arrays else 0
        addresses = "q" * (self._arena_slot - 1)
        self.lent_nbytes = _size_class(step.arena_nbytes) if step.arena_nbytes >= LENT_ARENA_NBYTES else 0
        self._packs_arena = bool(self.lent_nbytes or kinds)
        self._pack = _layout(f"={addresses}q{kinds}" if self._packs_arena else f"={addresses}").pack_into
        self.idle = []
        self.timed = TimedRuns()
        self.is_short, self.releases = self.cost < LONG_COST, self.cost > RELEASE_COST
        self.is_quick = self.is_short and not self.lent_nbytes
        _LOADED.add(self)

    def run(self, inputs: Sequence[int], outputs: Sequence[int], scalars: Sequence[float] = ()) -> int:
        """Run the step.

        Args:
            inputs: addresses, one per ``step.inputs``; of a step that takes arrays: their ``id``.
            outputs: the same, one per ``step.outputs``.
            scalars: one per ``step.scalars``.

        Returns:
            The status word: 0, or what a kernel stored there.
        """
        try:
            instance = self.idle.pop()  # atomic under the GIL
        except IndexError:
            instance = self.new_record()
        arena = Storage(self.lent_nbytes) if self.lent_nbytes else instance.arena
        if self._packs_arena:
            self._pack(instance.bufs, _WORD, *inputs, *outputs, arena.addr, *scalars)
        else:
            self._pack(instance.bufs, _WORD, *inputs, *outputs)
        status = _driver(instance.record_addr) if self.is_short else _run_long(instance)
        self.idle.append(instance)
        return status

    def run_on(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> int:
        """``run`` of a step that takes arrays: those of its inputs, then those of its outputs."""
        return self.run([id(array) for array in arrays], (), numbers)

    def lend(self, arena: Storage) -> None:
        """Let the next run of a step without an arena use ``arena``, which other steps use, too."""
        instance = self.new_record()
        instance.arena = arena
        instance.bufs[self._arena_slot] = arena.addr
        self.idle.append(instance)

    def new_record(self) -> _Instance:
        """What one more run at a time needs."""
        if self._tables.shares:
            pool.start()
        slots = self._arena_slot + 1 + len(self.step.scalars)
        nbytes = 0 if self.lent_nbytes else self.step.arena_nbytes
        return _Instance(self._tables, slots, self._arena_slot, nbytes, self._arrays)


_LOADED: weakref.WeakSet[LoadedStep] = weakref.WeakSet()


def _after_fork() -> None:
    """Make every step of a forked child take a new instance, and thereby start the child's own workers."""
    for step in list(_LOADED):
        step.idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
