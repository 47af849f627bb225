"""A pytest plugin: which rows of ``rows.md`` the collected tests cover, and in which modes; prints them as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from modes import MODES

PREFIX = "rows: "


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print ``rows_of`` all tests on one line."""
    print(PREFIX + json.dumps(rows_of(session.items)))


def rows_of(items: Iterable[pytest.Item]) -> dict[str, dict[str, list[str]]]:
    """``{row: {mode or "reason": [tests or reasons]}}`` of the tests that are marked with rows."""
    found: dict[str, dict[str, list[str]]] = {}
    for item in items:
        for mark in item.iter_markers("row"):
            for row in mark.args:
                _add(found.setdefault(row, {}), item, mark.kwargs.get("eager_only"))
    return found


def _add(row: dict[str, list[str]], item: pytest.Item, reason: str | None) -> None:
    if reason is not None:
        row.setdefault("reason", []).append(reason)
        row.setdefault("eager", []).append(item.nodeid)
        return
    parameters = getattr(item, "callspec", None)
    mode = parameters.params.get("mode") if parameters is not None else None
    # a test without the fixture runs eagerly, whatever it does inside
    row.setdefault(mode if mode in MODES else "eager", []).append(item.nodeid)
