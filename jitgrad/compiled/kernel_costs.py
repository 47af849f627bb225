"""What each kernel of a segment holds and costs.

Owns: ``KernelCost``, ``kernel_costs``, ``kernel_labels``, ``peaks``.
Must not know: how reports look.
In: a segment and its program. Out: per kernel the operations, the arithmetic, the bytes, the time.

Kernels are timed one by one, on memory of their own that is all zeros. The operations that a kernel holds are those of
the values between what it reads and what it stores; an operation that several kernels compute is in each of them.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jitgrad.abi import EagerStep, Launch, NativeStep, Program
from jitgrad.codegen.fusion.fuse import Group
from jitgrad.codegen.gemm.matmul_kernel import MatmulKernel
from jitgrad.codegen.link import has_work
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.pipeline import plan_parts
from jitgrad.codegen.plan import Job
from jitgrad.codegen.primitives.builder import Value
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.dtypes import float32, uint8
from jitgrad.ops.aval import Aval, last_position, make_aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Instr, Segment

__all__ = ["KernelCost", "Peaks", "job_line", "job_words", "jobs_of", "kernel_costs", "kernel_labels", "peaks"]

_MOVES = frozenset({"reshape", "permute", "expand", "slice", "pad", "cast", "copy"})
"""Primitives that an operation may have at its ends, where another operation's kernel computes them."""

_REPEATS, _LAUNCHES = 5, 8
_ENOUGH_S = 0.01
_PRODUCT, _COPIED = 512, 1 << 23


@dataclass(frozen=True, slots=True)
class KernelCost:
    """One kernel of a segment.

    Attributes:
        name: of the machine code; equal kernels have equal names.
        does: the operations that it holds, in words.
        form: ``"row"``, ``"flat"``, ``"matmul 32x64x10"`` ...
        lines: the users' lines of these operations.
        stage: kernels of one stage are independent of each other.
        borders: why its results are not computed in the kernels that read them, or its operands in this one.
        operations: how many additions' worth of arithmetic it does: an elementary function counts as those it takes.
        nbytes: read and written, each element once.
        estimated_s: by the cost model that decides how work is shared, on one core.
        measured_s: the fastest of some runs.
        share_of_peak, share_of_bandwidth: of what ``peaks`` has measured: 1 is all of it. The bandwidth is that of main
            memory: a kernel whose operands are in a cache may have more.
    """

    name: str
    does: tuple[str, ...]
    form: str
    lines: tuple[str, ...]
    stage: int
    borders: tuple[str, ...]
    operations: float
    nbytes: int
    estimated_s: float
    measured_s: float
    share_of_peak: float
    share_of_bandwidth: float


@dataclass(frozen=True, slots=True)
class Peaks:
    """What this machine does at most, with the threads that kernels use now.

    Attributes:
        operations: additions or multiplications per second, of float32, in a matrix product of 512 x 512.
        bandwidth: bytes per second, read and written, of a copy of 32 MiB.
    """

    operations: float
    bandwidth: float


def kernel_labels(segment: Segment, program: Program) -> list[str]:
    """What each kernel does, in order: ``matmul 32x64x10: linear gelu``; nothing is run."""
    if program.interpreted:
        return []
    jobs = [(part, piece, job) for part, piece in plan_parts(segment) for stage in jobs_of(piece) for job in stage]
    return [f"{_form(job)}: {' '.join(job_words(piece, part, job))}" for part, piece, job in jobs]


def kernel_costs(segment: Segment, program: Program) -> list[KernelCost]:
    """Every kernel of a segment's program, in order; empty where it runs without kernels."""
    if program.interpreted:
        return []
    parts = plan_parts(segment)
    avals = {vid: aval for _, piece in parts for vid, aval in piece.inputs.items()} | segment.inputs
    steps = [step for step in program.steps if not isinstance(step, EagerStep)]
    times = [seconds for step in steps for seconds in _measured(avals, step)]
    stages = [stage for step in steps for stage in step.stages]
    jobs = [(part, piece, stage) for part, piece in parts for stage in jobs_of(piece)]
    found: list[KernelCost] = []
    for nr, ((part, piece, own), launches) in enumerate(zip(jobs, stages, strict=True)):
        for job, launch in zip(own, launches, strict=True):
            found.append(_cost(piece, part, job, launch, nr, times[len(found)]))
    return found


