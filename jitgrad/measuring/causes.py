"""Why a warm call of a compiled step is slower than it could be, with the user's lines.

Owns: ``WarmCalls``, ``watch_calls``, ``causes_of``.
Must not know: eager runs, other libraries, how a report is printed.
In: some calls of a compiled function that were made before. Out: what each of them did, and sentences.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from jitgrad.compiled.timed_kernels import TaskLog, finish
from jitgrad.events import logger, noting, stats
from jitgrad.probe import probe
from jitgrad.user_line import user_line

__all__ = ["WarmCalls", "causes_of", "watch_calls"]

_MAX_LINES = 3
"""So many lines of one kind are named."""


@dataclass
class WarmCalls:
    """What some warm calls of a compiled function did.

    Attributes:
        count: how many calls.
        counters: how much each counter of ``jitgrad.stats()`` rose, in all.
        ends: line -> how many segments ended there, but for ends of calls.
        hook_ends: those that ended in hooks and custom functions, while the engine ran a node.
        outside: operation -> how often it ran eagerly, because a trace has no place for it.
        misses: line -> how many events there were new; first the line that a call came to first.
        keys: line -> what was new there, as the recorder's keys.
        reasons: why the engine ran backwards node by node -> how often.
        eager_calls: calls before these, of the timing, that ran eagerly because every recent graph had been new.
        kernel_s, fallback_s, node_s, compile_s: seconds in native code, in operations that ran by NumPy's rules, in
            nodes that the engine ran, in compiling; all calls together.
    """

    count: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    hook_ends: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    keys: dict[str, list[Any]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    eager_calls: int = 0
    kernel_s: float = 0.0
    fallback_s: float = 0.0
    node_s: float = 0.0
    compile_s: float = 0.0

    def per_call(self, name: str) -> float:
        """A counter, per call."""
        return self.counters.get(name, 0) / max(1, self.count)


_WATCHED = frozenset({"segment", "kernel", "op", "node", "compile"})


class _CallWatch:
    """What stands in ``probe.session``: adds up times, and notes at which lines segments end."""

    _FIELDS = {"kernel": "kernel_s", "op": "fallback_s", "node": "node_s", "compile": "compile_s"}  # noqa: RUF012

    def __init__(self, calls: WarmCalls, caller: str) -> None:
        self._calls, self._caller = calls, caller
        self._inside: list[float] = []
        self._native_s: float | None = None
        self._node_lines: list[str] = []  # where the backward was called, of each node that is running

    def enter(self, name: str) -> int:
        return 0

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        pass

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        """Run it; its own time, without that of ranges inside it, is added up."""
        if category not in _WATCHED:  # a queue's work is another thread's
            return function(*args)
        if category == "segment" and (line := user_line()) != self._caller:
            self._segment_ends(line)
        if category == "node":
            self._node_lines.append(user_line())
        self._inside.append(0.0)
        start = time.perf_counter()
        try:
            return function(*args)
        finally:
            duration = time.perf_counter() - start
            if category == "node":
                self._node_lines.pop()
            own = duration - self._inside.pop()
            if self._inside:
                self._inside[-1] += duration
            if category == "kernel" and self._native_s is not None:
                own, self._native_s = self._native_s, None
            where = self._FIELDS.get(category)
            if where is not None:
                setattr(self._calls, where, getattr(self._calls, where) + own)

    def hand_tasks(self, loaded: Any, step: Any, log: TaskLog, first: int) -> None:
        """From a step's first task to its last: what is before and after is Python, which a hit does without."""
        times = log.times(first)
        if times:
            self._native_s = (max(t.end_ns for t in times) - min(t.start_ns for t in times)) * 1e-9

    def _segment_ends(self, line: str) -> None:
        """In a hook the user's line is the hook's; in a node without one it is that of the backward."""
        if not self._node_lines:
            self._calls.ends[line] += 1
        elif line != self._node_lines[-1]:
            self._calls.hook_ends[line] += 1


class _Listener(logging.Filter):
    """Hears the artifact "record" where it is logged, and lets nothing of it through."""

    def __init__(self, calls: WarmCalls, caller: str) -> None:
        super().__init__()
        self._calls, self._caller = calls, caller

    def filter(self, record: logging.LogRecord) -> bool:
        """Note a miss."""
        if record.msg.startswith("miss: ") and record.args:
            line = _line_behind_logging()
            if line != self._caller:
                self._calls.misses[line] += 1
                self._calls.keys.setdefault(line, []).append(_argument(record))
        return False


def _argument(record: logging.LogRecord) -> Any:
    return record.args[0] if type(record.args) is tuple else None


