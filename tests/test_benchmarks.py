"""The benchmark harness: what it believes, what it prints. Speeds are not tested here."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cli import main
from benchmarks.process import WorkerError, WorkerProcess
from benchmarks.report import print_report, to_markdown
from benchmarks.result import RowResult, SubjectResult, compare, geometric_mean
from benchmarks.row import Row, Wrap
from benchmarks.rows import ROWS

ROOT = Path(__file__).resolve().parents[1]
HAS_TORCH = importlib.util.find_spec("torch") is not None
ROW = Row("row", "a row", "rosenbrock", rtol=1e-3)


def _subject(name: str, losses: list[float], quartile: float | None = None) -> SubjectResult:
    return SubjectResult(name, losses=losses, state=[1.0], lower_quartile_us=quartile, median_us=quartile)


def test_equal_losses_are_valid() -> None:
    subjects = {n: _subject(n, [1.0, 2.0]) for n in ("jitgrad", "torch-eager", "jax")}
    assert compare(ROW, subjects) == []


@pytest.mark.parametrize("losses", [[1.0, 2.01], [1.0], [1.0, float("nan")]])
def test_other_losses_are_not(losses: list[float]) -> None:
    subjects = {"jitgrad": _subject("jitgrad", losses), "torch-eager": _subject("torch-eager", [1.0, 2.0])}
    assert len(compare(ROW, subjects)) == 1


def test_a_subject_that_failed_is_not_compared() -> None:
    subjects = {"jitgrad": SubjectResult("jitgrad", error="no such operation"), "jax": _subject("jax", [1.0])}
    assert compare(ROW, subjects) == []


def test_ratio_is_to_the_best_peer() -> None:
    subjects = {
        "jitgrad-eager": _subject("jitgrad-eager", [1.0], 1.0),
        "jitgrad": _subject("jitgrad", [1.0], 10.0),
        "torch-eager": _subject("torch-eager", [1.0], 30.0),
        "jax": _subject("jax", [1.0], 15.0),
    }
    assert RowResult(ROW, subjects).ratio == pytest.approx(1.5)
    assert RowResult(ROW, subjects, ["different"]).ratio is None
    assert geometric_mean([4.0, 1.0]) == pytest.approx(2.0)


def test_reports_say_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    subjects = {"jitgrad": SubjectResult("jitgrad", error="no such operation"), "jax": _subject("jax", [1.0], 3.0)}
    results = [RowResult(ROW, subjects, ["jax: losses differ"])]
    print_report(results)
    for text in (capsys.readouterr().out, to_markdown(results)):
        assert "no such operation" in text
        assert "INVALID" in text


def test_unknown_rows_are_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="KeyError"):
        WorkerProcess("nothing", "jitgrad", 0, 1, tmp_path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all rows: what hits and eager operations run by is the same in all of them, and takes LLVM a second."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", ROWS)
def test_modes_agree_on_every_row(name: str, cache: Path) -> None:
    """Eager against compiled: every row's steps, as the workers take them; large rows in small."""
    row = ROWS[name]
    found = {s: _checked(row, s, cache) for s in ("jitgrad-eager", "jitgrad")}
    assert [result.error for result in found.values()] == [None, None]
    assert compare(row, found) == []


def _checked(row: Row, subject: str, cache: Path) -> SubjectResult:
    result = SubjectResult(subject)
    try:
        worker = WorkerProcess(f"{row.name}:small" if row.small else row.name, subject, 0, 1, cache)
    except WorkerError as error:
        result.error = str(error)
        return result
    try:
        answer = worker.ask("check", steps=row.check_steps)
    finally:
        worker.close()
    result.losses, result.state = answer["losses"], answer["state"]
    return result


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
@pytest.mark.parametrize("name", ROWS)
def test_rows_mean_the_same_in_torch(name: str, cache: Path) -> None:
    row = ROWS[name]
    ours, theirs = _checked(row, "jitgrad-eager", cache), _checked(row, "torch-eager", cache)
    assert (ours.error, theirs.error) == (None, None)
    assert compare(row, {"jitgrad-eager": ours, "torch-eager": theirs}) == []


def test_command_line_writes_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "rosenbrock_1e3", "--seconds", "0.1", "--starts", "1",
         "--subjects", "jitgrad-eager,jitgrad", "--json"],
        check=True, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ),
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    (row,) = document["rows"]
    assert row["valid"]
    assert {s["subject"]: s["error"] for s in row["subjects"]} == {"jitgrad-eager": None, "jitgrad": None}
    for subject in row["subjects"]:
        assert 0 < subject["cold_s"] < subject["cold_tenth_s"]
        assert subject["lower_quartile_us"] > 0 and subject["peak_nbytes"] > 0