def jobs_of(piece: Piece) -> list[list[Job]]:
    """What is launched for a piece, stage by stage."""
    assert piece.plan is not None
    stages = [[job for job in stage if has_work(job)] for stage in piece.plan.stages]
    return [stage for stage in stages if stage]


def _cost(piece: Piece, segment: Segment, job: Job, launch: Launch, stage: int, measured: float) -> KernelCost:
    instrs = _instrs(piece, segment, job)
    operations, nbytes = _work(piece, job)
    most = peaks()
    return KernelCost(
        launch.name, job_words(piece, segment, job), _form(job), tuple(dict.fromkeys(map(_line, instrs))), stage,
        _borders(piece, segment, job), operations, nbytes, launch.cost * 1e-9, measured,
        operations / measured / most.operations, nbytes / measured / most.bandwidth,
    )  # fmt: skip


def _line(instr: Instr) -> str:
    return instr.where or instr.origin or "the backward"


def _instrs(piece: Piece, segment: Segment, job: Job) -> list[Instr]:
    return [segment.instrs[n] for n in sorted(_held(piece, job))]


def job_words(piece: Piece, segment: Segment, job: Job) -> tuple[str, ...]:
    """The operations that a job holds; ``'`` marks those of a backward."""
    instrs = _instrs(piece, segment, job)
    names = [i.op.name if i.where else f"{i.op.name}'" for i in instrs if not i.op.is_view]
    return tuple(dict.fromkeys(names or [i.op.name for i in instrs])) or ("copy",)


def job_line(piece: Piece, segment: Segment, job: Job) -> str:
    """The user's line of the last operation that a job holds; empty of a copy."""
    instrs = _instrs(piece, segment, job)
    return _line(instrs[-1]) if instrs else ""


def _held(piece: Piece, job: Job) -> set[int]:
    """Numbers of the recorded operations that a job computes."""
    if job.group is None:
        return set()
    own = {root.value for root in job.group.roots}
    waiting, seen, found = list(own), set(own), set()
    while waiting:
        value = waiting.pop()
        if value.instr >= 0 and (value.op not in _MOVES or value in own):
            found.add(value.instr)
        for source in value.srcs:
            if source not in seen and source not in piece.roots and source.op not in ("input", "const", "scalar"):
                seen.add(source)
                waiting.append(source)
    return found


def _form(job: Job) -> str:
    kernel = job.kernel
    if isinstance(kernel, MatmulKernel):
        return "matmul " + "x".join(map(str, kernel.shape[1:] if kernel.shape[0] == 1 else kernel.shape))
    return kernel.key.form if hasattr(kernel, "key") else "routine"  # type: ignore[union-attr]


def _work(piece: Piece, job: Job) -> tuple[float, int]:
    """(operations, bytes)."""
    group = job.group
    if group is None:
        nbytes = 2 * sum(source.nbytes for source in job.sources)
        return 0.0, nbytes
    operations = float(sum(n * _operations(i.op) for i, n in zip(group.lowerer.instrs, _times(group), strict=True)))
    reads = [
        (i.extra[0], _visited(group.lowerer.domain.extents, (i.address or ())[1:] if i.op == "load" else None))
        for i in group.lowerer.instrs if i.op in ("load", "gather")
    ]  # fmt: skip
    if isinstance(job.kernel, MatmulKernel):
        operations += 2.0 * math.prod(job.kernel.shape)
        batch, m, n, k = job.kernel.shape
        extents = (batch, m, k), (batch, k, n)
        reads += [(v, _visited(e, strides)) for (v, _, strides), e in zip(job.kernel.views, extents, strict=True)]
    nbytes = sum(_read_nbytes(piece, reads))
    nbytes += sum(piece.nbytes(root.value) * max(1, len(root.destinations)) for root in group.roots)
    return operations, nbytes


def _visited(extents: Any, strides: Any) -> int:
    """How many elements a read visits: those of the loops that its address depends on; None: of all loops."""
    if strides is None:
        return math.prod(extents)
    return math.prod(n for n, stride in zip(extents, strides, strict=False) if stride)


def _read_nbytes(piece: Piece, reads: list[tuple[Value, int]]) -> list[int]:
    """Per value: all of it, or what is visited of it if that is less, as where a batch is a window of a data set."""
    visited: dict[Value, int] = {}
    for value, count in reads:
        visited[value] = visited.get(value, 0) + count * value.dtype.itemsize
    return [min(nbytes, piece.nbytes(value)) for value, nbytes in visited.items()]


