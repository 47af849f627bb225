"""``explain``: what a compiled function did with one call, what it cost, and what was new.

Owns: ``Explanation``, ``SegmentReport``, ``explain``.
Must not know: how kernels are timed (``kernel_costs.py``), how a page looks (``explain_page.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jitgrad.abi import EagerStep
from jitgrad.compiled.backend import backend
from jitgrad.compiled.explain_changes import what_changed
from jitgrad.events import noting, stats
from jitgrad.lazy import LazyModule
from jitgrad.report.tables import Table
from jitgrad.report.units import nbytes_text, share_text, time_text
from jitgrad.structs import field, struct
from jitgrad.tracer.recording.graph import Instr, Segment, segment_text
from jitgrad.tracer.recording.history import EndEvent

__all__ = ["Explanation", "explain"]

_costs: Any = LazyModule("jitgrad.compiled.kernel_costs")
_page: Any = LazyModule("jitgrad.compiled.explain_page")
_MAX_NAMES = 6
"""So many operations without a kernel are named in a sentence."""


@struct
class SegmentReport:
    """One native call.

    Attributes:
        segment: the recorded operations.
        kernels: names of the kernels it runs, in order.
        notes: why steps were not fused, and which operations run eagerly.
        ended_by: what ended the segment, with the line.
        program: what runs.
    """

    segment: Segment
    kernels: tuple[str, ...]
    notes: tuple[str, ...]
    ended_by: str = ""
    program: Any = None
    measured: Any = None

    @property
    def costs(self) -> list[Any]:
        """A ``KernelCost`` per kernel; measured when first asked for, which takes some milliseconds per kernel."""
        if self.measured is None:
            self.measured = _costs.kernel_costs(self.segment, self.program)
        found: list[Any] = self.measured
        return found

    def without_kernels(self) -> list[Instr]:
        """The operations that NumPy's rules compute."""
        if self.program.interpreted:
            return list(self.segment.instrs)
        return [step.instr for step in self.program.steps if isinstance(step, EagerStep)]

    def table(self) -> Table:
        """The kernels and their costs."""
        header = ("kernel", "does", "lines", "arithmetic", "bytes", "estimated", "measured", "of peak", "of bandwidth")
        rows = [
            (
                f"{nr} {c.form}", " ".join(c.does), " ".join(dict.fromkeys(map(_short, c.lines))),
                f"{c.operations:.3g}", nbytes_text(c.nbytes), time_text(c.estimated_s), time_text(c.measured_s),
                share_text(c.share_of_peak, 1.0), share_text(c.share_of_bandwidth, 1.0),
            )
            for nr, c in enumerate(self.costs)
        ]  # fmt: skip
        return Table("kernels; ' marks operations of a backward", header, rows)

    def borders(self) -> list[str]:
        """Why kernels end where they do: a sentence for each border, with the kernels at its sides."""
        sides: dict[str, list[str]] = {}
        for nr, cost in enumerate(self.costs):
            for why in cost.borders:
                sides.setdefault(why, []).append(str(nr))
        return [f"kernel{'s' * (len(numbers) > 1)} {', '.join(numbers)}: {why}" for why, numbers in sides.items()]

    def to_json(self) -> dict[str, Any]:
        """Everything but the program."""
        kernels = [{name: getattr(c, name) for name in c.__slots__} for c in self.costs]
        return {
            "operations": segment_text(self.segment).splitlines(), "ended_by": self.ended_by, "kernels": kernels,
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [segment_text(self.segment)]
        lines += [f"  kernel {name}" for name in self.kernels]
        lines += [f"  note: {note}" for note in self.notes]
        if self.costs:
            lines += [f"  {line}" for line in self.table().to_text().splitlines()]
            lines += [f"  border: {line}" for line in self.borders()]
        lines.append(f"  ended by: {self.ended_by}")
        return "\n".join(lines)


def _short(line: str) -> str:
    """``train.py:12`` of a longer path; the Node's name goes."""
    place = line.rpartition(" of ")[2]
    return place.replace("\\", "/").rpartition("/")[2]


@struct
class Explanation:
    """What ``explain`` returns: values whose ``str()`` is readable.

    Attributes:
        result: what the function returned.
        segments: one report per segment, in order.
        counters: how much each counter of ``jitgrad.stats()`` rose.
        outside: operation -> how often it ran eagerly, because a trace has no place for its operands or results:
            tensors on another device, sparse ones.
        changes: where the call left the path of the call before, and how: the reason of its misses.
        name: of the function.
        engine_runs: why the engine ran a backward node by node, with the line -> how often.
    """

    result: Any
    segments: list[SegmentReport]
    counters: dict[str, int]
    outside: dict[str, int]
    changes: list[str]
    name: str = "step"
    engine_runs: dict[str, int] = field(default_factory=dict)

    def summary(self) -> list[str]:
        """Sentences: what is unusual about the call, and its line."""
        count = self.counters
        lines = list(self.changes)
        if count["misses"] and not self.changes:
            lines.append(f"{count['misses']} events were recorded for the first time")
        elif count["misses"]:
            lines.append(f"that made {count['misses']} misses, {count['plans']} plans, {count['compiles']} compiles")
        for nr, segment in enumerate(self.segments[:-1]):
            lines.append(f"segment {nr} ended early: {segment.ended_by}")
        for why, times in self.engine_runs.items():
            lines.append(f"{times} backwards were run by the engine node by node: {why}")
        if count["fallbacks"]:
            lines.append(f"{count['fallbacks']} operations ran by NumPy: {self._without_kernels()}")
        return lines

    def _without_kernels(self) -> str:
        """Names and lines of the operations that no kernel computes."""
        names = [f"{i.op.name} at {i.where or i.origin}" for s in self.segments for i in s.without_kernels()]
        found = {**_counted(names), **{f"{name} (outside the trace)": times for name, times in self.outside.items()}}
        shown = [f"{name} ({times} times)" if times > 1 else name for name, times in found.items()]
        more = [f"and {len(shown) - _MAX_NAMES} others"] if len(shown) > _MAX_NAMES else []
        return ", ".join([*shown[:_MAX_NAMES], *more])

    def to_json(self) -> dict[str, Any]:
        """Everything but the result, as what ``json.dumps`` takes."""
        return {
            "name": self.name, "summary": self.summary(), "segments": [s.to_json() for s in self.segments],
            "counters": self.counters, "outside": self.outside, "changes": self.changes,
        }  # fmt: skip

    def to_html(self) -> str:
        """One page that needs nothing else: the step as a drawing, tables, the operations."""
        page: str = _page.page(self)
        return page

    def save(self, path: str | Path) -> None:
        """Write the page."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        parts = self.summary() or ["nothing unusual: no new events, one segment, no operation without a kernel"]
        parts += [f"segment {nr}\n{report}" for nr, report in enumerate(self.segments)]
        if self.outside:
            names = ", ".join(f"{name} {times}" if times > 1 else name for name, times in self.outside.items())
            parts.append(f"outside the trace, run eagerly (other devices, sparse): {names}")
        parts.append("counters " + ", ".join(f"{k}={v}" for k, v in self.counters.items() if v))
        return "\n".join(parts)


def explain(fn: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Call a compiled function once and say what it ran, what that cost, and what was new.

    Segments that would be compiled by a later call (Note [New graphs]) are compiled now, and a call that would run
    eagerly because every recent graph was new is recorded.

    Args:
        fn: what ``jitgrad.compile`` returned.

    Raises:
        TypeError: for anything else.
    """
    fn = getattr(fn, "compiled", fn)
    if not hasattr(fn, "last_path"):
        raise TypeError(f"explain() takes a function decorated with jitgrad.compile, not {fn!r}")
    before, path_before = stats(), fn.last
    fn.look_again()
    with noting() as noted:
        result = fn(*args, **kwargs)
    outside = _counted(noted.outside)
    counters = {name: value - before[name] for name, value in stats().items()}
    reports = []
    for event in fn.last_path():
        if isinstance(event, EndEvent) and event.program is not None:
            if event.is_deferred:
                event.program, event.is_deferred = backend.compile_end(event.segment, fn.trie.plans), False
            program = event.program.program
            reports.append(SegmentReport(event.segment, program.kernel_names, program.notes, event.reason, program))
    changes = what_changed(path_before, fn.last) if counters["misses"] else []  # else it took a path that it knew
    name = getattr(fn, "__name__", "step")
    return Explanation(result, reports, counters, outside, changes, name, _counted(noted.engine_runs))


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in dict.fromkeys(names)}
