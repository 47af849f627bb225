"""Results as tables for people: with rich where it is installed, as plain text or Markdown otherwise.

Must not know: processes.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from benchmarks.result import RowResult, SubjectResult, geometric_mean
from benchmarks.subjects import OURS

__all__ = ["print_report", "to_markdown"]

_QUIET_CORES = 0.15

Table = tuple[str, list[str], list[list[str]]]


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
    warm = "" if subject.warm_s is None else f" / {_number(subject.warm_s, 2)}"
    return _number(subject.cold_s, 2) + warm


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
    return title, ["step", *names, *([last] if last else [])], rows


def _tables(results: list[RowResult]) -> list[Table]:
    """Step times first; where nothing ran, there is nothing else to show."""
    return [
        _table("microseconds per step, lower quartile", results, _times, f"best peer / {OURS}"),
        _table("microseconds per step, median", results, _medians, None),
        _table("seconds from process start to first loss: empty cache / warm cache", results, _starts, None),
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
    parts = []
    for title, header, rows in _tables(results):
        lines = [f"**{title}**", "", f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
        parts.append("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in _notes(results))])


def _plain(table: Table) -> str:
    title, header, rows = table
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *others in [header, *rows]:
        lines.append([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))])
    return "\n".join([title, *("  ".join(line) for line in lines)])


def _print_rich(tables: list[Table]) -> None:
    console = importlib.import_module("rich.console").Console()
    make = importlib.import_module("rich.table").Table
    for title, header, rows in tables:
        table = make(title=title, title_justify="left")
        table.add_column(header[0], no_wrap=True)
        for name in header[1:]:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def print_report(results: list[RowResult]) -> None:
    """Print every table and note."""
    tables = _tables(results)
    if importlib.util.find_spec("rich") is not None:
        _print_rich(tables)
    else:
        print("\n\n".join(map(_plain, tables)))
    print("\n".join(_notes(results)))
