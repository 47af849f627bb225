"""The engine has two loops: for a graph on one thread, and for all others. They are to do the same, event by event.

A third one runs graphs that no code of the user can look into: the same gradients, its Nodes in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import jitgrad
from jitgrad.autograd import Function, engine
from jitgrad.compiled import native_eager
from jitgrad.door import door
from jitgrad.numbering import next_sequence_nr
from jitgrad.overrides import DisableTorchFunctionSubclass
from jitgrad.probe import probe
from jitgrad.runtime.eager.plan import plans
from jitgrad.runtime.engine.graph import op_node
from jitgrad.runtime.engine.graph.current import current, current_graph_task, current_node
from jitgrad.runtime.engine.run import engine as engine_module
from jitgrad.runtime.engine.run import plain_graph
from jitgrad.runtime.engine.run.request import BackwardRequest
from jitgrad.runtime.engine.run.trace import Provisional, Trace
from jitgrad.state import state


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
    """A random graph on the CPU: several outputs, undefined gradients, sums of many gradients and, unless it is to be
    plain, hooks."""

    def __init__(self, seed: int, is_plain: bool = False) -> None:
        rng = random.Random(seed)
        self.leaves = [jitgrad.tensor([rng.uniform(0.5, 1.5), 1.0], requires_grad=True) for _ in range(3)]
        values: list[Any] = list(self.leaves)
        for _ in range(rng.randint(4, 16)):
            a, b = rng.choice(values), rng.choice(values)
            if rng.random() < 0.2:
                values.append(rng.choice(jitgrad.cat([a, b]).chunk(2)))
            else:
                values.append(rng.choice([lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a.sin() - b])(a, b))
            if is_plain:
                continue
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


def _in_order(seed: int) -> tuple[Any, list[int]]:
    """What a plain graph computes, and the sequence numbers of its Nodes in the order in which they run."""
    graph = _Graph(seed, is_plain=True)
    first = next_sequence_nr()
    order: list[int] = []
    apply = op_node.OpNode.apply

    def note(self: Any, grads: list[Any]) -> Any:
        order.append(first - self.sequence_nr)
        return apply(self, grads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op_node.OpNode, "apply", note)
        return graph.run(), order


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_the_loop_for_plain_graphs_does_the_same(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_node, "_make_programs", [])  # a program would run in the place of ``apply``
    plans.clear()  # and with them programs that there were
    runs = []
    plainly = plain_graph.backward_plainly
    for seed in range(first, first + 20):
        runs.clear()
        monkeypatch.setattr(door, "backward", lambda *args: runs.append(plainly(*args)) or runs[-1])
        found = _in_order(seed)
        assert all(runs), "the engine ran it"
        monkeypatch.setattr(door, "backward", lambda *args: False)
        assert _in_order(seed) == found, f"seed {seed}"


class _Logged(Function):
    """A custom Function whose backward tells what it sees of the graph task, and does something in between."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, log: list[Any], act: Callable[[], Any]) -> Any:
        ctx.save_for_backward(a, b)
        ctx.log, ctx.act = log, act
        return a * b, a.exp()

    @staticmethod
    def backward(ctx: Any, of_product: Any, of_exp: Any) -> Any:
        a, b = ctx.saved_tensors
        ctx.log.append(("function", *_seen(ctx.log)))
        ctx.act()
        return of_product * b + of_exp * a.exp(), of_product * a, None, None


def _seen(log: list[Any]) -> tuple[Any, ...]:
    """What the user's code finds of the running backward."""
    task, node = current_graph_task(), current_node()
    waiting = sorted(n.name() for n in task.not_ready)
    return (
        node.name(), task.outstanding_tasks, task.reentrant_depth, waiting, sum(task.dependencies.values()),
        task.keep_graph, jitgrad.is_grad_enabled(),
    )  # fmt: skip


