"""The profiler: named ranges of operations, kernels, backward nodes and the user's own code.

Owns: ``profile``, ``record_function``, ``emit_ranges``, and what can be asked of the events.
Must not know: what the functions that it times do.
In: a ``with`` block. Out: events with times, as tables and as a trace for chrome://tracing.

What reports to the profiler, and where: Note [Profiling points].
"""

from __future__ import annotations

import enum
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from jitgrad.door import door
from jitgrad.lazy import LazyModule
from jitgrad.locks import process_lock
from jitgrad.probe import Probe, probe
from jitgrad.tensor_base import TensorBase

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerActivity",
    "emit_ranges",
    "profile",
    "record_function",
]

_timeline: Any = LazyModule("jitgrad.autograd.timeline")
_clock = time.perf_counter_ns
_MAX_KERNELS_IN_A_NAME, _MAX_NAME_WIDTH = 3, 55


class ProfilerActivity(enum.Enum):
    """What to profile; there is one thing."""

    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class FunctionEvent:
    """One range.

    Attributes:
        name: of the operation, the node, the kernels, or as given to ``record_function``.
        category: ``"op"``, ``"node"``, ``"segment"``, ``"kernel"``, ``"compile"``, ``"cache"``, ``"queue"``, ``"wait"``
            or ``"user"``.
        start_ns: when it began, by ``time.perf_counter_ns``.
        duration_ns: how long it took.
        self_ns: of that, not in other ranges inside it.
        thread: the thread's identity.
        depth: how many ranges it is inside of, on its thread.
        input_shapes: of tensor arguments; empty unless asked for.
        kernels: names of the kernels that a native step launched.
    """

    name: str
    category: str
    start_ns: int
    duration_ns: int
    self_ns: int
    thread: int
    depth: int
    input_shapes: tuple[Any, ...] = ()
    kernels: tuple[str, ...] = ()

    @property
    def cpu_time(self) -> float:
        """Microseconds."""
        return self.duration_ns / 1000

    cpu_time_total = cpu_time

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds outside the ranges inside it."""
        return self.self_ns / 1000


@dataclass(slots=True)
class FunctionEventAvg:
    """The ranges of one name (and shapes, if grouped by them) taken together.

    Attributes:
        key: the name.
        count: how many.
        cpu_time_total: microseconds, of all.
        self_cpu_time_total: of that, not in other ranges inside them.
        input_shapes: of the first.
    """

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    input_shapes: tuple[Any, ...] = ()

    @property
    def cpu_time(self) -> float:
        """Microseconds, the mean."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, event: FunctionEvent) -> None:
        """Count one more."""
        self.count += 1
        self.cpu_time_total += event.cpu_time
        self.self_cpu_time_total += event.self_cpu_time_total


class EventList(list[Any]):
    """Events, or averages of them."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """One ``FunctionEventAvg`` per name (and shapes), in order of the first event."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (event.name, event.input_shapes if group_by_input_shape else ())
            found.setdefault(key, FunctionEventAvg(event.name, input_shapes=event.input_shapes)).add(event)
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """Everything taken together."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Averages, as text.

        Args:
            sort_by: ``"count"``, ``"cpu_time"``, ``"cpu_time_total"`` or ``"self_cpu_time_total"``, largest first;
                None: in order of the first event.
            row_limit: at most so many rows.

        Raises:
            ValueError: no such column.
        """
        rows = self if not self or isinstance(self[0], FunctionEventAvg) else self.key_averages()
        if sort_by is not None:
            if sort_by not in ("count", "cpu_time", "cpu_time_total", "self_cpu_time_total"):
                raise ValueError(f"cannot sort by {sort_by!r}")
            rows = EventList(sorted(rows, key=lambda row: getattr(row, sort_by), reverse=True))
        total = rows.self_cpu_time_total
        lines: list[tuple[str, ...]] = [("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")]
        for row in rows[:row_limit]:
            share = 100 * row.self_cpu_time_total / total if total else 0.0
            times = (_time(t) for t in (row.self_cpu_time_total, row.cpu_time_total, row.cpu_time))
            lines.append((_short(row.key), f"{share:.2f}%", *times, str(row.count)))
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        bar = "  ".join("-" * width for width in widths)
        text = ["  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([bar, text[0], bar, *text[1:], bar, f"Self CPU time total: {_time(total)}"])

    def export_chrome_trace(self, path: Any) -> None:
        """Write the events for chrome://tracing or https://ui.perfetto.dev."""
        _timeline.write_trace(path, [_timeline.range_of(event) for event in self], {})


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_WIDTH else name[: _MAX_NAME_WIDTH - 3] + "..."


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1000:.3f}ms" if microseconds >= 1000 else f"{microseconds:.3f}us"


