"""In CI, a run with PyTorch leaves out the tests that have passed without it.

``THAT_RAN=file``: the first run writes which tests passed; where the file exists, a run leaves those out. A test
is left out only where it would be the same again: not if it was skipped, nor if its marker ``looks_for_torch`` says
that it does more where PyTorch is installed. ``conftest.py`` imports these hooks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_logreport", "pytest_sessionfinish"]

_FILE = os.environ.pop("THAT_RAN", None)  # tests start other runs of pytest, which are none of the suite
_IS_REPEATED = _FILE is not None and Path(_FILE).exists()
_passed: list[str] = []


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out what ran."""
    if not _IS_REPEATED:
        return
    ran = set(json.loads(Path(str(_FILE)).read_text()))
    left_out = [item for item in items if item.nodeid in ran and not item.get_closest_marker("looks_for_torch")]
    dropped = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in dropped]
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: Any) -> None:
    """Note what has passed."""
    if report.when == "call" and report.passed:
        _passed.append(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write it down, where nobody has."""
    if _FILE is not None and not _IS_REPEATED:
        Path(_FILE).write_text(json.dumps(_passed))
