"""The backend of the recorder: where the tracer, codegen and the runtime meet.

Owns: ``backend``, the one object that does for recorders what their level must not know.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from jitgrad.abi import NativeStep, Program
from jitgrad.compiled.backward.backward import record_backward, repeat_backward
from jitgrad.compiled.backward.reach import reached_leaves
from jitgrad.compiled.end_plan import end_plan
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.compiled.nodes.graph_nodes import saved_vids, savers
from jitgrad.compiled.nodes.node_making import NodeMakingRecorder
from jitgrad.compiled.nodes.trace_graph import TraceGraph
from jitgrad.compiled.run import LoadedProgram, run_end, run_program
from jitgrad.config import config
from jitgrad.dispatch import apply_elsewhere
from jitgrad.door import door
from jitgrad.dtypes import DType
from jitgrad.errors import CompileError
from jitgrad.events import bump, bump_outside, logger
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval, own_layout
from jitgrad.ops.table import OPS, Op
from jitgrad.probe import probe
from jitgrad.runtime.eager.eager import check_inplace, checked_plan, split_args
from jitgrad.runtime.eager.overlap import check_no_overlap
from jitgrad.runtime.engine.graph.copy_slices import check_writable, creation_meta_of
from jitgrad.runtime.engine.graph.creation_meta import CreationMeta
from jitgrad.runtime.engine.graph.current import current_graph_task
from jitgrad.runtime.engine.graph.op_node import backward_plan
from jitgrad.runtime.engine.graph.saved_variable import check_no_inference
from jitgrad.runtime.engine.run.request import execute_request
from jitgrad.runtime.storage.memory import release_cached
from jitgrad.runtime.storage.storage import Storage, root_of
from jitgrad.state import switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.graph import Instr, Segment
from jitgrad.tracer.recording.recorder_state import RUNNING

if TYPE_CHECKING:
    from jitgrad.compiled.known_plans import KnownPlan
    from jitgrad.tracer.recording.renumbered import Renumbered

__all__ = ["backend"]

_files: Any = LazyModule("jitgrad.checking.failure_file")
_forks: Any = LazyModule("jitgrad.compiled.extents.forks")
_known_plans: Any = LazyModule("jitgrad.compiled.known_plans")  # the first plan brings it
_renumbered: Any = LazyModule("jitgrad.tracer.recording.renumbered")

Plans: TypeAlias = "MutableMapping[Any, KnownPlan]"
"""Of one function: key -> plan, see Note [Known plans]."""


def _inplace_elsewhere(op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """An in-place operation on tensors that are not on the CPU: it runs now."""
    bump_outside(op.name)
    return door.run_inplace(op, targets, inputs, params)


def _eagerly(function: Callable[..., Any], *args: Any) -> Any:
    """Outside the trace, on the real memory."""
    recorder = switch_handler(None)
    try:
        return function(*args)
    finally:
        switch_handler(recorder)


_LARGE_ARENA_NBYTES = 8 << 20


class _Backend:
    """See ``tracer.recorder.Backend``."""

    __slots__ = ()

    def compile_end(self, segment: Segment, plans: Plans) -> LoadedProgram:
        """Plan and compile a segment, unless its plan is among the known ``plans``."""
        numbered = _renumbered.Renumbered(segment)
        loaded = _known(numbered, plans)
        if loaded is not None:
            return loaded
        if probe.session is not None:
            return probe.session.call("compile", "compile", self._compile, numbered, plans)
        return self._compile(numbered, plans)

    @staticmethod
    def _compile(numbered: Renumbered, plans: Plans) -> LoadedProgram:
        """Codegen and the native parts come with the first segment, Note [Lazy codegen]."""
        codegen = open_codegen()
        codegen.install_loops()
        bump("plans")
        try:
            program = codegen.compile_segment(numbered.segment)
        except CompileError as error:
            return LoadedProgram(_without_kernels(numbered.segment, error), numbered.segment)
        finally:
            codegen.install_hits()  # after the kernels: the call waits for these, Note [Builders]
        if max([s.arena_nbytes for s in program.steps if isinstance(s, NativeStep)], default=0) >= _LARGE_ARENA_NBYTES:
            release_cached()  # blocks that calls left which ran operation by operation: the arena takes their place
        plan = plans[numbered.key] = _known_plans.KnownPlan(program, numbered)
        return LoadedProgram(program, numbered.segment, plan)

    @staticmethod
    def copied_path(recorder: Any, given: Any, kind: Any = None) -> Any:
        """The node of an event that has none yet, by Note [Path families]; None if it is to be recorded."""
        return _forks.copied_path(recorder, given, kind, RUNNING)

    @staticmethod
    def will_derive(recorder: Any) -> bool:
        """Whether the path of the call that is ending will be known for all extents then, by the same Note."""
        return not config.same_bits and bool(_forks.will_derive(recorder))

    @staticmethod
    def note_path(recorder: Any) -> None:
        """A call has recorded something new, and ends: see the same Note."""
        if not config.same_bits:
            _forks.note_path(recorder)

    @staticmethod
    def copied_program(recorder: Any, end: Any) -> Any:
        """The program of a segment that was not compiled when it was recorded, by the same Note; or None."""
        return _forks.copied_program(recorder.trie, end)

    @staticmethod
    def backward_eagerly(request: Any) -> Any:
        """A backward that is none of the step's, see Note [Interrupts]."""
        return _eagerly(execute_request, request)

    @staticmethod
    def end_plan(recorder: Any, event: Any, alive: list[Any]) -> Any:
        """What hits of a segment's end do; None if they take the general way."""
        return end_plan(recorder, event, alive)

    @staticmethod
    def defer_end(segment: Segment, plans: Plans) -> LoadedProgram:
        """A stand-in that runs the segment operation by operation, unless its plan is among the known ``plans``."""
        loaded = _known(_renumbered.Renumbered(segment), plans) if plans else None
        if loaded is not None:
            return loaded
        if config.builders:  # the sooner they begin with the native hits, the better
            open_codegen().install_hits()
        stand_in = _interpreted(segment, "not compiled yet: every recent graph was new")
        return LoadedProgram(stand_in, segment, is_stand_in=True)

    @staticmethod
    def may_stop() -> bool:
        """Whether no backward of this thread holds on to the recorder."""
        return current_graph_task() is None

    @staticmethod
    def cast_after(instr: Instr, dtype: DType) -> tuple[tuple[Instr, ...], Instr]:
        """The instruction, then a cast of its output to ``dtype``; (both, the cast)."""
        aval = instr.avals[0]
        out = make_aval(aval.shape, dtype)
        cast = Instr(OPS["_to_copy"], instr.outputs, (dtype,), (instr.outputs[-1] + 1,), (out,), (aval,),
                     instr.requires_grad, (instr.requires_grad,), instr.where)  # fmt: skip
        return (instr, cast), cast

    @staticmethod
    def saved_inputs(op: Op, needs: tuple[bool, ...]) -> tuple[int, ...]:
        """Positions of the inputs that a Node would save."""
        return backward_plan(op, needs).inputs

    @staticmethod
    def check_saved(op: Op, inputs: tuple[Any, ...], needs: tuple[bool, ...]) -> None:
        """Raise for an inference tensor among the inputs that a Node would save."""
        for i in backward_plan(op, needs).inputs:
            if isinstance(inputs[i], TensorBase):
                check_no_inference(inputs[i])

    @staticmethod
    def copy_instr(vid: int, fresh: int, aval: Aval) -> Instr:
        """A copy of a value, outside the graph."""
        return Instr(OPS["clone"], (vid,), (), (fresh,), (own_layout(aval),), (aval,), False, (False,))

    @staticmethod
    def alias_instr(vid: int, fresh: int, aval: Aval) -> Instr:
        """A second value id for a value."""
        return Instr(OPS["detach"], (vid,), (), (fresh,), (aval,), (aval,))

    @staticmethod
    def check_write(op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """What ``inplace_eagerly`` would refuse, before the trace hears of it."""
        _eagerly(checked_plan, op, targets, *split_args(op, args))

    @staticmethod
    def inplace_eagerly(op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """An in-place operation outside the trace."""
        inputs, params = split_args(op, args)
        _eagerly(door.run_inplace, op, targets, inputs, params)

    eagerly = staticmethod(_eagerly)

    run = staticmethod(run_end)
    run_program = staticmethod(run_program)
    apply_elsewhere = staticmethod(apply_elsewhere)
    inplace_elsewhere = staticmethod(_inplace_elsewhere)
    pending_storage = staticmethod(Storage.pending)
    root_of = staticmethod(root_of)
    check_no_overlap = staticmethod(check_no_overlap)
    check_inplace = staticmethod(check_inplace)
    check_writable = staticmethod(check_writable)
    creation_meta_of = staticmethod(creation_meta_of)
    metas_without_grad = CreationMeta.NO_GRAD_MODE, CreationMeta.INFERENCE_MODE
    split_args = staticmethod(split_args)
    saved_vids = staticmethod(saved_vids)
    savers = staticmethod(savers)
    node_making = staticmethod(NodeMakingRecorder)
    reached_leaves = staticmethod(reached_leaves)
    record_backward = staticmethod(record_backward)
    repeat_backward = staticmethod(repeat_backward)


def _known(numbered: Renumbered, plans: Plans) -> LoadedProgram | None:
    """A segment's program by the plan of an equal one, see Note [Known plans]."""
    plan = plans.get(numbered.key)
    if plan is None:
        return None
    bump("known_plans")
    return LoadedProgram(plan.program_of(numbered), numbered.segment, plan)


def _without_kernels(segment: Segment, error: CompileError) -> Program:
    """What cannot be compiled runs slowly, and says so; it is never the user's error."""
    path = _files.write_refusal(segment, error)
    logger().warning(
        "%d operations run without kernels; please report this, with the file %s: %s", len(segment.instrs), path, error
    )
    return _interpreted(segment, f"runs without kernels: {error}")


def _interpreted(segment: Segment, note: str) -> Program:
    return Program([], tuple((vid, 0) for vid in segment.outputs), (), (note,), {}, True)


backend = _Backend()


CallGraph.kind = TraceGraph
