"""A short form of ``python -m tests.leaks``: memory is as large after many calls as it was in their middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import leaks

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no such file")


SHARES = {"loads": 0.4, "rows": 0.4}
"""Scenes whose growth would be too small otherwise."""


@pytest.mark.parametrize("name", leaks.SCENES)
def test_memory_stays_flat(name: str) -> None:
    text, is_flat = leaks.play(name, SHARES.get(name, 0.004))
    print(text)
    assert is_flat, text


def test_growth_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bytearray] = []
    monkeypatch.setitem(leaks.SCENES, "held", (16, lambda: lambda nr: held.append(bytearray(b"x" * (8 << 20)))))
    count, nbytes = leaks.grown_nbytes("held", 1.0)
    assert count == 16
    assert nbytes > leaks.BOUND_NBYTES
