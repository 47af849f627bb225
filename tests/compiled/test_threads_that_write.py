"""Threads whose compiled steps meet the same tensors, some of which write them: Note [Threads that share tensors].

A call is right, or raises a RuntimeError that says what the threads did; afterwards everything works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.errors import OTHER_THREAD, STILL_RECORDED
from jitgrad.tracer.recording.recorder_state import RUNNING
from tests.threads import Pause, run_threads, switching_often


@pytest.fixture(params=["first", "third"])
def count(request: pytest.FixtureRequest) -> int:
    """How many calls come before those that meet: recorded for the first time, or hits."""
    return {"first": 0, "third": 2}[request.param]


def test_a_write_to_what_another_call_has_read_raises(count: int) -> None:
    pause, w = Pause(), jg.ones(4)

    @jg.compile
    def reads(x: Any) -> Any:
        y = w * x
        pause()
        return (y + w).sum()

    @jg.compile
    def writes() -> Any:
        return w.mul_(2.0).sum()

    for _ in range(count):
        reads(jg.ones(4))
        writes()
        w.fill_(1.0)
    with pause.inside(lambda: reads(jg.full((4,), 3.0)).item()) as results:
        with pytest.raises(RuntimeError, match="two threads record"):
            writes()
        assert w.tolist() == [1.0] * 4
    assert results == [16.0]
    assert writes().item() == 8.0
    assert reads(jg.ones(4)).item() == 16.0


def test_a_read_of_what_another_call_is_writing_raises(count: int) -> None:
    pause, w = Pause(), jg.ones(4)

    @jg.compile
    def writes() -> Any:
        w.add_(1.0)
        pause()
        w.mul_(2.0)
        return w.sum()

    reads = jg.compile(lambda x: (w * x).sum())
    for _ in range(count):
        writes()
        reads(jg.ones(4))
        w.fill_(1.0)
    with pause.inside(lambda: writes().item()) as results, pytest.raises(RuntimeError, match="two threads record"):
        reads(jg.ones(4))
    assert results == [16.0]
    assert reads(jg.ones(4)).item() == 16.0


def test_a_leaf_that_has_the_id_of_memory_that_was_written(count: int) -> None:
    """Memory that a call has written may go before its segment ends; a leaf on another thread may get its id."""
    pause, w, v = Pause(), jg.ones(4), jg.ones(4, requires_grad=True)

    @jg.compile
    def writes() -> Any:
        w.add_(1.0)
        pause()
        return w.sum()

    @jg.compile
    def differentiates() -> Any:
        (v * 2).sum().backward()

    for _ in range(count):
        writes()
        differentiates()
        v.grad = None
        w.fill_(1.0)
    with pause.inside(lambda: writes().item()) as results:
        (other,) = RUNNING.values()
        other.claims.add(id(v))
        differentiates()
    assert v.grad.tolist() == [2.0] * 4
    assert results == [8.0]


def test_what_a_segment_has_written_may_be_read_and_then_not_be_written(count: int) -> None:
    pause, w = Pause(), jg.ones(4)

    @jg.compile
    def writes() -> Any:
        w.add_(1.0)
        before = w.sum().item()
        pause()
        return before, w.mul_(2.0).sum().item()

    both = Pause()

    @jg.compile
    def reads() -> Any:
        out = w * 3
        both()
        return out.sum().item()

    for _ in range(count):
        writes()
        reads()
        w.fill_(1.0)
    with pause.inside(writes) as written:
        assert reads() == 24.0
        with both.inside(reads) as read:
            pause._goes_on.set()
            while not written:
                threading.Event().wait(0.001)
        assert read == [24.0]
    assert isinstance(written[0], RuntimeError)
    assert str(written[0]) == OTHER_THREAD
    assert w.tolist() == [2.0] * 4
    assert writes() == (12.0, 24.0)


def test_views_and_windows_count_as_their_memory(count: int) -> None:
    pause, w = Pause(), jg.ones(6)
    part, alias = w[2:4], w.detach()

    @jg.compile
    def reads() -> Any:
        out = (w * 2).sum()
        pause()
        return out

    writers = [jg.compile(lambda: part.mul_(2.0)), jg.compile(lambda: alias.add_(1.0))]
    for _ in range(count):
        reads()
        for write in writers:
            write()
        w.fill_(1.0)
    with pause.inside(lambda: reads().item()) as results:
        for write in writers:
            with pytest.raises(RuntimeError, match="two threads record"):
                write()
    assert results == [12.0]
    for write in writers:
        write()
    assert w.tolist() == [2.0, 2.0, 3.0, 3.0, 2.0, 2.0]


def test_gradients_of_one_leaf_are_set_by_one_call_at_a_time(count: int) -> None:
    pause, w = Pause(), jg.ones(3).requires_grad_()

    @jg.compile
    def step(factor: float) -> Any:
        loss = (w * w * factor).sum()
        loss.backward()
        pause()
        return loss.detach()

    for _ in range(count):
        step(2.0)
        w.grad = None
    with pause.inside(lambda: step(3.0).item()) as results, pytest.raises(RuntimeError, match="thread"):
        step(2.0)
    assert results == [9.0]
    assert w.grad.tolist() == [6.0] * 3
    step(2.0)
    assert w.grad.tolist() == [10.0] * 3


def test_calls_that_only_read_are_not_kept_apart(count: int) -> None:
    pause, w = Pause(), jg.full((3,), 2.0).requires_grad_()

    @jg.compile
    def reads(x: Any) -> Any:
        y = w * x
        pause()
        return (y * w).sum()

    for _ in range(count):
        reads(jg.ones(3))
    with pause.inside(lambda: reads(jg.full((3,), 2.0)).item()) as results:
        for _ in range(3):
            assert reads(jg.ones(3)).item() == 12.0
    assert results == [24.0]


def test_calls_on_one_thread_are_one_user() -> None:
    w = jg.ones(4)
    inner = jg.compile(lambda: w.mul_(2.0).sum().item())

    @jg.compile
    def outer() -> Any:
        y = (w * 3).sum()
        with jg.eager():
            inner()  # no call of its own, there
        return y + w.sum()

    assert [outer().item() for _ in range(3)] == [12.0 + 8.0, 24.0 + 16.0, 48.0 + 32.0]


def _attempt(call: Callable[[], float]) -> float | None:
    """What a call returns; None if it says that the threads share tensors."""
    try:
        return call()
    except RuntimeError as error:
        assert str(error) in (OTHER_THREAD, STILL_RECORDED), repr(error)
        return None


def test_each_call_of_a_counter_counts_or_raises() -> None:
    counted = jg.zeros(16)

    @jg.compile
    def count_one() -> Any:
        return (counted.add_(1.0) * 2).sum()

    with switching_often():
        rows = run_threads(lambda _: [_attempt(lambda: count_one().item()) for _ in range(24)], 8)
    results = sorted(value for row in rows for value in row if value is not None)
    assert results == [32.0 * (nr + 1) for nr in range(len(results))]
    assert counted.tolist() == [float(len(results))] * 16
    assert count_one().item() == 32.0 * (len(results) + 1)
    assert not RUNNING


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_threads_that_call_one_training_step(momentum: float) -> None:
    params = [jg.ones(16).requires_grad_() for _ in range(3)]
    optimizer = jg.optim.SGD(params, lr=0.01, momentum=momentum)

    @jg.compile
    def train() -> Any:
        optimizer.zero_grad()
        loss = sum((p * p).sum() for p in params)
        loss.backward()
        optimizer.step()
        return loss.detach()

    with switching_often():
        run_threads(lambda _: [_attempt(lambda: train().item()) for _ in range(12)], 8)
    with jg.no_grad():
        for p in params:
            p.fill_(1.0)
    optimizer.state.clear()
    assert train().item() == pytest.approx(48.0)
    assert train().item() == pytest.approx(48.0 * 0.98**2, rel=1e-5)
    assert not RUNNING


@pytest.mark.parametrize(("mine", "theirs", "meets"), [
    (slice(0, 2), slice(2, 4), False), (slice(2, 4), slice(0, 2), False), (slice(0, 3), slice(2, 4), True),
])  # fmt: skip
def test_rows_of_one_table_that_are_apart_do_not_meet(count: int, mine: slice, theirs: slice, meets: bool) -> None:
    pause, table = Pause(), jg.ones(4, 3)
    rows, others = table[mine].detach(), table[theirs].detach()

    @jg.compile
    def step(w: Any, waits: bool) -> Any:
        y = (w * 2.0).sum()
        if waits:
            pause()
        w -= 0.5
        return y

    for _ in range(count):
        step(rows, True)
        step(others, False)
    table.fill_(1.0)
    with pause.inside(lambda: step(rows, True)) as results:
        if meets:
            with pytest.raises(RuntimeError, match=OTHER_THREAD):
                step(others, False)
        else:
            assert step(others, False).item() == 12.0
    (result,) = results
    assert result.item() == 2.0 * rows.numel()
    assert rows.tolist() == [[0.5] * 3] * len(rows)
    if not meets:
        assert others.tolist() == [[0.5] * 3] * len(others)
    assert not RUNNING
