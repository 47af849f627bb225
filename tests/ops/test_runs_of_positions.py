"""Positions that are a few runs are read run by run, of many elements, and mean the same as looked up one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import events
from jitgrad.functions import windows
from tests.modes import Mode

F = jitgrad.nn.functional
POSITIONS = {
    "reflected": [2, 1, 0, 1, 2, 3, 4, 3, 2],
    "border": [0, 0, 0, 1, 2, 3, 4, 4],
    "around": [3, 4, 0, 1, 2, 3, 4, 0],
    "cropped": [1, 2, 3],
    "repeated": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
    "backwards": [4, 3, 2, 1, 0],
    "of no order": [0, 2, 4, 1, 3, 0, 2, 4],
    "once": [3],
    "repeated but one": [0, 0, 1, 1, 2, 2, 3, 3, 4],
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(POSITIONS))
def test_runs_mean_the_same(name: str, dim: int, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = [3, 4, 2]
    shape[dim] = 5
    array = np.random.default_rng(0).normal(size=shape)

    def step(x: Any) -> tuple[Any, Any]:
        out = windows.read(x, dim, POSITIONS[name])
        (out * out.sin()).sum().backward()
        return out.detach(), x.grad

    found = []
    for many in (0, 1 << 30):
        monkeypatch.setattr(windows, "_MANY", many)
        found.append(mode.run(step, lambda: (jitgrad.tensor(array, requires_grad=True),)))
    (by_runs, its_grad), (by_position, other_grad) = found
    np.testing.assert_array_equal(by_runs.numpy(), by_position.numpy())
    np.testing.assert_array_equal(by_runs.numpy(), np.take(array, POSITIONS[name], dim))
    np.testing.assert_allclose(its_grad.numpy(), other_grad.numpy(), rtol=1e-14)


def test_a_reflection_of_many_elements_looks_nothing_up() -> None:
    def names(x: Any) -> list[str]:
        with jitgrad.profiler.profile() as prof:
            F.pad(x, (2, 1), mode="reflect")
        return [e.name for e in prof.function_events if e.category == "op"]

    assert "index_select" in names(jitgrad.ones(2, 30))
    found = names(jitgrad.ones(20, 300))
    assert "index_select" not in found
    assert "cat" in found
    step = jitgrad.compile(lambda x: F.pad(x, (2, 1), mode="reflect") * 2)
    for _ in range(3):
        with events.count("launches") as launches:
            step(jitgrad.ones(20, 300))
    assert launches() >= 1
