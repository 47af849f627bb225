"""What calls that ran operation by operation leave in the cache of freed blocks goes when a large arena comes."""

from __future__ import annotations

import gc

import pytest

import jitgrad as jg
from jitgrad import Tensor, stats
from jitgrad.config import config
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.memory import cached_nbytes


def test_blocks_of_interpreted_calls_make_room_for_an_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_at_once", 4)
    w = (jg.ones(1024, 1024) * 0.01).requires_grad_()

    @jg.compile
    def step(x: Tensor) -> None:
        for _ in range(6):
            x = (x @ w).tanh()
        x.sum().backward()

    x, before = jg.ones(1024, 1024), stats()["plans"]
    step(x)
    assert stats()["plans"] == before
    assert cached_nbytes() > 16 << 20
    for _ in range(3):
        step(x)
    assert stats()["plans"] > before
    arena = max(obj.lent_nbytes for obj in gc.get_objects() if type(obj) is LoadedStep)
    assert arena >= 8 << 20
    assert cached_nbytes() < arena + (8 << 20)
