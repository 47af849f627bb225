"""Counters and logs: what jitgrad did, for users, tests and ``explain``.

Owns: the counters behind ``jitgrad.stats()`` and the ``JITGRAD_LOG`` artifacts.
Must not know: anything above level 0.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.locks import process_lock

__all__ = [
    "CALLS",
    "CALL_LIMIT",
    "COUNTERS",
    "bump",
    "bump_call",
    "bump_outside",
    "count",
    "is_logged",
    "is_noting",
    "log",
    "logger",
    "noting_outside",
    "outside_names",
    "reset_stats",
    "stats",
]

COUNTERS: dict[str, str] = {
    "traces": "calls of compiled functions that recorded",
    "hits": "recorded events found in the trie",
    "misses": "recorded events that grew the trie",
    "segments": "programs run",
    "plans": "segments planned (simplified, fused, lowered)",
    "known_plans": "segments that took the plan of an equal one of the same function",
    "compiles": "kernels compiled by LLVM",
    "launches": "kernel launches",
    "implicit_products": "products compiled whose operands are windows of an image, never in memory as matrices",
    "cache_reads": "kernels loaded from the disk cache",
    "cache_writes": "kernels stored in the disk cache",
    "fallbacks": "operations of a compiled step that ran eagerly",
    "engine_runs": "backwards of a compiled step that the engine ran node by node (hooks, custom Functions, ...)",
    "outside_backwards": "backwards outside of the compiled call that made the graph, each run as one program",
    "long_calls": "calls that recorded so much that was new that they ran on eagerly",
    "eager_calls": "calls of compiled functions that ran eagerly because every recent graph had been new",
    "eager_kernels": "kernels made for eager operations, one per operation and layouts",
    "rule_programs": "derivative rules of eager nodes made straight lists of calls, one per kind of node",
    "promotions": "Python numbers promoted to run-time scalars",
    "evictions": "trie paths, programs or kernels dropped to stay within bounds",
}

_values: dict[str, int] = dict.fromkeys(COUNTERS, 0)
_lock = process_lock()
CALL_LIMIT = 1 << 20
"""More segments or launches than this of one call are not packed."""
CALLS: list[int] = []
"""Of calls without misses that are not added up yet: (events * ``CALL_LIMIT`` + segments) * ``CALL_LIMIT`` + launches.
One int each: equal calls, as most are, are added up together."""
_MAX_CALLS = 1000
_DEBUG = 10  # of ``logging``, which may not be imported yet
_logging = LazyModule("logging")
_loggers: dict[str, Any] = {}


def bump(name: str, by: int = 1) -> None:
    """Add to a counter. Cheap enough for once a call, not for once an operation: sum up first."""
    with _lock:
        _values[name] += by


outside_names: list[str] = []
"""Of operations that a trace has no place for, as they run; while ``is_noting`` says so."""
is_noting = [0]


def bump_outside(name: str) -> None:
    """Count an operation of a compiled step that has no place in its trace, and runs eagerly."""
    bump("fallbacks")
    if is_noting[0]:
        outside_names.append(name)


@contextmanager
def noting_outside() -> Iterator[list[str]]:
    """The names of the operations of the block that ``bump_outside`` counts; the list is filled at its end."""
    names: list[str] = []
    seen = len(outside_names)
    is_noting[0] += 1
    try:
        yield names
    finally:
        is_noting[0] -= 1
        names += outside_names[seen:]
        del outside_names[seen:]


def bump_call(events: int, misses: int, segments: int, launches: int) -> None:
    """Count one call of a compiled function. Calls are added up later: this is the hot path."""
    if misses or segments >= CALL_LIMIT or launches >= CALL_LIMIT:
        with _lock:
            _add_calls(1, events - misses, misses, segments, launches)
        return
    CALLS.append((events * CALL_LIMIT + segments) * CALL_LIMIT + launches)
    if len(CALLS) >= _MAX_CALLS:
        with _lock:
            _add_up()


def _add_up() -> None:
    """Move the calls into the counters; under the lock."""
    calls = CALLS[:]
    del CALLS[: len(calls)]  # others may have appended meanwhile
    for call, times in Counter(calls).items():  # most steps repeat
        rest, launches = divmod(call, CALL_LIMIT)
        events, segments = divmod(rest, CALL_LIMIT)
        _add_calls(times, events, 0, segments, launches)


def _add_calls(times: int, hits: int, misses: int, segments: int, launches: int) -> None:
    """Count so many equal calls; under the lock."""
    _values["traces"] += times
    _values["hits"] += times * hits
    _values["misses"] += times * misses
    _values["segments"] += times * segments
    _values["launches"] += times * launches


def stats() -> dict[str, int]:
    """A snapshot of every counter since the start or the last ``reset_stats()``."""
    with _lock:
        _add_up()
        return dict(_values)


def reset_stats() -> None:
    """Set every counter to zero."""
    with _lock:
        CALLS.clear()
        for name in _values:
            _values[name] = 0


@contextmanager
def count(name: str) -> Iterator[Callable[[], int]]:
    """``with count("compiles") as compiles: ...; compiles()`` is how much the counter rose inside."""
    start = stats()[name]
    end: list[int] = []
    try:
        yield lambda: (end[0] if end else stats()[name]) - start
    finally:
        end.append(stats()[name])


def is_logged(artifact: str) -> bool:
    """Whether anybody reads the artifact: asked before a text is made that costs more than the work it describes."""
    return "logging" in sys.modules and bool(_logger_of(artifact).isEnabledFor(_DEBUG))


def log(artifact: str, message: str, *args: object) -> None:
    """Log under ``jitgrad.<artifact>`` (see ``config.LOGS`` for the artifacts)."""
    if "logging" in sys.modules:  # without it, no handler can exist
        (_loggers.get(artifact) or _logger_of(artifact)).debug(message, *args)


def _logger_of(artifact: str) -> Any:
    """The artifact's logger; ``logging`` takes a lock to find one."""
    found = _loggers.get(artifact)
    if found is None:
        found = _loggers[artifact] = logger().getChild(artifact)
    return found


def logger() -> Any:
    """The ``logging.Logger`` of jitgrad: what concerns users who asked for no artifact, as warnings."""
    return _logging.getLogger("jitgrad")
