"""Calls that record very much stop recording, and run on eagerly: Note [Long calls]."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compile import MOST_DEBT
from jitgrad.compiled.nodes.trace_graph import TraceGraph
from jitgrad.config import config
from jitgrad.state import state


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(config, "max_new_values", 16)
    return 16


def counted(step: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    before = jg.stats()
    result = step()
    return result, {k: v - before[k] for k, v in jg.stats().items() if v != before[k]}


def data(lib: Any, requires_grad: bool = True) -> Any:
    return lib.tensor([0.5, -1.0, 2.0], requires_grad=requires_grad)


def test_a_long_step_is_recorded_over_several_calls(limit: int) -> None:
    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(100):
            x = x * 0.5 + 1
        return x

    x, seen = data(jg, False), []
    want = step.fn(x).numpy()
    for _ in range(6):
        out, counts = counted(lambda: step(x))
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)
        seen.append((counts.get("misses", 0), counts.get("long_calls", 0), counts.get("plans", 0)))
    # 16 and 64 values, each with the input or the segment's end; what is left of 200; and then nothing
    assert [stopped for _, stopped, _ in seen] == [1, 1, 0, 0, 0, 0]
    assert [plans for _, _, plans in seen] == [0, 0, 1, 0, 0, 0]
    assert seen[0][0] < limit + 4
    assert 4 * limit <= seen[1][0] < 4 * limit + 4
    assert [misses for misses, _, _ in seen[3:]] == [0, 0, 0]


def test_recording_is_linear_in_the_length() -> None:
    def calls_made(length: int) -> int:
        """How many Python functions the first call enters: a count, where a time would depend on the machine."""

        @jg.compile
        def step(x: Any) -> Any:
            y = x.clone()
            for _ in range(length):
                y.mul_(0.5)
                y = y + x
            return y.sum()

        made = 0

        def count(frame: Any, event: str, arg: Any) -> None:
            nonlocal made
            made += event == "call"

        x = data(jg, False)
        sys.setprofile(count)
        try:
            step(x)
        finally:
            sys.setprofile(None)
        return made

    calls_made(10)
    short, long = calls_made(200), calls_made(800)
    assert long < 4.4 * short


def steps() -> dict[str, Callable[[Any, Any], Any]]:
    def backward(lib: Any, x: Any) -> Any:
        y = x
        for i in range(20):
            y = (y * 0.9 + x).sin() if i % 3 else y.clone().mul_(1.1)
        y.sum().backward()
        return y, x.grad

    def backward_twice(lib: Any, x: Any) -> Any:
        y = x
        for _ in range(20):
            y = (y * x).cos()
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (g * g).sum().backward()
        return y, g, x.grad

    def collected(lib: Any, x: Any) -> Any:
        y, parts = x, []
        for _ in range(30):
            y = y * 0.9 + 0.1
            parts.append(y[:2])
        lib.stack(parts).pow(2).sum().backward()
        return parts[3], parts[-1], x.grad

    def written_on_both_sides(lib: Any, x: Any) -> Any:
        y = x * 2
        view = y[1:]
        for i in range(30):
            view.mul_(0.9)
            y[0] = x[0] + i
        y.sum().backward()
        return y, view, x.grad

    def updates(lib: Any, x: Any) -> Any:
        losses = []
        for _ in range(12):
            loss = (x * x - x).pow(2).sum()
            (g,) = lib.autograd.grad(loss, x)
            with lib.no_grad():
                x.sub_(g * 0.01)
            losses.append(loss.detach())
        return lib.stack(losses), x

    def reads(lib: Any, x: Any) -> Any:
        total, y = 0.0, x
        for _ in range(15):
            y = y * 0.9 + 0.1
            total += y.sum().item()
        return y, lib.tensor(total)

    def hooked(lib: Any, x: Any) -> Any:
        y, seen = x, []
        for _ in range(15):
            y = y * 1.1 + 0.1
            y.register_hook(lambda g: seen.append(g.sum()) or g * 1.01)
        y.sum().backward()
        return y, x.grad, lib.stack(seen)

    def long_hook(lib: Any, x: Any) -> Any:
        def hook(g: Any) -> Any:
            for _ in range(30):
                g = g * 0.9 + 0.1
            return g

        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
        z = x
        for _ in range(5):
            z = z * 1.5 + 1
        return z, x.grad

    def saved_hooks(lib: Any, x: Any) -> Any:
        y, packed = x, []
        for _ in range(12):
            y = y * y * 0.5
        with lib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t * 1, lambda t: t):
            for _ in range(12):
                y = y * y * 0.5 + x
        y.sum().backward()
        return y, x.grad, lib.tensor(len(packed))

    return {name: fn for name, fn in locals().items() if callable(fn)}


STEPS = steps()


def arrays(results: Any) -> Iterator[Any]:
    for r in results:
        yield r.detach().numpy().copy()


@pytest.mark.parametrize("name", STEPS)
def test_results_are_pytorchs_wherever_recording_stops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    want = list(arrays(STEPS[name](torch, data(torch))))
    for limit in (2, 11, 23):
        monkeypatch.setattr(config, "max_new_values", limit)
        step = jg.compile(STEPS[name])
        for call in range(6):
            for got, w in zip(arrays(step(jg, data(jg))), want, strict=True):
                np.testing.assert_allclose(got, w, rtol=2e-5, atol=1e-6, err_msg=f"limit {limit}, call {call}")


@pytest.mark.parametrize("name", STEPS)
def test_results_are_pytorchs_wherever_a_call_that_follows_leaves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first calls record a part of the path; the next ones go along it, and leave at its end: Note [New graphs]."""
    torch = pytest.importorskip("torch", reason="compares with torch")
    want = list(arrays(STEPS[name](torch, data(torch))))
    for limit, recorded in ((1, 1), (5, 2), (16, 1), (23, 2)):
        monkeypatch.setattr(config, "max_new_values", limit)
        step = jg.compile(STEPS[name])
        for call in range(recorded + 3):
            if call >= recorded:
                step._owe(MOST_DEBT)
            for got, w in zip(arrays(step(jg, data(jg))), want, strict=True):
                np.testing.assert_allclose(got, w, rtol=2e-5, atol=1e-6, err_msg=f"limit {limit}, call {call}")
        assert state.eager_depth == 0


