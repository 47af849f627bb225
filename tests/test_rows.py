"""Every row of ``rows.md`` has a test in every mode, or says why only eager execution makes sense."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from modes import HOOKED, MODES, OUTSIDE, VIRTUAL, Mode, Shown
from row_collector import PREFIX, rows_of

import jitgrad

_TESTS = Path(__file__).parent
_ROWS = re.findall(r"^\|([A-E]\d+)\|", (_TESTS / "rows.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def covered(request: pytest.FixtureRequest) -> dict[str, dict[str, list[str]]]:
    """Row -> mode -> tests, of the whole suite: this run's tests if these are all, else by a collection."""
    options, arguments = request.config.option, request.config.args
    if not options.keyword and not options.markexpr and all(Path(a).resolve() == _TESTS for a in arguments):
        return rows_of(request.session.items)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "row_collector", str(_TESTS)]
    paths = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=_TESTS.parent, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith(PREFIX)]
    assert lines, run.stdout[-2000:] + run.stderr[-2000:]
    found: dict[str, dict[str, list[str]]] = json.loads(lines[0].removeprefix(PREFIX))
    return found


def test_the_table_is_whole() -> None:
    assert len(_ROWS) == len(set(_ROWS)) == 138


@pytest.mark.parametrize("row", _ROWS)
def test_row_has_tests(row: str, covered: dict[str, dict[str, list[str]]]) -> None:
    tests = covered.get(row, {})
    assert tests, "no test is marked with this row"
    missing = [name for name in MODES if name not in tests]
    if "reason" in tests and missing == ["cold", "warm"]:
        assert all(len(reason) > 20 for reason in tests["reason"]), "a reason is a sentence"
    else:
        assert not missing, f"no test of this row runs {' and '.join(missing)}"


def test_marks_name_rows(covered: dict[str, dict[str, list[str]]]) -> None:
    assert set(covered) <= set(_ROWS)


def _shown(launches: int = 1, fallbacks: int = 0, reasons: tuple[str, ...] = ()) -> Shown:
    shown = Shown()
    shown.calls, shown.launches, shown.fallbacks, shown.reasons = 1, launches, fallbacks, set(reasons)
    return shown


def test_a_warm_call_shows_what_its_marker_states() -> None:
    _shown().check()
    _shown(reasons=(HOOKED,)).check(engine=HOOKED)
    _shown(0, 3).check(fallbacks=VIRTUAL, no_launch=VIRTUAL)
    Shown().check(engine=HOOKED)  # there was no warm call
    for shown, stated in (
        (_shown(0), {}),
        (_shown(), {"no_launch": VIRTUAL}),
        (_shown(1, 3), {}),
        (_shown(), {"fallbacks": VIRTUAL}),
        (_shown(reasons=(HOOKED,)), {}),
        (_shown(), {"engine": HOOKED}),
        (_shown(reasons=(HOOKED, OUTSIDE)), {"engine": HOOKED}),
    ):
        with pytest.raises(AssertionError):
            shown.check(**stated)


def test_watched_calls_are_counted(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda grad: None)
        y.sum().backward()
        return x.grad

    mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),))
    is_warm = mode.name == "warm"
    assert (mode.shown.calls, mode.shown.reasons) == (int(is_warm), {HOOKED} if is_warm else set())
    assert (mode.shown.launches > 0, mode.shown.fallbacks) == (is_warm, 0)


@pytest.mark.parametrize("name", ["modes", "watched", "threads", "agreement", "parity", "html_page"])
def test_what_helpers_assert_is_checked_under_python_o(name: str) -> None:
    """It leaves out ``assert``, but pytest writes those of tests, and of what ``conftest.py`` names, anew."""
    module = importlib.import_module(name)
    assert type(module.__loader__).__name__ == "AssertionRewritingHook"
