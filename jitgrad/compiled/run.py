"""Running a compiled segment.

Owns: buffers of one run.
Must not know: how operations run one by one (``interpret.py``).
In: an ``EndEvent`` and the recorder's buffers. Out: survivors with storages.
"""

from __future__ import annotations

from typing import Any

from jitgrad.abi import EagerStep, NativeStep, Program
from jitgrad.garbage import without_collections
from jitgrad.lazy import LazyModule
from jitgrad.probe import probe
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import modes_in_use, state
from jitgrad.tracer.recording.graph import Segment
from jitgrad.tracer.recording.history import EndEvent
from jitgrad.tracer.recording.keys import FRESH, PENDING, VIEW
from jitgrad.user_line import let_through
from jitgrad.version_counter import new_version

__all__ = ["LoadedProgram", "run_end", "run_program"]

_timed: Any = LazyModule("jitgrad.compiled.timed_kernels")
_eager_steps: Any = LazyModule("jitgrad.compiled.eager_steps")  # few segments have one
_one_by_one: Any = LazyModule("jitgrad.compiled.interpret")  # few segments run operation by operation


class LoadedProgram:
    """A program ready to run.

    Attributes:
        program: as codegen made it.
        steps: ``LoadedStep`` for native ones, ``LoadedEagerStep`` for the others.
        temporaries: value ids that only carry data between steps.
        only: the step, if there is one and it is native.
        plan: the ``KnownPlan`` that equal segments take their programs from, Note [Known plans]; or None.
        is_stand_in: the segment is not compiled yet, Note [New graphs].
    """

    __slots__ = ("is_stand_in", "launches", "only", "plan", "program", "segment", "steps", "temporaries")

    def __init__(self, program: Program, segment: Segment, plan: Any = None, is_stand_in: bool = False) -> None:
        self.plan, self.is_stand_in = plan, is_stand_in
        self.program = program
        self.segment = segment
        self.steps = [
            LoadedStep(s) if isinstance(s, NativeStep) else _eager_steps.LoadedEagerStep(s, segment)
            for s in program.steps
        ]
        first = self.steps[0] if len(self.steps) == 1 else None
        self.only = first if isinstance(first, LoadedStep) else None
        kept = {vid for vid, _ in program.outputs}
        made = {vid for s in program.steps if isinstance(s, NativeStep) for vid, _ in s.outputs}
        made |= {vid for s in program.steps if isinstance(s, EagerStep) for vid in s.instr.outputs}
        self.temporaries = tuple(made - kept)
        native = [s for s in program.steps if isinstance(s, NativeStep)]
        self.launches = sum([sum(s.flat.form.stages if s.flat else map(len, s.stages)) for s in native])


def run_end(recorder: Any, event: EndEvent, alive: list[Any], is_last: bool = False, is_watched: bool = False) -> None:
    """Run a segment's program and hand out the storages."""
    if probe.session is not None and not is_watched:
        probe.session.call("segment", event, run_end, recorder, event, alive, is_last, True)
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
            run_program(loaded, buffers, recorder.scalars)
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


def run_program(loaded: LoadedProgram, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    """Compute a segment's outputs. ``buffers``: value id -> storage, of its inputs; the outputs are added."""
    if loaded.only is not None:
        _run_native(loaded, loaded.only, buffers, scalars)
    else:
        _run(loaded, buffers, scalars)


def _run(loaded: LoadedProgram, buffers: dict[int, Any], scalars: list[int | float]) -> None:
    if loaded.program.interpreted:
        without_collections(_one_by_one.run_without_kernels, loaded.segment, buffers, scalars)
        return
    # what goes from step to step has memory of its own, even if it is another name for what an input's storage holds
    aliases = [(vid, buffers.pop(vid)) for vid in loaded.temporaries if vid in buffers]
    for step in loaded.steps:
        if isinstance(step, LoadedStep):
            if _run_native(loaded, step, buffers, scalars):
                break
        else:
            try:
                step.run(buffers, scalars)
            except Exception as error:
                let_through(error)  # a signal handler's: to run everything again would only take longer
                buffers.update(aliases)
                _one_by_one.replay(loaded.segment, buffers, scalars, error)
    for vid in loaded.temporaries:
        buffers.pop(vid, None)
    buffers.update(aliases)


def _run_native(
    loaded: LoadedProgram,
    step: LoadedStep,
    buffers: dict[int, Any],
    scalars: list[int | float],
    is_watched: bool = False,
) -> bool:
    """Whether the step found bad data, and the whole segment has been done operation by operation instead."""
    if probe.session is not None and not is_watched:
        return bool(probe.session.call("kernel", step, _run_native, loaded, step, buffers, scalars, True))
    native = step.step
    addresses = [buffers[v].addr for v in native.inputs]
    for vid, nbytes in native.outputs:
        storage = buffers.get(vid)
        if storage is None:
            storage = buffers[vid] = Storage(nbytes or 1)
        addresses.append(storage.addr)
    values = [scalars[slot] for slot, _ in native.scalars] if native.scalars else ()
    hand_tasks = probe.hand_tasks
    if hand_tasks is not None:
        status, log, first = _timed.run_timed(step, addresses, values)
        hand_tasks(loaded, step, log, first)
    else:
        status = step.run(addresses, (), values)
    if status:
        _one_by_one.replay(loaded.segment, buffers, scalars)
    return bool(status)
