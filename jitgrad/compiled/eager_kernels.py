"""Programs of one operation, for eager execution, see Note [Eager kernels].

Owns: ``make_kernel``.
Must not know: when they are used.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from jitgrad.abi import NativeStep
from jitgrad.compiled.lazy_codegen import open_codegen
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.runtime.eager.kernel import ArrayProgram, KernelRequest
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.tracer.graph import Instr, RuntimeScalar, Segment

__all__ = ["make_kernel"]


_known: WeakValueDictionary[KernelRequest, LoadedStep] = WeakValueDictionary()
"""Steps that some plan uses. Plans of views that begin elsewhere in a storage ask for the same: rows of a matrix."""


def make_kernel(request: KernelRequest) -> ArrayProgram | None:
    """See ``install_kernels``; None if the operation is not one native step."""
    try:
        loaded = _known.get(request)
    except TypeError:  # a parameter that cannot be hashed
        loaded = _load(request)
    else:
        if loaded is None and (loaded := _load(request)) is not None:
            _known[request] = loaded
    if loaded is None:
        return None
    step, avals = loaded.step, request.avals
    first = len(avals)
    order = tuple(vid if vid < first else first - 1 - vid for vid in (*step.inputs, *(vid for vid, _ in step.outputs)))
    positions = [i for i, aval in enumerate(avals) if aval is None]
    return ArrayProgram(loaded.run, order, tuple(positions[slot] for slot, _ in step.scalars))


def _load(request: KernelRequest) -> LoadedStep | None:
    """The request's step, planned and compiled; None if it is not one native step."""
    segment = _segment(request)
    try:
        codegen = open_codegen()
        codegen.install_loops()
        program = codegen.compile_segment(segment)
    except (CompileError, ImportError) as error:
        log("record", "eager %s keeps its rule: %r", request.op.name, error)
        return None
    step = program.steps[0] if len(program.steps) == 1 else None
    if not isinstance(step, NativeStep):
        return None
    bump("eager_kernels")
    return LoadedStep(step, takes_arrays=True)


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
