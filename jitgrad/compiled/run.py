"""Running a compiled segment.

Owns: buffers of one run, eager steps inside programs, and what happens when a kernel reports an error.
In: an ``EndEvent`` and the recorder's buffers. Out: survivors with storages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.abi import EagerStep, NativeStep, Program
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.errors import JitgradError
from jitgrad.events import bump
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.probe import probe
from jitgrad.runtime.eager.numpy_rule import run_numpy
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import modes_in_use, state
from jitgrad.tracer.graph import Const, Instr, Segment
from jitgrad.tracer.history import EndEvent
from jitgrad.tracer.keys import FRESH, PENDING, VIEW
from jitgrad.version_counter import new_version

__all__ = ["LoadedProgram", "run_end"]


class LoadedProgram:
    """A program ready to run.

    Attributes:
        program: as codegen made it.
        steps: ``LoadedStep`` for native ones, ``EagerStep`` as they are.
        temporaries: value ids that only carry data between steps.
        only: the step, if there is one and it is native.
    """

    __slots__ = ("launches", "only", "program", "segment", "steps", "temporaries")

    def __init__(self, program: Program, segment: Segment) -> None:
        self.program = program
        self.segment = segment
        self.steps = [LoadedStep(s) if isinstance(s, NativeStep) else s for s in program.steps]
        first = self.steps[0] if len(self.steps) == 1 else None
        self.only = first if isinstance(first, LoadedStep) else None
        kept = {vid for vid, _ in program.outputs}
        made = {vid for s in program.steps if isinstance(s, NativeStep) for vid, _ in s.outputs}
        made |= {vid for s in program.steps if isinstance(s, EagerStep) for vid in s.instr.outputs}
        self.temporaries = tuple(made - kept)
        native = [s for s in program.steps if isinstance(s, NativeStep)]
        self.launches = sum(len(stage) for s in native for stage in s.stages)


def run_end(recorder: Any, event: EndEvent, alive: list[Any], is_last: bool = False, is_watched: bool = False) -> None:
    """Run a segment's program and hand out the storages."""
    if probe.session is not None and not is_watched:
        probe.session.call("segment", "segment", run_end, recorder, event, alive, is_last, True)
        return
    buffers = recorder.buffers
    if event.has_pending:
        made: dict[int, Any] = {}
        for handle, how in zip(alive, event.assign, strict=True):
            if how is PENDING:
                first = made.setdefault(handle._vid, handle._storage)
                if first is handle._storage:
                    first.materialize(max(handle._aval.nbytes, 1))
                    buffers[handle._vid] = first
                else:  # two handles on one value, each with views of its own: a saved value's second handle
                    handle._storage.adopt(first)
    loaded = event.program
    if loaded is not None:
        try:
            if loaded.only is not None:
                _run_native(loaded, loaded.only, buffers, recorder.scalars)
            else:
                _run(loaded, buffers, recorder.scalars)
        except BaseException:
            _hand_out(recorder, event, alive, is_last, has_raised=True)
            raise
        recorder.segments += 1
        recorder.launches += loaded.launches
    _hand_out(recorder, event, alive, is_last)


def _hand_out(recorder: Any, event: EndEvent, alive: list[Any], is_last: bool, has_raised: bool = False) -> None:
    """Survivors receive storages; later segments and an escaped graph find them by value id.

    Also where an operation raised, for a step that catches it: what was computed, or written, before has happened.
    """
    buffers = recorder.buffers
    for handle, how in zip(alive, event.assign, strict=True):
        if how is FRESH and (not has_raised or handle._vid in buffers):
            handle._storage = buffers[handle._vid]
        elif how is VIEW:
            buffers[handle._vid] = handle._storage
    if modes_in_use and state.inference_mode:
        _mark_inference(alive, event)
    if not is_last or recorder.graph.tip is not None or event.keeps_graph:
        for vid, owner in event.written:
            buffers[vid] = buffers[owner]
        for vid, root in event.windows:
            if not has_raised or root in buffers:
                buffers[vid] = buffers[root]


def _mark_inference(alive: list[Any], event: EndEvent) -> None:
    """What the segment has made are inference tensors; handles that shared a version counter still do."""
    made = {id(h._vc) for h, how in zip(alive, event.assign, strict=True) if how in (FRESH, PENDING)}
    counters: dict[int, list[int]] = {}
    for handle in alive:
        if id(handle._vc) in made:
            handle._vc = counters.setdefault(id(handle._vc), new_version())


