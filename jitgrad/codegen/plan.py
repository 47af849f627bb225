"""Planning: groups to the launches of a native step.

Owns: which values get memory and where; the order of launches (readers after writers, writers after readers); stages.
Must not know: how a kernel's text is printed, the operations' table.
In: groups, destinations. Out: a ``Plan``: jobs by stage, the arena's size.

# Note [In-place writes]
# ~~~~~~~~~~~~~~~~~~~~~~
# A kernel may store into an input's storage only after everybody else has read the old contents: an edge from each
# reader to the writer. Inside the writing kernel each element may be read only where it is written. Where that fails,
# or the edges would close a cycle, the value goes to the arena and a copy, ordered after all readers, writes it.
# A kernel that checks indices may report an error, after which the driver starts no further stage; the caller then runs
# the whole segment again from its inputs, which must be as they were: so writes also come after all checks.
# Example: ``w -= lr * g`` reads each element where it writes it, so one kernel does both. ``w.copy_(w.flip(0))`` reads
# other elements than it writes: the flipped values go to the arena, and a copy writes them to ``w``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.codegen.fusion.fuse import Group
from jitgrad.codegen.fusion.index_map import Expr, linear
from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.fusion.roots import Destination, Root
from jitgrad.codegen.gemm.matmul_kernel import MatmulKernel, matmul_kernel, operand_views
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.primitives.builder import SCATTERS, Value
from jitgrad.codegen.primitives.in_place import is_in_place
from jitgrad.codegen.routines.routine_kernel import RoutineKernel, operand_places, routine_kernel
from jitgrad.codegen.schedule.alike import Alike, outline_of
from jitgrad.codegen.schedule.kernel_ir import COMBINING, KernelInstr, LoopKernel
from jitgrad.codegen.schedule.loop_body import LoopBody, Store
from jitgrad.codegen.schedule.memory import Lifetime, plan_arena
from jitgrad.codegen.schedule.nest import make_kernel
from jitgrad.codegen.schedule.order import depth_first, fits_cache, levels, takes_far_less
from jitgrad.dtypes import DType
from jitgrad.events import bump
from jitgrad.ops.aval import contiguous_strides

__all__ = ["Buffer", "Job", "Kernel", "Plan", "instrs_of", "make_plan", "may_fail"]

Kernel = LoopKernel | MatmulKernel | RoutineKernel


@dataclass(slots=True, eq=False)
class Buffer:
    """A piece of memory of a native step.

    Attributes:
        kind: "input", "output" or "arena".
        vid: of an input's or output's value.
        nbytes: size.
        offset: in the arena.
        writers, readers: the jobs that touch it.
    """

    kind: str
    vid: int
    nbytes: int
    offset: int = 0
    writers: list[Job] = field(default_factory=list)
    readers: list[Job] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """One kernel to launch, and its place in the order.

    Attributes:
        group: what it computes; None for a copy that ends an in-place write.
        after: jobs that must have ended.
        stage: the number of its stage.
        kernel: its text, units and argument words.
        stores: what it writes.
        sources: what a copy reads.
        results: where a routine writes its results.
    """

    group: Group | None
    after: dict[Job, None] = field(default_factory=dict)
    stage: int = 0
    kernel: Kernel | None = None
    stores: list[Store] = field(default_factory=list)
    sources: list[Buffer] = field(default_factory=list)
    results: list[Buffer] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Plan:
    """A native step, ready to be compiled.

    Attributes:
        stages: jobs that are independent of each other, stage by stage.
        arena_nbytes: size of the arena.
    """

    stages: list[list[Job]]
    arena_nbytes: int

    def jobs(self) -> list[Job]:
        """All of them, in order."""
        return [job for stage in self.stages for job in stage]


def make_plan(groups: Sequence[Group], roots: dict[Value, Root], inputs: dict[int, Buffer], target: Target) -> Plan:
    """Give every value that is read by another kernel a place, order the kernels, and schedule their loops."""
    return _Planner(groups, roots, inputs, target).run()


class _Planner:
    def __init__(
        self, groups: Sequence[Group], roots: dict[Value, Root], inputs: dict[int, Buffer], target: Target
    ) -> None:
        self.groups, self.roots, self.inputs, self.target = groups, roots, inputs, target
        self.home: dict[Value, Buffer] = {}
        self.jobs = {g: Job(g) for g in groups}
        self.copies: list[Job] = []
        self.alike = Alike()

    def run(self) -> Plan:
        self._place_values()
        for group, job in self.jobs.items():
            self._collect_stores(group, job)
        self._order()
        jobs = [*self.jobs.values(), *self.copies]
        stages, size = self._ordered(jobs)
        for job in jobs:
            job.kernel = self._kernel(job)
        bump("kernels_alike", self.alike.count)
        return Plan(stages, size)

    def _ordered(self, jobs: list[Job]) -> tuple[list[list[Job]], int]:
        """Stages, and the arena's size: by levels, or one value after the other where that takes far less memory."""
        stages = levels(jobs)
        size = self._arena()
        if not fits_cache(size):
            deep = depth_first(jobs, self._arena_nbytes)
            least = self._arena()
            if takes_far_less(least, size):
                return deep, least
            stages = levels(jobs)
            size = self._arena()
        return stages, size

    @staticmethod
    def _arena_nbytes(job: Job) -> int:
        """How much of the arena a job fills."""
        buffers = {id(b): b for b in (*(s.buffer for s in job.stores), *job.results)}
        return sum(b.nbytes for b in buffers.values() if b.kind == "arena")

    # where values are
    def _reads(self, group: Group) -> dict[Value, list[Expr]]:
        """The values that a group reads from memory, each with the addresses it is read at."""
        found: dict[Value, list[Expr]] = {}
        for i in group.lowerer.instrs:
            if i.op in ("load", "gather") or i.op in COMBINING:
                found.setdefault(i.extra[0], []).append(i.address or ())
        if group.kind == "matmul":
            for value, _, _ in operand_views(group.roots[0].value, self.roots):
                found.setdefault(value, []).append(())
        if group.kind == "routine":
            for value, _ in operand_places(group.roots[0].value, self.roots):
                found.setdefault(value, []).append(())
        return found

    def _place_values(self) -> None:
        """A home for each value that a kernel reads from memory: an output that it has anyway, or the arena."""
        self.reads = {g: self._reads(g) for g in self.groups}
        for reads in self.reads.values():
            for v in reads:
                if v.op != "input" and v not in self.home:
                    self._give_home(v)
        for v, root in reversed(self.roots.items()):  # a cat before the cats that are its parts
            if is_in_place(v):
                self.home[v] = self._buffer(v.srcs[0])
            elif root.kind == "cat":
                self._place_parts(v, root)
            elif root.kind in ("routine", "routine_part") and v not in self.home:
                self._give_home(v)

    def _give_home(self, v: Value) -> None:
        root = self.roots[v]
        if v.op in SCATTERS:  # the updated copy of its base
            base = v.srcs[0]
            if base not in self.home:
                self._give_home(base)
            self.home[v] = self.home[base]
            return
        row_major = contiguous_strides(v.shape)
        for t in root.destinations:
            if t.buffer.kind == "output" and t.strides == row_major and t.offset == 0:
                self.home[v] = t.buffer
                return
        buffer = Buffer("arena", -1, _nbytes(v))
        self.home[v] = buffer
        root.destinations.append(Destination(buffer, row_major, 0))

    def _place_parts(self, v: Value, root: Root) -> None:
        """A cat's parts are stored at their places in the cat's destinations."""
        dim = v.params
        start = 0
        for part in v.srcs:
            for t in root.destinations:
                place = Destination(t.buffer, t.strides, t.offset + start * t.strides[dim])
                self.roots[part].destinations.append(place)
            start += part.shape[dim]

    def _buffer(self, v: Value) -> Buffer:
        return self.inputs[v.params[0]] if v.op == "input" else self.home[v]

    def _collect_stores(self, group: Group, job: Job) -> None:
        if group.kind == "routine":
            self._collect_results(group, job)
            return
        rank = len(group.lowerer.domain.extents)
        for root in group.roots:
            if root.kind == "scatter":
                self.home[root.value].writers.append(job)
                continue
            m, reg = group.lowerer.local[root.value]
            for t in root.destinations:
                strides = t.strides
                address = linear(m, strides, t.offset, rank)
                chunk = strides[0] if root.value in group.lowerer.partial else 0
                if t.buffer.kind == "input" and not self._may_write(group, t, address):
                    self._write_later(job, root, reg, m, t, rank)
                    continue
                job.stores.append(Store(reg, t.buffer, root.value.dtype, address, chunk))
                t.buffer.writers.append(job)
        for v in self.reads[group]:
            self._buffer(v).readers.append(job)

    def _collect_results(self, group: Group, job: Job) -> None:
        """A routine fills whole buffers, also for results that nobody reads; copies take them to other places."""
        by_number = {root.value.params[0] if root.kind == "routine_part" else 0: root for root in group.roots}
        for n, (shape, dtype) in enumerate(group.roots[0].value.params[0].results):
            root = by_number.get(n)
            unread = Buffer("arena", -1, dtype.itemsize * math.prod(shape))
            buffer = unread if root is None else self.home[root.value]
            job.results.append(buffer)
            buffer.writers.append(job)
            for t in root.destinations if root else ():
                if t.buffer is not buffer:
                    self.copies.append(self._copy(shape, dtype, buffer, t))
        for v in self.reads[group]:
            self._buffer(v).readers.append(job)

    def _may_write(self, group: Group, t: Destination, address: Expr) -> bool:
        """Whether all that the group itself reads of the storage is the element that it writes, and it cannot fail."""
        if may_fail(group):
            return False
        for v, addresses in self.reads[group].items():
            if self._buffer(v) is t.buffer and any(a != address for a in addresses):
                return False
        return True

    def _write_later(self, job: Job, root: Root, reg: int, m: Any, t: Destination, rank: int) -> None:
        """Store to the arena; a copy writes the storage when everybody has read it. See Note [In-place writes]."""
        v = root.value
        buffer = Buffer("arena", -1, _nbytes(v))
        row_major = contiguous_strides(v.shape)
        job.stores.append(Store(reg, buffer, v.dtype, linear(m, row_major, 0, rank)))
        buffer.writers.append(job)
        self.copies.append(self._copy(v.shape, v.dtype, buffer, t))

    def _copy(self, shape: tuple[int, ...], dtype: DType, source: Buffer, t: Destination) -> Job:
        rank = len(shape)
        unit = tuple(tuple(int(i == d + 1) for i in range(rank + 1)) for d in range(rank))
        job = Job(None, sources=[source])
        load = LoopInstr("load", dtype, (), (source,), linear(unit, contiguous_strides(shape), 0, rank))
        store = Store(0, t.buffer, dtype, linear(unit, t.strides, t.offset, rank))
        body = LoopBody(shape, frozenset(), [load], [store], lambda buffer: buffer)
        job.kernel = self._loop_kernel(body)
        source.readers.append(job)
        t.buffer.writers.append(job)
        return job

    # order
    def _order(self) -> None:
        """Edges between jobs; a write that cannot be ordered becomes a copy, and the edges are drawn again."""
        while True:
            jobs = [*self.jobs.values(), *self.copies]
            for job in jobs:
                job.after.clear()
            self._draw_edges(jobs)
            stuck = _cyclic(jobs)
            if not stuck:
                return
            job, store = next((j, s) for j in stuck if j.group for s in j.stores if s.buffer.kind == "input")
            self._postpone(job, store)

    def _draw_edges(self, jobs: list[Job]) -> None:
        """A reader after the writers; a writer of an input after its readers, and after everything that may fail."""
        for buffer in self._all_buffers():
            if buffer.kind != "input":
                for reader in buffer.readers:
                    _wait(reader, buffer.writers)
        for v, root in self.roots.items():
            if root.kind == "scatter" and not is_in_place(v):
                _wait(self.jobs[root.group], [self.jobs[self.roots[v.srcs[0]].group]])
                for reader in self.home[v].readers:
                    _wait(reader, [self.jobs[root.group]])
        checks = [job for group, job in self.jobs.items() if may_fail(group)]
        for buffer in self.inputs.values():
            for writer in buffer.writers:
                _wait(writer, buffer.readers)
                _wait(writer, checks)

    def _all_buffers(self) -> list[Buffer]:
        found = dict.fromkeys(self.home.values())
        for job in [*self.jobs.values(), *self.copies]:
            for store in job.stores:
                found[store.buffer] = None
            if job.sources or job.results:
                found.update(dict.fromkeys((*job.sources, *job.results)))
        return list(found)

    def _postpone(self, job: Job, store: Store) -> None:
        """Replace an in-place store of ``job`` by a store to the arena and a copy."""
        assert job.group is not None
        lowerer = job.group.lowerer
        rank = len(lowerer.domain.extents)
        for root in job.group.roots:
            m, reg = lowerer.local[root.value]
            if reg != store.reg:
                continue
            for t in root.destinations:
                if t.buffer is store.buffer and linear(m, t.strides, t.offset, rank) == store.address:
                    job.stores.remove(store)
                    store.buffer.writers.remove(job)
                    self._write_later(job, root, reg, m, t, rank)
                    return
        raise AssertionError("a store without a target")

    # memory and kernels
    def _arena(self) -> int:
        """Give buffers places in the arena, by the stages of the jobs that touch them; returns its size."""
        buffers = [b for b in self._all_buffers() if b.kind == "arena"]
        lifetimes = []
        for buffer in buffers:
            touched = [j.stage for j in buffer.writers]
            touched += [j.stage for j in buffer.readers]
            lifetimes.append(Lifetime(buffer.nbytes, min(touched), max(touched)))
        size = plan_arena(lifetimes)
        for buffer, lifetime in zip(buffers, lifetimes, strict=True):
            buffer.offset = lifetime.offset
        return size

    def _kernel(self, job: Job) -> Kernel:
        group = job.group
        if group is None:
            assert job.kernel is not None
            return job.kernel
        if group.kind == "routine":
            value = group.roots[0].value
            operands = [(self._buffer(v), offset) for v, offset in operand_places(value, self.roots)]
            return routine_kernel(value.params[0], operands, job.results)
        domain = group.lowerer.domain
        reduced = frozenset(loop for d in group.reduced or () for loop in domain.loops_of(d))
        body = LoopBody(domain.extents, reduced, group.lowerer.instrs, job.stores, self._buffer, group.chunks)
        if group.kind == "matmul":
            return matmul_kernel(group.roots[0].value, self.roots, body, self.target, self.alike)
        if group.kind == "scatter":
            body.sequential = frozenset(loop for d in _met_along(group.roots[0]) for loop in domain.loops_of(d))
        return self._loop_kernel(body)

    def _loop_kernel(self, body: LoopBody) -> LoopKernel:
        """See Note [Kernels alike]."""
        outline = outline_of(body)
        found = self.alike.find(outline.key, outline)
        if found is not None:
            known, words = found
            return LoopKernel(known.key, words, known.units, known.cost, known.name)
        kernel = make_kernel(body, self.target)
        self.alike.add(outline.key, outline, body, kernel)
        return kernel


