"""Tables and reports, in each form that they are shown in."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from jitgrad.report.tables import Report, Table, print_tables
from jitgrad.report.units import nbytes_text, share_text, time_text

TABLE = Table("times", ["row", "eager", "compiled"], [["step <a>", "12", "3"], ["f[1]", "1", "100"]])


class _Times(Report):
    def tables(self) -> list[Table]:
        return [TABLE]

    def notes(self) -> list[str]:
        return ["a < b"]

    def to_json(self) -> dict[str, Any]:
        return {"eager": 12}


def test_text_is_aligned() -> None:
    assert TABLE.to_text().splitlines() == [
        "times",
        "row       eager  compiled",
        "step <a>     12         3",
        "f[1]          1       100",
    ]


def test_markdown_has_as_many_columns_in_every_line() -> None:
    lines = TABLE.to_markdown().splitlines()[2:]
    assert {line.count("|") for line in lines} == {4}


def test_html_escapes_cells_and_notes() -> None:
    shown = _Times()._repr_html_()
    assert "step &lt;a&gt;" in shown
    assert "<li>a &lt; b</li>" in shown


@pytest.mark.parametrize("has_rich", [True, False])
def test_printed_tables_hold_every_cell(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    print_tables([TABLE])
    shown = capsys.readouterr().out
    assert all(cell in shown for row in TABLE.rows for cell in row)


def test_a_report_is_saved_as_its_ending_says(tmp_path: Path) -> None:
    for ending in ("html", "json", "txt"):
        _Times().save(tmp_path / f"report.{ending}")
    assert "<table>" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text()) == {"eager": 12}
    assert (tmp_path / "report.txt").read_text() == f"{_Times()}\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.50 s"), (0.0123, "12.3 ms"), (123e-6, "123 us"), (2e-9, "0.00 us"), (0.0, "0.00 us"), (None, "-")],
)
def test_times(seconds: float | None, text: str) -> None:
    assert time_text(seconds) == text


def test_bytes_and_shares() -> None:
    assert [nbytes_text(n) for n in (100, 2048, 3 << 20, 5 << 30, None)] == [
        "100 B", "2.00 KiB", "3.00 MiB", "5.00 GiB", "-"
    ]  # fmt: skip
    assert (share_text(1, 4), share_text(1, 0)) == ("25%", "-")
