"""``torch.utils.benchmark``: timing of statements.

Owns: ``Timer``, ``Measurement``, ``Compare``.
Must not know: what is timed.
"""

from __future__ import annotations

import math
import statistics
import time
import timeit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.runtime.native.pool import get_num_threads, set_num_threads

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

timer = time.perf_counter

_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def select_unit(t: float) -> tuple[str, float]:
    """(name, seconds) of the unit in which a time is between 1 and 1,000."""
    scale, name = next(((s, n) for s, n in reversed(_UNITS) if t >= s), _UNITS[0])
    return name, scale


@dataclass(frozen=True)
class TaskSpec:
    """What was timed.

    Attributes:
        stmt, setup: the statements.
        label: which table a measurement stands in.
        sub_label: its row.
        description: its column.
        env: of the machine or library, where several are compared.
        num_threads: while it ran.
    """

    stmt: str
    setup: str
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclass
class Measurement:
    """The times of several runs.

    Attributes:
        number_per_run: how often a run executed the statement.
        raw_times: of the runs, in seconds.
        task_spec: what was timed.
    """

    number_per_run: int
    raw_times: Sequence[float]
    task_spec: TaskSpec
    metadata: dict[str, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds per execution."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Seconds per execution, on average."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """Seconds per execution, in the middle."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles, in seconds."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, from the spread of the middle half of a normal distribution."""
        if len(self.times) < 2 or not self.iqr:
            return 1 if len(self.times) < 2 else 4
        error = 1.645 * self.iqr / 1.349 / math.sqrt(len(self.times))
        return max(1, min(4, 1 + math.floor(math.log10(self.median / error)))) if error < self.median else 1

    @property
    def has_warnings(self) -> bool:
        """Whether the spread is so large that the median says little."""
        return bool(self.iqr > 0.1 * self.median)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the middle half of the times is within ``threshold`` times the median."""
        return len(self.times) >= 2 and self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was timed."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The row of a table that it stands in."""
        return str(self.sub_label or self.stmt or "[Unknown]")

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same thing as one each, of single executions."""
        groups: dict[TaskSpec, list[float]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).extend(one.times)
        return [Measurement(1, times, spec) for spec, times in groups.items()]

    def __repr__(self) -> str:
        name, scale = select_unit(self.median)
        runs = f"{len(self.raw_times)} measurement{'s'[: len(self.raw_times) > 1]}, {self.number_per_run} runs"
        lines = [f"<{type(self).__module__}.{type(self).__name__}>", self.title]
        lines += [f"  Median: {self.median / scale:.2f} {name}", f"  IQR:    {self.iqr / scale:.2f} {name}"]
        return "\n".join([*lines, f"  {runs} per measurement, {self.task_spec.num_threads} threads"])


class Timer:
    """Times a statement.

    Args:
        stmt: code, run in the names of ``globals`` and of what ``setup`` makes.
        setup: code that runs once before each run, and is not timed.
        global_setup: accepted: for C++ only.
        timer: gives seconds.
        globals: the names that the statement sees.
        label, sub_label, description, env: see ``TaskSpec``.
        num_threads: of the library while the statement runs.
        language: only Python.

    Raises:
        ValueError: another language.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py"):
            raise ValueError(f"statements are Python here, not {language}")
        if global_setup:
            raise ValueError("global_setup is for C++ only")
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._task_spec = TaskSpec(stmt, setup, label, sub_label, description, env, num_threads)

    def _times(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of ``number`` executions, after a shorter one that warms up."""
        self._times(max(number // 100, 2))
        return Measurement(number, [self._times(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError: as in PyTorch, use ``blocked_autorange``."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    autorange = repeat

    def _block(self, min_run_time: float) -> int:
        """So many executions that reading the clock costs less than a thousandth, and ten runs fit in the time."""
        overhead = statistics.median([self._clock() for _ in range(5)])
        number = 1
        while True:
            taken = self._times(number)
            is_precise = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
            if is_precise or taken >= min_run_time / 10:
                return number
            number *= 10

    def _clock(self) -> float:
        start = timer()
        return timer() - start

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of one length until ``min_run_time`` seconds are used; ``callback(number, seconds)`` after each."""
        number, times = self._block(min_run_time), list[float]()
        while sum(times) < min_run_time:
            times.append(self._times(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """``blocked_autorange`` until the quartiles are within ``threshold`` of the median, or the time is over."""
        number, times = self._block(0.05), list[float]()
        while True:
            times.append(self._times(number))
            if callback is not None:
                callback(number, times[-1])
            found = Measurement(number, times, self._task_spec)
            is_enough = len(times) > 3 and sum(times) >= min_run_time and found.meets_confidence(threshold)
            if is_enough or sum(times) >= max_run_time:
                return found


class Compare:
    """Tables of measurements: a table per label, a row per sub-label, a column per description.

    Args:
        results: the measurements; those of the same thing are merged.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._trims = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show only the digits that the spread leaves."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted; tables have no colours."""

    def highlight_warnings(self) -> None:
        """Accepted."""

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(one.label or one.stmt for one in merged)
        tables = ((label, [one for one in merged if (one.label or one.stmt) == label]) for label in labels)
        return "\n".join(self._table(str(label), cells) for label, cells in tables)

    def _table(self, label: str, cells: list[Measurement]) -> str:
        name, scale = select_unit(min(one.median for one in cells))
        columns = list(dict.fromkeys(one.description or "" for one in cells))
        lines = [["", *columns]]
        for threads in sorted({one.num_threads for one in cells}):
            lines.append([f"{threads} threads:"])
            for row in dict.fromkeys(one.as_row_name for one in cells if one.num_threads == threads):
                found = {
                    one.description or "": self._time(one, scale)
                    for one in cells
                    if one.num_threads == threads and one.as_row_name == row
                }
                lines.append([f"  {row}", *(found.get(column, "") for column in columns)])
        widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(columns) + 1)]
        texts = [self._line(line, widths) for line in lines]
        bar = "-" * max(map(len, texts))
        title = f"[{label}]".center(len(bar), "-")
        return "\n".join([title, *texts, bar, "", f"Times are in {name}.", ""])

    def _line(self, line: list[str], widths: list[int]) -> str:
        cells = [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=False)]
        return "  |  ".join([line[0].ljust(widths[0]), *cells])

    def _time(self, one: Measurement, scale: float) -> str:
        value = one.median / scale
        if self._trims:
            digits = one.significant_figures - 1 - math.floor(math.log10(value))
            return f"{round(value, digits):.{max(digits, 0)}f}"
        return f"{value:.1f}"