def test_wrap_defaults_to_nothing() -> None:
    assert Wrap().step(main) is main


def test_first_calls_are_measured() -> None:
    first_call = importlib.import_module("benchmarks.first_call")
    for kind in first_call.KINDS.values():
        found = first_call.ratios(kind, 40, size=300, repeats=1)
        eager, calls, planning = found
        assert found.plan > 0 and max(planning) > 0
        assert eager > 0
        assert all(0 < ratio < 100_000 for ratio in calls)


@pytest.mark.skipif(not HAS_TORCH, reason="compares with PyTorch")
def test_single_operations_are_measured() -> None:
    single = importlib.import_module("benchmarks.single")
    assert len(single.OPERATIONS) == 60
    torch = importlib.import_module("torch")
    assert len(single.ON_INTEGERS) == 20
    assert len(single.AROUND) == 24
    for name in single.AROUND:
        assert single.measure(torch, name, 10, False, 1, 0.0).ours_us > 0
    for name in single.ON_INTEGERS:
        assert single.measure(torch, name, 12, False, 1, 0.0).ours_us > 0
    for name in single.OPERATIONS:
        if name not in ("floor", "sign", "slice"):
            row = single.measure(torch, name, 12, True, 1, 0.0)
            assert row.ours_us > 0.0 and row.theirs_us > 0.0 and row.ratio > 0.0


@pytest.mark.skipif(not HAS_TORCH, reason="compares with PyTorch")
@pytest.mark.parametrize("kind", ["forward", "step"])
def test_modules_of_both_libraries_agree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = importlib.import_module("benchmarks.modules")
    alternating = importlib.import_module("benchmarks.alternating")
    monkeypatch.setattr(modules, "begin", lambda: None)
    assert len(modules.CASES) > 80
    for case in modules.CASES:
        ours, theirs = (alternating.summary(case.call_of(subject, kind)()) for subject in ("jitgrad", "torch"))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3, err_msg=case.name)


@pytest.mark.skipif(not HAS_TORCH, reason="compares with PyTorch")
@pytest.mark.parametrize("kind", ["forward", "step"])
def test_kernels_of_both_libraries_agree(kind: str) -> None:
    kernels = importlib.import_module("benchmarks.kernels")
    alternating = importlib.import_module("benchmarks.alternating")
    assert len(kernels.CASES) > 80
    for case in kernels.CASES[:: 5 if kind == "step" else 3]:
        ours, theirs = (alternating.summary(case.call_of(subject, kind)()) for subject in ("jitgrad", "torch"))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3, err_msg=case.name)


@pytest.mark.skipif(not HAS_TORCH, reason="compares with PyTorch")
def test_loops_of_all_forms_are_measured() -> None:
    forms = importlib.import_module("benchmarks.forms")
    for name in forms.LOOPS:
        row = forms.measure(name, 0.0, blocks=1, warm_calls=1)
        assert [*row] == [*forms.WAYS] and min(row.values()) > 0.0


def test_recording_is_measured() -> None:
    recording = importlib.import_module("benchmarks.recording")
    body = recording.KINDS["operators on tensors (x * y + y)"]
    # the difference of two times: a machine that is busy during one of them may make it anything
    assert any(0.0 < recording.microseconds_per_op(body, 0.1) < 20.0 for _ in range(10))


def test_devices_are_measured() -> None:
    devices = importlib.import_module("benchmarks.devices")
    figures = devices.measure(size=16, length=2, rounds=1)
    assert set(figures) == {"one_device_ms", "two_devices_ms", "submit_ms", "ratio", "bare_ratio"}
    assert all(value > 0 for value in figures.values())


@pytest.mark.skipif(not HAS_TORCH, reason="compares with PyTorch")
def test_programs_over_ever_new_sizes_agree() -> None:
    sizes = importlib.import_module("benchmarks.sizes")
    for name in sizes.PROGRAMS:
        ours, theirs = (sizes.run(name, way, steps=8) for way in ("jitgrad, compiled", "torch"))
        assert min(ours.early, ours.late, theirs.late) > 0.0
        np.testing.assert_allclose(ours.loss, theirs.loss, rtol=2e-3, err_msg=name)
