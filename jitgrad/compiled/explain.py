"""``explain``: what a compiled function did with one call.

Owns: ``Explanation`` and how it reads.
"""

from __future__ import annotations

from typing import Any

from jitgrad.compiled.backend import backend
from jitgrad.events import is_noting, outside_names, stats
from jitgrad.structs import struct
from jitgrad.tracer.graph import Segment, segment_text
from jitgrad.tracer.history import EndEvent

__all__ = ["Explanation", "explain"]


@struct
class SegmentReport:
    """One native call.

    Attributes:
        segment: the recorded operations.
        kernels: names of the kernels it runs, in order.
        notes: why steps were not fused, and which operations run eagerly.
    """

    segment: Segment
    kernels: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [segment_text(self.segment)]
        lines += [f"  kernel {name}" for name in self.kernels]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@struct
class Explanation:
    """What ``explain`` returns: values whose ``str()`` is readable.

    Attributes:
        result: what the function returned.
        segments: one report per segment, in order.
        counters: how much each counter of ``jitgrad.stats()`` rose.
        outside: operation -> how often it ran eagerly, because a trace has no place for its operands or results:
            complex numbers, or tensors on another device.
    """

    result: Any
    segments: list[SegmentReport]
    counters: dict[str, int]
    outside: dict[str, int]

    def __str__(self) -> str:
        parts = [f"segment {nr}\n{report}" for nr, report in enumerate(self.segments)]
        if self.outside:
            names = ", ".join(f"{name} {times}" if times > 1 else name for name, times in self.outside.items())
            parts.append(f"outside the trace, run eagerly (complex numbers, other devices): {names}")
        parts.append("counters " + ", ".join(f"{k}={v}" for k, v in self.counters.items() if v))
        return "\n".join(parts)


def explain(fn: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Call a compiled function once and tell what it ran.

    Segments that would be compiled by a later call (Note [New graphs]) are compiled now.

    Args:
        fn: what ``jitgrad.compile`` returned.

    Raises:
        TypeError: for anything else.
    """
    if not hasattr(fn, "last_path"):
        raise TypeError(f"explain() takes a function decorated with jitgrad.compile, not {fn!r}")
    before = stats()
    seen = len(outside_names)
    is_noting[0] += 1
    try:
        result = fn(*args, **kwargs)
        outside = _counted(outside_names[seen:])
    finally:
        is_noting[0] -= 1
        del outside_names[seen:]
    counters = {name: value - before[name] for name, value in stats().items()}
    reports = []
    for event in fn.last_path():
        if isinstance(event, EndEvent) and event.program is not None:
            if event.is_deferred:
                event.program, event.is_deferred = backend.compile_end(event.segment), False
            program = event.program.program
            reports.append(SegmentReport(event.segment, program.kernel_names, program.notes))
    return Explanation(result, reports, counters, outside)


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in dict.fromkeys(names)}
