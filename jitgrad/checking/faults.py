"""Which operation of a segment is computed wrongly.

Owns: ``Fault``, ``find_fault``, ``window_of``.
Must not know: how steps are called.
In: a ``SegmentRun``. Out: the first operation whose value differs from its NumPy rule's beyond rounding.

# Note [Debug plan]
# ~~~~~~~~~~~~~~~~~
# A value inside a fused kernel is in a register, and never in memory. So the segment is compiled once more with
# every value an output: the same passes, the same kernels but for their stores. Then each operation is judged on its
# own: its NumPy rule gets the operands that the kernel had, so no rounding of earlier operations is in the way.
# Where the debug plan is right and the program is wrong, the fault is in what the stores have taken apart. Then the
# values that the wrong result needs are compiled one at a time, each fused with all that it needs: the first that is
# wrong is found by halving. Last, it is computed alone, then with what is before it, and so on, until it is wrong:
# that is the window that the program file repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import widened
from jitgrad.checking.reference import evaluate, operands_of, run_rule, run_wide, terms_in
from jitgrad.checking.rounding import Difference, first_difference, noise_between, operation_noise
from jitgrad.checking.segment_runs import SegmentRun, run_copy
from jitgrad.ops.aval import make_aval
from jitgrad.tracer.recording.graph import Instr, Segment

__all__ = ["Fault", "find_fault", "judge", "window_of"]

_LARGE_VIEW = 1 << 20


@dataclass(frozen=True, slots=True)
class Fault:
    """An operation that is wrong.

    Attributes:
        kind: ``"kernel"`` (wrong by itself), ``"fusion"`` (wrong together with others), ``"write"`` (computed, but not
            what the storage holds) or ``"derivative"`` (its gradient is not that of its values).
        instr: the operation.
        expected, found: its value by the NumPy rule, and as it was computed.
        difference: the worst element.
        window: the fewest operations that show it, as a segment with one output.
        memory: of the window's inputs.
        scalars: of the trace.
    """

    kind: str
    instr: Instr
    expected: Any
    found: Any
    difference: Difference
    window: Segment
    memory: dict[int, Any]
    scalars: list[int | float]


def find_fault(run: SegmentRun) -> Fault | None:
    """The first operation that is wrong, or None."""
    values = evaluate(run.segment, run.inputs(), run.scalars)
    return _wrong_alone(run, values) or _wrong_together(run, values)


def judge(instr: Instr, operands: list[Any], found: list[Any]) -> tuple[Any, Any, Difference] | None:
    """(expected, found, where they differ) of the first result that is not its NumPy rule's of the operands."""
    expected = run_rule(instr, operands)
    for nr, (want, have) in enumerate(zip(expected, found, strict=True)):
        if have is None or np.array_equal(want, have):
            continue
        terms = terms_in(instr, operands, np.asarray(want).size)
        noise = operation_noise(partial(_wide_result, instr, nr), operands, want, terms)
        difference = first_difference(want, have, noise)
        if difference is not None:
            return want, have, difference
    return None


def _wide_result(instr: Instr, nr: int, operands: Sequence[Any]) -> Any:
    return run_wide(instr, operands)[nr]


def _wrong_alone(run: SegmentRun, values: dict[int, Any]) -> Fault | None:
    segment = run.segment
    kept = tuple(
        vid
        for i in segment.instrs
        for vid, aval in zip(i.outputs, i.avals, strict=True)
        if not (i.op.is_view and aval.numel > _LARGE_VIEW)
    )
    if not kept:
        return None
    debug = Segment(segment.instrs, segment.inputs, kept)
    found = run_copy(debug, run.memory, run.scalars)
    known = run.inputs()
    for instr in segment.instrs:
        operands = operands_of(instr, known, run.scalars)
        have = [found.get(vid) for vid in instr.outputs]
        wrong = judge(instr, operands, have)
        if wrong is not None:
            target = next(v for v, h in zip(instr.outputs, have, strict=True) if h is wrong[1])
            return _reduced(_fault("kernel", run, instr, wrong, target), run, values, target)
        for vid, result in zip(instr.outputs, have, strict=True):
            known[vid] = run_rule(instr, operands)[0] if result is None else result
    return None


