"""Running a segment operation by operation, by their NumPy rules.

Owns: ``run_without_kernels``, for segments that were not compiled; ``replay``; and ``compute``, one operation.
Must not know: programs, the trie.
In: a segment, the buffers, the numbers. Out: outputs and writes in their storages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import from_numpy_dtype
from jitgrad.errors import OTHER_THREAD, JitgradError
from jitgrad.events import bump
from jitgrad.ops.aval import Aval, make_aval, row_major
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.probe import probe
from jitgrad.runtime.eager.direct import here, tick
from jitgrad.runtime.eager.instr_runs import INSTR_RUNS
from jitgrad.runtime.eager.kernel import goes_by_steps
from jitgrad.runtime.eager.numpy_rule import is_laid_out, own, run_numpy
from jitgrad.runtime.eager.plan import find_plan
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.user_line import let_through

__all__ = ["compute", "replay", "run_without_kernels", "store"]

Buffers = dict[int, Any]
Numbers = list[int | float]


def run_without_kernels(segment: Segment, buffers: Buffers, scalars: Numbers) -> None:
    """A segment that was not compiled: every operation by its NumPy rule, then the outputs and the writes."""
    bump("fallbacks", len(segment.instrs))
    _finish(segment, _interpret(segment, buffers, scalars), buffers)


def _finish(segment: Segment, values: dict[int, Any], buffers: Buffers) -> None:
    """Outputs and writes."""
    for vid in segment.outputs:
        _keep(segment, vid, values[vid], buffers)
    for vid, owner in segment.writes:
        np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])


def replay(segment: Segment, buffers: Buffers, scalars: Numbers, found: Exception | None = None) -> None:
    """A step found bad data (an index out of range): run the segment again, one operation at a time.

    Nothing has been written to an existing storage yet. The operation that raises in eager mode raises here, with the
    user's line, after the writes that came before it have been done. Where none does, ``found`` is raised: a signal
    handler's exception came in the middle of a step. A matrix that is singular but for rounding (``Op.falls_back``) may
    have a result; then the segment is done.
    """
    values = _interpret(segment, buffers, scalars)
    if found is not None:
        raise found
    if any([instr.op.falls_back for instr in segment.instrs]):
        _finish(segment, values, buffers)
        return
    raise JitgradError("a kernel reported an error that eager execution of the same operations does not have")


def compute(instr: Instr, arrays: list[Any], is_watched: bool = False) -> list[Any]:
    """The operation's results, in memory that nobody else knows: by its NumPy rule; a view is copied."""
    op = instr.op
    if probe.session is not None and not is_watched:
        result: list[Any] = probe.session.call("op", op.name, compute, instr, arrays, True)
        return result
    if op.numpy is None:
        return _copied_views(instr, arrays[0])
    if len(instr.avals) == 1 and op.num_inputs > 0:
        operands = zip(instr.input_avals, arrays, strict=True)
        plan = find_plan(op, [x if aval is None else aval for aval, x in operands], instr.params)
        if plan.is_plain:  # as eager execution does it
            args = [plan.constant(x) if aval is None else x for aval, x in zip(instr.input_avals, arrays, strict=True)]
            return [plan.run_anyhow(args)]
    if goes_by_steps(op):
        operands = zip(instr.input_avals, arrays, strict=True)
        if all([aval is not None and is_laid_out(x, aval) for aval, x in operands]):
            made: list[Any] = find_plan(op, [*instr.input_avals], instr.params).compute(arrays)
            return made
    results = run_numpy(op, arrays, instr.params, instr.avals)
    return [own(r, row_major(a), arrays) for r, a in zip(results, instr.avals, strict=True)]


def _copied_views(instr: Instr, array: Any) -> list[Any]:
    """The window over a row-major source, whatever layout the recorded one had."""
    source = np.ascontiguousarray(array)
    first = instr.input_avals[0]
    assert first is not None
    windows = find_plan(instr.op, [make_aval(first.shape, first.dtype)], instr.params).out_avals
    size = source.itemsize
    return [
        np.ndarray(w.shape, source.dtype, source, w.offset * size, tuple([s * size for s in w.stride])).copy()
        if w.numel  # a view of nothing may begin beyond the end
        else np.empty(w.shape, source.dtype)
        for w in windows
    ]


def store(vid: int, result: Any, aval: Aval, buffers: Buffers) -> None:
    """Into the value's storage, a fresh one if it has none."""
    storage = buffers.get(vid)
    if storage is None:
        storage = buffers[vid] = Storage(max(result.nbytes, 1))
    np.copyto(storage.array(aval), result)


