"""Running a step eagerly and compiled, in turns.

Owns: ``run_benchmark``: the order of runs, and what is put back between them.
Must not know: how results are shown.
"""

from __future__ import annotations

import functools
import inspect
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.checking.step_state import StepState, named_tensors
from jitgrad.compile import CompiledFunction, compile, eager
from jitgrad.events import stats
from jitgrad.functions import ones
from jitgrad.lazy import LazyModule
from jitgrad.measuring.benchmark_report import BenchmarkReport, TimeShares, largest_difference
from jitgrad.measuring.causes import WarmCalls, watch_calls
from jitgrad.measuring.subject import Subject
from jitgrad.runtime.native.pool import get_num_threads
from jitgrad.user_line import user_line

__all__ = ["run_benchmark"]

_float_mode: Any = LazyModule("jitgrad.codegen.driver.float_mode")

_SLICES = 8
_WATCHED_CALLS = 10
_CHAIN = 200
_PAIRS = 5
_MUCH_SLOWER = 1.25


def run_benchmark(
    step: Callable[..., Any],
    batches: Sequence[tuple[Any, ...]],
    kwargs: dict[str, Any],
    compare: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None,
    seconds: float,
) -> BenchmarkReport:
    """See ``jitgrad.benchmark``."""
    caller = user_line()
    written = _as_written(step)
    eager_way = Subject("eager", _eagerly(written), batches, kwargs)
    site: Any = compile(written)
    compiled_way = Subject("compiled", site, batches, kwargs)
    others = _others(compare, batches, kwargs)
    start = StepState(written, batches[0], kwargs)
    repeatability = _first_eager_calls(eager_way, start)
    before = stats()
    compiled_way.first_calls()
    first_counters = _rise(before)
    for other in others:
        _try_first_calls(other)
    subjects = [eager_way, compiled_way, *(other for other in others if not other.error)]
    for _ in range(_SLICES):
        for subject in subjects:
            start.restore()
            subject.slice(seconds / _SLICES / len(subjects))
    start.restore()
    warm = WarmCalls(_WATCHED_CALLS, eager_calls=_rise(before).get("eager_calls", 0))
    site.look_again()  # else a step whose graph is always new runs eagerly, and shows nothing
    with watch_calls(WarmCalls(), caller):
        compiled_way.once()  # a watched engine takes a path of its own, which is new once
    with watch_calls(warm, caller):
        for _ in range(_WATCHED_CALLS):
            compiled_way.once()
    start.restore()
    slower = _slower_by_small_numbers(compiled_way)
    start.restore()
    reached = named_tensors(written, (), {}, None)
    name = getattr(written, "__qualname__", None) or getattr(written, "__name__", None) or type(written).__name__
    report = BenchmarkReport(
        str(name).replace("<locals>.", ""), {s.name: s for s in (eager_way, compiled_way, *others)}, repeatability,
        warm, _shares(warm, compiled_way.median_s), first_counters, get_num_threads(), len(reached),
    )  # fmt: skip
    report.extra_notes += _about_others(report, others)
    if slower > _MUCH_SLOWER:
        report.extra_notes.append(
            f"SMALL NUMBERS: a call takes {slower:.1f} times as long because of numbers below the smallest normal one "
            "(1.2e-38 in float32), which gradients of long recurrences become; jitgrad.set_flush_denormal(True) takes "
            "them for zero."
        )
    return report


def _slower_by_small_numbers(subject: Subject) -> float:
    """How many times as long a call takes as it does where ``set_flush_denormal`` is on, Note [Float mode]."""
    before = _float_mode.exchange(False)
    if before is None or before:  # there is no switch, or it is on
        _float_mode.exchange(bool(before))
        return 1.0
    ratios: list[float] = []
    try:
        while len(ratios) < _PAIRS and (not ratios or ratios[-1] > _MUCH_SLOWER):  # one pair says it, mostly: it is 1
            seconds = subject.seconds_of_one()
            _float_mode.exchange(True)
            ratios.append(seconds / subject.seconds_of_one())
            _float_mode.exchange(False)
    finally:
        _float_mode.exchange(False)
    return statistics.median(ratios) if ratios[-1] > _MUCH_SLOWER else 1.0


