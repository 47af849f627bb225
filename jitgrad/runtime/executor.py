"""Native steps as tables in memory, and the one call that runs them.

Owns: the layout of a step's tables, its instances, the hot path of a run.
Must not know: code generation (the driver's address is installed by the composition root), tensors, value ids.
In: ``NativeStep``. Out: a status word; results in the caller's buffers. See Note [Program ABI].
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.abi import RECORD_WORDS, NativeStep
from jitgrad.runtime.buffer import Storage

__all__ = ["LoadedStep", "install"]

_WORD = 8
# A stage is worth sharing from this many estimated nanoseconds on.
SHARE_COST = 3000.0
_NOT_INSTALLED = "runtime.executor.install() has not been called"


def _no_driver(record: int) -> int:
    raise RuntimeError(_NOT_INSTALLED)


_driver: Callable[[int], int] = _no_driver


def install(driver_address: int, keep_alive: Any = None) -> None:
    """Set the native driver. ``keep_alive`` owns its code. Call once, before the first step is loaded."""
    global _driver
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    _driver = prototype(driver_address)
    _driver.keep_alive = keep_alive  # type: ignore[attr-defined]


def _words(values: Sequence[int]) -> Any:
    """A fixed table of int64 words."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class _Tables:
    """The tables that all instances of a step share: argument words, tasks, stages. Never written after this."""

    __slots__ = ("args", "stage_count", "stages", "tasks")

    def __init__(self, step: NativeStep) -> None:
        self.args = _words([word for stage in step.stages for launch in stage for word in launch.args])
        arg_addr = ctypes.addressof(self.args)
        tasks: list[int] = []
        stages: list[int] = []
        first = count = 0
        for stage in step.stages:
            for launch in stage:
                grain = max(1, launch.grain)
                for begin in range(0, launch.units, grain):
                    tasks += (launch.kernel, arg_addr, begin, min(begin + grain, launch.units), 0)
                    count += 1
                arg_addr += _WORD * len(launch.args)
            share = count - first > 1 and sum(launch.cost for launch in stage) >= SHARE_COST
            stages += (first, count, int(share))
            first = count
        self.tasks, self.stages, self.stage_count = _words(tasks), _words(stages), len(step.stages)


class _Instance:
    """What one run at a time owns: bufs, arena, record."""

    __slots__ = ("abort", "arena", "bufs", "record", "record_addr")

    def __init__(self, tables: _Tables, slots: int, arena_slot: int, arena_nbytes: int) -> None:
        self.bufs = _words([0] * slots)
        self.abort = ctypes.c_int64(0)
        self.arena = Storage(max(arena_nbytes, 1))
        self.bufs[arena_slot] = self.arena.addr
        self.record = _words([0] * RECORD_WORDS)
        self.record[:6] = (
            ctypes.addressof(self.bufs),
            ctypes.addressof(tables.tasks),
            ctypes.addressof(tables.stages),
            tables.stage_count,
            0,
            ctypes.addressof(self.abort),
        )
        self.record_addr = ctypes.addressof(self.record)


class LoadedStep:
    """A native step, ready to run. Threads may run it at the same time: each run takes an instance of its own.

    Attributes:
        step: what was loaded.
        cost: estimated nanoseconds on one core.
    """

    __slots__ = ("_arena_slot", "_idle", "_pack", "_tables", "cost", "step")

    def __init__(self, step: NativeStep) -> None:
        self.step = step
        self.cost = sum(launch.cost for stage in step.stages for launch in stage)
        self._tables = _Tables(step)
        self._arena_slot = 1 + len(step.inputs) + len(step.outputs)
        kinds = "".join("d" if is_float else "q" for _, is_float in step.scalars)
        addresses = "q" * (self._arena_slot - 1)
        self._pack = struct.Struct(f"={addresses}q{kinds}" if kinds else f"={addresses}").pack_into
        self._idle: list[_Instance] = []

    def run(self, inputs: Sequence[int], outputs: Sequence[int], scalars: Sequence[float] = ()) -> int:
        """Run the step.

        Args:
            inputs: addresses, one per ``step.inputs``.
            outputs: addresses, one per ``step.outputs``.
            scalars: one per ``step.scalars``.

        Returns:
            The status word: 0, or what a kernel stored there.
        """
        try:
            instance = self._idle.pop()  # atomic under the GIL
        except IndexError:
            instance = self._new_instance()
        if scalars:
            self._pack(instance.bufs, _WORD, *inputs, *outputs, instance.arena.addr, *scalars)
        else:
            self._pack(instance.bufs, _WORD, *inputs, *outputs)
        status = _driver(instance.record_addr)
        self._idle.append(instance)
        return status

    def _new_instance(self) -> _Instance:
        slots = self._arena_slot + 1 + len(self.step.scalars)
        return _Instance(self._tables, slots, self._arena_slot, self.step.arena_nbytes)
