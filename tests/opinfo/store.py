"""What a run of PyTorch's samples found, a line per operation, check and dtype; a file lets a stopped run go on.

Owns: the file, the table of its sums.
Must not know: how samples are run.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from opinfo.differences import known

__all__ = ["Line", "Store", "counted", "table"]

Key = tuple[str, str, str]


class Line(NamedTuple):
    """The samples of an operation under one check and dtype.

    Attributes:
        op: its title.
        tried: how many samples were compared.
        rows: (text, how many samples, the first of them, why that is accepted or None) for each difference.
    """

    op: str
    check: str
    dtype: str
    tried: int
    rows: list[tuple[str, int, int, str | None]]

    @property
    def key(self) -> Key:
        return self.op, self.check, self.dtype

    def wrong(self) -> list[tuple[str, int, int, str | None]]:
        """The differences that nothing explains."""
        return [row for row in self.rows if row[3] is None]


def counted(key: Key, found: Iterable[Any]) -> Line:
    """A line from one ``Failure`` or None per sample."""
    tried = 0
    texts: dict[str, list[Any]] = {}
    for one in found:
        tried += 1
        if one:
            texts.setdefault(one.text, []).append(one)
    return Line(*key, tried, [(text, len(some), some[0].sample, known(some[0])) for text, some in texts.items()])


class Store:
    """Lines in memory, and in a file if there is one."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._lines: dict[Key, Line] = {}
        if self._path and self._path.exists():
            for text in self._path.read_text().splitlines():
                line = Line(*json.loads(text))
                self._lines[line.key] = line

    def __contains__(self, key: Key) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def add(self, line: Line) -> None:
        """Keep it, and write it down."""
        self._lines[line.key] = line
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def table(lines: Iterable[Line]) -> str:
    """A row per check: samples tried, equal, accepted with a reason, wrong."""
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0] * 5)
    reasons: collections.Counter[str] = collections.Counter()
    for line in lines:
        row = sums[line.check]
        accepted = sum(count for _, count, _, reason in line.rows if reason)
        wrong = sum(count for _, count, _, reason in line.rows if not reason)
        for at, number in enumerate((1, line.tried, line.tried - accepted - wrong, accepted, wrong)):
            row[at] += number
        for _, count, _, reason in line.rows:
            if reason:
                reasons[reason] += count
    titles = ("check", "op x dtype", "tried", "equal", "accepted", "wrong")
    text = ["".join(f"{title:>16}" for title in titles)]
    text += ["".join(f"{cell!s:>16}" for cell in (check, *row)) for check, row in sums.items()]
    text += [f"{count:7d} accepted: {reason}" for reason, count in reasons.most_common()]
    return "\n".join(text)