def _as_written(step: Any) -> Callable[..., Any]:
    """The function that ``jitgrad.compile`` was given; the step itself if it is not compiled."""
    if isinstance(step, CompiledFunction):
        return step.fn
    if isinstance(step, functools.partial) and isinstance(step.func, CompiledFunction):  # a method
        return functools.partial(step.func.fn, *step.args, **step.keywords)
    if hasattr(step, "forward") and hasattr(step, "compile"):  # a module: ``compile`` would change it

        def call_module(*args: Any, **kwargs: Any) -> Any:
            return step(*args, **kwargs)

        return call_module
    if not callable(step):
        raise TypeError(f"benchmark() takes a function, not {step!r}")
    return step


def _eagerly(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with eager():
            return function(*args, **kwargs)

    return call


def _first_eager_calls(subject: Subject, start: StepState) -> float:
    """Two runs from the same start; the largest difference of their losses. The second run's times are kept."""
    subject.first_calls()
    losses = subject.losses
    subject.losses, subject.call_s = [], []
    start.restore()
    subject.first_calls()
    start.restore()
    return largest_difference(losses, subject.losses)


def _others(compare: Any, batches: Sequence[tuple[Any, ...]], kwargs: dict[str, Any]) -> list[Subject]:
    if compare is None:
        return []
    named = compare if isinstance(compare, Mapping) else {getattr(compare, "__name__", "compared"): compare}
    found = []
    for name, function in named.items():
        if str(name) in ("eager", "compiled"):
            name = f"{name} (compared)"
        takes = _takes(function, batches[0], kwargs)
        found.append(Subject(str(name), function, batches if takes else [()], kwargs if takes else {}))
    return found


def _takes(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function can be called with the arguments; False if it can be called without any instead."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        try:
            signature.bind()
        except TypeError:
            return True
        return False
    return True


def _try_first_calls(subject: Subject) -> None:
    try:
        subject.first_calls()
    except Exception as error:
        subject.error = f"{type(error).__name__}: {error}"


def _about_others(report: BenchmarkReport, others: list[Subject]) -> list[str]:
    eager_way, compiled_way = report.subjects["eager"], report.subjects["compiled"]
    found = []
    for other in others:
        if other.error:
            found.append(f"{other.name} raised {other.error}")
            continue
        ratio = other.median_s / compiled_way.median_s
        losses = largest_difference(other.losses[:1], eager_way.losses[:1])
        same = f"first losses differ by {losses:.1e} relative" if losses else "first losses are equal"
        found.append(f"{other.name} takes {ratio:.2f} times as long as compiled; {same}.")
    return found


def _rise(before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in stats().items() if value != before[name]}


def _shares(warm: WarmCalls, call_s: float) -> TimeShares:
    """The unwatched median, divided as the watched calls were."""
    parts = [warm.kernel_s, warm.fallback_s, warm.node_s, warm.compile_s]
    kernels, fallbacks, nodes, compiling = (part / warm.count for part in parts)
    rest = max(0.0, call_s - kernels - fallbacks - nodes - compiling)
    recording = min(rest, warm.per_call("hits") * _event_s())
    return TimeShares(kernels, recording, fallbacks, nodes, compiling, rest - recording)


@functools.cache
def _event_s() -> float:
    """Seconds that a recorded event takes when it is found: a chain of operations, with and without recording."""
    x = ones(1)

    def chain(count: int) -> Any:
        y = x
        for _ in range(count):
            y = y * 0.5
        return y

    compiled = compile(chain)
    loop = compile(lambda count: [None for _ in range(count)])
    times: dict[Any, list[float]] = {compiled: [], loop: []}
    for _ in range(12):
        for function, samples in times.items():
            start = time.perf_counter()
            function(_CHAIN)
            samples.append(time.perf_counter() - start)
    fastest = {function: statistics.median(samples[4:]) for function, samples in times.items()}
    return max(0.0, fastest[compiled] - fastest[loop]) / _CHAIN
