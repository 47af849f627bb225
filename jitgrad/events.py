"""Counters and logs: what jitgrad did, for users, tests and ``explain``.

Owns: the counters behind ``jitgrad.stats()`` and the ``JITGRAD_LOG`` artifacts.
Must not know: anything above level 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.locks import process_lock

__all__ = ["CALLS", "COUNTERS", "bump", "bump_call", "count", "is_logged", "log", "logger", "reset_stats", "stats"]

COUNTERS: dict[str, str] = {
    "traces": "calls of compiled functions that recorded",
    "hits": "recorded events found in the trie",
    "misses": "recorded events that grew the trie",
    "segments": "programs run",
    "plans": "segments planned (simplified, fused, lowered)",
    "compiles": "kernels compiled by LLVM",
    "launches": "kernel launches",
    "cache_reads": "kernels loaded from the disk cache",
    "cache_writes": "kernels stored in the disk cache",
    "fallbacks": "operations of a compiled step that ran eagerly",
    "engine_runs": "backwards of a compiled step that the engine ran node by node (hooks, custom Functions, ...)",
    "outside_backwards": "backwards outside of the compiled call that made the graph, each run as one program",
    "long_calls": "calls that recorded so much that was new that they ran on eagerly",
    "eager_calls": "calls of compiled functions that ran eagerly because every recent graph had been new",
    "promotions": "Python numbers promoted to run-time scalars",
    "evictions": "trie paths, programs or kernels dropped to stay within bounds",
}

_values: dict[str, int] = dict.fromkeys(COUNTERS, 0)
_lock = process_lock()
CALLS: list[tuple[int, int, int, int]] = []
"""(events, misses, segments, launches) of calls that are not added up yet."""
_MAX_CALLS = 1000
_DEBUG = 10  # of ``logging``, which may not be imported yet
_logging = LazyModule("logging")
_loggers: dict[str, Any] = {}


def bump(name: str, by: int = 1) -> None:
    """Add to a counter. Cheap enough for once a call, not for once an operation: sum up first."""
    with _lock:
        _values[name] += by


def bump_call(events: int, misses: int, segments: int, launches: int) -> None:
    """Count one call of a compiled function. Calls are added up later: this is the hot path."""
    CALLS.append((events, misses, segments, launches))
    if len(CALLS) >= _MAX_CALLS:
        with _lock:
            _add_up()


def _add_up() -> None:
    """Move the calls into the counters; under the lock."""
    calls = CALLS[:]
    del CALLS[: len(calls)]  # others may have appended meanwhile
    _values["traces"] += len(calls)
    for events, misses, segments, launches in calls:
        _values["hits"] += events - misses
        _values["misses"] += misses
        _values["segments"] += segments
        _values["launches"] += launches


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