def _run(loaded: LoadedProgram, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    if loaded.program.interpreted:
        _run_without_kernels(loaded, buffers, scalars)
        return
    # what goes from step to step has memory of its own, even if it is another name for what an input's storage holds
    aliases = [(vid, buffers.pop(vid)) for vid in loaded.temporaries if vid in buffers]
    for step in loaded.steps:
        if isinstance(step, LoadedStep):
            _run_native(loaded, step, buffers, scalars)
        else:
            try:
                _run_eager(step.instr, loaded.segment, buffers, scalars)
            except Exception:
                buffers.update(aliases)
                _replay_error(loaded, buffers, scalars)
    for vid in loaded.temporaries:
        buffers.pop(vid, None)
    buffers.update(aliases)


def _run_native(
    loaded: LoadedProgram,
    step: LoadedStep,
    buffers: dict[int, Any],
    scalars: list[int | float],
    is_watched: bool = False,
) -> None:
    if probe.session is not None and not is_watched:
        probe.session.call("kernel", step, _run_native, loaded, step, buffers, scalars, True)
        return
    native = step.step
    addresses = [buffers[v].addr for v in native.inputs]
    for vid, nbytes in native.outputs:
        storage = buffers.get(vid)
        if storage is None:
            storage = buffers[vid] = Storage(nbytes or 1)
        addresses.append(storage.addr)
    values = [scalars[slot] for slot, _ in native.scalars] if native.scalars else ()
    if step.run(addresses, (), values):
        _replay_error(loaded, buffers, scalars)


def _run_eager(instr: Instr, segment: Segment, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    """An operation without a lowering, by its NumPy rule."""
    bump("fallbacks")
    arrays = [
        _operand(x, aval, segment, buffers, scalars) for x, aval in zip(instr.inputs, instr.input_avals, strict=True)
    ]
    for vid, result, aval in zip(instr.outputs, compute(instr, arrays), instr.avals, strict=True):
        _store(vid, result, aval if aval.is_contiguous and not aval.offset else type_aval(aval), buffers)


def _store(vid: int, result: Any, aval: Aval, buffers: dict[int, Any]) -> None:
    """Into the value's storage, a fresh one if it has none."""
    storage = buffers.get(vid)
    if storage is None:
        storage = buffers[vid] = Storage(max(result.nbytes, 1))
    np.copyto(storage.array(aval), result)


def type_aval(aval: Aval) -> Aval:
    """The row-major aval of the same shape and dtype."""
    return make_aval(aval.shape, aval.dtype)


def compute(instr: Instr, arrays: list[Any], is_watched: bool = False) -> list[Any]:
    """The NumPy rule, or for a view operation a copy of the window."""
    op = instr.op
    if probe.session is not None and not is_watched:
        result: list[Any] = probe.session.call("op", op.name, compute, instr, arrays, True)
        return result
    if op.numpy is not None:
        return run_numpy(op, arrays, instr.params, instr.avals)
    source = np.ascontiguousarray(arrays[0])
    first = instr.input_avals[0]
    assert first is not None
    # the window over a row-major source, whatever layout the recorded one had
    windows = op.aval(make_aval(first.shape, first.dtype), *instr.params)
    flat = source.reshape(-1)
    return [
        np.lib.stride_tricks.as_strided(flat[w.offset :], w.shape, tuple(s * w.dtype.itemsize for s in w.stride)).copy()
        for w in (windows if isinstance(windows, tuple) else (windows,))
    ]


def _operand(x: Any, aval: Aval | None, segment: Segment, buffers: dict[int, Any], scalars: list[int | float]) -> Any:
    if isinstance(x, Const):
        return x.value
    if not isinstance(x, int):
        return scalars[x.slot]
    stored = segment.inputs.get(x)
    if stored is None:
        assert aval is not None
        stored = type_aval(aval)
    return buffers[x].array(stored)


def _replay_error(loaded: LoadedProgram, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    """A step found bad data (an index out of range): run the segment again, one operation at a time.

    Nothing has been written to an existing storage yet. The operation that raises in eager mode raises here, with the
    user's line, after the writes that came before it have been done.
    """
    _interpret(loaded.segment, buffers, scalars)
    raise JitgradError("a kernel reported an error that eager execution of the same operations does not have")


def _run_without_kernels(loaded: LoadedProgram, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    """A segment that could not be compiled: every operation by its NumPy rule, then the outputs and the writes."""
    segment = loaded.segment
    bump("fallbacks", len(segment.instrs))
    values = _interpret(segment, buffers, scalars)
    for vid in segment.outputs:
        result = values[vid]
        _store(vid, result, make_aval(result.shape, from_numpy_dtype(result.dtype)), buffers)
    for vid, owner in segment.writes:
        np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])


def _interpret(segment: Segment, buffers: dict[int, Any], scalars: list[int | float]) -> dict[int, Any]:
    """Every value of the segment, by the operations' NumPy rules. If one raises, what came before it is kept."""
    values: dict[int, Any] = {vid: buffers[vid].array(aval).copy() for vid, aval in segment.inputs.items()}
    for instr in segment.instrs:
        arrays = [x.value if isinstance(x, Const) else values[x] if isinstance(x, int) else scalars[x.slot]
                  for x in instr.inputs]  # fmt: skip
        try:
            results = compute(instr, arrays)
        except Exception as error:
            _keep_computed(segment, values, buffers)
            error.add_note(f"in jitgrad operation {instr.op.name!r}, recorded at {instr.where or 'a backward'}")
            raise
        values.update(zip(instr.outputs, results, strict=True))
    return values


def _keep_computed(segment: Segment, values: dict[int, Any], buffers: dict[int, Any]) -> None:
    """What came before the operation that raised has happened: outputs that were computed, writes."""
    for vid in segment.outputs:
        if vid in values:
            _store(vid, values[vid], make_aval(values[vid].shape, from_numpy_dtype(values[vid].dtype)), buffers)
        else:
            buffers.pop(vid, None)
    for vid, owner in segment.write_log:
        if vid in values:
            np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])