def _line_behind_logging() -> str:
    """The user's line; the frames of the standard library's ``logging`` are no user's."""
    depth = 1
    frame = sys._getframe(depth)
    while frame.f_globals.get("__name__", "").startswith("logging") or frame.f_code.co_filename == __file__:
        depth += 1
        frame = sys._getframe(depth)
    return user_line(depth)


@contextmanager
def watch_calls(calls: WarmCalls, caller: str = "") -> Iterator[None]:
    """Add what the block does to ``calls``.

    Args:
        caller: the user's line that makes the calls: what happens there is the end of a call, and not of interest.

    Raises:
        RuntimeError: a profiler is active.
    """
    if probe.session is not None:
        raise RuntimeError("a profiler is active: benchmark outside of its block")
    before = stats()
    log = logger().getChild("record")
    level, listener = log.level, _Listener(calls, caller)
    log.addFilter(listener)
    log.setLevel(logging.DEBUG)
    watch = _CallWatch(calls, caller)
    probe.session, probe.hand_tasks = watch, watch.hand_tasks
    try:
        with noting() as noted:
            yield
        calls.outside.update(noted.outside)
        calls.reasons.update(noted.engine_runs)
    finally:
        probe.session = probe.hand_tasks = None
        finish()
        log.setLevel(level)
        log.removeFilter(listener)
        for name, value in stats().items():
            calls.counters[name] = calls.counters.get(name, 0) + value - before[name]


def causes_of(calls: WarmCalls) -> list[str]:
    """What costs a warm call time besides its kernels and its Python: a sentence each, with the lines to look at."""
    found = []
    if calls.misses:
        found.append(
            f"NEW GRAPHS: {calls.per_call('misses'):.3g} events per call were not met before, so the step is recorded "
            f"and compiled again and again. First at {_lines(calls.misses)}{_changes(calls)}. A number that is part of "
            "the graph (an exponent, a loop count, a size) changes: make it a tensor, or pass the part as an argument."
        )
    if calls.eager_calls:
        found.append(
            f"RUNS EAGERLY: {calls.eager_calls} calls of the timing were not recorded, because the graph was new at "
            "call after call; see docs/compiled_steps.md."
        )
    if calls.ends:
        outside = ", or because operations run outside of the trace (see NO KERNEL)," if calls.outside else ""
        found.append(
            f"READS: a call is {calls.per_call('segments'):.3g} segments, because values are read on the way "
            f"(.item(), float(), print, if){outside} at {_lines(calls.ends)}. What is before the line and what is "
            "after it cannot be fused: read after the step, or seldom."
        )
    if calls.hook_ends:
        found.append(
            f"A HOOK READS: a hook or a custom function reads values during the backward, at "
            f"{_lines(calls.hook_ends)}: the backward is interrupted there."
        )
    if calls.counters.get("engine_runs"):
        why = "; ".join(calls.reasons) or "hooks, custom functions"
        found.append(
            f"BACKWARD NODE BY NODE: the engine ran {calls.per_call('engine_runs'):.3g} backwards per call node by "
            f"node ({why})."
        )
    if calls.counters.get("fallbacks") and not calls.misses:
        names = ", ".join(name for name, _ in calls.outside.most_common(_MAX_LINES))
        which = f"the most frequent outside of the trace (sparse, on other devices): {names}" if names else (
            "jitgrad.explain(step, ...) names them"
        )
        found.append(f"NO KERNEL: {calls.per_call('fallbacks'):.3g} operations per call ran by NumPy's rules; {which}.")
    return found


def _lines(counted: Counter[str]) -> str:
    shown = list(counted)[:_MAX_LINES]
    more = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {more} more lines" if more > 0 else "")


def _changes(calls: WarmCalls) -> str:
    """What changed at the line that misses first: the operation and two of its parameters, where they differ."""
    line = next(iter(calls.misses))
    named = [(key[0].name, key[2:]) for key in calls.keys[line] if _is_of_operation(key)]
    for (name, first), (other, second) in pairwise(named):
        if name == other and first != second:
            return f": {name} of {_shown(first)}, then {_shown(second)}"
    return f": {named[0][0]} of {_shown(named[0][1])}" if named else ""


def _is_of_operation(key: Any) -> bool:
    return type(key) is tuple and len(key) > 2 and hasattr(key[0], "name")


def _shown(params: tuple[Any, ...]) -> str:
    inner = params[0] if len(params) == 1 and type(params[0]) is tuple else params
    return ", ".join(map(str, inner)) if type(inner) is tuple else str(inner)
