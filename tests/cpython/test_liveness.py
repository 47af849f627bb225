"""What counts as held, by reference counts and by weak references: the same, on every interpreter."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad.cpython import build, liveness
from jitgrad.cpython.primitives import refcount


class Thing:
    """Can be held weakly, as tensors can."""


_WAYS = {"in use": liveness.held_elsewhere, "found again": liveness._found_again}
if liveness.ONE_LOCAL:
    _WAYS["counted"] = liveness._counted


@pytest.fixture(params=_WAYS)
def held_elsewhere(request: pytest.FixtureRequest) -> Callable[[list[Any]], list[Any]]:
    return _WAYS[request.param]


def test_what_only_the_list_holds_is_not_held(held_elsewhere: Callable[[list[Any]], list[Any]]) -> None:
    assert held_elsewhere([Thing(), Thing(), Thing()]) == []


def test_every_kind_of_holder_counts(held_elsewhere: Callable[[list[Any]], list[Any]]) -> None:
    local, holder = Thing(), Thing()
    holder.slot, table, rows = Thing(), {"key": Thing()}, [Thing()]  # type: ignore[attr-defined]
    closure = (lambda thing: lambda: thing)(Thing())
    expected = [local, holder.slot, table["key"], rows[0], closure()]  # type: ignore[attr-defined]
    handles = [x for thing in expected for x in (Thing(), thing)]
    thing = x = None
    del expected, thing, x
    kept = held_elsewhere(handles)
    assert kept == [local, holder.slot, table["key"], rows[0], closure()]  # type: ignore[attr-defined]


def test_what_is_twice_in_the_list_is_held(held_elsewhere: Callable[[list[Any]], list[Any]]) -> None:
    handles = [Thing(), Thing()]
    handles.append(handles[0])
    first = id(handles[0])
    assert [id(x) for x in held_elsewhere(handles)] == [first, first]


def test_what_is_held_stays_in_the_list(held_elsewhere: Callable[[list[Any]], list[Any]]) -> None:
    mine = Thing()
    handles = [mine]
    assert held_elsewhere(handles) == handles == [mine]


def test_a_local_variable_is_one_reference() -> None:
    alone = Thing()
    count = liveness.references(alone)
    assert count == (liveness.ONE_LOCAL if liveness.counts_references else liveness.MANY)
    listed = [alone]
    assert liveness.references(alone) == count + liveness.counts_references
    del listed


def test_cpython_with_the_gil_counts() -> None:
    """A probe that fails costs every user a copy of each gradient and the native hits: it must not go unnoticed."""
    assert bool(liveness.ONE_LOCAL) == (sys.implementation.name == "cpython" and not build.is_free_threaded())


@pytest.mark.parametrize("wrong", [itertools.repeat(7), itertools.count()], ids=["constant", "different every time"])
def test_counts_that_do_not_add_up_are_not_used(wrong: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_getrefcount", lambda x: next(wrong))
    assert liveness._measure() == 0


def test_free_threading_is_a_question_of_the_build() -> None:
    assert build.is_free_threaded() == bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_builds_without_abi_flags_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "abiflags", raising=False)
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert build.is_free_threaded()
    assert not build.is_known_interpreter()


_STEPS = """
import json
import jitgrad
from jitgrad import nn, optim
from jitgrad.cpython import liveness
from jitgrad.state import native_cell

def train(wrap):
    jitgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    x, y = jitgrad.randn(16, 4), jitgrad.randn(16, 1)
    losses = []
    for _ in range(6):
        before = jitgrad.stats()["misses"]
        losses.append(step(x, y).item())
    return losses, jitgrad.stats()["misses"] - before

eager, _ = train(lambda f: f)
compiled, misses = train(jitgrad.compile)
print(json.dumps({
    "counts": liveness.counts_references, "native": native_cell.is_installed, "misses": misses,
    "error": max(abs(a - b) for a, b in zip(eager, compiled)), "launches": jitgrad.stats()["launches"],
}))
"""


def test_steps_are_compiled_without_counts() -> None:
    env = {**os.environ, "JITGRAD_LIVENESS": "weak"}
    found = json.loads(subprocess.run([sys.executable, "-c", _STEPS], check=True, capture_output=True, env=env).stdout)
    assert not found["counts"]
    assert not found["native"]
    assert found["misses"] == 0
    assert found["launches"] > 0
    assert found["error"] < 1e-5


def test_memory_that_numpy_looks_at_does_not_grow() -> None:
    x = jitgrad.arange(3.0)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="cannot grow"):
        x.resize_(9)
    array[0] = 7
    assert x.tolist() == [7, 1, 2]
    del array
    assert x.resize_(4).tolist()[:3] == [7, 1, 2]


def test_refcount_leaves_out_the_variable_that_is_asked_about() -> None:
    def counted(things: list[Any]) -> list[int]:
        counts = []
        for thing in things:
            counts.append(refcount(thing))  # a comprehension has another kind of variable
        return counts

    if not liveness.counts_references:
        assert counted([Thing()])[0] > 1000
        return
    held = Thing()
    for _ in range(40):  # CPython rewrites instructions that ran often
        assert counted([Thing()]) == [1]
        assert counted([held]) == [2]