class _UsersGraph:
    """A random graph with code of the user: custom Functions and hooks, which look, give hooks to others, queue
    callbacks, run backwards of their own, or raise."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.log: list[Any] = []
        self.leaves = [jitgrad.tensor([rng.uniform(0.5, 1.0), 1.0], requires_grad=True) for _ in range(3)]
        values: list[Any] = list(self.leaves)
        for _ in range(rng.randint(3, 12)):
            a, b, kind = rng.choice(values), rng.choice(values), rng.random()
            if kind < 0.3:
                values += _Logged.apply(a, b, self.log, self.act())
            else:
                values.append(rng.choice([lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a.sin() - b])(a, b))
            if rng.random() < 0.3:
                self.give_hook(rng.choice(values))
        self.values = values
        self.loss = sum((v.sum() for v in rng.sample(values[3:], min(3, len(values) - 3))), values[-1].sum())
        self.keeps = rng.random() < 0.3

    def give_hook(self, value: Any) -> None:
        kind, act = self.rng.choice(["tensor", "pre", "post", "retain", "leaf"]), self.act()

        def look(*given: Any) -> None:
            self.log.append((kind, *_seen(self.log)))
            act()

        if kind == "tensor":
            doubles = self.rng.random() < 0.5
            value.register_hook(lambda grad: (look(), grad * 2 if doubles and grad is not None else None)[1])
        elif kind == "leaf":
            self.rng.choice(self.leaves).register_post_accumulate_grad_hook(look)
        elif value.grad_fn is not None:
            if kind == "retain":
                value.retain_grad()
            elif kind == "pre":
                value.grad_fn.register_prehook(look)
            else:
                value.grad_fn.register_hook(look)

    def act(self) -> Callable[[], Any]:
        """Something that the user's code may do, chosen now."""
        kind = self.rng.choice(["nothing", "nothing", "nothing", "hook", "callback", "nested", "raise", "grad mode"])
        chosen = self.rng.randrange(1000)
        if kind == "hook":
            return lambda: self.values[chosen % 3].register_hook(lambda grad: None if grad is None else grad * 3)
        if kind == "callback":
            queue = jitgrad.autograd.Variable._execution_engine.queue_callback
            return lambda: queue(lambda: self.log.append(("callback", current_graph_task() is not None)))
        if kind == "nested":
            return self.nested
        if kind == "raise" and chosen % 4 == 0:
            return lambda: _fail(None)
        return lambda: None

    def nested(self) -> None:
        with jitgrad.enable_grad():
            x = jitgrad.ones(2, requires_grad=True)
            _Logged.apply(x, x, self.log, lambda: None)[0].sum().backward()
        self.log.append(x.grad.tolist())

    def run(self) -> Any:
        try:
            self.loss.backward(retain_graph=self.keeps)
            if self.keeps:
                self.loss.backward()
        except LookupError as error:
            self.log.append(str(error))
        kept = [leaf.grad if leaf.grad is None else leaf.grad.tolist() for leaf in self.leaves]
        retained = [v.grad.tolist() if v.retains_grad and v.grad is not None else None for v in self.values[3:]]
        return kept, retained, self.log, current_graph_task(), current_node(), jitgrad.is_grad_enabled()