class _Session:
    """What stands in ``probe.session`` and takes the times.

    Attributes:
        begin: called with each range's name; None: nobody asks.
        end: called at its end with (category, subject, arguments, start); the subject is as in ``Probe.call``, or the
            range's name.
        hand_tasks: see ``ProbeSlot.hand_tasks``.
        stamps: see ``ProbeSlot.stamps``.
    """

    def __init__(
        self,
        begin: Callable[[str], None] | None,
        end: Callable[[str, Any, tuple[Any, ...], int], None],
        hand_tasks: Callable[[Any, Any, Any, int], None] | None = None,
        stamps: list[Any] | None = None,
    ) -> None:
        self.begin, self.end, self.hand_tasks, self.stamps = begin, end, hand_tasks, stamps

    def open(self) -> None:
        with _lock:
            if probe.session is not None:
                raise RuntimeError("Profiler is already enabled: only one may be active at a time")
            self._before = door.run_one, door.run_two, door.run_many, door.run_inplace
            one, two, many, inplace = self._before
            door.run_one, door.run_two, door.run_many = self._timed(one), self._timed(two), self._timed(many)
            door.run_inplace = self._timed(inplace, "_")
            probe.stamps, probe.hand_tasks, probe.session = self.stamps, self.hand_tasks, self

    def close(self) -> None:
        with _lock:
            probe.session = probe.hand_tasks = probe.stamps = None
            door.run_one, door.run_two, door.run_many, door.run_inplace = self._before

    def enter(self, name: str) -> int:
        """Begin a range on this thread; returns when."""
        if self.begin is not None:
            self.begin(name)
        return _clock()

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        """End the thread's innermost range."""
        self.end(category, name, args, start)

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        """See ``Probe.call``."""
        if self.begin is not None:
            self.begin(_name(category, subject))
        start = _clock()
        try:
            return function(*args)
        finally:
            self.end(category, subject, args, start)

    def _timed(self, run: Callable[..., Any], suffix: str = "") -> Callable[..., Any]:
        """One of the door's functions, which takes the time."""

        def timed(op: Any, *args: Any) -> Any:
            name = op.name + suffix
            start = self.enter(name)
            try:
                return run(op, *args)
            finally:
                self.end("op", name, (op, *args), start)

        return timed


_lock = process_lock()


def _kernels(step: Any) -> tuple[str, ...]:
    return tuple(launch.name for stage in step.step.stages for launch in stage)


def _kernel_names(step: Any) -> str:
    names = _kernels(step)
    more = f"+{len(names) - _MAX_KERNELS_IN_A_NAME} more" if len(names) > _MAX_KERNELS_IN_A_NAME else ""
    return "kernels " + ", ".join([*names[:_MAX_KERNELS_IN_A_NAME], *filter(None, [more])])


def _segment_name(event: Any) -> str:
    """``segment``; of one that ended before the function did, also why, with the line's file but not its folder."""
    if not event.ends_early:
        return "segment"
    return f"segment to {' '.join(os.path.basename(word) for word in event.reason.split(' '))}"


_NAMES: dict[str, Callable[[Any], str]] = {
    "node": lambda node: node.name(), "kernel": _kernel_names, "segment": _segment_name,
}  # fmt: skip
"""The names of ranges whose subject is no name, by category."""


def _name(category: str, subject: Any) -> str:
    name_of = _NAMES.get(category)
    name: str = subject if name_of is None or type(subject) is str else name_of(subject)
    return name


