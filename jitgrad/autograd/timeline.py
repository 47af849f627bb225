"""The timeline of a profiled block, for https://ui.perfetto.dev and chrome://tracing.

Owns: ``Timeline``, ``write_trace``.
Must not know: how tasks are timed (``compiled/timed_kernels.py``).
In: ranges, and when each task of a kernel ran. Out: the trace format of Chrome, as JSON.

Every thread is a track: segments, operations, backward nodes, compiles, cache reads, work of a device's queue, waiting
for it, and the user's own ranges as they nest; tasks of kernels on the threads that ran them. Kernels are named by what
they do. What lies between the outermost ranges of the thread that profiles is Python, with the recording of compiled
steps in it; it is a range of the category ``"python"``, so that the outermost ranges of that track add up to the
block's time. Between the tasks of a segment lies what its program costs besides, and waiting for other threads.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, TypeAlias

from jitgrad.compiled.kernel_costs import kernel_labels
from jitgrad.compiled.timed_kernels import TaskLog, finish, prepare

__all__ = ["Timeline", "range_of", "write_trace"]

_clock = time.perf_counter_ns


class Timeline:
    """What a profiler with ``kernels=True`` collects besides ranges."""

    def __init__(self) -> None:
        self._logs: dict[int, tuple[Any, Any, TaskLog]] = {}
        self._labels: dict[int, tuple[Any, list[str]]] = {}
        self._blocks: list[tuple[int, int, int]] = []  # (thread, start, end)
        self._start = 0

    def prepare(self) -> None:
        """Compile what times tasks, or read it from the cache; before anything is timed."""
        prepare()

    def begin(self) -> None:
        """The block begins on this thread."""
        self._start = _clock()

    def end(self) -> None:
        """It ends."""
        self._blocks.append((threading.get_ident(), self._start, _clock()))
        finish()

    def add(self, loaded: Any, step: Any, log: TaskLog, first: int) -> None:
        """A native step has run, and written to a log, from row ``first`` on; hits will add rows."""
        self._logs.setdefault(id(log), (loaded, step, log))  # named later: that takes planning

    def events(self, event_class: Any) -> list[Any]:
        """A range per task."""
        found = []
        for loaded, step, log in self._logs.values():
            names = self._names(loaded, step)
            for row in log.times():
                duration = row.end_ns - row.start_ns
                found.append(event_class(names[row.launch], "task", row.start_ns, duration, duration, row.thread, 0))
        return sorted(found, key=lambda event: event.start_ns)

    def _names(self, loaded: Any, step: Any) -> list[str]:
        plain = [launch.name for stage in step.step.stages for launch in stage]
        if id(loaded) not in self._labels:
            self._labels[id(loaded)] = loaded, kernel_labels(loaded.segment, loaded.program)
        labels = self._labels[id(loaded)][1]
        native = [s for s in loaded.steps if hasattr(s, "step")]
        before = sum(len(stage) for s in native[: native.index(step)] for stage in s.step.stages)
        own = labels[before : before + len(plain)]
        return own if len(own) == len(plain) else plain

    def export(self, path: Any, events: Any, tasks: Any) -> None:
        """Write the file."""
        gaps: list[Range] = [
            (thread, "Python and recording", "python", a, b - a, {})
            for thread, start, end in self._blocks
            for a, b in _gaps(events, thread, start, end)
        ]
        own = {thread: "the profiled thread" for thread, _, _ in self._blocks}
        write_trace(path, [*gaps, *map(range_of, events), *map(range_of, tasks)], own)


Range: TypeAlias = "tuple[int, str, str, int, int, dict[str, Any]]"
"""Thread, name, category, start and duration in nanoseconds, arguments."""


def range_of(event: Any) -> Range:
    """What a file says of a ``FunctionEvent``."""
    found = {"Input Dims": event.input_shapes, "kernels": event.kernels}
    arguments = {name: value for name, value in found.items() if value}
    return event.thread, event.name, event.category, event.start_ns, event.duration_ns, arguments


def write_trace(path: Any, ranges: list[Range], own: dict[int, str]) -> None:
    """Write ranges in Chrome's trace format.

    Threads get small numbers, in the order of ``own`` and ``ranges``: Perfetto's trace processor keeps 32 bits of what
    the file has, which are the same for several of Python's identities, and drops ranges of one track that overlap.

    Args:
        own: names of threads; others have those that ``threading`` knows.
    """
    numbers = {thread: nr for nr, thread in enumerate(dict.fromkeys([*own, *(r[0] for r in ranges)]), 1)}
    names = {thread.ident: thread.name for thread in threading.enumerate()} | own
    pid = os.getpid()
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": nr, "args": {"name": names.get(thread, f"thread {nr}")}}
        for thread, nr in numbers.items()
    ]
    for thread, name, category, start, duration, arguments in ranges:
        rows.append({
            "ph": "X", "name": name, "cat": category, "ts": start / 1000, "dur": duration / 1000, "pid": pid,
            "tid": numbers[thread], "args": arguments,
        })  # fmt: skip
    with open(path, "w") as file:
        json.dump({"traceEvents": rows, "displayTimeUnit": "ns"}, file)


def _gaps(events: Any, thread: int, start: int, end: int) -> list[tuple[int, int]]:
    """What the outermost ranges of a thread leave of a block."""
    found, at = [], start
    for event in sorted((e for e in events if e.thread == thread and e.depth == 0), key=lambda e: e.start_ns):
        if event.start_ns >= end:
            break
        if event.start_ns > at:
            found.append((at, event.start_ns))
        at = max(at, event.start_ns + event.duration_ns)
    if end > at:
        found.append((at, end))
    return found
