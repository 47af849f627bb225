"""Verification: what must hold between the passes of the pipeline, checked again by other means.

Owns: ``verify_segment``, ``verify_piece``, ``verify_step``, ``Proof`` and ``VerifyError``.
Must not know: how a pass decides. Each check starts from what a pass made, never from its own tables.
In: segments, pieces after each pass, native steps. Out: nothing, or a ``VerifyError`` in plain words.

# Note [Verification]
# ~~~~~~~~~~~~~~~~~~~
# With ``JITGRAD_VERIFY=1`` (all tests) each pass is followed by the checks of everything that the piece holds so far:
#   segment    every input of an instruction is an input of the segment or an earlier output
#   build ...  shapes and dtypes of primitives follow from their operands (``primitives/rules.py``)
#   group      every root is computed once; instructions read earlier ones only; addresses stay inside their values
#   place      every destination lies inside its buffer
#   plan       what jobs touch lies inside their buffers; nobody reads in a stage what the stage writes; readers come
#              after writers, and writers of inputs after readers and after all index checks; temporaries that are
#              alive at once do not overlap in the arena
#   link       the same bounds for the argument words that kernels get, by slot; a loop kernel's units, blocks and
#              chunks are those that its loops count, and cover them
# Example: an arena plan that gives two live temporaries one place raises "after pass plan: temporaries overlap in
# stage 1: [0, 256) and [128, 384)". A ``VerifyError`` is a ``CompileError``: the segment would run by NumPy rules, and
# tests fail on the warning.
# The last row is a proof by intervals: an affine address takes its extreme values at the ends of the loops,
# and an index read from memory is a gather's only if a check with a known extent is between. It is done under
# ``JITGRAD_CHECK=1``, too, and counted (``Proof``). It does not reach into the loops of routines, the user's (Note
# [Array kernels]) and those of Note [Row routines], nor does it read the printed text: that the text does what the loop
# IR says, and that rows end where they end, is what tests on guard pages look at.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jitgrad.abi import MAX_STAGE_TASKS, Launch, NativeStep
from jitgrad.codegen.fusion.fuse import Group
from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.gemm import GEMM_ARGS
from jitgrad.codegen.gemm.windows import is_implicit, table_bounds
from jitgrad.codegen.piece import Piece, in_memory
from jitgrad.codegen.plan import Buffer, Job, may_fail
from jitgrad.codegen.primitives.builder import POINTWISE, Value
from jitgrad.codegen.primitives.rules import check_values
from jitgrad.codegen.primitives.simplify import topological
from jitgrad.codegen.routines.routine_kernel import RoutineKernel
from jitgrad.codegen.schedule.access import Access, Interval, accesses_of, common_position, nest_accesses, reach
from jitgrad.codegen.schedule.kernel_ir import COMBINING, BufferArg, LoopKernel, NestKey
from jitgrad.dtypes import bool_
from jitgrad.errors import CompileError
from jitgrad.ops.aval import Aval
from jitgrad.tracer.recording.graph import Segment

__all__ = ["PROOF", "Proof", "VerifyError", "verify_piece", "verify_segment", "verify_step"]


class VerifyError(CompileError):
    """A pass left something that must not be: a bug of jitgrad. The message names the pass and the rule."""


class Proof:
    """How many accesses to memory lie inside their operands, for all that is known.

    Attributes:
        proven: kind -> count, of loads, gathers, stores and scatters of loop kernels and epilogues ("load", "gather",
            "store", "store_add"), and of operands of matrix products ("operand").
        unproven: kind -> count, of the arrays of routines ("routine"): that such an array lies inside its slot is
            proven, where its loops go is not.
    """

    def __init__(self) -> None:
        self.proven: Counter[str] = Counter()
        self.unproven: Counter[str] = Counter()

    def __repr__(self) -> str:
        def text(counts: Counter[str]) -> str:
            rows = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
            return f"{counts.total()} ({rows})" if rows else "0"

        return f"proven {text(self.proven)}, unproven {text(self.unproven)}"

    def add(self, other: Proof) -> None:
        """Count what another one has counted."""
        self.proven.update(other.proven)
        self.unproven.update(other.unproven)


PROOF = Proof()
"""Of everything that this process has linked under ``JITGRAD_VERIFY=1`` or ``JITGRAD_CHECK=1``."""


def verify_segment(segment: Segment) -> None:
    """A segment is in SSA form.

    Raises:
        VerifyError: an instruction reads a value that does not exist yet, or defines one twice.
    """
    known = set(segment.inputs)
    for instr in segment.instrs:
        for x in instr.inputs:
            _require(not _is_id(x) or x in known, "segment", f"{instr.op.name} reads %{x} before it exists")
        again = known.intersection(instr.outputs)
        _require(not again, "segment", f"{instr.op.name} defines {sorted(again)} again")
        known.update(instr.outputs)
    for vid in (*segment.outputs, *(x for pair in segment.writes for x in pair)):
        _require(vid in known, "segment", f"%{vid} is an output or is written, but does not exist")


def _is_id(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def verify_piece(piece: Piece, after: str) -> None:
    """Everything that the piece holds after the pass ``after``, see Note [Verification].

    Raises:
        VerifyError: something does not hold.
    """
    try:
        check_values(topological(piece.results), piece.inputs)
        if after == "build":
            _check_results(piece)
        if piece.roots:
            _check_groups(piece)
        if piece.out_buffers or piece.buffers:
            _check_destinations(piece)
        if piece.plan is not None:
            _check_plan(piece)
    except ValueError as error:
        raise VerifyError(f"after pass {after}: {error}") from error


def _require(holds: bool, after: str, what: str) -> None:
    if not holds:
        raise VerifyError(f"after pass {after}: {what}")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_results(piece: Piece) -> None:
    """The results are what was recorded: one per output and per write."""
    made = {vid: in_memory(aval) for _, i in piece.instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
    avals = made | piece.inputs
    wanted = [(avals[vid], piece.orders.get(vid)) for vid in piece.outputs]
    wanted += [(piece.inputs[into], None) for _, into in piece.writes]
    for v, (aval, order) in zip(piece.results, wanted, strict=True):
        shape = aval.shape if order is None else tuple(aval.shape[d] for d in order)
        _must(v.shape == shape and v.dtype is aval.dtype, f"{v} should be {aval!r}")


# --- groups ---


def _check_groups(piece: Piece) -> None:
    owners: dict[Value, Group] = {}
    for group in piece.groups:
        for root in group.roots:
            _must(root.value not in owners, f"{root.value} is computed by two kernels")
            owners[root.value] = group
        _check_body(group)
    for v, root in piece.roots.items():
        _must(root.kind == "cat" or v in owners, f"{v} is computed by no kernel")


def _check_body(group: Group) -> None:
    """The group's instructions: order, dtypes, addresses."""
    instrs, extents = group.lowerer.instrs, group.lowerer.domain.extents
    for n, i in enumerate(instrs):
        where = f"instruction {n} ({i.op}) of the kernel {group}"
        _must(all(0 <= s < n for s in i.srcs), f"{where} reads an instruction that does not come before it")
        if i.op in POINTWISE and group.kind != "scatter":
            _check_dtypes(i, [instrs[s] for s in i.srcs], where)
        if i.op in ("load", "gather") or i.op in COMBINING:
            value = i.extra[0]
            assert i.address is not None
            touched = reach(i.address, extents, _bounds(instrs, i))
            _must_contain(_elements_of(value), _with_indices(instrs, i, touched), f"{where} leaves {value}")
    for root in group.roots:
        if root.kind not in ("scatter", "routine", "routine_part"):
            reg = group.lowerer.local[root.value][1]
            _must(instrs[reg].dtype is root.value.dtype, f"{root.value} is computed as {instrs[reg].dtype.name}")