def _times(group: Group) -> list[int]:
    """How often each instruction runs: once per combination of the loops that its value depends on."""
    domain = group.lowerer.domain
    reduced = {loop for d in group.reduced or () for loop in domain.loops_of(d)}
    loops: list[set[int]] = []
    counts: list[int] = []
    for i in group.lowerer.instrs:
        own = {d for d, c in enumerate((i.address or (0,))[1:]) if c}
        own |= {d for s in i.srcs for d in loops[s]}
        if i.op in ("iota", "mask"):
            own |= set(range(len(domain.extents)))
        counts.append(math.prod(domain.extents[d] for d in own))
        loops.append(own - reduced if i.op.startswith(("reduce_", "partial_")) else own)
    return counts


def _operations(op: str) -> int:
    return 1 if op.startswith(("reduce_", "partial_")) else op_cost(op)


def _borders(piece: Piece, segment: Segment, job: Job) -> tuple[str, ...]:
    """What kept this kernel apart from those whose results it reads."""
    if job.group is None:
        return ("a copy into a storage that other kernels read before",)
    own = {root.value for root in job.group.roots}
    reasons = [why for why in piece.refusals if why.consumer in own or why.producer is job.group]
    return tuple(dict.fromkeys(
        f"{_named(segment, why.consumer)} is not in the kernel of {_named(segment, why.producer.roots[0].value)}: "
        f"{why.reason}" for why in reasons
    ))  # fmt: skip


def _named(segment: Segment, value: Value) -> str:
    """``reduce_sum (layer_norm at train.py:7)``."""
    if value.instr < 0:
        return value.op
    instr = segment.instrs[value.instr]
    return f"{value.op} ({instr.op.name} at {_line(instr)})"


def _measured(avals: Mapping[int, Aval], step: NativeStep) -> list[float]:
    """Seconds of each launch alone, the fastest of some runs. ``avals``: value id -> aval, of the step's inputs."""
    reach = [(last_position(avals[vid]) + 1) * avals[vid].dtype.itemsize for vid in step.inputs]
    sizes = [*reach, *(nbytes for _, nbytes in step.outputs), step.arena_nbytes]
    storages = [_zeros(max(1, nbytes)) for nbytes in sizes]
    addresses = [s.addr for s in storages[: len(step.inputs) + len(step.outputs)]]
    arena = storages[-1]
    scalars = [0.5 if is_float else 1 for _, is_float in step.scalars]
    times: list[float] = []
    for stage in step.stages:
        for launch in stage:
            stages = ((launch,),) * _LAUNCHES  # one call costs a microsecond
            alone = LoadedStep(NativeStep(step.inputs, step.outputs, 0, step.scalars, stages, step.keep_alive))
            alone.lend(arena)
            times.append(_fastest(partial(alone.run, addresses, (), scalars)) / _LAUNCHES)
    return times


def _fastest(run: Any) -> float:
    best, spent = math.inf, 0.0
    for nr in range(1000):
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
        if nr + 1 >= _REPEATS and spent > _ENOUGH_S:
            break
    return best


def _zeros(nbytes: int) -> Storage:
    storage = Storage(nbytes)
    storage.array(make_aval((nbytes,), uint8))[:] = 0
    return storage


@functools.cache
def peaks() -> Peaks:
    """Measured at the first call, for the process."""
    open_codegen().install_loops()
    return Peaks(_peak_operations(), _peak_bandwidth())


def _peak_operations() -> float:
    n = _PRODUCT
    x = np.full((n, n), 0.5, np.float32)
    seconds = _fastest(_one_operation("mm", [x, x]))
    return 2.0 * n**3 / seconds


def _peak_bandwidth() -> float:
    x = np.zeros(_COPIED, np.float32)
    return 2.0 * x.nbytes / _fastest(_one_operation("neg", [x]))


def _one_operation(name: str, arrays: list[Any]) -> Any:
    op = OPS[name]
    avals = tuple(make_aval(a.shape, float32) for a in arrays)
    out = op.aval(*avals)
    made = len(arrays)
    segment = Segment([Instr(op, tuple(range(made)), (), (made,), (out,), avals)], dict(enumerate(avals)), (made,))
    step = open_codegen().compile_segment(segment).steps[0]
    assert isinstance(step, NativeStep)
    loaded = LoadedStep(step)
    result = Storage(out.nbytes)
    storages = [Storage.from_array(a) for a in arrays]
    addresses = [*(storages[vid].addr for vid in step.inputs), result.addr]
    keep = (storages, result)
    return lambda: (keep, loaded.run(addresses, (), ()))
