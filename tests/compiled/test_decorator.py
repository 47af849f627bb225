"""The decorator: what can be decorated, what goes in and out, ``eager()``, ``explain``, threads."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import events
from jitgrad.compiled import backend
from jitgrad.state import state
from tests.threads import run_threads

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Batch:
    """A container that jitgrad has never heard of."""

    x: Any
    y: Any
    name: str = "batch"


def test_with_and_without_parentheses() -> None:
    @jg.compile
    def plain(x: Any) -> Any:
        """Doubles."""
        return x * 2

    @jg.compile()
    def called(x: Any) -> Any:
        return x * 3

    assert plain(jg.ones(1)).item() == 2.0
    assert called(jg.ones(1)).item() == 3.0
    assert (plain.__name__, plain.__doc__) == ("plain", "Doubles.")
    assert plain.__wrapped__(jg.ones(1)).item() == 2.0


def test_methods() -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.w = jg.full((2,), k)

        @jg.compile
        def step(self, x: Any, *, bias: float = 0.0) -> Any:
            self.w += 1
            return self.w * x + bias

        @staticmethod
        @jg.compile
        def double(x: Any) -> Any:
            return x * 2

        @classmethod
        def make(cls) -> Model:
            return cls(5.0)

    models = Model(1.0), Model(10.0)
    for k in range(4):
        for model, start in zip(models, (1.0, 10.0), strict=True):
            assert model.step(jg.ones(2), bias=0.5 * k).tolist() == [start + k + 1 + 0.5 * k] * 2
    assert Model.double(jg.ones(1)).item() == 2.0
    with events.count("compiles") as compiles:
        Model.make().step(jg.ones(2))
    assert compiles() == 0


def test_closures_follow_what_they_close_over() -> None:
    k, w = 2.0, jg.ones(2)
    step = jg.compile(lambda x: x * k + w)
    assert step(jg.ones(2)).tolist() == [3.0, 3.0]
    k, w = 3.0, jg.zeros(2)
    assert step(jg.ones(2)).tolist() == [3.0, 3.0]
    w = jg.ones(1)
    assert step(jg.ones(2)).tolist() == [4.0, 4.0]


def test_nested_containers_in_and_out() -> None:
    def step(tree: Any, batch: Batch, *rest: Any, scale: float, **more: Any) -> Any:
        out = OrderedDict(a=tree["a"] * scale, b=[t + batch.x for t in tree["b"]], c=(batch.y, None, "text", 7))
        return Pair(out, Batch(batch.x * 2, {"deep": [rest[0] - 1, more["extra"]]})), {1, 2}

    function = jg.compile(step)
    for k in range(4):
        tree = {"a": jg.full((2,), float(k)), "b": [jg.ones(2), jg.zeros(1)]}
        args = tree, Batch(jg.ones(2), jg.zeros(3)), jg.ones(4)
        for result in (step(*args, scale=2.0, extra=jg.ones(1)), function(*args, scale=2.0, extra=jg.ones(1))):
            (out, batch), rest = result
            assert out["a"].tolist() == [2.0 * k] * 2
            assert [t.tolist() for t in out["b"]] == [[2.0, 2.0], [1.0, 1.0]]
            assert out["c"][0] is args[1].y
            assert out["c"][1:] == (None, "text", 7)
            assert isinstance(batch, Batch)
            assert batch.y["deep"][0].tolist() == [0.0] * 4
            assert rest == {1, 2}


def test_nested_compiled_functions() -> None:
    inner = jg.compile(lambda x: (x * 2).tanh())
    outer = jg.compile(lambda x: inner(inner(x)) + inner(x))
    x = jg.ones(3)
    outer(x)
    with events.count("segments") as segments:
        result = outer(x)
    assert segments() == 1
    t = np.tanh(2.0)
    np.testing.assert_allclose(result.numpy(), [np.tanh(2 * t) + t] * 3, rtol=1e-5)
    np.testing.assert_allclose(inner(x).numpy(), [t] * 3, rtol=1e-5)


def test_recursion() -> None:
    @jg.compile
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    assert [power(jg.full((1,), 2.0), n).item() for n in (1, 3, 5, 3)] == [2.0, 8.0, 32.0, 8.0]


def test_eager_context() -> None:
    step = jg.compile(lambda x: x * 2 + 1)
    with jg.eager(), events.count("traces") as traces:
        assert step(jg.ones(1)).item() == 3.0
    assert traces() == 0
    with events.count("traces") as traces:
        step(jg.ones(1))
    assert traces() == 1


def test_eager_context_inside_a_step() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        with jg.eager():
            z = y + 1
        z += y
        return y, z, (z * 2).sum()

    for _ in range(3):
        y, z, total = step(jg.ones(2))
        assert (y.tolist(), z.tolist(), total.item()) == ([2.0, 2.0], [5.0, 5.0], 20.0)


def test_eager_variable() -> None:
    code = (
        "import jitgrad as jg\n"
        "f = jg.compile(lambda x: x * 2)\n"
        "assert f(jg.ones(2)).tolist() == [2.0, 2.0]\n"
        "assert jg.stats()['traces'] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "JITGRAD_EAGER": "1"}, timeout=60)


def test_explain_names_operations_and_lines() -> None:
    @jg.compile
    def step(x: Any, w: Any) -> Any:
        loss = ((x @ w).relu() ** 2).sum()
        loss.backward()
        return loss

    x, w = jg.ones(4, 3), jg.ones(3, 2).requires_grad_()
    first, second = jg.explain(step, x, w), jg.explain(step, x, w)
    text = str(first)
    assert first.result.item() == 72.0
    assert "relu" in text
    assert __file__ in text
    assert first.counters["misses"] > 0
    assert len(second.segments) == 1
    with pytest.raises(TypeError, match="compile"):
        jg.explain(lambda: None)


def test_undecorated_means_the_same() -> None:
    def step(x: Any) -> Any:
        return x.softmax(-1) @ x.transpose(-1, -2)

    x = jg.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    np.testing.assert_allclose(jg.compile(step)(x).numpy(), step(x).numpy(), rtol=1e-12)


def test_stats_count_what_happened() -> None:
    step = jg.compile(lambda x: (x.exp() * 2).sum())
    before = jg.stats()
    step(jg.ones(11, 3))
    middle = jg.stats()
    step(jg.ones(11, 3))
    after = jg.stats()
    rise = {k: middle[k] - before[k] for k in middle}
    assert rise["traces"] == rise["segments"] == rise["plans"] == 1
    assert rise["misses"] > 0
    again = {k: after[k] - middle[k] for k in after}
    assert again["misses"] == again["plans"] == again["compiles"] == 0
    assert again["hits"] == rise["misses"] + rise["hits"]
    assert again["launches"] == rise["launches"] > 0


# ---- threads --------------------------------------------------------------------------------------------------------


def _in_threads(count: int, work: Any) -> None:
    """Run ``work(nr)`` in threads that switch as often as Python allows; the first exception is raised here."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def body(nr: int) -> None:
        try:
            start.wait()
            work(nr)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=body, args=(nr,)) for nr in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
            assert not t.is_alive(), "a thread hangs"
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def test_threads_call_one_function_on_their_own_tensors() -> None:
    @jg.compile
    def step(w: Any, x: Any, lr: float) -> Any:
        loss = ((w * x) ** 2).sum()
        loss.backward()
        with jg.no_grad():
            w -= lr * w.grad
        w.grad = None
        return loss

    def work(nr: int) -> None:
        size = 3 + nr % 4
        w, x = jg.full((size,), 1.0).requires_grad_(), jg.full((size,), 0.5)
        expected = 1.0
        for k in range(12):
            lr = 0.1 / (1 + k)
            assert step(w, x, lr).item() == pytest.approx(size * (0.5 * expected) ** 2, rel=1e-4)
            expected -= lr * 0.5 * expected
        np.testing.assert_allclose(w.detach().numpy(), [expected] * size, rtol=1e-4)

    _in_threads(32, work)


