"""Native steps for eager execution: of one operation, Note [Eager kernels]; of derivative rules, Note [Fused rules].

Owns: ``make_kernel``, ``make_step``, ``make_form``.
Must not know: when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from jitgrad.abi import NativeStep, Program
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.runtime.eager.kernel import ArrayProgram, KernelRequest, StepForm
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.tracer.recording.graph import Instr, RuntimeScalar, Segment

__all__ = ["make_form", "make_kernel", "make_step"]


_known: WeakValueDictionary[Any, LoadedStep] = WeakValueDictionary()
"""Steps that some plan uses. Plans of views that begin elsewhere in a storage ask for the same: rows of a matrix."""


def make_kernel(request: KernelRequest) -> ArrayProgram | None:
    """See ``install_kernels``; None if the operation is not one native step."""
    loaded = _find(request, lambda: _load(_segment(request), f"eager {request.op.name}", "eager_kernels"))
    if loaded is None:
        return None
    step, avals = loaded.step, request.avals
    first = len(avals)
    order = tuple(vid if vid < first else first - 1 - vid for vid in (*step.inputs, *(vid for vid, _ in step.outputs)))
    positions = [i for i, aval in enumerate(avals) if aval is None]
    return ArrayProgram(loaded, order, tuple(positions[slot] for slot, _ in step.scalars))


def make_step(segment: Segment) -> LoadedStep | None:
    """See ``install_kernels``; None if the segment is not one native step."""
    instrs = tuple([(i.op, i.inputs, i.params, i.outputs, i.avals, i.input_avals) for i in segment.instrs])
    key = instrs, tuple(segment.inputs.items()), segment.outputs, tuple(segment.layouts.items())
    return _find(key, lambda: _load(segment, f"rules with {segment.instrs[-1].op.name}", "fused_rules"))


def make_form(segment: Segment) -> StepForm | None:
    """See ``install_kernels``; None if the segment is not one native step. Raises what planning with symbols raises."""
    codegen = open_codegen()
    codegen.install_loops()
    form = codegen.form_for_symbols(segment)
    step = _only_step(form.program)
    if step is None:
        return None

    def load(numbers: Any) -> LoadedStep | None:
        bump("fused_rules")
        made = _only_step(form.filled(numbers))
        return None if made is None else LoadedStep(made, takes_arrays=True)

    return StepForm(step, form.numbers, load, lambda numbers, known: form.check(form.filled(numbers), known))


def _find(key: Any, load: Callable[[], LoadedStep | None]) -> LoadedStep | None:
    """The step that is known by a key, or a new one."""
    try:
        loaded = _known.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return load()
    if loaded is None and (loaded := load()) is not None:
        _known[key] = loaded
    return loaded


def _load(segment: Segment, name: str, counter: str) -> LoadedStep | None:
    """The segment's step, planned and compiled; None if it is not one native step."""
    try:
        codegen = open_codegen()
        codegen.install_loops()
        program = codegen.compile_segment(segment)
    except (CompileError, ImportError) as error:
        log("record", "%s: no kernel: %r", name, error)
        return None
    step = _only_step(program)
    if step is None:
        return None
    bump(counter)
    return LoadedStep(step, takes_arrays=True)


def _only_step(program: Program) -> NativeStep | None:
    """The native step that a program is; None: it has others."""
    step = program.steps[0] if len(program.steps) == 1 else None
    return step if isinstance(step, NativeStep) else None


def _segment(request: KernelRequest) -> Segment:
    """Operands have their positions as value ids, results the numbers that follow."""
    op, avals, numbers, params, outs, targets = request
    slots = iter(range(len(numbers)))
    inputs = [i if aval is not None else RuntimeScalar(s := next(slots), numbers[s]) for i, aval in enumerate(avals)]
    made = tuple(range(len(avals), len(avals) + len(outs)))
    writes = tuple(zip(made, targets, strict=True)) if targets else ()
    return Segment(
        [Instr(op, tuple(inputs), params, made, outs, avals)],
        {i: aval for i, aval in enumerate(avals) if aval is not None},
        () if targets else made,
        writes,
        writes,
        {} if targets else {vid: aval for vid, aval in zip(made, outs, strict=True) if not aval.is_contiguous},
    )
