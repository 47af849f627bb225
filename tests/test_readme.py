"""The README keeps its word: its example runs, its commands are there, one line each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import jitgrad

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def test_the_example_trains() -> None:
    match = re.search(r"```python\n(.*?)```", README, re.S)
    assert match is not None
    names: dict[str, Any] = {}
    exec(compile(match.group(1), "README.md", "exec"), names)
    x, y = jitgrad.randn(16, 64), jitgrad.randint(0, 10, (16,))
    losses = [names["step"](x, y).item() for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["example", "tests"])
def test_commands_are_one_line(name: str) -> None:
    match = re.search(rf"<!-- command: {name} -->\n```sh\n(.*?)```", README, re.S)
    assert match is not None
    assert len(match.group(1).strip().splitlines()) == 1
    assert "-m venv" in match.group(1)
