"""The examples run, and digits.py keeps its promises."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

_WITHOUT_DIGITS = "the digits ship with scikit-learn"


def _run(*arguments: str, cwd: Path) -> str:
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=cwd, env=environment
    )
    return done.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of one full run."""
    pytest.importorskip("sklearn", reason=_WITHOUT_DIGITS)
    document: dict[str, Any] = json.loads(
        _run(str(ROOT / "examples/digits.py"), "--json", cwd=tmp_path_factory.mktemp("digits"))
    )
    return document


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_digits_are_recognised(digits: dict[str, Any], mode: str) -> None:
    assert digits[mode]["accuracy"] >= 0.97


def test_digits_losses_agree(digits: dict[str, Any]) -> None:
    assert digits["max_relative_loss_difference"] <= 3e-4, "more than rounding, which each step amplifies"
    assert digits["eager"]["losses"][-1] < 0.5 * digits["eager"]["losses"][0]


def test_digits_steps_are_hits(digits: dict[str, Any]) -> None:
    """The counters say that a compiled epoch is fast: its seconds would say whether the machine is busy."""
    stats = digits["stats"]
    assert stats["traces"] >= 23 * len(digits["compiled"]["losses"]), "a step per batch of 64 of the 1,437 images"
    assert stats["plans"] == 2, "full batches and the last one of an epoch, which is short"
    assert stats["launches"] >= 10 * stats["traces"]
    assert stats["fallbacks"] == stats["engine_runs"] == stats["left_calls"] == 0


def test_digits_for_people_draws_a_plot(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason=_WITHOUT_DIGITS)
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    out = _run(str(ROOT / "examples/digits.py"), "--epochs", "2", cwd=tmp_path)
    assert "test accuracy" in out
    assert (tmp_path / "digits.png").stat().st_size > 10_000


SHORT = {
    "cartpole": ("--steps", "6"),
    "cnn": ("--epochs", "2", "--batch", "256"),
    "fno": ("--epochs", "2", "--waves", "16"),  # a long call is compiled when it comes again
    "factorization": ("--epochs", "1", "--batch", "1024"),
    "gpt": ("--steps", "8"),
    "implied_volatility": ("--steps", "8"),
    "neural_ode": ("--steps", "8"),
    "orbit_fit": ("--steps", "6"),
    "pinn2d": ("--steps", "6"),
    "vae": ("--epochs", "2", "--batch", "256"),
}
"""Examples over ``examples/common.py``, and arguments with which they take seconds."""


@pytest.mark.parametrize("name", SHORT)
def test_an_example_trains_the_same_eagerly_and_compiled(name: str, tmp_path: Path) -> None:
    if name in ("cnn", "vae"):
        pytest.importorskip("sklearn", reason=_WITHOUT_DIGITS)
    if name == "implied_volatility":
        pytest.importorskip("numba", reason="the example's root finder is compiled by Numba")
    plot = ["--plot", "plot.png"] if importlib.util.find_spec("matplotlib") else []
    document = json.loads(_run(str(ROOT / "examples" / f"{name}.py"), "--json", *SHORT[name], *plot, cwd=tmp_path))
    eager, compiled = document["eager"], document["compiled"]
    assert len(eager["losses"]) == len(compiled["losses"]) == len(compiled["seconds"]) == int(SHORT[name][1])
    assert document["max_relative_loss_difference"] <= 1e-4
    assert eager["figures"].keys() == compiled["figures"].keys() != set()
    assert document["stats"]["launches"] > 0
    if plot:
        assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_every_example_is_in_the_readme_and_is_tried() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"common"}
    readme, tests = (ROOT / "README.md").read_text(), Path(__file__).read_text()
    assert [name for name in sorted(names) if f"examples/{name}.py" not in readme] == []
    assert [name for name in sorted(names - SHORT.keys()) if f"examples/{name}.py" not in tests] == []


@pytest.mark.parametrize("name", ["pinn", "rosenbrock"])
def test_a_small_example_runs(name: str, tmp_path: Path) -> None:
    assert _run(str(ROOT / {"pinn": "examples/pinn.py", "rosenbrock": "examples/rosenbrock.py"}[name]), cwd=tmp_path)


def test_orbit_is_found(tmp_path: Path) -> None:
    """Newton's method with a Hessian through a custom function converges in a few steps."""
    out = _run(str(ROOT / "examples/orbit.py"), cwd=tmp_path)
    steps = [line for line in out.splitlines() if line.startswith("step")]
    misfits = [float(line.split("misfit")[1].split()[0]) for line in steps]
    assert len(steps) <= 8
    assert misfits[0] > 1e-2
    assert misfits[-1] < 1.2e-4, "the noise has a variance of 1e-4"
    assert "us compiled" in out


def test_look_inside(tmp_path: Path) -> None:
    """The graph is drawn, the engine is seen at work, and the parameter that was detached is found."""
    out = _run(str(ROOT / "examples/look_inside.py"), cwd=tmp_path)
    assert "MeanBackward0    -> PowBackward" in out
    assert "inner.weight" in (tmp_path / "graph.dot").read_text()
    executed = next(line for line in out.splitlines() if "executed:" in line)
    assert executed.count("AddmmBackward0") == 3
    assert "not_ready" in out
    missing = [line for line in out.splitlines() if line.startswith("scale: ")]
    assert len(missing) == 1
    compiled = out.partition("--- compiled: ")[2]
    assert "kernels" in compiled
    assert "Backward0" not in compiled, "the backward is in the kernels"


def test_newton_converges(tmp_path: Path) -> None:
    """Forward over reverse, eagerly and in a compiled step; a step is one segment, and gradients of examples differ."""
    out = _run(str(ROOT / "examples/newton.py"), cwd=tmp_path)
    losses = {line.split(":")[0]: line.split("loss ")[1].split(";")[0].split() for line in out.splitlines()[:2]}
    for first, last in losses.values():
        assert float(first) == pytest.approx(float(losses["eager"][0]), rel=1e-5)
        assert float(last) < 1e-3 < float(first)
    assert set(losses) == {"eager", "compiled"}
    assert "segments per step: 1" in out
    assert "pulls hardest is x = " in out