def _check_dtypes(i: LoopInstr, srcs: Sequence[LoopInstr], where: str) -> None:
    _must(len(srcs) == POINTWISE[i.op], f"{where} takes {POINTWISE[i.op]} operands")
    operands = srcs[1:] if i.op == "where" else srcs
    _must(i.op != "where" or srcs[0].dtype is bool_, f"{where} has a condition that is not bool")
    _must(all(s.dtype is operands[0].dtype for s in operands), f"{where} has operands of two dtypes")


def _bounds(instrs: Sequence[LoopInstr], i: LoopInstr) -> dict[int, tuple[int, int]]:
    """The loop indices for which the masks among an instruction's sources hold."""
    bounds: dict[int, tuple[int, int]] = {}
    for r in (r for s in i.srcs if instrs[s].op == "mask" for r in instrs[s].extra):
        lo, hi = bounds.get(r.dim, (r.lo, r.hi))
        bounds[r.dim] = max(lo, r.lo), min(hi, r.hi)
    return bounds


def _with_indices(instrs: Sequence[LoopInstr], i: LoopInstr, base: Interval | None) -> Interval | None:
    """``base``, moved by every index that the checks among the sources let through."""
    if base is None or i.op == "load":
        return base
    first, last = base
    checks = [instrs[s] for s in i.srcs[1 if i.op in COMBINING else 0 :] if instrs[s].op != "mask"]
    for check, stride in zip(checks, i.extra[1], strict=True):
        _must(check.op == "check", f"{i.op} uses an index that was not checked")
        end = stride * max(0, check.extra[0] - 1)
        first, last = first + min(0, end), last + max(0, end)
    return Interval(first, last)


