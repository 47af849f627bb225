"""Runs one row: starts a process per subject, compares what they compute, then times them in turns.

Owns: the order of things. Losses are compared before anything is timed, and only one process runs at any moment.
Must not know: how a step is written, how results are printed.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import WorkerError, WorkerProcess
from benchmarks.quiet import busy_cores, wait_for_builders
from benchmarks.result import RowResult, SubjectResult, compare
from benchmarks.row import Row
from benchmarks.subjects import Subject

__all__ = ["Settings", "run_row"]

_SLICE_SECONDS = 0.2
_SLOW_START_SECONDS = 4.0
"""A start that takes longer than this is measured once only."""


@dataclass(frozen=True)
class Settings:
    """What the command line sets.

    Attributes:
        seconds: of timed steps per subject and row.
        threads: for every subject.
        starts: how many process starts the cold and warm figures are the median of.
        seed: of data, weights and random graphs.
        say: is told what happens, for people who wait.
    """

    seconds: float
    threads: int
    starts: int
    seed: int
    say: Callable[[str], None]


def run_row(row: Row, subjects: list[Subject], settings: Settings) -> RowResult:
    """Measure every subject on ``row``."""
    results = {subject.name: SubjectResult(subject.name) for subject in subjects}
    with _workers(row, subjects, settings, results) as workers:
        for name, worker in list(workers.items()):
            _guarded(workers, results[name], lambda w=worker, r=results[name]: _check(row, w, r))
        result = RowResult(row, results, compare(row, results))
        if result.is_valid:
            wait_for_builders()
            before = busy_cores()
            _time_in_turns(row, workers, results, settings)
            after = busy_cores()
            for name, worker in list(workers.items()):
                _guarded(workers, results[name], lambda w=worker, r=results[name]: _finish(w, r))
            result.busy_cores = None if before is None or after is None else max(before, after)
    return result


def _guarded(workers: dict[str, WorkerProcess], result: SubjectResult, action: Callable[[], None]) -> None:
    """Do something with a worker; if it fails, the subject has an error and takes no further part."""
    try:
        action()
    except WorkerError as error:
        result.error = str(error)
        workers.pop(result.subject).close()


@contextmanager
def _workers(
    row: Row, subjects: list[Subject], settings: Settings, results: dict[str, SubjectResult]
) -> Iterator[dict[str, WorkerProcess]]:
    """The subjects that could be started, by name; all are ended on the way out."""
    workers: dict[str, WorkerProcess] = {}
    try:
        for subject in subjects:
            settings.say(f"{row.name}: starting {subject.name}")
            try:
                workers[subject.name] = _start(row, subject, settings, results[subject.name])
            except WorkerError as error:
                results[subject.name].error = str(error)
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def _start(row: Row, subject: Subject, settings: Settings, result: SubjectResult) -> WorkerProcess:
    """A running worker; the starts before it are measured with an empty cache, the ones after with a full one."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as cache:
        worker = WorkerProcess(row.name, subject.name, settings.seed, settings.threads, Path(cache))
        cold = [worker.start_seconds]
        repeats = settings.starts - 1 if cold[0][0] < _SLOW_START_SECONDS else 0
        try:
            worker.ask("settle")
            for _ in range(repeats):
                with tempfile.TemporaryDirectory(prefix="benchmarks-") as empty:
                    cold.append(_start_seconds(row, subject, settings, Path(empty)))
            result.cold_s, result.cold_tenth_s = _medians(cold)
            if subject.is_compiled and subject.has_disk_cache and settings.starts:
                warm = [_start_seconds(row, subject, settings, Path(cache)) for _ in range(1 + repeats)]
                result.warm_s, result.warm_tenth_s = _medians(warm)
        except WorkerError:
            worker.close()
            raise
        return worker


def _start_seconds(row: Row, subject: Subject, settings: Settings, cache: Path) -> tuple[float, float]:
    worker = WorkerProcess(row.name, subject.name, settings.seed, settings.threads, cache)
    worker.close()
    wait_for_builders()
    return worker.start_seconds


def _medians(starts: list[tuple[float, float]]) -> tuple[float, float]:
    first, tenth = (statistics.median(times) for times in zip(*starts, strict=True))
    return first, tenth


def _check(row: Row, worker: WorkerProcess, result: SubjectResult) -> None:
    answer = worker.ask("check", steps=row.check_steps)
    result.losses, result.state = answer["losses"], answer["state"]
    worker.ask("settle")


def _time_in_turns(
    row: Row, workers: dict[str, WorkerProcess], results: dict[str, SubjectResult], settings: Settings
) -> None:
    """A B C A B C ..., one slice each, so that whatever slows the machine down slows everybody down."""
    settings.say(f"{row.name}: timing {', '.join(workers)}")
    length = min(_SLICE_SECONDS, settings.seconds)
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(max(1, round(settings.seconds / length))):
        for name, worker in list(workers.items()):
            _guarded(workers, results[name], lambda w=worker, n=name: times[n].extend(_slice(w, length)))
    for name in workers:
        results[name].set_times(times[name])


def _slice(worker: WorkerProcess, seconds: float) -> list[float]:
    found: list[float] = worker.ask("slice", seconds=seconds)["times"]
    return found


def _finish(worker: WorkerProcess, result: SubjectResult) -> None:
    result.peak_nbytes = worker.ask("quit")["peak_nbytes"]