def _met_along(root: Root) -> list[int]:
    """Dims of a scatter's domain along which two elements may be combined with the same one: these go in order.

    Along a dim whose position is one of the indices they cannot meet.
    """
    indices = root.value.srcs[2:]
    own = {index.params[0] for index in indices if index.op == "iota"}
    dims = [d for d, n in enumerate(root.source.shape[: len(indices[0].shape)]) if n != 1]
    return [nr for nr, d in enumerate(dims) if d not in own] or [*range(len(dims))]


def instrs_of(job: Job) -> Sequence[KernelInstr]:
    """The instructions of a job's loop kernel, or of a matrix product's epilogue."""
    kernel = job.kernel
    if isinstance(kernel, LoopKernel):
        return kernel.key.instrs
    return kernel.epilogue.instrs if isinstance(kernel, MatmulKernel) else ()


def _wait(job: Job, others: Sequence[Job]) -> None:
    for other in others:
        if other is not job:
            job.after[other] = None


def may_fail(group: Group) -> bool:
    """Whether the kernel may report an index out of range, or an exception of a routine."""
    if group.kind == "scatter" and is_in_place(group.roots[0].value):  # another kernel has checked its indices
        return False
    if group.kind == "routine":
        return bool(group.roots[0].value.params[0].routine.can_fail)
    return any(i.op == "check" for i in group.lowerer.instrs)


def _nbytes(v: Value) -> int:
    size: int = v.dtype.itemsize
    for n in v.shape:
        size *= n
    return size


def _cyclic(jobs: Sequence[Job]) -> list[Job]:
    """The jobs that wait for each other, or for one that does."""
    done = {j for stage in levels(jobs) for j in stage}
    return [j for j in jobs if j not in done]
