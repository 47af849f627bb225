"""Products that are run to see how long they take.

Owns: ``Trial``, ``Runs``, ``runs_of``, ``Span``, ``span_of``, ``source_of``, ``fastest``.
Must not know: which ways of doing a product are tried, what becomes of the times.
In: specs with launches. Out: nanoseconds.

Kernels are called on one thread, on memory of their own, with the plain epilogue: one kernel serves all products of its
spec. The ways take turns, and the least time of each counts: what else runs on the machine can only make one slower.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jitgrad.codegen.gemm.spec import Epilogue, GemmSpec, StoreEpilogue
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels

__all__ = ["MOST_RUN_NS", "Runs", "Span", "Trial", "fastest", "runs_of", "source_of", "span_of"]

MOST_RUN_NS = 400_000
"""A run of a longer product is a part of it."""

_MOST_PART_NS = 3_000_000
_ROUNDS = 5
_SAMPLE_NS = 50_000  # a shorter run is repeated until it takes as long
_STEADY = 1.15  # the two best runs are no further apart, or something disturbed them
_TICK_NS = 1000
_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Span(NamedTuple):
    """The memory of an operand: its size, and where in it the first element stands, in bytes."""

    nbytes: int
    start: int


def span_of(extents: Sequence[int], strides: Sequence[int], itemsize: int) -> Span:
    """Of a strided view."""
    steps = [(n - 1) * s * itemsize for n, s in zip(extents, strides, strict=True)]
    low = -sum(min(0, step) for step in steps)
    return Span(low + sum(max(0, step) for step in steps) + itemsize, low)


class Runs(NamedTuple):
    """Which units are run, as of a long product only some are.

    Attributes:
        part: how many at a time: all rows of some columns;
        begins: the first of them, in turn: as in a whole run, operands come from far.
        share: which part of all units' work that is.
    """

    part: int
    begins: Sequence[int]
    share: float


def runs_of(words: Sequence[int], extent: int, batch: int, cost_ns: float) -> Runs | None:
    """Some units of a launch; None if the least that can be run takes too long.

    Args:
        words: its argument words, Note [GEMM arguments].
        extent: what its units' columns are counted in: columns, or vectors.
        batch: how often there are units of all rows and columns.
        cost_ns: estimated, of all units.
    """
    unit_n, units_m, units_n = words[14:17]
    if cost_ns <= MOST_RUN_NS:
        return Runs(units_m * units_n * batch, (0,), 1.0)
    if units_n > 1:  # the last one may be narrow
        columns, share = units_n - 1, unit_n / (extent * batch)
    else:
        columns, share = batch, 1 / batch
    each = cost_ns * share
    if each > _MOST_PART_NS:
        return None
    several = min(columns, max(1, int(MOST_RUN_NS / each)))
    return Runs(several * units_m, range(0, (columns - several + 1) * units_m, several * units_m), several * share)


class Trial(NamedTuple):
    """A product in one way, on operands in slots 1 and 2, stored to slot 3 by ``StoreEpilogue``.

    Attributes:
        spec: the way; its epilogue does not matter.
        words: argument words.
        runs: which units are run.
        share: which part of the whole product is run at a time.
        emit: prints the kernel.
    """

    spec: GemmSpec
    words: tuple[int, ...]
    runs: Runs
    share: float
    emit: Callable[[GemmSpec, str, Epilogue], str]


def fastest(trials: Sequence[Trial], nbytes: Sequence[int]) -> list[float] | None:
    """Nanoseconds of each whole product; None if something disturbed the measurement.

    Args:
        trials: the ways of one product, the one that is taken anyway first.
        nbytes: the size of A, B and C.

    Raises:
        CompileError: LLVM refused a kernel.
    """
    kernels = compile_kernels([source_of(trial) for trial in trials])
    memory = [_touched(size) for size in nbytes]
    bufs = (ctypes.c_int64 * 4)(0, *(x.ctypes.data for x in memory))
    calls = [_call(kernel, trial, bufs) for kernel, trial in zip(kernels, trials, strict=True)]
    clock = _clock()
    for call in calls:  # fills the caches
        call()
    repeats = [max(1, int(_SAMPLE_NS / max(1, _sample(call, 1, clock)))) for call in calls]
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(_ROUNDS):
        for found, call, count in zip(samples, calls, repeats, strict=True):
            found.append(_sample(call, count, clock))
    best = [sorted(found)[:2] for found in samples]
    winner = min(best)
    if any(second > _STEADY * first for first, second in (best[0], winner)):
        return None
    return [first / trial.share for (first, _), trial in zip(best, trials, strict=True)]


def source_of(trial: Trial) -> KernelSource:
    """The kernel that is run."""
    epilogue = StoreEpilogue(trial.spec.dtype_name)
    spec = replace(trial.spec, epilogue_key=epilogue.key)
    return KernelSource("trial", f"trial {trial.emit.__name__} {spec!r}", lambda: trial.emit(spec, "trial", epilogue))


def _touched(nbytes: int) -> np.ndarray:
    """Memory whose pages all exist: those that nobody has written to are one page, and that is in the cache."""
    memory = np.zeros(nbytes + mmap.PAGESIZE, np.uint8)  # zeros: what is left from others may be slow numbers
    aligned = memory[-memory.ctypes.data % 64 :]
    aligned[:: mmap.PAGESIZE] = 0
    return aligned


def _call(kernel: CompiledKernel, trial: Trial, bufs: Any) -> Callable[[], None]:
    args = (ctypes.c_int64 * len(trial.words))(*trial.words)
    function, where, part = _CALL(kernel.address), (ctypes.addressof(bufs), ctypes.addressof(args)), trial.runs.part
    begins = itertools.cycle(trial.runs.begins)

    def call(keep: Any = (kernel, args, bufs, trial)) -> None:
        begin = next(begins)
        function(*where, begin, begin + part)

    return call


def _clock() -> Callable[[], int]:
    """The thread's own time, which does not go on while others have its core; else what time it is."""
    try:
        resolution_ns = 1e9 * time.get_clock_info("thread_time").resolution
    except ValueError:
        return time.perf_counter_ns
    return time.thread_time_ns if resolution_ns <= _TICK_NS else time.perf_counter_ns


def _sample(call: Callable[[], None], count: int, clock: Callable[[], int]) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count
