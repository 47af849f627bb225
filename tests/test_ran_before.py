"""CI leaves out what has passed in an earlier run, and only that; several runs may have one cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

TESTS = """
import os
from pathlib import Path
import pytest

HAS_TORCH = "HAS_TORCH" in os.environ

def test_that_passes():
    assert not {"THAT_RAN", "KEPT_CACHE"} & os.environ.keys(), "tests start other runs"
    assert os.environ["JITGRAD_CACHE_DIR"].endswith("kernels")

@pytest.mark.looks_for_torch
def test_that_looks():
    pass

@pytest.mark.skipif(not HAS_TORCH, reason="compares")
def test_that_compares():
    pass

@pytest.mark.parametrize("name", ["one", *(["other"] if HAS_TORCH else [])])
def test_with_names(name):
    pass

def test_that_fails():
    assert HAS_TORCH
"""


def _run(folder: Path, **variables: str) -> tuple[set[str], set[str]]:
    """Names of tests that passed, and what the last line says."""
    command = [sys.executable, "-m", "pytest", "-rp", "-p", "tests.conftest", str(folder), "-c", "pyproject.toml"]
    env = {**os.environ, "THAT_RAN": str(folder / "ran"), "KEPT_CACHE": str(folder / "kernels"), **variables}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    passed = set(re.findall(r"^PASSED \S*::(\S+)", run.stdout, re.MULTILINE))
    return passed, set(re.findall(r"\d+ (?:passed|failed|skipped|deselected)", run.stdout.rpartition("\n=")[2]))


def test_what_passed_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    without, said = _run(tmp_path)
    assert without == {"test_that_passes", "test_that_looks", "test_with_names[one]"}
    assert said == {"3 passed", "1 failed", "1 skipped"}
    (tmp_path / "kernels").mkdir(exist_ok=True)  # nothing was compiled, and nothing removed
    (tmp_path / "kernels" / "kept").touch()
    found, said = _run(tmp_path, HAS_TORCH="1")
    assert found == {"test_that_looks", "test_that_compares", "test_with_names[other]", "test_that_fails"}
    assert said == {"4 passed", "2 deselected"}
    assert (tmp_path / "kernels" / "kept").exists()
