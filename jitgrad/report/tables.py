"""Tables, and reports made of tables and sentences.

Owns: ``Table``, ``Report``.
Must not know: what is reported.
Out: plain text, Markdown, HTML, or a terminal, by rich where it is installed.
"""

from __future__ import annotations

import html
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitgrad.lazy import LazyModule

__all__ = ["Report", "Table", "print_tables"]

_rich_console: Any = LazyModule("rich.console")
_rich_table: Any = LazyModule("rich.table")
_STYLE = (
    "body { font-family: sans-serif; margin: 2em; } table { border-collapse: collapse; margin: 1em 0; } "
    "caption { text-align: left; font-weight: bold; } th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #ccc; } "
    "td { text-align: right; } td:first-child, th:first-child { text-align: left; }"
)


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text. The first column is aligned to the left, as a name is; the others to the right, as figures are.

    Attributes:
        title: one line.
        header: the columns' names.
        rows: as many cells each.
        are_texts: all columns are aligned to the left.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    are_texts: bool = False

    def to_text(self) -> str:
        """Columns as wide as they must be."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = []
        for first, *others in (self.header, *self.rows):
            rest = [
                cell.ljust(width) if self.are_texts else cell.rjust(width)
                for cell, width in zip(others, widths[1:], strict=True)
            ]
            lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
        return "\n".join([self.title, *lines])

    def to_markdown(self) -> str:
        """For a README."""
        side = "---|" if self.are_texts else "---:|"
        rows = [f"| {' | '.join(row)} |" for row in self.rows]
        head = [f"| {' | '.join(self.header)} |", f"|---|{side * (len(self.header) - 1)}"]
        return "\n".join([f"**{self.title}**", "", *head, *rows])

    def to_html(self) -> str:
        """A ``<table>``."""
        align = ' style="text-align:left"' if self.are_texts else ""
        head = "".join(f"<th{align}>{html.escape(name)}</th>" for name in self.header)
        rows = "".join(
            "<tr>" + "".join(f"<td{align}>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


class Report:
    """What tools return: tables, then sentences; ``str()`` reads well, notebooks show HTML."""

    def tables(self) -> list[Table]:
        """The figures."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What the figures mean, a sentence each."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Everything, as a document that ``json.dumps`` takes."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n\n".join([*(table.to_text() for table in self.tables()), *filter(None, ["\n".join(self.notes())])])

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes())
        return "".join(table.to_html() for table in self.tables()) + (f"<ul>{notes}</ul>" if notes else "")

    def show(self) -> None:
        """Print it; by rich where it is installed."""
        print_tables(self.tables())
        print("\n".join(self.notes()))

    def save(self, path: str | Path) -> None:
        """Write it to a file: a page if its name ends in ``.html``, JSON if in ``.json``, text otherwise."""
        path = Path(path)
        if path.suffix == ".html":
            head = f'<!doctype html><html><head><meta charset="utf-8"><style>{_STYLE}</style></head>'
            path.write_text(f"{head}<body>{self._repr_html_()}</body></html>\n", encoding="utf-8")
        elif path.suffix == ".json":
            path.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        else:
            path.write_text(f"{self}\n", encoding="utf-8")


def print_tables(tables: Sequence[Table]) -> None:
    """Print them; by rich where it is installed."""
    if importlib.util.find_spec("rich") is None:
        print("\n\n".join(table.to_text() for table in tables))
        return
    console = _rich_console.Console()
    for table in tables:
        drawn = _rich_table.Table(title=table.title, title_justify="left")
        drawn.add_column(table.header[0], no_wrap=not table.are_texts)
        for name in table.header[1:]:
            drawn.add_column(name, justify="left" if table.are_texts else "right")
        for row in table.rows:
            drawn.add_row(*(cell.replace("[", r"\[") for cell in row))
        console.print(drawn)
