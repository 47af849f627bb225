"""A test that leaves a setting of the process changed fails; those that follow do not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import left_behind
import numpy as np
import pytest
from left_behind import SETTINGS, changes, left_as_found, read

import jitgrad
from jitgrad.config import Config
from jitgrad.state import State

ROOT = Path(__file__).parent.parent
OTHERS: dict[str, Any] = {
    "anomaly": (True, False),
    "default dtype": jitgrad.float64,
    "NumPy's errors": {**np.geterr(), "over": "raise", "under": "raise"},
    "NumPy's print options": {**np.get_printoptions(), "precision": 3},
    "loggers": [(10, False, True, []) for _ in left_behind._LOGGERS],
    "folder": "/",
    "SIGINT": signal.SIG_IGN,
    "SIGTERM": signal.SIG_IGN,
}


def _other(name: str, value: Any) -> Any:
    """Not the value that a setting has."""
    if name in OTHERS:  # a shell that starts tests in the background has them ignore SIGINT
        return signal.SIG_DFL if value is OTHERS[name] is signal.SIG_IGN else OTHERS[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, dict):
        return {**value, "other": "entry"}
    return [*value, "other"] if isinstance(value, list) else "other"


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_left_changed_is_told_and_put_back(name: str) -> None:
    before = read()
    value = SETTINGS[name].get()
    SETTINGS[name].put(_other(name, value))
    assert any(line.startswith(f"{name}: was ") for line in changes(before))
    assert SETTINGS[name].get() == value
    assert not changes(before)


def test_every_field_is_looked_at() -> None:
    """Of the configuration and of a thread's state."""
    assert {f"config.{name}" for name in Config.__slots__} <= SETTINGS.keys()
    assert {f"state.{name}" for name in State.__annotations__} <= SETTINGS.keys()
    assert len(SETTINGS) > 50


def test_of_a_dict_only_what_differs_is_told() -> None:
    with pytest.raises(AssertionError, match=r"environment: was \{\}, is \{'JITGRAD_OTHER': '1'\}"), left_as_found():
        os.environ["JITGRAD_OTHER"] = "1"
    assert "JITGRAD_OTHER" not in os.environ


TESTS = """
import pytest
from jitgrad.config import config

@pytest.fixture(scope="module")
def few_operations():
    config.max_segment_ops = 7

def test_that_leaves_something():
    config.eager_kernels = -1

def test_that_follows():
    assert config.eager_kernels > 0

def test_that_puts_back(monkeypatch):
    monkeypatch.setattr(config, "eager_kernels", -1)
    monkeypatch.setenv("JITGRAD_OTHER", "1")

def test_whose_fixture_leaves_something(few_operations):
    assert config.max_segment_ops == 7
"""


def test_the_very_test_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_settings.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-rEFp", "-p", "tests.conftest", str(file), "-c", "pyproject.toml"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    said = {tuple(found) for found in re.findall(r"^(\w+) \S*::(\w+)", run.stdout, re.MULTILINE)}
    leaving = {"test_that_leaves_something", "test_whose_fixture_leaves_something"}
    names = {*leaving, "test_that_follows", "test_that_puts_back"}
    assert said == {("PASSED", name) for name in names} | {("ERROR", name) for name in leaving}, run.stdout
    assert "config.eager_kernels: was 8192, is -1" in run.stdout
    assert "config.max_segment_ops: was 20000, is 7" in run.stdout


_SETS = re.compile(r'config\.eager_kernels(?:, [\w., ]+)? = |config, "eager_kernels"')


def test_eager_kernels_are_chosen_in_one_way() -> None:
    """Plans say how an operation runs, so whoever changes the setting must drop them twice, ``eager_bounds.py``."""
    files = {str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("*.py")
             if _SETS.search(path.read_text())}  # fmt: skip
    children = {"checking/planted_steps.py"}  # a process for one call
    assert files - {"test_left_behind.py"} == {"eager_bounds.py"} | children
