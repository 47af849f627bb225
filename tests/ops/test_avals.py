"""Avals are interned: equal ones are identical as long as somebody holds one, and go when nobody does."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import jitgrad as jg
from jitgrad.ops import aval as module
from jitgrad.ops.aval import Aval, make_aval

MANY = 3_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is swept from few entries on, and little is kept because it is recent."""
    monkeypatch.setattr(module, "_LEAST", MANY)
    monkeypatch.setattr(module, "_sweep_at", MANY)
    recent = module._recent
    monkeypatch.setattr(module, "_recent", type(recent)(maxlen=16))


def _make(offset: int) -> Aval:
    return make_aval((3, 2), jg.float32, (2, 1), 10_000_000 + offset)


def test_equal_ones_are_identical() -> None:
    held = _make(0)
    assert _make(0) is held
    assert held.on(jg.device("vcpu:0")) is held.on(jg.device("vcpu:0"))
    for offset in range(1, 4 * MANY):
        _make(offset)
    gc.collect()
    assert _make(0) is held
    assert held.on(jg.device("cpu")) is held


def test_those_that_nobody_holds_go() -> None:
    gc.collect()
    before = len(module._INTERNED)
    gone = weakref.ref(_make(1))
    for offset in range(2, 20 * MANY):
        _make(offset)
    assert gone() is None
    assert len(module._INTERNED) <= 2 * before + 2 * MANY


def test_those_that_are_used_stay() -> None:
    held = [_make(offset) for offset in range(2 * MANY)]
    for offset in range(2 * MANY, 12 * MANY):
        _make(offset)
    assert all(_make(offset) is one for offset, one in enumerate(held))


def test_rows_of_a_data_set_leave_nothing() -> None:
    x = jg.arange(20 * MANY, dtype=jg.float32)
    x[0]
    gc.collect()
    before = len(module._INTERNED)
    for i in range(20 * MANY):
        assert float(x[i]) == i
    assert len(module._INTERNED) <= 2 * (before + 10_000)  # of which 4,096 plans of views hold one each


def test_threads_get_the_same_ones() -> None:
    found: list[list[Aval]] = []
    start = threading.Barrier(4)

    def make() -> None:
        start.wait()
        found.append([_make(offset) for offset in range(2 * MANY)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(a is b for row in found[1:] for a, b in zip(row, found[0], strict=True))
