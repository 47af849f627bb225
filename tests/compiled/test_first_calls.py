"""What a graph costs the first time: long ones are compiled when they are met again; time grows with the length."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled.interpret import run_without_kernels
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from tests.compiled.long_steps import chain, collected, differentiated, read, written


def counted(call: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    before = jg.stats()
    result = call()
    return result, {name: value - before[name] for name, value in jg.stats().items()}


def test_a_long_graph_is_compiled_when_it_is_met_again() -> None:
    step = jg.compile(lambda x: chain(x, 200))
    x = jg.tensor([0.5, -1.0, 2.0])
    first, counts = counted(lambda: step(x))
    assert (counts["plans"], counts["launches"], counts["fallbacks"]) == (0, 0, 400)
    np.testing.assert_array_equal(first.numpy(), chain(x, 200).numpy())  # the same functions in the same order
    second, counts = counted(lambda: step(x))
    assert (counts["plans"], counts["misses"], counts["fallbacks"]) == (1, 0, 0)
    third, counts = counted(lambda: step(x))
    assert counts["plans"] == 0
    assert counts["launches"] > 0
    np.testing.assert_allclose(second.numpy(), first.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(third.numpy(), second.numpy())


def test_short_graphs_are_compiled_at_once() -> None:
    step = jg.compile(lambda x: chain(x, 20))
    _, counts = counted(lambda: step(jg.ones(3)))
    assert counts["plans"] == counts["launches"] == 1


def test_all_graphs_are_compiled_at_once_for_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    step = jg.compile(lambda x: chain(x, 100))
    first, counts = counted(lambda: step(jg.ones(3)))
    assert counts["plans"] == 1
    np.testing.assert_array_equal(first.numpy(), step(jg.ones(3)).numpy())


def test_a_graph_that_was_met_with_other_numbers_is_not_new() -> None:
    step = jg.compile(lambda x, factor: chain(x, 100, factor))
    step(jg.ones(3), 0.5)
    out, counts = counted(lambda: step(jg.ones(3), 0.25))
    assert counts["plans"] == 1
    np.testing.assert_allclose(out.numpy(), chain(jg.ones(3), 100, 0.25).numpy(), rtol=1e-6)


def test_explain_shows_the_kernels_of_a_long_graph() -> None:
    report = jg.explain(jg.compile(lambda x: chain(x, 200)), jg.ones(3))
    assert report.segments[0].kernels


def test_gradients_and_updates_of_a_long_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(lib: Any, step: Callable[..., Any]) -> list[Any]:
        w = lib.tensor([[0.5, -0.25], [0.125, 1.0]], requires_grad=True)
        optimizer = lib.optim.SGD([w], lr=0.1, momentum=0.9)
        x = lib.tensor([[1.0, 2.0], [-1.0, 0.5]])

        def body() -> Any:
            optimizer.zero_grad()
            y = x
            for _ in range(40):
                y = lib.tanh(y @ w)
            y.square().sum().backward()
            optimizer.step()
            return y.detach()

        body = step(body)
        return [body().numpy().copy() for _ in range(4)] + [w.detach().numpy().copy(), w.grad.numpy().copy()]

    torch = pytest.importorskip("torch", reason="compares with torch")
    want = train(torch, lambda f: f)
    for limit in (0, 64, 10_000):
        monkeypatch.setattr(config, "compile_at_once", limit)
        for got, w in zip(train(jg, jg.compile), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-6)


def test_views_and_writes_of_a_long_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(x: Any) -> Any:
        y = x.clone()
        held = y[1:3]
        for i in range(1, 8):
            y[i] = y[i - 1] * 0.5 + x[i]
            held += 1
        y.t()[0] *= 2
        return y, held.sum()

    x = jg.arange(32, dtype=jg.float32).reshape(8, 4)
    want = [t.numpy().copy() for t in rows(x)]
    monkeypatch.setattr(config, "compile_at_once", 0)
    step = jg.compile(rows)
    for _ in range(4):
        for got, w in zip(step(x), want, strict=True):
            np.testing.assert_allclose(got.numpy(), w, rtol=1e-6)


def test_values_go_as_soon_as_nobody_reads_them() -> None:
    x = jg.ones(1 << 18)  # a MiB
    step = jg.compile(lambda x: chain(x, 100))
    step.fn(x)
    tracemalloc.start()
    try:
        step(x)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_an_error_keeps_the_writes_before_it() -> None:
    """x *= 2, twice; then an operation that raises, with a third write behind it: the storage holds the second."""
    aval = make_aval((2,), jg.float32)

    def instr(name: str, inputs: tuple[Any, ...], out: int) -> Instr:
        avals = tuple(aval if isinstance(v, int) else None for v in inputs)
        return Instr(OPS[name], inputs, (), (out,), (aval,), avals)

    def refuse(*arrays: Any) -> Any:
        raise IndexError("refused")

    bad = OPS["neg"].__class__(name="bad", aval=lambda x: x, numpy=refuse)
    instrs = [
        instr("mul", (0, Const(2.0)), 1),
        instr("mul", (1, Const(2.0)), 2),
        Instr(bad, (2,), (), (3,), (aval,), (aval,)),
        instr("mul", (2, Const(2.0)), 4),
    ]
    segment = Segment(instrs, {0: aval}, (3,), ((4, 0),), ((1, 0), (2, 0), (4, 0)))
    storage = Storage.from_array(np.ones(2, np.float32))
    with pytest.raises(IndexError, match="refused"):
        run_without_kernels(segment, {0: storage}, [])
    np.testing.assert_array_equal(storage.array(aval), [4, 4])


def changed(x: Any, length: int) -> Any:
    y = jg.zeros(16, 4)
    for i in range(length):
        y[i % 16] += x
    return y


KEPT = jg.zeros(1280, 4)


def outside(x: Any, length: int) -> Any:
    for i in range(length):
        KEPT[i] = x
    return KEPT


def seconds(function: Callable[..., Any], x: Any) -> float:
    """Processor time of one call, without the garbage collector: its turns are longer than a short call."""
    gc.disable()
    try:
        start = time.thread_time()
        function(x)
        return time.thread_time() - start
    finally:
        gc.enable()


def first_and_hit(step: Callable[..., Any], x: Any, length: int) -> tuple[float, float]:
    """The least seconds of a first call, and of a call that hits, among some."""
    fresh = [jg.compile(lambda x: step(x, length)) for _ in range(3)]
    firsts = [seconds(compiled, x) for compiled in fresh]
    seconds(fresh[0], x), seconds(fresh[0], x)
    return min(firsts), min(seconds(fresh[0], x) for _ in range(5))


@pytest.mark.parametrize("step", [chain, written, changed, outside, differentiated, collected, read])
def test_time_grows_with_the_length(step: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls, and calls that hit: of a step four times as long, less than eight times as long.

    Something else may run on the machine, so each length is timed again until its least time shows it: time that grows
    with the square of the length is sixteen times as long however often it is measured. Where nothing counts
    references, views that nobody holds are followed to the end, and writes through them ask all.
    """
    monkeypatch.setattr(config, "max_new_values", 1 << 30)
    monkeypatch.setattr(config, "verify", False)
    x = jg.ones(4)
    most = 32 if step in (written, changed, outside) and not counts_references else 8
    first_and_hit(step, x, 10)
    short, long = first_and_hit(step, x, 80), first_and_hit(step, x, 320)
    for _ in range(8):
        if all(b < most * a for a, b in zip(short, long, strict=True)):
            return
        short, long = least(short, first_and_hit(step, x, 80)), least(long, first_and_hit(step, x, 320))
    pytest.fail(f"{long} seconds for a step four times as long as one of {short} seconds")


@pytest.mark.parametrize("step", [chain, written, changed, outside, differentiated, collected])
def test_a_hit_of_a_long_step_takes_as_long_a_turn(step: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of a loop of 1,280 turns, on hits, takes less than three times as long as one of 80.

    What grows by a few nanoseconds a turn, such as a look at all views of the segment at each write, is a tenth of a
    short step and nine tenths of a long one.
    """
    monkeypatch.setattr(config, "max_new_values", 1 << 30)
    monkeypatch.setattr(config, "verify", False)
    x = jg.ones(4)
    most = 48 if counts_references or step not in (written, changed, outside) else 768
    calls = [jg.compile(lambda x, n=n: step(x, n)) for n in (80, 1280)]
    for compiled in calls * 4:
        compiled(x)
    short = long = float("inf")
    for _ in range(40):
        short, long = min(short, seconds(calls[0], x)), min(long, seconds(calls[1], x))
        if long < most * short:
            return
    pytest.fail(f"{long} seconds for a step sixteen times as long as one of {short} seconds")


def least(times: tuple[float, float], others: tuple[float, float]) -> tuple[float, float]:
    return min(times[0], others[0]), min(times[1], others[1])