def _interpret(segment: Segment, buffers: Buffers, scalars: Numbers) -> dict[int, Any]:
    """The values that outputs and writes need; the others go as soon as nobody reads them any more.

    If an operation raises, what came before it is kept.
    """
    is_written = bool(segment.writes)  # then no value may lie in an input's memory
    values: dict[int, Any] = {}
    for vid, aval in segment.inputs.items():
        array = buffers[vid].array(aval)
        values[vid] = array.copy() if is_written else array
    layouts: dict[int, Aval | None] = {} if is_written else dict(segment.inputs)
    if not INSTR_RUNS.is_native():
        tick(len(segment.instrs))
    instrs, dead, at = segment.instrs, _last_uses(segment), [0]
    while True:
        if probe.session is None:
            _run_usual(instrs, dead, (values, layouts, scalars), at)
        if at[0] == len(instrs):
            return values
        instr, gone = instrs[at[0]], dead[at[0]]
        try:
            results = _run_one(segment, instr, gone, values, scalars)
        except Exception as error:
            _keep_computed(segment, values, buffers)
            error.add_note(f"in jitgrad operation {instr.op.name!r}, recorded at {instr.where or 'a backward'}")
            raise
        for vid, result, aval in zip(instr.outputs, results, instr.avals, strict=True):
            values[vid] = result
            layouts[vid] = row_major(aval) if result.flags.c_contiguous else None
        for vid in gone:
            values.pop(vid, None)
        at[0] += 1


def _run_usual(instrs: list[Instr], dead: list[list[int]], tables: tuple[Any, ...], at: list[int]) -> None:
    """``run_usual``. What raises is run again by ``_run_one``: its errors are those of eager mode."""
    try:
        INSTR_RUNS.run_usual(here.here, instrs, dead, tables, at)
    except Exception as error:
        let_through(error)


def _run_one(segment: Segment, instr: Instr, dead: list[int], values: dict[int, Any], scalars: Numbers) -> list[Any]:
    """The results of any instruction."""
    try:
        arrays = [
            values[x] if type(x) is int else x.value if type(x) is Const else scalars[x.slot] for x in instr.inputs
        ]
    except KeyError:
        raise RuntimeError(OTHER_THREAD) from None
    if instr.op is COPY_SLICES and instr.inputs[0] in dead and instr.inputs[0] not in segment.inputs:
        return [_written(arrays[0], arrays[1], *instr.params)]
    return compute(instr, arrays)


def _written(whole: Any, part: Any, base: Aval, view: Aval) -> Any:
    """``copy_slices`` into a value that nobody reads any more: as a write through a view, it costs what it writes."""
    if not base.is_contiguous:
        assert COPY_SLICES.numpy is not None
        return COPY_SLICES.numpy(whole, part, base, view)
    size = whole.itemsize
    strides = tuple([s * size for s in view.stride])
    np.ndarray(view.shape, whole.dtype, whole, (view.offset - base.offset) * size, strides)[...] = part
    return whole


def _last_uses(segment: Segment) -> list[list[int]]:
    """Per instruction, the values that nobody needs behind it.

    A value that a later one of the open writes replaces is needed up to that one: if an operation between them raises,
    the storage holds it.
    """
    needed: set[int] = {*segment.outputs, *(vid for vid, _ in segment.writes)}
    made_by: dict[int, tuple[int, ...]] = {}  # the value that replaces it -> values
    latest: dict[int, int] = {}
    for vid, owner in segment.write_log:
        if owner in latest and latest[owner] != vid:
            made_by[vid] = (*made_by.get(vid, ()), latest[owner])
        latest[owner] = vid
    needed.update(latest.values())
    dead = INSTR_RUNS.last_uses(segment.instrs, needed, made_by)
    dead.reverse()
    return dead


def _keep_computed(segment: Segment, values: dict[int, Any], buffers: Buffers) -> None:
    """What came before the operation that raised has happened: outputs that were computed, writes."""
    for vid in segment.outputs:
        if vid in values:
            _keep(segment, vid, values[vid], buffers)
        else:
            buffers.pop(vid, None)
    for vid, owner in segment.write_log:
        if vid in values:
            np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])


def _keep(segment: Segment, vid: int, result: Any, buffers: Buffers) -> None:
    """An output: the array that was computed is its memory, unless some storage waits for it."""
    aval = segment.stored_aval(vid, make_aval(result.shape, from_numpy_dtype(result.dtype)))
    if vid not in buffers and vid not in segment.inputs:
        made = result if result.base is None and aval.is_contiguous else own(result, aval, (result,))
        if is_laid_out(made, aval):
            buffers[vid] = Storage.from_array(made)
            return
    store(vid, result, aval, buffers)
