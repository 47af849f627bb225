"""The examples run, and digits.py keeps its promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytest.importorskip("sklearn", reason="the digits ship with scikit-learn")


def _run(*arguments: str, cwd: Path) -> str:
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=cwd, env=environment
    )
    return done.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of one full run."""
    document: dict[str, Any] = json.loads(
        _run(str(ROOT / "examples/digits.py"), "--json", cwd=tmp_path_factory.mktemp("digits"))
    )
    return document


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_digits_are_recognised(digits: dict[str, Any], mode: str) -> None:
    assert digits[mode]["accuracy"] >= 0.97


def test_digits_losses_agree(digits: dict[str, Any]) -> None:
    assert digits["max_relative_loss_difference"] <= 1e-4
    assert digits["eager"]["losses"][-1] < 0.5 * digits["eager"]["losses"][0]


def test_digits_compiled_is_faster(digits: dict[str, Any]) -> None:
    # the example's own figure is 5x or more; a busy machine is allowed half of it
    assert digits["speed_up"] >= 2.5


def test_digits_for_people_draws_a_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    out = _run(str(ROOT / "examples/digits.py"), "--epochs", "2", cwd=tmp_path)
    assert "test accuracy" in out
    assert (tmp_path / "digits.png").stat().st_size > 10_000