def _wrong_together(run: SegmentRun, values: dict[int, Any]) -> Fault | None:
    judged = _Judged(run, values)
    results = {**run.outputs, **run.written}
    wrong = [vid for vid, found in results.items() if judged.differs(vid, found) is not None]
    if not wrong:
        return None
    by_vid = {vid: i for i in run.segment.instrs for vid in i.outputs}
    target = min(wrong)
    suspects = [vid for i in window_of(run.segment, [target]).instrs for vid in i.outputs]
    first = _first_wrong(judged, suspects)
    if first is None:
        instr = by_vid.get(target)
        if instr is None:
            return None
        found, difference = results[target], judged.differs(target, results[target])
        assert difference is not None
        return _fault("write", run, instr, (values[target], found, difference), target)
    found = judged.alone(first)
    difference = judged.differs(first, found)
    assert difference is not None
    fault = _fault("fusion", run, by_vid[first], (values[first], found, difference), first)
    return _reduced(fault, run, values, first)


def _fault(kind: str, run: SegmentRun, instr: Instr, wrong: tuple[Any, Any, Difference], target: int) -> Fault:
    return Fault(kind, instr, *wrong, window_of(run.segment, [target]), run.memory, run.scalars)


class _Judged:
    """Values of a segment against those by NumPy's rules, with the rounding of all operations before them.

    Attributes:
        values: by NumPy's rules.
    """

    def __init__(self, run: SegmentRun, values: dict[int, Any]) -> None:
        self._run, self.values = run, values
        inputs = run.inputs()
        self._wide = evaluate(run.segment, inputs, run.scalars, is_wide=True)
        self._moved = [evaluate(run.segment, inputs, run.scalars, np.random.default_rng(seed)) for seed in range(2)]

    def differs(self, vid: int, found: Any) -> Difference | None:
        expected = self.values[vid]
        if np.array_equal(expected, found):
            return None
        moved = [widened(m[vid]) for m in self._moved]
        exact = widened(expected)
        return first_difference(expected, found, noise_between([*moved, self._wide[vid]], exact, expected))

    def alone(self, vid: int) -> Any:
        """The value, compiled with all that it needs and nothing else."""
        window = window_of(self._run.segment, [vid])
        return run_copy(window, self._run.memory, self._run.scalars)[vid]


def _first_wrong(judged: _Judged, suspects: list[int]) -> int | None:
    if judged.differs(suspects[-1], judged.alone(suspects[-1])) is None:
        return None
    low, high = 0, len(suspects) - 1  # the value at ``high`` is wrong
    while low < high:
        middle = (low + high) // 2
        if judged.differs(suspects[middle], judged.alone(suspects[middle])) is None:
            low = middle + 1
        else:
            high = middle
    return suspects[high]


def window_of(segment: Segment, targets: Iterable[int]) -> Segment:
    """The instructions that some values need."""
    wanted, instrs = set(targets), []
    for instr in reversed(segment.instrs):
        if not wanted.isdisjoint(instr.outputs):
            instrs.append(instr)
            wanted.update(v for v in instr.inputs if type(v) is int)
    return _part(segment, instrs[::-1], tuple(targets))


def _part(segment: Segment, instrs: list[Instr], targets: tuple[int, ...]) -> Segment:
    """Some of a segment's instructions; what they need of others is an input, row-major."""
    avals = {vid: aval for i in segment.instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
    made = {vid for i in instrs for vid in i.outputs}
    needed = {v for i in instrs for v in i.inputs if type(v) is int} | set(targets)
    inputs = {
        vid: segment.inputs[vid] if vid in segment.inputs else make_aval(avals[vid].shape, avals[vid].dtype)
        for vid in sorted(needed - made)
    }
    return Segment(instrs, inputs, targets)


def _reduced(fault: Fault, run: SegmentRun, values: dict[int, Any], target: int) -> Fault:
    """The fault with the smallest window that still shows it: one operation, then what is before it, and so on."""
    segment = run.segment
    by_vid = {vid: i for i in segment.instrs for vid in i.outputs}
    chosen = {id(fault.instr)}
    while True:
        part = _part(segment, [i for i in segment.instrs if id(i) in chosen], (target,))
        memory = {vid: run.memory[vid] if vid in run.memory else _memory(values[vid]) for vid in part.inputs}
        inner = SegmentRun(part, None, memory, run.scalars)
        judged = _Judged(inner, evaluate(part, inner.inputs(), run.scalars))
        found = judged.alone(target)
        difference = judged.differs(target, found)
        if difference is not None:
            return replace(
                fault, expected=judged.values[target], found=found, difference=difference, window=part, memory=memory
            )
        before = {id(by_vid[vid]) for vid in part.inputs if vid in by_vid}
        if not before:
            return fault
        chosen |= before


def _memory(array: Any) -> Any:
    return np.frombuffer(bytearray(np.ascontiguousarray(array).tobytes() or b"\0"), np.uint8)
