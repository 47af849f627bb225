"""What is known of one turn of a loop serves the others: programs are as if each turn were planned by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen import pipeline
from jitgrad.codegen.gemm import plan as products
from jitgrad.codegen.schedule.alike import Alike
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.tracer.misses import writes
from tests.compiled.long_steps import collected, differentiated, written

RNG = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return jg.from_numpy(RNG.standard_normal(shape).astype(np.float32))


def listing(program: Any) -> list[Any]:
    """All of a program but who keeps the code alive."""
    steps = []
    for step in program.steps:
        stages = [[launch(x) for x in stage] for stage in step.stages]
        steps.append((step.inputs, step.outputs, step.arena_nbytes, step.scalars, stages))
    return steps


def launch(x: Any) -> tuple[Any, ...]:
    return x.kernel, x.args, x.units, x.grain, x.cost, x.name


def lstm(turns: int) -> Callable[[], Any]:
    w_in, w_hidden = data(32, 8).requires_grad_(), data(32, 8).requires_grad_()
    bias, xs = data(32).requires_grad_(), data(turns, 5, 8)

    def step() -> Any:
        h = c = jg.zeros(5, 8)
        for t in range(turns):
            i, f, g, o = (F.linear(xs[t], w_in, bias) + F.linear(h, w_hidden)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        h.square().mean().backward()
        grads = [w.grad for w in (w_in, w_hidden, bias)]
        for w in (w_in, w_hidden, bias):
            w.grad = None
        return grads

    return step


def trained(turns: int) -> Callable[[], Any]:
    """The learning rate changes, so it is a run-time scalar from the second call on."""
    net = jg.nn.Sequential(jg.nn.Linear(6, 6), jg.nn.LayerNorm(6), jg.nn.Tanh(), jg.nn.Linear(6, 6))
    optimizer = jg.optim.Adam(net.parameters(), lr=0.1)
    x = data(7, 6)

    def step() -> Any:
        for _ in range(turns):
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.zero_grad()
            loss = F.softmax(net(x), 1).square().mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step


def embedded(turns: int) -> Callable[[], Any]:
    """Gathers and scatters, with checks of indices, each of another operation."""
    table, rows = data(9, 4).requires_grad_(), jg.from_numpy(RNG.integers(0, 9, (turns, 5)))

    def step() -> Any:
        total = jg.zeros(())
        for t in range(turns):
            total = total + (table[rows[t]] * (t + 1.5)).exp().sum()
        total.backward()
        grad, table.grad = table.grad, None
        return grad

    return step


def sliced(turns: int) -> Callable[[], Any]:
    """Windows of one operand, pads, sums along both dimensions, equal and unequal turns."""
    x = data(12, 12)

    def step() -> Any:
        y = x
        for t in range(turns):
            inner = y[1:-1, 1:-1] * 0.5 + y[:-2, 1:-1] - y[1:-1, 2:]
            y = F.pad(inner, (1, 1, 1, 1)) + y.sum(t % 2, keepdim=True) * 0.01
            y = y.t() if t % 3 == 0 else y
        return y, y.sum()

    return step


def joined(turns: int) -> Callable[[], Any]:
    """The same arithmetic, stored row by row and between other columns."""
    xs = [data(4, 4) for _ in range(turns)]

    def step() -> Any:
        apart = [x.sin() for x in xs[: turns // 2]]
        return *apart, jg.cat([x.sin() for x in xs[turns // 2 :]], 1)

    return step


STEPS: dict[str, Callable[[int], Callable[[], Any]]] = {
    "lstm": lstm,
    "trained": trained,
    "embedded": embedded,
    "sliced": sliced,
    "joined": joined,
    "differentiated": lambda turns: lambda: differentiated(jg.ones(4), turns),
    "written": lambda turns: lambda: written(jg.ones(4), turns),
    "collected": lambda turns: lambda: collected(jg.ones(4), turns),
}


def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn is planned by itself."""
    monkeypatch.setattr(Alike, "find", lambda self, key, outline: None)


@pytest.mark.parametrize("name", STEPS)
def test_programs_do_not_depend_on_what_was_found_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pipeline._planned_and_linked
    programs: list[list[Any]] = []

    def twice(segment: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(products, "_known_ways", {})  # tiles that exist are used again
            no_memory(patched)
            apart = plan(segment)
        with monkeypatch.context() as patched:
            patched.setattr(products, "_known_ways", {})
            program = plan(segment)
        assert listing(program) == listing(apart)
        programs.append(listing(program))
        return program

    monkeypatch.setattr(pipeline, "_planned_and_linked", twice)
    monkeypatch.setattr(config, "compile_at_once", 1 << 30)
    step = jg.compile(STEPS[name](6))
    for _ in range(3):
        step()
    assert any(launch for program in programs for step in program for stage in step[-1] for launch in stage)


@pytest.mark.parametrize("name", ["lstm", "trained", "sliced"])
def test_each_turn_of_a_loop_adds_kernels_alike_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen anew does not grow with the number of turns. (A check of an index names its operation.)"""
    monkeypatch.setattr(writes, "TURN_OPS", 1 << 30)
    monkeypatch.setattr(config, "compile_at_once", 1 << 30)
    chosen = []
    for turns in (9, 18):
        before = jg.stats()
        jg.compile(STEPS[name](turns))()
        counts = {name: value - before[name] for name, value in jg.stats().items()}
        chosen.append(counts["launches"] - counts["kernels_alike"])
    assert chosen[1] <= chosen[0] + 2, chosen
