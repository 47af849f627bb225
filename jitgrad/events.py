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
from jitgrad.user_line import user_line

__all__ = [
    "CALLS",
    "CALL_LIMIT",
    "COUNTERS",
    "NATIVE_BACKWARDS",
    "Noted",
    "bump",
    "bump_call",
    "bump_engine_run",
    "bump_outside",
    "count",
    "is_logged",
    "is_noting",
    "log",
    "logger",
    "noting",
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
    "families": "plans for all extents, Note [Program families]",
    "lent_programs": "programs and paths for extents that are near to those that they were made for, Note [Advice]",
    "family_programs": "programs that took such a plan: their segments differ from a known one in extents alone",
    "path_families": "paths derived for all extents, Note [Path families]",
    "copied_paths": "stretches of such paths that were copied, not recorded",
    "equal_turns": "parts of a long loop that took the plan of an equal part, Note [Equal turns]",
    "compiles": "kernels compiled by LLVM",
    "built_beside": "of these, by processes beside this one, Note [Builders]",
    "launches": "kernel launches",
    "implicit_products": "products compiled whose operands are windows of an image, never in memory as matrices",
    "products_in_regions": "of these, those that leave out terms of padding, Note [Regions of a product]",
    "long_products": "products of a sum that became one product, in plans: a gradient of a weight that is used often",
    "tall_products": "products by one right operand that became one, in plans: those of inputs of all steps of a loop",
    "scatters_in_place": "scatters that update the storage they are written to, in plans, Note [Scatters in place]",
    "kernels_alike": "kernels that took the loops of one of their plan that does the same elsewhere: turns of a loop",
    "shared_panels": "products whose right operand was laid out once for several of them, in plans: a recurrent weight",
    "tuned": "classes of matrix products whose register tiles were timed, Note [Measured tiles]",
    "tuned_reads": "classes whose times were read from the disk cache",
    "cache_reads": "kernels loaded from the disk cache",
    "cache_writes": "kernels stored in the disk cache",
    "fallbacks": "operations of a compiled step that ran eagerly",
    "engine_runs": "backwards of a compiled step that the engine ran node by node (hooks, custom Functions, ...)",
    "nodeless_backwards": "recorded backwards that needed no Nodes, Note [Backward without Nodes]",
    "copied_rules": "of their instructions, those whose rules had been recorded before, Note [Rule templates]",
    "outside_backwards": "backwards outside of the compiled call that made the graph, each run as one program",
    "summed_backwards": "of these, by kernels that added to the sums of other calls' gradients, Note [Sums of calls]",
    "long_calls": "calls that recorded so much that was new that they ran on eagerly",
    "left_calls": "calls that ran on eagerly from their first new operation on, as recent graphs had been new",
    "eager_calls": "calls of compiled functions that ran eagerly because every recent graph had been new",
    "eager_kernels": "kernels made for eager operations, one per operation and layouts",
    "rule_programs": "derivative rules of eager nodes made straight lists of calls, one per kind of node",
    "fused_rules": "of these, native steps: made for large nodes, one per rule and layouts",
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
NATIVE_BACKWARDS = [0, 0]
"""``outside_backwards`` and ``summed_backwards`` that native code has run, ever: nobody else adds to these numbers."""
_OF_NATIVE_BACKWARDS = ("outside_backwards", "summed_backwards")
_DEBUG = 10  # of ``logging``, which may not be imported yet
_logging = LazyModule("logging")
_loggers: dict[str, Any] = {}


def bump(name: str, by: int = 1) -> None:
    """Add to a counter. Cheap enough for once a call, not for once an operation: sum up first."""
    with _lock:
        _values[name] += by


class Noted:
    """What a counter does not say, of the block of ``noting``; filled at its end.

    Attributes:
        outside: names of the operations that ``bump_outside`` counted.
        engine_runs: why the engine ran backwards, with the line, of each that ``bump_engine_run`` counted.
    """

    __slots__ = ("engine_runs", "outside")

    def __init__(self) -> None:
        self.outside: list[str] = []
        self.engine_runs: list[str] = []


_noted = Noted()
is_noting = [0]
"""How many blocks of ``noting`` there are; ``_noted`` is filled while there is one."""


def bump_outside(name: str) -> None:
    """Count an operation of a compiled step that has no place in its trace, and runs eagerly."""
    bump("fallbacks")
    if is_noting[0]:
        _noted.outside.append(name)


def bump_engine_run(reason: str) -> None:
    """Count a backward of a compiled step that the engine runs node by node."""
    bump("engine_runs")
    log("fusion", "backward is run by the engine: %s", reason)
    if is_noting[0]:
        _noted.engine_runs.append(f"{reason}, at {user_line()}")


@contextmanager
def noting() -> Iterator[Noted]:
    """Keep the names and reasons behind the counters of the block."""
    found = Noted()
    pairs = (found.outside, _noted.outside), (found.engine_runs, _noted.engine_runs)
    seen = [len(all_of) for _, all_of in pairs]
    is_noting[0] += 1
    try:
        yield found
    finally:
        is_noting[0] -= 1
        for (own, all_of), before in zip(pairs, seen, strict=True):
            own += all_of[before:]
            del all_of[before:]


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
        native = zip(_OF_NATIVE_BACKWARDS, NATIVE_BACKWARDS, strict=True)
        return {**_values, **{name: _values[name] + count for name, count in native}}


def reset_stats() -> None:
    """Set every counter to zero."""
    with _lock:
        CALLS.clear()
        for name in _values:
            _values[name] = 0
        _values.update({n: -count for n, count in zip(_OF_NATIVE_BACKWARDS, NATIVE_BACKWARDS, strict=True)})


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
    """Log under ``jitgrad.<artifact>``, see ``config.LOGS``; where nobody can read it any more, in silence."""
    if "logging" in sys.modules:  # without it, no handler can exist
        try:
            (_loggers.get(artifact) or _logger_of(artifact)).debug(message, *args)
        except ValueError:  # ``logging`` reports to ``sys.stderr`` that it cannot write to ``sys.stderr``
            if not getattr(sys.stderr, "closed", False):
                raise


def _logger_of(artifact: str) -> Any:
    """The artifact's logger; ``logging`` takes a lock to find one."""
    found = _loggers.get(artifact)
    if found is None:
        found = _loggers[artifact] = logger().getChild(artifact)
    return found


def logger() -> Any:
    """The ``logging.Logger`` of jitgrad: what concerns users who asked for no artifact, as warnings."""
    return _logging.getLogger("jitgrad")