def test_a_level_holds_on_to_the_recorder(limit: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(30):
            x = x * 0.9 + 0.1
        return x

    @jg.compile
    def step(x: Any) -> Any:
        return chain(jg.func.jvp(chain, (x,), (x,))[1])

    x = data(jg, False)
    want = step.fn(x).numpy()
    result, counts = counted(lambda: step(x))
    assert "long_calls" not in counts
    np.testing.assert_allclose(result.numpy(), want, rtol=1e-6)


def test_an_exception_after_the_stop_leaves_the_thread_as_it_was(limit: int) -> None:
    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(30):
            x.add_(1)
        raise KeyError("mine")

    x = data(jg, False)
    with pytest.raises(KeyError, match="mine"):
        step(x)
    assert state.eager_depth == 0
    assert state.handler is None
    np.testing.assert_array_equal(x.numpy(), [30.5, 29, 32])


def test_an_error_at_the_stop_leaves_the_thread_as_it_was(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment that the stop ends may raise, as any that ends."""

    def refuse(graph: Any) -> None:
        raise KeyError("theirs")

    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(30):
            x = x + 1
        return x

    monkeypatch.setattr(TraceGraph, "make_all_nodes", refuse)
    with pytest.raises(KeyError, match="theirs"):
        step(data(jg, False))
    monkeypatch.undo()
    assert state.eager_depth == 0
    assert state.handler is None
    np.testing.assert_array_equal(step(data(jg, False)).numpy(), [30.5, 29, 32])


def test_a_compiled_function_called_after_the_stop_runs_eagerly(limit: int) -> None:
    inner = jg.compile(lambda x: x * 2)

    @jg.compile
    def step(x: Any) -> Any:
        for _ in range(30):
            x = x + 1
        return inner(x)

    result, counts = counted(lambda: step(data(jg, False)))
    assert counts["traces"] == 1
    np.testing.assert_array_equal(result.numpy(), [61, 58, 64])


def test_nodes_of_a_call_that_left_share_their_rule_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many turns of a loop it has recorded: equal Nodes have one program, as eager ones do."""
    monkeypatch.setattr(config, "max_new_values", 150)

    def programs(turns: int) -> int:
        w = jg.full((16, 40 + turns), 0.3, requires_grad=True)

        @jg.compile
        def step(x: Any) -> Any:
            for _ in range(turns):
                x = (x * w).sin() + w
            x.sum().backward()
            return x.detach()

        _, counts = counted(lambda: step(jg.ones(16, 40 + turns)))
        assert counts["long_calls"] == 1
        return counts["rule_programs"]

    assert 0 < programs(90) == programs(60) < 12
