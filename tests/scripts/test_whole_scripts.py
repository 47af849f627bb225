"""Forty-odd programs as PyTorch users write them print what they print with PyTorch, eagerly and compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from whole_scripts import SCRIPTS, difference, printed_by_jitgrad, printed_by_torch, read_reference

import jitgrad
from jitgrad.scripts.check import check_source

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-5
AMPLIFIES = {
    "cnn": (2e-4, "Adadelta at a rate of 1 divides small updates by small gradients"),
    "reinforce": (2e-3, "the loss is a sum of terms that cancel"),
}
"""Scripts that make more of a rounding (PyTorch itself does, by its number of threads): the tolerance, and why."""

_each_script = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return read_reference()


def _tolerance(path: Path) -> float:
    return AMPLIFIES.get(path.stem, (TOLERANCE, ""))[0]


@_each_script
def test_a_script_prints_what_pytorch_printed(path: Path, reference: dict[str, str]) -> None:
    expected = reference[path.stem]
    assert difference(printed_by_jitgrad(path), expected, _tolerance(path)) == ""
    before = jitgrad.stats()
    assert difference(printed_by_jitgrad(path, "--compile"), expected, _tolerance(path)) == ""
    after = jitgrad.stats()
    assert after["traces"] > before["traces"], "nothing was compiled"
    assert after["launches"] > before["launches"]


@_each_script
def test_pytorch_still_prints_it(path: Path, reference: dict[str, str]) -> None:
    pytest.importorskip("torch", reason="the reference is PyTorch's")
    assert difference(reference[path.stem], printed_by_torch(path), 10 * _tolerance(path)) == "", (
        "run `python tests/scripts/whole_scripts.py`"
    )


@_each_script
def test_check_finds_nothing(path: Path) -> None:
    assert check_source(path.read_text(), str(path)) == []


def test_none_is_lost_and_each_prints_its_losses(reference: dict[str, str]) -> None:
    assert len(SCRIPTS) >= 47
    assert {path.stem for path in SCRIPTS} == set(reference)
    for name, text in reference.items():
        numbers = [line for line in text.splitlines() if any(c.isdigit() for c in line)]
        assert len(numbers) >= 4, name


def test_the_command_prints_the_same(reference: dict[str, str]) -> None:
    path = next(path for path in SCRIPTS if path.stem == "vae")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "jitgrad", str(path), "--compile"], env=env, capture_output=True, text=True, check=True
    )
    assert difference(done.stdout, reference["vae"], TOLERANCE) == ""


@pytest.mark.parametrize("ours", ["loss 0.123456\n", "loss  0.123457\n"])
def test_rounding_is_no_difference(ours: str) -> None:
    assert difference(ours, "loss 0.123456\n", 1e-6) == ""


@pytest.mark.parametrize("ours", ["loss 0.123459", "Loss 0.123456", "loss 0.123456\nmore", "loss 0", "loss nan"])
def test_differences_are_found(ours: str) -> None:
    assert difference(f"{ours}\n", "loss 0.123456\n", 1e-6) != ""