def _elements_of(v: Value) -> Interval:
    """The elements of the storage that a value in memory occupies."""
    return _layout(v.params[1]) if v.op == "input" else Interval(0, math.prod(v.shape) - 1)


def _layout(aval: Aval) -> Interval:
    return reach((aval.offset, *aval.stride), aval.shape, {}) or Interval(0, -1)


def _must_contain(whole: Interval, part: Interval | None, what: str) -> None:
    inside = part is None or (whole.first <= part.first and part.last <= whole.last)
    _must(inside, f"{what}: {part} is not within {whole}" if part else what)


# --- places ---


def _check_destinations(piece: Piece) -> None:
    for v, root in piece.roots.items():
        for d in root.destinations:
            size = v.dtype.itemsize
            touched = reach((d.offset, *d.strides), v.shape, {})
            _must_contain(_elements(piece, d.buffer, size), touched, f"{v} is stored outside of its {d.buffer.kind}")
    for buffer, v in zip(piece.out_buffers, piece.results, strict=False):
        found = any(d.buffer is buffer for d in piece.roots[v].destinations)
        _must(found, f"the output %{buffer.vid} is stored by nobody")


def _elements(piece: Piece, buffer: Buffer, itemsize: int) -> Interval:
    if buffer.kind == "input":
        return _layout(piece.inputs[buffer.vid])
    return Interval(0, buffer.nbytes // itemsize - 1)


def _bytes(piece: Piece, buffer: Buffer) -> Interval:
    if buffer.kind != "input":
        return Interval(0, buffer.nbytes - 1)
    aval = piece.inputs[buffer.vid]
    return _scaled(_layout(aval), aval.dtype.itemsize)


def _scaled(elements: Interval, itemsize: int) -> Interval:
    return Interval(elements.first * itemsize, (elements.last + 1) * itemsize - 1)


# --- plans ---


class _Touch(NamedTuple):
    """A job touches a buffer."""

    job: Job
    buffer: Buffer
    access: Access


def _check_plan(piece: Piece) -> None:
    assert piece.plan is not None
    jobs = [job for stage in piece.plan.stages for job in stage]
    touches = [touch for job in jobs for touch in _touches(job)]
    for t in touches:
        what = f"the kernel of {_name(t.job)} leaves its {t.buffer.kind} (instruction {t.access.number}, {t.access.op})"
        _must_contain(_bytes(piece, t.buffer), t.access.bytes, what)
    by_buffer: dict[int, list[_Touch]] = {}
    for t in touches:
        by_buffer.setdefault(id(t.buffer), []).append(t)
    checking = [job for job in jobs if job.group and may_fail(job.group)]
    for own in by_buffer.values():
        _check_order(own, checking)
        _check_common_writes([t for t in own if t.access.op == "store"])
    _check_arena(piece, [own for own in by_buffer.values() if own[0].buffer.kind == "arena"])


def _touches(job: Job) -> Iterator[_Touch]:
    """What a job's kernel touches, read from its argument words."""
    kernel = job.kernel
    assert kernel is not None
    if isinstance(kernel, LoopKernel):
        words, buffers = _numbered(kernel.words)
        for access in nest_accesses(kernel.key, words) if kernel.units else ():
            yield _Touch(job, buffers[access.slot], access)
        return
    if isinstance(kernel, RoutineKernel):
        for buffer, offset, nbytes, is_written in kernel.buffers:
            if nbytes:
                touched = Interval(offset, offset + nbytes - 1)
                yield _Touch(job, buffer, Access(-1, "store" if is_written else "load", 0, touched, (offset,), ()))
        return
    batch, m, n, k = kernel.shape
    shapes: tuple[tuple[int, ...], ...] = ((batch, m, k), (batch, k, n))
    for buffer, (value, offset, strides), shape in zip(kernel.buffers, kernel.views, shapes, strict=True):
        if kernel.spec.b_unit == "panels" and value is kernel.views[1][0]:
            strides, shape = _panelled(strides, shape, kernel.spec.columns, 1)
        elements = _reach_of_view(offset, strides, shape)
        if elements is not None:
            access = Access(-1, "load", 0, _scaled(elements, value.dtype.itemsize), (), ())
            yield _Touch(job, buffer, access)
    words, buffers = _numbered(kernel.words)
    for access in accesses_of(kernel.epilogue.instrs, (batch, m, n, 1), words):
        yield _Touch(job, buffers[access.slot], access)


def _reach_of_view(offset: int, strides: tuple[Any, ...], shape: tuple[int, ...]) -> Interval | None:
    """The elements that an operand of a product covers, by its strides or its digits."""
    if not is_implicit(strides):
        return reach((offset, *strides), shape, {})
    digits = [digit for index in strides for digit in index]
    return reach((offset, *(s for _, s in digits)), [n for n, _ in digits], {})


def _panelled(
    strides: tuple[int, ...], shape: tuple[int, ...], columns: int, unit: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and shape of an operand that lies in panels of ``columns``: a panel, and its columns, ``unit`` apart."""
    (batch, row, column), (count, k, n) = strides, shape
    return (batch, row, columns * column, unit), (count, k, n // columns, columns)


def _numbered(words: Iterable[object]) -> tuple[list[int], list[Buffer]]:
    """Argument words with each buffer's number in the place of its slot, and the buffers."""
    flat: list[int] = []
    buffers: list[Buffer] = []
    for word in words:
        if isinstance(word, BufferArg):
            flat += [len(buffers), word.offset]
            buffers.append(word.buffer)
        else:
            flat.append(word if isinstance(word, int) else 0)
    return flat, buffers


def _name(job: Job) -> str:
    return repr(job.group) if job.group else "a copy"


def _check_order(own: Sequence[_Touch], checking: Sequence[Job]) -> None:
    """One buffer's readers and writers, by stage. A scatter ("store_add") reads what it updates."""
    buffer = own[0].buffer
    reads = [t for t in own if t.access.op != "store"]
    writes = [t for t in own if t.access.op == "store" or t.access.op in COMBINING]
    for r in reads:
        _must(bool(writes) or buffer.kind == "input", f"{_name(r.job)} reads a temporary that nobody writes")
        for w in writes:
            if w.job is not r.job:
                _check_pair(r, w)
            elif buffer.kind == "input" and r is not w:
                same = r.access.op == "load" and r.access.address == w.access.address
                _must(same, f"{_name(r.job)} reads other elements of an input than it overwrites")
    if buffer.kind == "input":
        for w in writes:
            early = all(job.stage < w.job.stage for job in checking)
            _must(early, f"{_name(w.job)} overwrites an input before every index was checked")


def _check_pair(r: _Touch, w: _Touch) -> None:
    """The stages of a reader and another job that writes."""
    kind, reader, writer = r.buffer.kind, r.job, w.job
    who = f"{_name(reader)} reads and {_name(writer)} writes one {kind}"
    _must(reader.stage != writer.stage, f"{who} in the same stage {reader.stage}")
    if kind == "input":
        _must(reader.stage < writer.stage, f"{who}, in stages {reader.stage} and {writer.stage}: too early")
    elif r.access.op not in COMBINING or w.access.op not in COMBINING:
        _must(writer.stage < reader.stage, f"{who}, in stages {reader.stage} and {writer.stage}: too late")


def _check_common_writes(writes: Sequence[_Touch]) -> None:
    """Jobs of one stage that write one buffer (the parts of a cat) write different elements."""
    for n, a in enumerate(writes):
        for b in writes[:n]:
            common = common_position(a.access, b.access) if a.job.stage == b.job.stage else None
            _must(common is None, f"{_name(a.job)} and {_name(b.job)} write the same byte {common} in one stage")


def _check_arena(piece: Piece, touched: Sequence[Sequence[_Touch]]) -> None:
    """Temporaries that are alive in one stage have places of their own."""
    assert piece.plan is not None
    by_stage: dict[int, list[Interval]] = {}
    for own in touched:
        buffer, stages = own[0].buffer, [t.job.stage for t in own]
        place = Interval(buffer.offset, buffer.offset + buffer.nbytes - 1)
        _must(place.first >= 0 and place.last < piece.plan.arena_nbytes, f"a temporary at {place} is outside the arena")
        for stage in range(min(stages), max(stages) + 1):
            by_stage.setdefault(stage, []).append(place)
    for stage, places in by_stage.items():
        places.sort()
        for x, y in itertools.pairwise(places):
            _must(
                x.last < y.first,
                f"temporaries overlap in stage {stage}: [{x.first}, {x.last + 1}) and [{y.first}, {y.last + 1})",
            )


# --- programs ---


def verify_step(piece: Piece, step: NativeStep, jobs: Sequence[Sequence[Job]]) -> Proof:
    """The argument words of each launch touch only what the slots of the step hold. ``jobs``: as ``step.stages``.

    Raises:
        VerifyError: a slot that does not exist, bytes outside of its memory, a wrong number of words or units.
    """
    proof, slots = Proof(), _slots(piece, step)
    for launches, own in zip(step.stages, jobs, strict=True):
        tasks = sum(-(-launch.units // launch.grain) for launch in launches)
        _require(tasks <= MAX_STAGE_TASKS, "link", f"a stage of {tasks} tasks, at most {MAX_STAGE_TASKS} are allowed")
        for launch, job in zip(launches, own, strict=True):
            try:
                _check_launch(launch, job, slots, step, proof)
                _check_places(launch, job, step)
            except ValueError as error:
                raise VerifyError(f"after pass link: {launch.name}: {error}") from error
    PROOF.add(proof)
    return proof


def _slots(piece: Piece, step: NativeStep) -> dict[int, Interval]:
    """Slot -> the bytes behind it, see ``abi.NativeStep``."""
    slots = {n: _bytes(piece, piece.buffers[vid]) for n, vid in enumerate(step.inputs, 1)}
    first = 1 + len(slots)
    slots.update((first + n, Interval(0, nbytes - 1)) for n, (_, nbytes) in enumerate(step.outputs))
    slots[1 + len(slots)] = Interval(0, step.arena_nbytes - 1)
    return slots


def _check_launch(launch: Launch, job: Job, slots: Mapping[int, Interval], step: NativeStep, proof: Proof) -> None:
    first_scalar, scalars = 2 + len(step.inputs) + len(step.outputs), len(step.scalars)
    kernel, words = job.kernel, launch.args
    assert kernel is not None
    _must(launch.units > 0 and launch.grain > 0, f"{launch.units} units in tasks of {launch.grain}")
    if isinstance(kernel, RoutineKernel):
        for buffer, offset, nbytes, _ in kernel.buffers:
            slot, at = _slot_of(buffer, step), offset + (buffer.offset if buffer.kind == "arena" else 0)
            if nbytes:
                _must_contain(slots[slot], Interval(at, at + nbytes - 1), f"a routine's array leaves slot {slot}")
                proof.unproven["routine"] += 1
        return
    if isinstance(kernel, LoopKernel):
        _must(len(words) == kernel.key.words, f"{len(words)} argument words instead of {kernel.key.words}")
        _check_units(kernel.key, words, launch.units)
        instrs, own, accesses = kernel.key.instrs, words, nest_accesses(kernel.key, words)
    else:
        epilogue, (batch, m, n, k) = kernel.epilogue, kernel.shape
        _must(len(words) == GEMM_ARGS + epilogue.words, f"{len(words)} words for a product")
        size = kernel.spec.itemsize
        instrs, own = epilogue.instrs, words[GEMM_ARGS:]
        accesses = accesses_of(instrs, (batch, m, n, 1), own)
        if kernel.windows is not None:
            for at, (first, last) in zip((0, 5), table_bounds(kernel.windows), strict=True):
                place = Interval(words[at + 1] + first * size, words[at + 1] + last * size + size - 1)
                accesses.append(Access(-1, "load", words[at], place, (), ()))
        strided: dict[int, tuple[int, ...]] = {}
        if kernel.windows is None:
            strided = {0: (batch, m, k), 5: (batch, k, n)}
        for at, shape in strided.items():  # Note [GEMM arguments]
            strides = tuple(words[at + 2 : at + 5])
            if at == 5 and kernel.spec.b_unit == "panels":
                strides, shape = _panelled(strides, shape, kernel.spec.columns, size)
            touched = reach((words[at + 1], *strides), shape, {})
            if touched is not None:
                place = Interval(touched.first, touched.last + size - 1)
                accesses.append(Access(-1, "load", words[at], place, (), ()))
    for access in accesses:
        _must(access.slot in slots, f"instruction {access.number} ({access.op}) uses slot {access.slot}")
        what = f"instruction {access.number} ({access.op}) leaves slot {access.slot}"
        _must_contain(slots[access.slot], access.bytes, what)
        proof.proven[access.op if access.number >= 0 else "operand"] += 1
    for i in instrs:
        if i.op == "scalar":
            _must(0 <= own[i.word] - first_scalar < scalars, f"slot {own[i.word]} holds no run-time scalar")


def _check_units(key: NestKey, words: Sequence[int], units: int) -> None:
    """The unit number counts the unit dims, the chunks and the blocks that the words say, see Note [Loop nests].

    Else the outermost index, which is what is left of the number, would run past its extent; or some would be left out.
    """
    extent = words[key.vec]
    block, blocks, chunk, chunks = words[key.vec + 1 : key.vec + 5]
    counted = math.prod(words[: key.units]) * chunks * blocks
    _must(units == counted, f"{units} units instead of {counted}")
    if key.form == "row":
        _must(blocks == 1, f"{blocks} blocks of a row")
    else:
        fits = (blocks - 1) * block < max(extent, 1) <= blocks * block
        _must(fits, f"{blocks} blocks of {block} for {extent} elements")
    _must(bool(key.chunked) or chunks == 1, f"{chunks} chunks of what has none")
    if key.chunked:
        whole = words[key.units] if key.chunked == "seq" else extent
        _must(whole <= chunks * chunk, f"{chunks} chunks of {chunk} for {whole} elements")


def _check_places(launch: Launch, job: Job, step: NativeStep) -> None:
    """Every buffer of the plan stands in its slot, at its offset."""
    kernel = job.kernel
    assert kernel is not None
    at = 0 if isinstance(kernel, LoopKernel | RoutineKernel) else GEMM_ARGS
    for word in kernel.words:
        if isinstance(word, BufferArg):
            place = word.buffer.offset if word.buffer.kind == "arena" else 0
            slot = _slot_of(word.buffer, step)
            what = f"words {at} and {at + 1} should be slot {slot}, offset {place + word.offset}"
            _must(launch.args[at : at + 2] == (slot, place + word.offset), what)
        at += 2 if isinstance(word, BufferArg) else 1


def _slot_of(buffer: Buffer, step: NativeStep) -> int:
    inputs, outputs = list(step.inputs), [vid for vid, _ in step.outputs]
    if buffer.kind == "input":
        return 1 + inputs.index(buffer.vid)
    return 1 + len(inputs) + (outputs.index(buffer.vid) if buffer.kind == "output" else len(outputs))