class profile:
    """``with profile() as prof: ...``, then ``prof.key_averages().table()`` or ``prof.export_chrome_trace(path)``.

    Of the whole process, one at a time. Costs nothing while none is active; ranges are kept as they come, and named and
    nested when they are asked for (``benchmarks/profiling.py`` measures what that costs a step). Of an
    operation on a virtual device the range is what the caller's thread does: putting it into the queue.

    Args:
        enabled: False: do nothing.
        record_shapes: keep the shapes of operations' arguments.
        activities: accepted for PyTorch's sake.
        kernels: time every task of every kernel on its thread, too (``task_events``), for ``export_chrome_trace``.

    Raises:
        RuntimeError: from ``with``: another one is active.
    """

    def __init__(
        self, enabled: bool = True, *, record_shapes: bool = False, activities: Any = None, kernels: bool = False
    ) -> None:
        self.enabled, self.record_shapes, self.kernels = enabled, record_shapes, kernels
        self._timeline: Any = _timeline.Timeline() if kernels else None
        self._ranges: list[Range] = []
        self._stamps: list[Any] = []
        self._session: _Session | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """As at the beginning of the block."""
        if self.enabled:
            hand_tasks = None
            if self._timeline is not None:
                hand_tasks = self._timeline.add
                self._timeline.prepare()
            session = _Session(None, self._add, hand_tasks, self._stamps)
            session.open()
            if self._timeline is not None:
                self._timeline.begin()
            self._session = session

    def stop(self) -> None:
        """As at its end."""
        if self._session is not None:
            if self._timeline is not None:
                self._timeline.end()
            self._session.close()
            self._session = None

    def task_events(self) -> EventList:
        """With ``kernels=True``: a range per task of a kernel, category ``"task"``, on the thread that ran it."""
        return EventList(self._timeline.events(FunctionEvent) if self._timeline is not None else [])

    def _add(self, category: str, subject: Any, args: tuple[Any, ...], start: int) -> None:
        end = _clock()
        if category == "node":
            subject = subject.name()  # a node that is kept would keep its graph
        shapes = _shapes(args) if self.record_shapes and category == "op" else ()
        self._ranges.append((category, subject, start, end, threading.get_ident(), shapes))

    def _forget(self) -> None:
        """Another recording begins."""
        self._ranges, self._stamps = [], []

    @property
    def function_events(self) -> EventList:
        """Every range, in order of its beginning."""
        return EventList(_nested([*self._ranges, *_ranges_of_stamps(self._stamps)]))

    def events(self) -> EventList:
        """``function_events``."""
        return self.function_events

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """See ``EventList.key_averages``."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        """See ``EventList.total_average``."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all ranges."""
        return self.function_events.self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """See ``EventList.table``."""
        return self.key_averages().table(sort_by, row_limit)

    def export_chrome_trace(self, path: Any) -> None:
        """See ``EventList.export_chrome_trace``; with ``kernels=True`` the file is a timeline of all threads."""
        if self._timeline is None:
            self.function_events.export_chrome_trace(path)
        else:
            self._timeline.export(path, self.function_events, self.task_events())

    def __repr__(self) -> str:
        return self.table() if self._ranges or self._stamps else "<profile without events>"


Range: TypeAlias = "tuple[str, Any, int, int, int, tuple[Any, ...]]"
"""Category, subject, start, end, thread, shapes of the operands."""


def _ranges_of_stamps(stamps: list[Any]) -> list[Range]:
    """What the session would have been called with: a segment, and its native step inside."""
    found: list[Range] = []
    for event, program, (start, began, ended, end), thread in stamps:
        if program is not None:
            found.append(("kernel", program.only, began, ended, thread, ()))
        found.append(("segment", event, start, end, thread, ()))
    return found


def _nested(ranges: list[Range]) -> list[FunctionEvent]:
    """Events, in order of their beginning; a range is inside of those of its thread that are open when it begins.

    Of two with the same times the later in the list, which ended later, is outside.
    """
    order = sorted(range(len(ranges)), key=lambda nr: (ranges[nr][2], -ranges[nr][3], -nr))
    own = [end - start for _, _, start, end, _, _ in ranges]
    depths = [0] * len(ranges)
    open_ranges: dict[int, list[int]] = {}
    for nr in order:
        _, _, start, end, thread, _ = ranges[nr]
        outer = open_ranges.setdefault(thread, [])
        while outer and ranges[outer[-1]][3] <= start:
            outer.pop()
        if outer:
            own[outer[-1]] -= min(end, ranges[outer[-1]][3]) - start
        depths[nr] = len(outer)
        outer.append(nr)
    found = []
    for nr in order:
        category, subject, start, end, thread, shapes = ranges[nr]
        kernels = _kernels(subject) if category == "kernel" else ()
        name = _name(category, subject)
        found.append(FunctionEvent(name, category, start, end - start, own[nr], thread, depths[nr], shapes, kernels))
    return found


def _shapes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of a point's operands: a tuple, or (``apply_one``, ``apply_two``) arguments before a tuple of params."""
    inputs: Any = next((arg for arg in args if isinstance(arg, tuple)), ())
    if any(isinstance(arg, TensorBase) for arg in args):
        inputs = [arg for arg in args[1:] if not isinstance(arg, tuple)]
    return tuple(x.shape if isinstance(x, TensorBase) else () for x in inputs)


class record_function:
    """A range of one's own: ``with record_function("load"): ...``, or ``@record_function("load")``.

    Does nothing unless a profiler is active.

    Args:
        name: of the range.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: list[tuple[Probe | None, int]] = []

    def __enter__(self) -> record_function:
        session = probe.session
        self._open.append((session, session.enter(self.name) if session is not None else 0))
        return self

    def __exit__(self, *exception: object) -> None:
        session, start = self._open.pop()
        if session is not None:
            session.leave(self.name, "user", (), start)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapper


@contextmanager
def emit_ranges(push: Callable[[str], Any], pop: Callable[[], Any]) -> Iterator[None]:
    """Tell another profiler: ``push(name)`` and ``pop()`` at the ends of every range, on its thread.

    ``torch.autograd.profiler.emit_nvtx`` for any tool: ``emit_ranges(nvtx.push_range, nvtx.pop_range)``.
    """
    session = _Session(push, lambda *event: pop())
    session.open()
    try:
        yield
    finally:
        session.close()
