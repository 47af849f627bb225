"""The engine has two loops: for a graph on one thread, and for all others. They are to do the same, event by event."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import jitgrad
from jitgrad.autograd import Function, engine
from jitgrad.probe import probe
from jitgrad.runtime.engine.run import engine as engine_module
from jitgrad.runtime.engine.run.trace import Provisional, Trace


class _Counting:
    """Stands in ``probe.session``: counts nodes. While somebody is there, graphs are run by the full loop."""

    def __init__(self) -> None:
        self.nodes = 0

    def enter(self, name: str) -> int:
        return 0

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        pass

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        self.nodes += category == "node"
        return function(*args)


@contextmanager
def _full_loop() -> Iterator[_Counting]:
    """Graphs run by the loop that profilers watch."""
    probe.session = counting = _Counting()
    try:
        yield counting
    finally:
        probe.session = None


def _fail(grad: Any) -> None:
    raise LookupError("as it should")


class _Graph:
    """A random graph on the CPU: several outputs, undefined gradients, hooks, sums of many gradients."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.leaves = [jitgrad.tensor([rng.uniform(0.5, 1.5), 1.0], requires_grad=True) for _ in range(3)]
        values: list[Any] = list(self.leaves)
        for _ in range(rng.randint(4, 16)):
            a, b = rng.choice(values), rng.choice(values)
            if rng.random() < 0.2:
                values.append(rng.choice(jitgrad.cat([a, b]).chunk(2)))
            else:
                values.append(rng.choice([lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a.sin() - b])(a, b))
            if rng.random() < 0.2:
                values[-1].register_hook(lambda grad: grad * 2)
            if rng.random() < 0.1:
                values[-1].retain_grad()
            if seed % 4 == 0 and rng.random() < 0.1:
                values[-1].register_hook(_fail)
        self.values = values
        self.loss = values[-1].sum() + values[-2].sum()
        self.inner = rng.choice(values[3:])
        self.calls = rng.choice(["backward", "grad", "inputs", "twice"])

    def run(self) -> Any:
        try:
            if self.calls == "grad":
                grads = jitgrad.autograd.grad(self.loss, [self.inner, self.leaves[0]], allow_unused=True)
                return [g if g is None else g.tolist() for g in grads]
            if self.calls == "inputs":
                self.loss.backward(inputs=[self.inner, self.leaves[1]])
            elif self.calls == "twice":
                self.loss.backward(retain_graph=True)
                self.loss.backward()
            else:
                self.loss.backward()
        except LookupError as error:
            return str(error)
        return [leaf.grad if leaf.grad is None else leaf.grad.tolist() for leaf in self.leaves]


def _traced(seed: int) -> Any:
    graph = _Graph(seed)
    with engine.trace() as trace:
        result = graph.run()
    numbers: dict[int, int] = {}
    return result, [
        (e.kind, numbers.setdefault(id(e.node), len(numbers)), e.name, e.count, e.device, e.thread, e.depth, e.detail)
        for e in trace
    ]


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_both_loops_do_the_same(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alone_runs = []
    run_alone = engine_module.run_alone
    monkeypatch.setattr(engine_module, "run_alone", lambda *args: (alone_runs.append(1), run_alone(*args))[1])
    for seed in range(first, first + 10):
        alone_runs.clear()
        alone = _traced(seed)
        has_run = any(event[0] == "exec" for event in alone[1])
        assert alone_runs or not has_run, "the loop for one thread did not run it"
        alone_runs.clear()
        with _full_loop() as counting:
            assert _traced(seed) == alone, f"seed {seed}"
        assert not alone_runs, "the full loop did not run it"
        assert counting.nodes or not has_run


def test_the_graphs_have_every_kind_of_event() -> None:
    found = {kind for seed in range(40) for kind, *_ in _traced(seed)[1]}
    assert found == {"deps", "ready", "not_ready", "accumulate", "exec", "skip", "capture", "error"}


def test_what_is_not_traced_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(engine_module.trace, "emit", lambda *args, **options: looks.append(args))
    _Graph(1).run()
    assert looks == []


@contextmanager
def _its_own_loop() -> Iterator[None]:
    """Graphs run as they do for users."""
    yield


both_loops = pytest.mark.parametrize("loop", [_its_own_loop, _full_loop], ids=["alone", "full"])


@both_loops
def test_both_loops_free_the_graph(loop: Any) -> None:
    x = jitgrad.ones(2, requires_grad=True)
    y = x.exp().sum()
    with loop():
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


class _Loose(Function):
    """Gradients of another shape and dtype than the inputs."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y.sum()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.double(), jitgrad.ones(3, 2)


@both_loops
def test_both_loops_make_gradients_fit(loop: Any) -> None:
    x, y = jitgrad.ones(2, requires_grad=True), jitgrad.ones(2, requires_grad=True)
    seen = []
    a, b = x * 1, y * 1
    for value in (a, b):
        value.grad_fn.register_prehook(lambda grads: seen.append((grads[0].dtype, tuple(grads[0].shape))))
    with loop():
        _Loose.apply(a, b).sum().backward()
    assert seen == [(jitgrad.float32, (2,))] * 2
    assert y.grad.tolist() == [3.0, 3.0]


def test_an_attempt_to_record_that_fails_is_not_told() -> None:
    """A backward that turns out to be for the engine runs twice at its first call, and is told once."""

    @jitgrad.compile
    def step(x: Any) -> Any:
        y = (x * 2).sum()
        with engine.trace() as trace:
            y.backward()
        return trace

    x = jitgrad.ones(2, requires_grad=True)
    with Provisional():
        assert len(step(x)) == 0
    x.grad = None
    trace = step(x)
    assert trace.names("exec", "error") == []
    assert [event.kind for event in trace] == ["recorded"]
    failed = Trace()
    with failed, Provisional():
        y = (x * 2).sum()
        y.backward()
    assert len(failed) == 0
    with failed, Provisional() as attempt:
        (x * 2).sum().backward()
        attempt.keep()
    assert failed.names("exec") == ["SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
