"""``verify``: a step eagerly and compiled, from the same state, and the first value that differs.

Owns: ``verify``, ``Verification``, ``VerifyReport``, ``VerificationError``, ``VerifiedFunction``.
Must not know: how faults are located in a segment (``faults.py``), how a state is copied (``step_state.py``).

# Note [Verified steps]
# ~~~~~~~~~~~~~~~~~~~~~
# 1. Eager runs: one as it is, two in which every result is moved by a unit in its last place. How far these are apart
#    is how far rounding may carry each result and each tensor of the state (Note [Rounding noise]).
# 2. Compiled calls, until nothing is new: what hits do is what is judged. The last is watched (``segment_runs.py``).
# 3. Each segment is held against NumPy's rules (Note [Debug plan]). That finds what codegen does wrong.
# 4. If the results or the state differ and no segment is wrong, the fault is in what was recorded or found: the log of
#    the eager run and the path in the trie are laid side by side, and the first operation that differs is named.
# The state is put back before every run and at the end.
"""

from __future__ import annotations

import difflib
import functools
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import ArrayFacts, facts_of, widened
from jitgrad.checking.eager_log import EagerCall, log_operations
from jitgrad.checking.failure_file import write_failure
from jitgrad.checking.faults import Fault, find_fault
from jitgrad.checking.program_file import write_program
from jitgrad.checking.reference import evaluate, what_is, where_is
from jitgrad.checking.rounding import Difference, first_difference, noise_between
from jitgrad.checking.rules import wrong_rule
from jitgrad.checking.segment_runs import SegmentRun, SegmentWatch, observing, watch_segments
from jitgrad.checking.step_state import StepState, named_tensors
from jitgrad.compile import CompiledFunction, eager
from jitgrad.config import config
from jitgrad.errors import JitgradError
from jitgrad.runtime.eager.plan import plans
from jitgrad.tracer.recording.graph import Const, Instr

__all__ = ["Verification", "VerificationError", "VerifiedFunction", "VerifyReport", "verify"]

_MOVED_RUNS = 2


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What ``verify`` found; true if nothing is wrong.

    Attributes:
        kind: empty if nothing is wrong; ``"kernel"``, ``"fusion"``, ``"write"``, ``"derivative"`` (see ``Fault``);
            ``"recorded"``: the path in the trie holds another operation than the step does, or other numbers;
            ``"state"``: a result or a tensor of the state differs, and no operation was found that does;
            ``"error"``: the compiled step raises and the eager one does not, or the other way round.
        operation: the name of the first operation that is wrong.
        where: ``file:line`` of the user's statement; of a backward, of its forward.
        what: the operation in words, with the Node of a backward.
        expected, found: statistics of its value, eagerly and compiled.
        difference: the worst element, in words.
        outside: names of results and tensors of the state that differ after the step.
        program: the file that repeats it, if there is one.
        checked: how many operations were held against their NumPy rules.
    """

    kind: str = ""
    operation: str = ""
    where: str = ""
    what: str = ""
    expected: ArrayFacts | None = None
    found: ArrayFacts | None = None
    difference: str = ""
    outside: tuple[str, ...] = ()
    program: Path | None = None
    checked: int = 0

    def __bool__(self) -> bool:
        return not self.kind

    def __str__(self) -> str:
        if not self.kind:
            return f"verified: {self.checked} operations, and all results and tensors of the step, agree"
        lines = [f"{_HEADS[self.kind]}: {self.what}"]
        if self.expected is not None and self.found is not None:
            lines += [f"  eager     {self.expected}", f"  compiled  {self.found}"]
        lines += [f"  {self.difference}"] if self.difference else []
        lines += [f"  differs after the step: {', '.join(self.outside)}"] if self.outside else []
        lines += [f"  repeated by: python {self.program}"] if self.program is not None else []
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The attributes, as what ``json.dumps`` takes."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        for name in ("expected", "found"):
            plain[name] = plain[name] and plain[name].to_json()
        return {**plain, "program": self.program and str(self.program), "outside": list(self.outside)}


_HEADS = {
    "kernel": "wrong in its kernel",
    "fusion": "wrong where it is fused with others",
    "write": "computed rightly, but not what was stored",
    "derivative": "wrong derivative rule",
    "recorded": "what was recorded is not what the step does",
    "state": "differs after the step",
    "error": "raises in one mode only",
}


class VerificationError(JitgradError):
    """A step that was compiled with ``verify`` is wrong. ``report``: see ``VerifyReport``."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(slots=True)
