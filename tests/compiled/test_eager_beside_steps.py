"""Eager code on one thread, a compiled step on another, and tensors that both have: Note [Threads that share tensors].

Eager code waits a moment for the step's segment; then it raises a RuntimeError that says what the threads did.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.errors import OTHER_THREAD, STILL_RECORDED
from jitgrad.tracer.recording import recorder_state
from jitgrad.tracer.recording.recorder_state import RUNNING
from tests.thread_stress import SCENES, play
from tests.threads import Pause


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Steps that stand still do so until the eager code has raised: nobody need wait for them."""
    if "name" not in request.fixturenames:
        monkeypatch.setattr(recorder_state, "_PATIENCE_S", 0.001)


@pytest.fixture(params=["first", "third"])
def count(request: pytest.FixtureRequest) -> int:
    """How many calls come before the one that stands still: recorded for the first time, or hits."""
    return {"first": 0, "third": 2}[request.param]


def _numbers() -> Any:
    return jg.arange(6.0)


READS: dict[str, Callable[[Any], Any]] = {
    "values": lambda x: x.tolist(),
    "a number": lambda x: x[0].item(),
    "an operation": lambda x: x * 1.0,
    "two operands": lambda x: x + x,
    "several": lambda x: jg.cat([x, x]),
    "NumPy": lambda x: x.numpy(),
    "a view": lambda x: x[:2].tolist(),
    "text": repr,
    "a copy": lambda x: copy.deepcopy(x),
    "an operand of a write": lambda x: jg.zeros(x.shape).add_(x),
}

WRITES: dict[str, Callable[[Any], Any]] = {
    "fill": lambda x: x.fill_(7.0),
    "multiply": lambda x: x.mul_(2.0),
    "item": lambda x: x.__setitem__(1, 3.0),
    "a view": lambda x: x[1:].zero_(),
    "a graph": lambda x: x.add_(jg.ones(6, requires_grad=True)),
    "data": lambda x: setattr(x, "data", jg.ones(6)),
    "an optimizer": lambda x: jg.optim.SGD([x.requires_grad_()], lr=1.0).step() if _gives_grad(x) else None,
}


def _gives_grad(x: Any) -> bool:
    x.grad = jg.ones(6)
    return True


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_a_step_has_read_is_not_written(count: int, write: Callable[[Any], Any]) -> None:
    pause, w = Pause(), _numbers()

    @jg.compile
    def step(x: Any) -> Any:
        y = w * x
        pause()
        return y + w

    for _ in range(count):
        step(jg.ones(6))
    with pause.inside(lambda: step(jg.full((6,), 3.0))) as results:
        with pytest.raises(RuntimeError, match="two threads record"):
            write(w)
        w.requires_grad_(False)
        assert w.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert results[0].tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    write(w)
    assert not RUNNING


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("through_view", [False, True])
def test_what_a_step_writes_is_not_read(count: int, read: Callable[[Any], Any], through_view: bool) -> None:
    pause, w = Pause(), _numbers()
    before = w[2:]

    @jg.compile
    def step() -> Any:
        if through_view:
            w[1:].add_(1.0)
        else:
            w.add_(1.0)
        pause()
        return w.sum()

    for _ in range(count):
        step()
        w.copy_(_numbers())
    with pause.inside(step) as results:
        for x in (w, before):
            with pytest.raises(RuntimeError, match="two threads record"):
                read(x)
    assert results[0].item() == (20.0 if through_view else 21.0)
    read(w)
    assert before.tolist() == [3.0, 4.0, 5.0, 6.0]


MADE: dict[str, Callable[[Any], Any]] = {
    "a result": lambda x: x * 2,
    "a view": lambda x: (x * 2)[1:],
    "an alias": lambda x: (x * 2).detach(),
    "of a leaf": lambda x: x * jg.ones(6, requires_grad=True),
    "a view of that": lambda x: (x * jg.ones(6, requires_grad=True)).reshape(2, 3),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_a_step_has_yet_to_compute_is_not_seen(count: int, make: Callable[[Any], Any]) -> None:
    """Its memory may be there already, with anything in it."""
    pause, box = Pause(), []

    @jg.compile
    def step(x: Any) -> Any:
        y = make(x)
        box[:] = [y]
        pause()
        total = y.sum().item()
        pause()
        return total

    def look(x: Any) -> Any:
        return [x.detach().tolist(), (x * 1.0).tolist(), x.detach()[:1].tolist()]

    other = jg.compile(lambda x: (x * 1.0).sum())
    for _ in range(count):
        step(jg.ones(6))
    with pause.inside(lambda: step(jg.ones(6))) as results:
        for reads in (look, lambda x: x.tolist(), repr, lambda x: x.detach().mul_(2.0), other):
            with pytest.raises(RuntimeError, match=r"another thread is still recording|two threads"):
                reads(box[0])
    assert results == [box[0].sum().item()]
    look(box[0])


def test_what_is_computed_is_seen_while_the_step_goes_on(count: int) -> None:
    pause, box, w = Pause(), [], _numbers()

    @jg.compile
    def step(x: Any) -> Any:
        y = x * w
        w.add_(1.0)
        box[:] = [y, y[1:]]
        total = y.sum().item()
        pause()
        return total

    for _ in range(count):
        step(jg.ones(6))
        w.copy_(_numbers())
    with pause.inside(lambda: step(jg.ones(6))) as results:
        assert box[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert (box[1] * 1.0).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert w.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert results == [15.0]


def test_what_the_step_has_not_met_is_free(count: int) -> None:
    pause, w, table = Pause(), _numbers(), jg.zeros(4, 3)

    @jg.compile
    def step(rows: Any) -> Any:
        y = (rows * 2).sum()
        pause()
        rows.add_(1.0)
        return y

    for _ in range(count):
        step(table[:2].detach())
    table.zero_()
    with pause.inside(lambda: step(table[:2].detach())):
        w.fill_(2.0)
        table[2:].fill_(5.0)
        assert (w + w).tolist() == [4.0] * 6
        assert table.tolist() == [[0.0] * 3] * 2 + [[5.0] * 3] * 2
    assert table.tolist() == [[1.0] * 3] * 2 + [[5.0] * 3] * 2


def test_eager_code_waits_for_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_state, "_PATIENCE_S", 60.0)
    pause, w = Pause(), _numbers()

    @jg.compile
    def step() -> Any:
        w.add_(1.0)
        pause()
        return w.sum()

    with pause.inside(step):
        monkeypatch.setattr(recorder_state.time, "sleep", lambda _: pause.go_on())
        assert w.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_the_messages_say_what_happened() -> None:
    assert "take turns" in OTHER_THREAD
    assert "another thread" in STILL_RECORDED


@pytest.mark.parametrize("name", SCENES)
def test_scenes_of_the_stress(name: str) -> None:
    """A hundredth of ``python -m tests.thread_stress``."""
    counts, lines = play(SCENES[name](), 100)
    assert not lines
    assert counts["tried"] == counts["right"] + counts["refused"]
    assert counts["right"] > counts["tried"] // 4