def test_what_a_call_claims_lives_as_long() -> None:
    """Claims are ids: a leaf of another thread must not get one that a call has claimed."""
    seen: list[bool] = []

    @jg.compile
    def step(w: Any) -> Any:
        loss = (w * w).sum()
        loss.backward()
        recorder: Any = state.handler
        seen.extend(~id(recorder.met[key]) == key for key in recorder.claims if key < 0)
        w.grad = None
        return loss

    step(jg.ones(3, requires_grad=True))
    assert seen and all(seen)


@pytest.fixture(params=["usual", "shortest"])
def switch_interval(request: pytest.FixtureRequest) -> Iterator[None]:
    """How long Python lets a thread run before another one's turn."""
    before = sys.getswitchinterval()
    if request.param == "shortest":
        sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_share_tensors_that_they_read(switch_interval: None) -> None:
    w = jg.full((5,), 2.0).requires_grad_()
    frozen = jg.full((5,), 3.0)
    step = jg.compile(lambda x, k: ((x * w + frozen) * k).detach())

    def work(nr: int) -> None:
        x = jg.full((5,), float(nr))
        for k in range(40):
            assert step(x, float(k % 3)).tolist() == [(2.0 * nr + 3.0) * (k % 3)] * 5

    _in_threads(8, work)


def test_threads_that_plan_one_end_keep_the_first_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits on other threads use it already, and hold it by nothing but the event: a second one would free it."""
    step, x = jg.compile(lambda x: (x * 2 + 1).sum()), jg.ones(5)
    made: list[tuple[Any, Any]] = []
    end_plan = backend.end_plan

    def end_plan_while_another_thread_calls(recorder: Any, event: Any, alive: list[Any]) -> Any:
        if threading.current_thread() is threading.main_thread():
            run_threads(lambda nr: step(x).item(), 1)
        made.append((event, end_plan(recorder, event, alive)))
        return made[-1][1]

    monkeypatch.setattr(backend, "end_plan", end_plan_while_another_thread_calls)
    assert step(x).item() == 15.0
    (event, first), (same_event, second) = made
    assert event is same_event and first is not second
    assert event.plan is first
    assert step(x).item() == 15.0


def test_a_thread_for_each_function() -> None:
    def work(nr: int) -> None:
        step = jg.compile(lambda x: (x * nr).sum() + nr)
        for _ in range(5):
            assert step(jg.ones(4)).item() == 5.0 * nr

    _in_threads(16, work)
