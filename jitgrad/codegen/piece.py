"""Pieces: the stretches of a segment between operations that run eagerly.

Owns: ``Piece``, ``cut``, ``has_lowering``.
Must not know: what the passes do.
In: ``tracer.recording.graph.Segment``. Out: pieces and ``abi.EagerStep``s, in order.

# Note [Native pieces]
# ~~~~~~~~~~~~~~~~~~~~
# Operations without a lowering cut a segment into pieces; what crosses a cut is an output of the earlier piece.
# Writes to existing storages are all in the last piece.
# Example: ``linalg.eigh`` has no lowering, so ``(eigh(a * 2)[0] + 1).sum()`` is a piece for ``a * 2``, an eager step,
# and a piece for the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jitgrad.abi import EagerStep
from jitgrad.codegen.fusion.fuse import Group, WhyNot
from jitgrad.codegen.fusion.roots import Root
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.plan import Buffer, Plan
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval
from jitgrad.tracer.recording.graph import Const, Instr, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Piece", "complex_lowering", "cut", "has_complex", "has_lowering", "in_memory"]

_LOWERINGS: Any = LazyModule("jitgrad.ops.complex.complex_lowerings")
_NUMBERS: Any = LazyModule("jitgrad.ops.complex.complex_numbers")


@dataclass(slots=True, eq=False)
class Piece:
    """A stretch of a segment that becomes one native step, on its way through the passes.

    Attributes:
        instrs: what was recorded, with its number in the segment.
        inputs: value id -> aval, of everything it may read or write in place.
        outputs: value ids to store to fresh buffers.
        writes: (value id, input id).
        target: what to compile for.
        orders: value id -> its dimensions from the slowest to the fastest, of outputs that are not row-major.
        builder: makes its values.
        results: the values of ``outputs``, then those of ``stores``.
        stores: (input id, strides, offset): where in existing storages ``writes`` go, see Note [Updates].
        roots, groups: see ``roots`` and ``fuse``.
        buffers: of inputs, by value id.
        out_buffers: of outputs, in order.
        plan: launches by stage.
        notes: for ``explain``.
        refusals: why values did not join kernels, as objects.
        applied: how often each rewrite rule applied in the current pass.
    """

    instrs: list[tuple[int, Instr]]
    inputs: dict[int, Aval]
    outputs: tuple[int, ...]
    writes: tuple[tuple[int, int], ...]
    target: Target
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    builder: Builder = field(default_factory=Builder)
    results: list[Value] = field(default_factory=list)
    stores: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    roots: dict[Value, Root] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    buffers: dict[int, Buffer] = field(default_factory=dict)
    out_buffers: list[Buffer] = field(default_factory=list)
    plan: Plan | None = None
    notes: list[str] = field(default_factory=list)
    refusals: list[WhyNot] = field(default_factory=list)
    applied: Counter[str] = field(default_factory=Counter)

    def untie(self) -> None:
        """End the circles of a piece that has been linked, so that it goes when the last reference goes.

        The next collection would find them, but it would first look at each of a long piece's million objects.
        """
        for root in self.roots.values():
            root.group = None
        jobs = self.plan.jobs() if self.plan is not None else []
        stored = [store.buffer for job in jobs for store in job.stores]
        named = [buffer for job in jobs for buffer in (*job.sources, *job.results)]
        for buffer in (*self.buffers.values(), *stored, *named):
            buffer.writers.clear()
            buffer.readers.clear()

    @staticmethod
    def nbytes(v: Value) -> int:
        size: int = v.dtype.itemsize
        for n in v.shape:
            size *= n
        return size


def cut(segment: Segment, target: Target) -> list[Piece | EagerStep]:
    """The segment as native pieces and eager operations. Inputs of a piece hold every value that exists before it."""
    runs = list(_runs(segment.instrs))
    needs_piece = segment.writes or any(vid in segment.inputs for vid in segment.outputs)
    if needs_piece and (not runs or isinstance(runs[-1], EagerStep)):
        runs.append([])
    wanted = _wanted_after(runs, segment)
    inputs = {vid: in_memory(aval) for vid, aval in segment.inputs.items()}
    parts: list[Piece | EagerStep] = []
    for number, run in enumerate(runs):
        if isinstance(run, EagerStep):
            parts.append(run)
            avals = dict(zip(run.instr.outputs, run.instr.avals, strict=True))
        else:
            avals = {vid: aval for _, instr in run for vid, aval in zip(instr.outputs, instr.avals, strict=True)}
            last = number == len(runs) - 1
            outputs = [vid for vid in avals if vid in wanted[number]]
            if last:
                outputs += [vid for vid in segment.outputs if vid in segment.inputs]
            orders = {vid: _order(in_memory(segment.layouts[vid])) for vid in outputs if vid in segment.layouts}
            parts.append(Piece(run, dict(inputs), tuple(outputs), segment.writes if last else (), target, orders))
        inputs.update((vid, in_memory(segment.stored_aval(vid, aval))) for vid, aval in avals.items())
    return parts


def in_memory(aval: Aval) -> Aval:
    """A layout as kernels see it: complex numbers are pairs of real ones."""
    return _NUMBERS.real_layout(aval) if aval.dtype.is_complex else aval


def _order(aval: Aval) -> tuple[int, ...]:
    """The dimensions of a layout without gaps, from the slowest to the fastest."""
    return tuple(sorted(range(aval.ndim), key=lambda d: (-aval.stride[d], -aval.shape[d])))


def has_lowering(instr: Instr) -> bool:
    """Whether kernels can compute an operation."""
    if has_complex(instr):
        return complex_lowering(instr) is not None
    return instr.op.has_lowering(instr.input_avals, instr.params)


def has_complex(instr: Instr) -> bool:
    """Whether an operand or a result is complex, Note [Complex values]."""
    avals = (*instr.avals, *instr.input_avals)
    return any([aval is not None and aval.dtype.is_complex for aval in avals]) or any(
        [type(x) is Const and type(x.value) is complex for x in instr.inputs]
    )


def complex_lowering(instr: Instr) -> Any:
    """See ``ops.complex.complex_lowerings``."""
    return _LOWERINGS.complex_lowering(
        instr.op.name, instr.inputs, instr.input_avals, instr.avals, instr.params
    )


def _runs(instrs: Iterable[Instr]) -> Iterator[list[tuple[int, Instr]] | EagerStep]:
    run: list[tuple[int, Instr]] = []
    for n, instr in enumerate(instrs):
        if has_lowering(instr):
            run.append((n, instr))
            continue
        if run:
            yield run
        run = []
        yield EagerStep(instr, f"{instr.op.name} has no lowering")
    if run:
        yield run


def _wanted_after(runs: list[list[tuple[int, Instr]] | EagerStep], segment: Segment) -> list[set[int]]:
    """Per run, the values that later runs, outputs or writes need."""
    wanted = set(segment.outputs)
    found: list[set[int]] = []
    for number in range(len(runs) - 1, -1, -1):
        run = runs[number]
        if number == len(runs) - 1:
            found.append(set(wanted))
            wanted.update(vid for vid, _ in segment.writes)
        else:
            found.append(set(wanted))
        instrs = [run.instr] if isinstance(run, EagerStep) else [instr for _, instr in run]
        wanted.update(x for instr in instrs for x in instr.inputs if isinstance(x, int) and not isinstance(x, bool))
    return found[::-1]
