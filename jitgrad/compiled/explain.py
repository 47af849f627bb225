"""``explain``: what a compiled function did with one call, what it cost, and what was new.

Owns: ``Explanation``, ``SegmentReport``, ``explain``.
Must not know: how kernels are timed (``kernel_costs.py``), how a page looks (``explain_page.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jitgrad.compiled.backend import backend
from jitgrad.compiled.explain_changes import what_changed
from jitgrad.events import noting_outside, stats
from jitgrad.lazy import LazyModule
from jitgrad.report.tables import Table
from jitgrad.report.units import nbytes_text, share_text, time_text
from jitgrad.structs import struct
from jitgrad.tracer.graph import Segment, segment_text
from jitgrad.tracer.history import EndEvent

__all__ = ["Explanation", "explain"]

_costs: Any = LazyModule("jitgrad.compiled.kernel_costs")
_page: Any = LazyModule("jitgrad.compiled.explain_page")


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
        """Why kernels end where they do."""
        return [f"kernel {nr}: {why}" for nr, c in enumerate(self.costs) for why in c.borders]

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
            lines += [f"  border of {line}" for line in self.borders()]
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
            complex numbers, or tensors on another device.
        changes: where the call left the path of the call before, and how: the reason of its misses.
        name: of the function.
    """

    result: Any
    segments: list[SegmentReport]
    counters: dict[str, int]
    outside: dict[str, int]
    changes: list[str]
    name: str = "step"

    def summary(self) -> list[str]:
        """Sentences: what is unusual about the call."""
        count = self.counters
        lines = list(self.changes)
        if count["misses"] and not self.changes:
            lines.append(f"{count['misses']} events were recorded for the first time")
        elif count["misses"]:
            lines.append(f"that made {count['misses']} misses, {count['plans']} plans, {count['compiles']} compiles")
        for nr, segment in enumerate(self.segments[:-1]):
            lines.append(f"segment {nr} ended early: {segment.ended_by}")
        if count["engine_runs"]:
            lines.append(f"{count['engine_runs']} backwards were run by the engine node by node (a hook, a Function)")
        if count["fallbacks"]:
            lines.append(f"{count['fallbacks']} operations ran by NumPy")
        return lines

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
        parts = [f"segment {nr}\n{report}" for nr, report in enumerate(self.segments)]
        if self.outside:
            names = ", ".join(f"{name} {times}" if times > 1 else name for name, times in self.outside.items())
            parts.append(f"outside the trace, run eagerly (complex numbers, other devices): {names}")
        parts += self.summary()
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
    fn.skip = 0
    with noting_outside() as names:
        result = fn(*args, **kwargs)
    outside = _counted(names)
    counters = {name: value - before[name] for name, value in stats().items()}
    reports = []
    for event in fn.last_path():
        if isinstance(event, EndEvent) and event.program is not None:
            if event.is_deferred:
                event.program, event.is_deferred = backend.compile_end(event.segment, fn.trie.plans), False
            program = event.program.program
            reports.append(SegmentReport(event.segment, program.kernel_names, program.notes, event.reason, program))
    changes = what_changed(path_before, fn.last)
    return Explanation(result, reports, counters, outside, changes, getattr(fn, "__name__", "step"))


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in dict.fromkeys(names)}
