"""A short form of ``python -m tests.attack.faults``: each scene with few of its faults."""

from __future__ import annotations

import os

import pytest

from tests.attack import faults
from tests.attack.scenes import SCENES, Outcome, in_child, spread

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")

SHARES = {"paths_of_save": 1.0}
"""Scenes whose short form is not the least that there is."""

ON_SOME_SYSTEMS = {"small_file_systems", "subinterpreters"}
"""What a scene needs is not there everywhere: it may try nothing."""


@pytest.mark.parametrize("name", SCENES)
def test_faults_are_survived(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The long form, by hand, has native hits: to compile these takes most of a child's time."""
    is_long = bool(os.environ.get("JITGRAD_LONG_TESTS"))
    share = 1.0 if is_long else SHARES.get(name, 0.002)
    if not is_long:
        monkeypatch.setenv("JITGRAD_NATIVE_HITS", "0")
    tried, survived, text = faults.play(name, share)
    print(text)
    assert survived == tried, text
    assert tried > 0 or name in ON_SOME_SYSTEMS


def test_what_a_child_says_and_how_it_ends_is_told() -> None:
    assert in_child(lambda: "") == ""
    assert in_child(lambda: "wrong") == "wrong"
    assert "ZeroDivisionError" in in_child(lambda: str(1 // 0))
    assert in_child(lambda: os.abort() or "") == "the child ended with status -6"
    assert "status 1" in in_child(lambda: __import__("time").sleep(60) or "", budget_s=0.5)


def test_a_fault_that_is_not_survived_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SCENES, "planted", lambda share: iter([Outcome("one", ""), Outcome("other", "it was wrong")]))
    faults._inside("planted", 1.0)
    assert capsys.readouterr().out == "other: it was wrong\nplanted: tried 2, survived 1\n"


def test_a_share_is_spread_over_all() -> None:
    assert spread(10, 0.0, 3) == [0, 3, 6]
    assert spread(2, 1.0, 3) == [0, 1]
    assert spread(5, 1.0) == list(range(5))
