"""Which rule programs are one native step, and the segment of such a step.

Owns: ``fuse``, ``RuleStep``.
Must not know: the text of a program, how a segment becomes native (``compiled/eager_kernels.py`` installs that).
In: the values of recorded rules. Out: a native step that takes arrays.

# Note [Fused rules]
# ~~~~~~~~~~~~~~~~~~
# The derivative of ``gelu`` is fourteen operations. One after the other they walk memory fourteen times, and make
# thirteen arrays that nobody needs. The code generator of compiled steps therefore makes one native step of a Node's
# rules, products and reductions among them: it reads the gradient and the saved values, and writes the gradients. That
# takes a millisecond at a kind's first run, less than the kernels of its operations would take. A fused program rounds
# less often than its operations do. So whether a kind of Node has one must depend on the kind alone: operation,
# layouts, params, which gradients are asked for. ``programs_are_due`` says so before the kind first runs (but for Note
# [Ever new shapes]), ``_is_worth_it`` and ``_segment`` once its rules are known; the layouts of gradients and saved
# bools may decide as well, but never what ran before. Rules that read a saved number stay lists of calls: a number that
# is another one in each step would be planned each time. With ``create_graph``, under saved-tensor hooks and while a
# profiler looks, the rules run operation by operation, and their last bits may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.runtime.eager.kernel import step_maker
from jitgrad.runtime.eager.plan import EagerPlan
from jitgrad.structs import struct
from jitgrad.symbols.number import value_of
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar, Segment

__all__ = ["FusedRules", "RuleStep", "StepMaker", "fuse"]

StepMaker: TypeAlias = "Callable[[Segment], Any]"
"""What it makes has the native step as ``step``; None: there is none."""

_LEAST_CALLS = 3
"""So many calls of NumPy's functions cost more than a native step."""


@struct
class RuleStep:
    """One operation of a rule: its plan, its operands (value numbers, or Python numbers in a list), its results."""

    plan: EagerPlan
    operands: tuple[Any, ...]
    results: tuple[int, ...]


@struct
class FusedRules:
    """A native step that computes what the rules compute.

    Attributes:
        step: it takes the arrays of ``inputs``, then those of ``outputs``; and ``numbers``. With symbolic extents what
            gives one for each set of extents, Note [Rule families].
        inputs, outputs: numbers of values.
        numbers: the Python numbers that the rules contain, as the step takes them.
    """

    step: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    numbers: tuple[int | float, ...]


def fuse(
    values: Sequence[Any], leaving: set[int], saves_numbers: bool, make: StepMaker | None = None
) -> FusedRules | None:
    """The step that computes the values ``leaving`` of some rules; None: they stay a list of calls.

    Args:
        values: ``RuleValue``s of a rule recorder, by number.
        leaving: numbers of values; those from outside are not computed.
        saves_numbers: a saved number is a part of the rules.
        make: what makes a native step of a segment, if not the usual maker.
    """
    make = make or step_maker()
    outputs = tuple(sorted(n for n in leaving if values[n].made is not None))
    if make is None or saves_numbers or not outputs:
        return None
    steps = _needed(values, outputs)
    if not _is_worth_it(steps):
        return None
    numbers: list[int | float] = []
    segment = _segment(steps, values, outputs, numbers)
    loaded = None if segment is None else make(segment)
    if loaded is None:
        return None
    step = loaded.step
    taken = tuple(numbers[slot] for slot, _ in step.scalars)
    return FusedRules(loaded, tuple(step.inputs), tuple(vid for vid, _ in step.outputs), taken)


def _needed(values: Sequence[Any], outputs: tuple[int, ...]) -> list[RuleStep]:
    """The operations that lead to some values, in their order."""
    found: dict[int, RuleStep] = {}
    todo = [*outputs]
    while todo:
        made = values[todo.pop()].made
        if made is not None and made.results[0] not in found:
            found[made.results[0]] = made
            todo += [n for n in made.operands if type(n) is int]
    return [found[first] for first in sorted(found)]


def _is_worth_it(steps: list[RuleStep]) -> bool:
    """Whether one step costs less than the calls, Note [Eager kernels]."""
    plans = [step.plan for step in steps if not step.plan.op.is_view]
    if len(plans) >= 2 and any([plan.has_kernel for plan in plans]):
        return True
    return len(plans) >= _LEAST_CALLS


def _segment(
    steps: list[RuleStep], values: Sequence[Any], outputs: tuple[int, ...], numbers: list[int | float]
) -> Segment | None:
    """The steps as the tracer would hand them on; None: some operation has no lowering. Fills ``numbers``."""
    instrs = []
    for step in steps:
        op, params = step.plan.op, step.plan.params
        inputs = [*_inputs(step, numbers)]
        made = tuple([_laid_out(values, n) for n in step.results])
        if None in inputs or any([a.numel == 0 for a in made]):
            return None
        known = tuple([_laid_out(values, x) if type(x) is int else None for x in step.operands])
        if not op.has_lowering(known, params):
            return None
        instrs.append(Instr(op, tuple(inputs), params, step.results, made, known))
    read = sorted({n for step in steps for n in step.operands if type(n) is int and values[n].made is None})
    layouts = {n: a for n in outputs if not (a := _laid_out(values, n)).is_contiguous}
    return Segment(instrs, {n: _laid_out(values, n) for n in read}, outputs, layouts=layouts)


def _inputs(step: RuleStep, numbers: list[int | float]) -> Iterator[Any]:
    """Operands as an instruction has them: a number is an argument, so that kernels serve any; None: it cannot be."""
    for x in step.operands:
        number = x if type(x) is int else x[0]
        kind = type(value_of(number))
        if type(x) is int:
            yield x
        elif kind not in (int, float) or abs(number) >= 2**63:
            yield None
        elif step.plan.op.name == "pow":  # the exponent chooses the formula
            yield Const(number)
        else:
            numbers.append(number)
            yield RuntimeScalar(len(numbers) - 1, kind is float)


def _laid_out(values: Sequence[Any], number: int) -> Aval:
    """A value's aval where its root begins at the first element: an array begins there."""
    root = number
    while values[root].source >= 0:
        root = values[root].source
    aval: Aval = values[number].aval
    return make_aval(aval.shape, aval.dtype, aval.stride, aval.offset - values[root].aval.offset)