class _Outcome:
    """One run of a step. tensors: of the result and the state; error: what it raised."""

    tensors: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None


@dataclass(frozen=True)
class Verification:
    """How a step is verified. Call it like ``verify``.

    Args:
        folder: where program files and reports go; made when there is something to write.
        derivatives: hold derivative rules against differences of values, too. Eager execution uses the same rules, so
            comparing the two modes says nothing of them.
        data: let a report of an error have the values of the step's tensors in it.
        calls: how many compiled calls there are before the one that is watched.
    """

    folder: str | Path = "jitgrad-verify"
    derivatives: bool = False
    data: bool = False
    calls: int = 3

    def __call__(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> VerifyReport:
        """Verify one call of a step; see ``verify``."""
        return _Trial(self, step, args, kwargs).run()


def verify(step: Callable[..., Any], *args: Any, **kwargs: Any) -> VerifyReport:
    """Run a step eagerly and compiled, from the same state, and name the first value that differs beyond rounding.

    The state - tensors, modules, optimizers, generators that the step and its arguments reach - is put back: the call
    has not happened. Some ten times the time of an eager call, and memory for a copy of every value. For a wrong
    operation, a program that repeats it is written to the folder ``jitgrad-verify``, with the arrays it reads;
    for a step that raises only when compiled, a report without data. ``Verification`` has options.

    Args:
        step: a function, compiled or not. What it has recorded before is used, so that a wrong hit is found.

    Returns:
        A ``VerifyReport``: true if nothing is wrong, its ``str`` a text for people.

    Raises:
        RuntimeError: a profiler is active.
        Exception: what the step raises in both modes.
    """
    return Verification()(step, *args, **kwargs)


class _Trial:
    """One verification."""

    def __init__(
        self, options: Verification, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.options, self.args, self.kwargs = options, args, kwargs
        site = step.compiled if isinstance(step, VerifiedFunction) else step
        self.site = site if isinstance(site, CompiledFunction) else CompiledFunction(site)
        self.state = StepState(self.site, args, kwargs)
        self.name = getattr(self.site, "__name__", "step").strip("<>")

    def run(self) -> VerifyReport:
        try:
            return self._run()
        finally:
            self.state.restore()

    def _run(self) -> VerifyReport:
        log, eager_run = self._eagerly(None)
        moved = [self._eagerly(seed) for seed in range(_MOVED_RUNS)] if eager_run.error is None else []
        plain = [self._outcome(self.site) for _ in range(self.options.calls)]
        with watch_segments() as runs:
            watched = self._outcome(self.site)
        for other in (*plain, watched):
            if (other.error is None) is not (eager_run.error is None):
                return self._one_raises(eager_run, other)
        for run in runs:
            fault = find_fault(run)
            if fault is not None:
                return self._report(fault)
        if eager_run.error is not None:
            raise eager_run.error
        checked = sum(len(run.segment.instrs) for run in runs)
        outside = _differing(eager_run, [o for _, o in moved], (*plain, watched))
        if outside:
            return self._side_by_side(log, [entries for entries, _ in moved], runs, outside, eager_run)
        if self.options.derivatives:
            for run in runs:
                fault = wrong_rule(run)
                if fault is not None:
                    return self._report(fault)
        return VerifyReport(checked=checked)

    def _eagerly(self, seed: int | None) -> tuple[list[EagerCall], _Outcome]:
        """NumPy's rules only: a kernel of an eager operation would have the fault of a compiled one."""
        before, config.eager_kernels = config.eager_kernels, -1
        plans.clear()
        try:
            # while the slot of the profiler is taken, derivative rules run operation by operation
            with eager(), observing(SegmentWatch(_as_it_is)), log_operations(seed) as log:
                return log, self._outcome(self.site.fn)
        finally:
            config.eager_kernels = before
            plans.clear()

    def _outcome(self, fn: Callable[..., Any]) -> _Outcome:
        self.state.restore()
        try:
            result = fn(*self.args, **self.kwargs)
        except Exception as error:
            return _Outcome(error=error)
        return _Outcome(named_tensors(self.site, self.args, self.kwargs, result))

    def _one_raises(self, eager_run: _Outcome, other: _Outcome) -> VerifyReport:
        error = other.error or eager_run.error
        assert error is not None
        which = "compiled" if other.error is not None else "eagerly"
        place = traceback.extract_tb(error.__traceback__)
        user = [f for f in place if "/jitgrad/" not in f.filename.replace("\\\\", "/")]
        where = f"{user[-1].filename}:{user[-1].lineno}" if user else ""
        tensors = named_tensors(self.site, self.args, self.kwargs, None)
        path = write_failure(Path(self.options.folder), self.site, error, tensors, self.options.data)
        what = f"{type(error).__name__} only {which}, at {where}: {error}"
        return VerifyReport("error", type(error).__name__, where, what, program=path)

    def _report(self, fault: Fault) -> VerifyReport:
        name = f"{self.name}_{fault.instr.op.name}"
        program = None
        if fault.kind in ("kernel", "fusion"):
            program = write_program(fault, Path(self.options.folder), name)
        return VerifyReport(
            fault.kind, fault.instr.op.name, where_is(fault.instr), what_is(fault.instr), facts_of(fault.expected),
            facts_of(fault.found), str(fault.difference), program=program,
        )  # fmt: skip

    def _side_by_side(
        self,
        log: list[EagerCall],
        moved: list[list[EagerCall]],
        runs: list[SegmentRun],
        outside: tuple[str, ...],
        eager_run: _Outcome,
    ) -> VerifyReport:
        recorded = [(i, [values[v] for v in i.outputs], run.scalars) for run, values in _values(runs)
                    for i in run.segment.instrs]  # fmt: skip
        matcher = difflib.SequenceMatcher(None, [_key(c) for c in log], [_key_of(i) for i, _, _ in recorded], False)
        for a, b, count in matcher.get_matching_blocks():
            for nr in range(count):
                call, (instr, values, scalars) = log[a + nr], recorded[b + nr]
                others = [m[a + nr].results if len(m) == len(log) else call.results for m in moved]
                wrong = _differs(call, values, others)
                if wrong is not None:
                    return VerifyReport(
                        "recorded", call.op.name, call.where, _numbers_in_words(call, instr, scalars),
                        facts_of(wrong[0]), facts_of(wrong[1]), str(wrong[2]), outside,
                    )  # fmt: skip
        maker = _maker_of(runs, [eager_run.tensors[name] for name in outside if name in eager_run.tensors])
        if maker is not None:
            what = f"{what_is(maker)}: right where each run is looked at, wrong where it is not"
            return VerifyReport("state", maker.op.name, where_is(maker), what, outside=outside)
        for tag, a, a_end, b, b_end in matcher.get_opcodes():
            if tag != "equal" and a < a_end:
                call = log[a]
                has = ", ".join(what_is(i) for i, _, _ in recorded[b:b_end][:3]) or "nothing"
                what = f"{call.op.name} at {call.where}, where the recorded path has {has}"
                return VerifyReport("recorded", call.op.name, call.where, what, outside=outside)
        return VerifyReport("state", what=", ".join(outside), outside=outside)


def _as_it_is(recorder: Any, event: Any, run: Callable[[], Any]) -> Any:
    return run()


def _values(runs: list[SegmentRun]) -> list[tuple[SegmentRun, dict[int, Any]]]:
    return [(run, evaluate(run.segment, run.inputs(), run.scalars)) for run in runs]


def _maker_of(runs: list[SegmentRun], wanted: list[Any]) -> Instr | None:
    """The operation that has made one of some arrays, in segments that ran rightly."""
    for run in runs:
        by_vid = {vid: i for i in run.segment.instrs for vid in i.outputs}
        for vid, array in (*run.outputs.items(), *run.written.items()):
            for want in wanted:
                if (
                    vid in by_vid
                    and want.shape == array.shape
                    and np.allclose(widened(want), widened(array), rtol=1e-4, atol=1e-6)
                ):
                    return by_vid[vid]
    return None


def _key(call: EagerCall) -> tuple[Any, ...]:
    """What an operation of the eager run shares with that of the recorded path: its place, and what it makes."""
    shapes = tuple(None if r is None else r.shape for r in call.results)
    return call.op.name, call.node or call.where, shapes


def _key_of(instr: Instr) -> tuple[Any, ...]:
    node = "" if instr.where else instr.origin.partition(" of ")[0]
    return instr.op.name, node or instr.where, tuple(a.shape for a in instr.avals)


def _numbers_in_words(call: EagerCall, instr: Instr, scalars: list[int | float]) -> str:
    """The operation, and the Python numbers that are not the same."""
    held = tuple(x.value if type(x) is Const else scalars[x.slot] for x in instr.inputs if type(x) is not int)
    held = tuple(x for x in held if type(x) in (int, float))
    text = f"{call.op.name} at {call.where}"
    if held != call.numbers:
        text += f": the step says {call.numbers}, the recorded path has {held}"
    return text


def _differs(call: EagerCall, values: list[Any], others: list[tuple[Any, ...]]) -> tuple[Any, Any, Difference] | None:
    for nr, (want, have) in enumerate(zip(call.results, values, strict=False)):
        if want is None or want.dtype.kind == "c" or np.array_equal(want, have):
            continue
        difference = _beyond(want, have, [o[nr] for o in others if nr < len(o) and o[nr] is not None])
        if difference is not None:
            return want, have, difference
    return None


def _beyond(want: Any, have: Any, moved: list[Any]) -> Difference | None:
    wide = [widened(m) for m in moved if m.shape == want.shape]
    return first_difference(want, have, noise_between(wide, widened(want), want))


def _differing(eager_run: _Outcome, moved: list[_Outcome], others: tuple[_Outcome, ...]) -> tuple[str, ...]:
    """Names of tensors that are not the same after an eager and a compiled run."""
    names: dict[str, None] = {}
    for other in others:
        for name, want in eager_run.tensors.items():
            have = other.tensors.get(name)
            if (
                have is None
                or want.dtype != have.dtype
                or _beyond(want, have, [m.tensors[name] for m in moved if name in m.tensors])
            ):
                names[name] = None
        names.update((name, None) for name in other.tensors if name not in eager_run.tensors)
    return tuple(names)


class VerifiedFunction:
    """A compiled function whose first calls are verified: ``jitgrad.compile(verify=...)``.

    Attributes:
        compiled: the compiled function.
        num_left: how many calls are still to be verified; -1: every call is.
    """

    def __init__(self, compiled: CompiledFunction, calls: bool | int | Verification) -> None:
        functools.update_wrapper(self, compiled, updated=())
        self.compiled = compiled
        self._options = calls if isinstance(calls, Verification) else Verification()
        self.num_left = -1 if calls is True or isinstance(calls, Verification) else int(calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Verify the call, then do it; VerificationError if it is wrong."""
        if self.num_left:
            self.num_left -= self.num_left > 0
            report = self._options(self, *args, **kwargs)
            if not report:
                raise VerificationError(report)
        return self.compiled(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def last_path(self) -> list[Any]:
        """See ``CompiledFunction.last_path``."""
        return self.compiled.last_path()
