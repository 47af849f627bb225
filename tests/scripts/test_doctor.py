"""``python -m jitgrad doctor`` and ``--help``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import jitgrad
import jitgrad.__main__ as command
from jitgrad.__main__ import main
from jitgrad.config import LOGS, VARIABLES, config
from jitgrad.scripts import doctor
from jitgrad.scripts.doctor import OPTIONAL, SelfTest, examine, self_test


def test_help_lists_every_variable_and_artifact(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and sentence in shown for name, sentence in (VARIABLES | LOGS).items())


def test_every_variable_in_the_sources_is_listed() -> None:
    files = Path(jitgrad.__file__).parent.rglob("*.py")
    named = {name for file in files for name in re.findall(r"JITGRAD_[A-Z_]*[A-Z]", file.read_text())}
    assert named - {"JITGRAD_"} == set(VARIABLES)


def test_the_self_test_passes_and_would_fail() -> None:
    found = self_test()
    assert found.passed
    assert found.slope_difference > 0
    for name in ("loss_difference", "gradient_difference", "slope_difference"):
        assert not replace(found, **{name: 1e-3}).passed


def test_doctor_names_what_is_there_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert jitgrad.__version__ in shown
    assert all(name in shown for name in ("llvmlite", "processor", "disk cache", "passed", *OPTIONAL))
    assert "JITGRAD_TUNE=0" in shown


def test_doctor_is_a_script_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_run", lambda script, args, is_module: ran.append(script))
    (tmp_path / "doctor").write_text("raise SystemExit(7)\n")
    assert main(["doctor"]) == 0
    assert ran == ["doctor"]


def test_problems_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("JITGRAD_TRHEADS", "1")
    monkeypatch.setattr(config, "cache_dir", blocked)
    monkeypatch.setattr(doctor, "self_test", lambda: SelfTest(1.0, 0.0, 0.0, 1, 0, 0))
    problems = "\n".join(examine().problems)
    assert "self-test failed" in problems
    assert "JITGRAD_TRHEADS is set, and jitgrad reads no such variable" in problems
    assert "disk cache is not readable" in problems