@pytest.mark.parametrize("in_python", [False, True])
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_code_of_the_user_finds_in_a_plain_graph_what_it_finds_in_the_engine(
    first: int, in_python: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    native_eager.install()
    runs: list[Any] = []
    plainly = plain_graph.backward_plainly
    with native_eager.pythons_form() if in_python else nullcontext():
        for seed in range(first, first + 50):
            monkeypatch.setattr(door, "backward", lambda *args: runs.append(plainly(*args)) or runs[-1])
            found = _UsersGraph(seed).run()
            monkeypatch.setattr(door, "backward", lambda *args: False)
            assert _UsersGraph(seed).run() == found, f"seed {seed}"
    assert sum(map(bool, runs)) > 50


class _Requests:
    """Random calls of ``grad`` and of ``backward(inputs=)`` on a random plain graph."""

    def __init__(self, seed: int) -> None:
        graph = _Graph(seed, is_plain=True)
        rng = random.Random(seed)
        self.graph = graph
        unused = jitgrad.ones(2, requires_grad=True)
        there_are = [*graph.values, graph.loss, unused, unused * 2]
        self.inputs = [rng.choice(there_are) for _ in range(rng.randint(1, 4))]
        self.leaves = [rng.choice([*graph.leaves, unused]) for _ in range(rng.randint(1, 3))]
        self.create_graph = rng.random() < 0.5
        self.call = rng.choice(["grad", "grad of grad", "inputs"])

    def run(self) -> Any:
        if self.call == "inputs":
            self.graph.loss.backward(inputs=self.leaves, create_graph=self.create_graph)
            return [_kept(leaf.grad) for leaf in self.graph.leaves]
        is_twice = self.call == "grad of grad"
        options = {"create_graph": self.create_graph or is_twice, "allow_unused": True}
        grads = jitgrad.autograd.grad(self.graph.loss, self.inputs, **options)
        found = [_kept(grad) for grad in grads]
        used = [grad for grad in grads if grad is not None and grad.requires_grad]
        if is_twice and used:
            second = jitgrad.autograd.grad(used[0].sum(), self.graph.leaves, allow_unused=True, retain_graph=True)
            found += [_kept(grad) for grad in second]
        return found


def _kept(grad: Any) -> Any:
    return None if grad is None else (grad.tolist(), grad.requires_grad, grad.grad_fn and grad.grad_fn.name())


def _requested(seed: int) -> tuple[Any, list[int]]:
    """What the calls compute, and the Nodes whose rules run, in their order."""
    requests = _Requests(seed)
    first = next_sequence_nr()
    order: list[int] = []
    apply = op_node.OpNode.apply

    def note(self: Any, grads: list[Any]) -> Any:
        order.append(first - self.sequence_nr)
        return apply(self, grads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op_node.OpNode, "apply", note)
        return requests.run(), order


@pytest.mark.parametrize("has_programs", [False, True])
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_loop_for_plain_graphs_runs_the_way_to_inputs_as_the_engine_does(
    first: int, has_programs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_programs:
        monkeypatch.setattr(op_node, "_make_programs", [])
        plans.clear()
    runs: list[Any] = []
    plainly = plain_graph.run_request
    for seed in range(first, first + 30):
        runs.clear()
        monkeypatch.setattr(plain_graph, "run_request", lambda request: (runs.append(plainly(request)), runs[-1])[1])
        found = _requested(seed)
        assert runs and None not in runs, "the engine ran it"
        assert current.wanted is None and jitgrad.is_grad_enabled()
        monkeypatch.setattr(plain_graph, "run_request", lambda request: None)
        again = _requested(seed)
        assert (found if not has_programs else found[0]) == (again if not has_programs else again[0]), f"seed {seed}"


def test_a_gradient_that_is_not_used_is_an_error_in_a_plain_graph() -> None:
    x, unused = jitgrad.ones(2, requires_grad=True), jitgrad.ones(2, requires_grad=True)
    root = (x * x).sum()
    for inputs in ([x, unused], [unused], [unused * 2]):
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            jitgrad.autograd.grad(root, inputs, retain_graph=True)
    assert jitgrad.autograd.grad(root, [unused, x], allow_unused=True)[0] is None
    with pytest.raises(RuntimeError, match="second time"):
        jitgrad.autograd.grad(root, x)
    assert current.wanted is None and current.node is None


def _packed(x: Any) -> Any:
    with jitgrad.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved):
        return (x * x).sum()


def _hooked(x: Any) -> Any:
    y = x * x
    y.register_hook(lambda grad: None)
    return y.sum()


def _accumulated(x: Any) -> Any:
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    return (x * x).sum()


@pytest.mark.parametrize("function", [_packed, _hooked, _accumulated, lambda x: _Loose.apply(x, x).sum()])
def test_code_of_the_user_runs_in_a_plain_graph_of_which_all_is_asked_for(function: Callable[[Any], Any]) -> None:
    x = jitgrad.ones(2, requires_grad=True)
    root = function(x)
    assert plain_graph.run_request(_request(root, x)) is None
    assert x.grad is None and current.graph_task is None
    assert plain_graph.backward_plainly(root, None, False)
    assert x.grad is not None and current.graph_task is None


def _request(root: Any, *inputs: Any) -> BackwardRequest:
    return BackwardRequest((root,), (None,), True, False, inputs, allow_unused=False, accumulate=False)


def test_what_looks_at_a_backward_gets_the_engine() -> None:
    x = jitgrad.ones(2, requires_grad=True)
    root = (x * x).sum()
    with pytest.warns(UserWarning, match="Anomaly"), jitgrad.autograd.detect_anomaly():
        assert not plain_graph.backward_plainly(root, None, True)
        assert plain_graph.run_request(_request(root, x)) is None
    with engine.trace():
        assert not plain_graph.backward_plainly(root, None, True)
        assert plain_graph.run_request(_request(root, x)) is None
    with _full_loop():
        assert not plain_graph.backward_plainly(root, None, True)
        assert plain_graph.run_request(_request(root, x)) is None
    assert x.grad is None
    assert plain_graph.backward_plainly(root, None, True)
    assert x.grad.tolist() == [2.0, 2.0]
    assert plain_graph.run_request(_request(root, x))[0].tolist() == [2.0, 2.0]


def test_rules_of_a_plain_graph_are_not_the_calls_of_a_class_that_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a class may be defined anywhere in the program: graphs stay plain, those with its own tensors, too."""
    calls: list[str] = []
    runs: list[Any] = []

    class Overriding(jitgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    plainly = plain_graph.run_request
    monkeypatch.setattr(plain_graph, "run_request", lambda request: (runs.append(plainly(request)), runs[-1])[1])
    saved = jitgrad.full((2,), 3.0).as_subclass(Overriding)
    x = jitgrad.ones(2, requires_grad=True)
    with DisableTorchFunctionSubclass():
        root = ((x * saved).sin() * saved).sum()
    assert type(root) is jitgrad.Tensor
    calls.clear()
    (first,) = jitgrad.autograd.grad(root, x, create_graph=True)
    assert calls == [] and runs == [(first,)], "the loop ran it, and its rules asked nobody"
    assert state.overrides_off == 0
    calls.clear()
    first * saved
    assert calls, "overrides are on again"


def test_an_error_in_a_plain_graph_leaves_the_thread_as_it_was() -> None:
    x = jitgrad.ones(2, requires_grad=True)
    y = x * 1
    root = (y * y).sum()
    y.mul_(2)
    for run in (root.backward, lambda: jitgrad.autograd.grad(root, x), lambda: root.backward(inputs=x)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run()
        assert jitgrad.is_grad_enabled()
        assert current.node is None
        assert current.wanted is None


def test_what_is_not_traced_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(engine_module.trace, "emit", lambda *args, **options: looks.append(args))
    _Graph(1).run()
    assert looks == []


@contextmanager
def _its_own_loop() -> Iterator[None]:
    """Graphs run as they do for users."""
    yield


@contextmanager
def _loop_for_one_thread() -> Iterator[None]:
    """Plain graphs run as those with hooks do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "backward", lambda *args: False)
        yield


all_loops = pytest.mark.parametrize(
    "loop", [_its_own_loop, _loop_for_one_thread, _full_loop], ids=["plain", "alone", "full"]
)


@all_loops
def test_all_loops_free_the_graph(loop: Any) -> None:
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


@all_loops
def test_all_loops_make_gradients_fit(loop: Any) -> None:
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
