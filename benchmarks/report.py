"""Results as tables for people: with rich where it is installed, as plain text or Markdown otherwise.

Must not know: processes.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.result import RowResult, SubjectResult, geometric_mean
from benchmarks.subjects import OURS
from jitgrad.report.tables import Table, print_tables

__all__ = ["print_report", "to_markdown"]

_QUIET_CORES = 0.15


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.{digits}g}"


def _times(subject: SubjectResult) -> str:
    if subject.error is not None:
        return "fails"
    return _number(subject.lower_quartile_us)


def _medians(subject: SubjectResult) -> str:
    return _number(subject.median_us)


def _starts(subject: SubjectResult) -> str:
    return _cold_and_warm(subject.cold_s, subject.warm_s)


def _tenths(subject: SubjectResult) -> str:
    return _cold_and_warm(subject.cold_tenth_s, subject.warm_tenth_s)


def _cold_and_warm(cold: float | None, warm: float | None) -> str:
    return _number(cold, 2) + ("" if warm is None else f" / {_number(warm, 2)}")


def _memory(subject: SubjectResult) -> str:
    return _number(None if subject.peak_nbytes is None else subject.peak_nbytes / 2**20)


def _ratio(result: RowResult) -> str:
    if not result.is_valid:
        return "INVALID"
    return "-" if result.ratio is None else f"{result.ratio:.2f}"


def _table(title: str, results: list[RowResult], cell: Callable[[SubjectResult], str], last: str | None) -> Table:
    names = list(results[0].subjects)
    rows = []
    for result in results:
        cells = [cell(result.subjects[name]) for name in names]
        rows.append([result.row.title, *cells, *([_ratio(result)] if last else [])])
    return Table(title, ["step", *names, *([last] if last else [])], rows)


def _tables(results: list[RowResult]) -> list[Table]:
    """Step times first; where nothing ran, there is nothing else to show."""
    return [
        _table("microseconds per step, lower quartile", results, _times, f"best peer / {OURS}"),
        _table("microseconds per step, median", results, _medians, None),
        _table("seconds from process start to first loss: empty cache / warm cache", results, _starts, None),
        _table("seconds from process start to tenth loss: empty cache / warm cache", results, _tenths, None),
        _table("peak memory, MiB", results, _memory, None),
    ]


def _notes(results: list[RowResult]) -> list[str]:
    notes = [f"INVALID {r.row.name}: {text}" for r in results for text in r.mismatches]
    notes += [f"{r.row.name}, {s.subject}: {s.error}" for r in results for s in r.subjects.values() if s.error]
    notes += [
        f"NOT QUIET {r.row.name}: other processes used {r.busy_cores:.1f} cores; run it again on an idle machine"
        for r in results
        if r.busy_cores is not None and r.busy_cores > _QUIET_CORES
    ]
    mean = geometric_mean([r.ratio for r in results if r.ratio])
    if mean is not None:
        notes.append(f"geometric mean of best peer / {OURS}: {mean:.2f}")
    return notes


def to_markdown(results: list[RowResult]) -> str:
    """The tables for a README."""
    parts = [table.to_markdown() for table in _tables(results)]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in _notes(results))])


def print_report(results: list[RowResult]) -> None:
    """Print every table and note."""
    print_tables(_tables(results))
    print("\n".join(_notes(results)))
