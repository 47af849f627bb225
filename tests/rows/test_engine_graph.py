"""What the engine does with a graph, seen through ``engine.trace()``: counts, order, buffers, roots."""

from __future__ import annotations

import math
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, HOOKED_LEAF, UNRECORDABLE, Mode
from watched import By, by_both

import jitgrad
from jitgrad import nn
from jitgrad.autograd import Function, engine
from jitgrad.runtime.engine.graph.current import current_graph_task, current_node
from jitgrad.runtime.engine.graph.node import GraphRoot
from jitgrad.runtime.engine.run.trace import KINDS, Trace


def _leaf(*values: float) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True)


def _counts(trace: Trace) -> list[tuple[str, int]]:
    return sorted((event.name, event.count) for event in trace.of("deps"))


def _traced_backward(root: Any, **options: Any) -> Trace:
    with engine.trace() as trace:
        root.backward(**options)
    return trace


@pytest.mark.row("A13")
@by_both
def test_an_edge_counts_each_time_and_a_node_is_expanded_once(mode: Mode, by: By) -> None:
    def step() -> Any:
        x, y = by.leaf(3.0), by.leaf(1.0)
        square = _traced_backward((x * x).sum())
        h = y * 2
        diamond = _traced_backward((h.sin() * h.cos()).sum())
        return square, diamond, x.grad.tolist(), y.grad.tolist()

    square, diamond, *grads = mode.run(step)
    assert grads == [[6.0], [pytest.approx(2 * math.cos(4.0), rel=1e-5)]]
    if by.is_repeated(mode, square, diamond):
        return
    assert _counts(square) == [("MulBackward0", 1), ("torch::autograd::AccumulateGrad", 2)]
    # each node is listed once: h's multiplication with both of its edges, and what is below it with one
    assert _counts(diamond) == [
        ("CosBackward0", 1),
        ("MulBackward0", 1),
        ("MulBackward0", 2),
        ("SinBackward0", 1),
        ("torch::autograd::AccumulateGrad", 1),
    ]


def _branching(x: Any) -> Any:
    h = x * 2
    a, b = h.sin(), h * x
    return (a * b + h * a + x).sum()


def _gradient_of_branching(x: float) -> float:
    """Of sin(2x) 2x^2 + 2x sin(2x) + x."""
    sin, cos = math.sin(2 * x), math.cos(2 * x)
    return 2 * cos * 2 * x * x + sin * 4 * x + 2 * sin + 2 * x * 2 * cos + 1


@pytest.mark.row("A14", "B15")
@by_both
def test_counts_fall_to_zero_before_a_node_runs(mode: Mode, by: By) -> None:
    def step() -> Any:
        x = by.leaf(0.5, -1.5)
        return _traced_backward(_branching(x)), x.grad.tolist()

    trace, grad = mode.run(step)
    assert grad == pytest.approx([_gradient_of_branching(0.5), _gradient_of_branching(-1.5)], rel=1e-5)
    if by.is_repeated(mode, trace):
        return
    missing = {id(e.node): e.count for e in trace.of("deps")}
    root = trace.of("ready")[0].node
    seen, was_stored = [], set()
    for event in trace:
        key = id(event.node)
        if event.kind == "not_ready":
            seen.append(missing[key] - event.count)  # one arrival at a time
            missing[key] = event.count
            was_stored.add(key)
        elif event.kind == "accumulate":
            assert key in was_stored  # the first arrival is stored, later ones are added to it
        elif event.kind == "ready" and event.node is not root:
            assert missing.pop(key) == 1  # the last one
        elif event.kind == "exec":
            assert key not in missing  # nothing is left to wait for
    assert seen
    assert set(seen) == {1}
    assert missing == {}


@pytest.mark.row("A15")
@by_both
def test_each_node_runs_once_and_after_all_its_consumers(mode: Mode, by: By) -> None:
    def step() -> Any:
        return _traced_backward(_branching(by.leaf(0.5, -1.5)))

    trace = mode.run(step)
    if by.is_repeated(mode, trace):
        return
    order = [event.node for event in trace.of("exec")]
    place = {id(node): i for i, node in enumerate(order)}
    targets = [(i, t) for i, node in enumerate(order) for t, _ in node.next_edges if t is not None]
    assert len(order) == len(place) == len(trace.of("deps")) + 1
    assert [i for i, t in targets if place[id(t)] <= i] == []


@pytest.mark.row("B14")
@by_both
def test_the_example_of_the_source_has_one_arrival_everywhere(mode: Mode, by: By) -> None:
    def step() -> Any:
        a, b = by.leaf(2.0, 3.0), by.leaf(6.0, 4.0)
        q = 3 * a**3 - b**2
        trace = _traced_backward(q, gradient=jitgrad.ones(2))
        return trace, (a, b), a.grad.tolist(), b.grad.tolist()

    trace, leaves, a, b = mode.run(step)
    assert (a, b) == ([36.0, 81.0], [-12.0, -8.0])
    if by.is_repeated(mode, trace):
        (event,) = trace
        assert event.count == 2
        assert {id(leaf) for leaf in event.leaves} == {id(leaf) for leaf in leaves}
        return
    assert trace.names("exec")[0] == "SubBackward0"
    assert _counts(trace) == [
        ("MulBackward0", 1),
        ("PowBackward0", 1),
        ("PowBackward0", 1),
        ("torch::autograd::AccumulateGrad", 1),
        ("torch::autograd::AccumulateGrad", 1),
    ]


@pytest.mark.row("B14", engine=ARGUMENTS, no_launch="No value is read or returned.")
def test_a_removed_dependency_is_reported(mode: Mode) -> None:
    def step() -> Any:
        y = (_leaf(3.0) * 2).exp()
        y.grad_fn.register_prehook(lambda grads: current_graph_task().dependencies.clear())
        with pytest.raises(RuntimeError, match=r"^dependency not found for MulBackward0$"):
            y.backward()
        return current_graph_task(), current_node()

    assert mode.run(step) == (None, None)


@pytest.mark.row("B15", engine=HOOKED)
def test_arrivals_wait_in_not_ready(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        h = x * 2
        a, b = h.sin(), h.exp()
        below, sizes = h.grad_fn, []

        def look(grads: Any) -> None:
            waiting = current_graph_task().not_ready
            sizes.append((len(waiting), below in waiting))

        for node in (a.grad_fn, b.grad_fn, below):
            node.register_prehook(look)
        (a + b).sum().backward()
        return sizes

    # exp was made last and runs first: nothing has arrived; then one of two has; then both, and the entry is gone
    assert mode.run(step) == [(0, False), (1, True), (0, False)]


@pytest.mark.row("B42", engine=HOOKED)
def test_a_node_has_one_slot_per_output_and_edges_into_one_slot_sum(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, 2.0, 3.0, 4.0)
        a, b = x.chunk(2)
        seen: list[Any] = []
        a.grad_fn.register_prehook(lambda grads: seen.extend(g.tolist() for g in grads))
        (a * 2 + b + a * 3).sum().backward()
        return seen, x.grad.tolist()

    assert mode.run(step) == ([[5.0, 5.0], [1.0, 1.0]], [5.0, 5.0, 1.0, 1.0])


class _OnlyFirst(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3, None


@pytest.mark.row("B43", "C18", engine=HOOKED)
def test_undefined_gradients_change_nothing(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, 2.0, 3.0, 4.0)
        a, b = x.chunk(2)
        seen: list[Any] = []
        a.grad_fn.register_prehook(lambda grads: seen.extend(g is None for g in grads))
        (b * 3).sum().backward()
        y, z = _leaf(2.0), _leaf(5.0)
        h = z * 1
        (_OnlyFirst.apply(y, h) + h * 7).sum().backward()
        w = _leaf(1.0)
        _OnlyFirst.apply(y, w).sum().backward()
        return seen, x.grad.tolist(), y.grad.tolist(), z.grad.tolist(), w.grad

    assert mode.run(step) == ([True, False], [0.0, 0.0, 3.0, 3.0], [6.0], [7.0], None)


@pytest.mark.row("C18", engine=HOOKED)
def test_invalid_edges_are_skipped_and_leaves_end_the_path(mode: Mode) -> None:
    def step() -> Any:
        x, constant = _leaf(2.0), jitgrad.tensor([3.0])
        y = x * constant
        edges = [(node is None, nr) for node, nr in y.grad_fn.next_functions]
        trace = _traced_backward(y.sum())
        leaf = trace.of("exec")[-1].node
        return edges, trace.names("exec"), leaf.next_functions, leaf.apply([jitgrad.ones(1)])

    edges, names, below, result = mode.run(step)
    assert edges == [(False, 0), (True, 0)]
    assert names == ["SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    assert below == ()
    assert list(result) == []


@pytest.mark.row("B8")
@by_both
def test_several_roots_have_a_graph_root(mode: Mode, by: By) -> None:
    def step() -> Any:
        x = by.leaf(1.0, 2.0)
        h = x * 2
        roots, seeds = [(h * h).sum(), h.sum()], [jitgrad.tensor(1.0), jitgrad.tensor(3.0)]
        with engine.trace() as trace:
            jitgrad.autograd.backward(roots, seeds)
        single = _traced_backward((x * 3).sum())
        return x.grad.tolist(), trace, single, seeds

    grad, trace, single, seeds = mode.run(step)
    assert grad == [8.0 + 6.0 + 3.0, 16.0 + 6.0 + 3.0]
    if by.is_repeated(mode, trace, single):
        return
    source = trace.of("exec")[0].node
    assert (trace.names("exec")[0], trace.of("ready")[0].name) == ("GraphRoot", "GraphRoot")
    assert "GraphRoot" not in single.names(*KINDS)
    assert isinstance(source, GraphRoot)
    if not mode.is_compiled or by.name == "engine":  # a recording is made with values, not with tensors of the caller
        assert all(given is seed for given, seed in zip(source.apply([]), seeds, strict=True))


@pytest.mark.row("B9", engine=(UNRECORDABLE, ARGUMENTS))
def test_a_leaf_that_no_graph_has_seen_is_unused(mode: Mode) -> None:
    def step() -> Any:
        x, never = _leaf(1.0), _leaf(1.0)
        y = (x * 2).sum()
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            jitgrad.autograd.grad(y, never, retain_graph=True)
        allowed = jitgrad.autograd.grad(y, [never, x], allow_unused=True, retain_graph=True)
        y.backward(inputs=[never])
        return allowed[0], allowed[1].tolist(), never.grad, x.grad

    assert mode.run(step) == (None, [2.0], None, None)


@pytest.mark.row("B12", "B36", engine=ARGUMENTS)
def test_outstanding_tasks_are_pushes_minus_finishes(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        a, b = x.sin(), x.exp()
        tasks: list[Any] = []
        seen: list[int] = []

        def look(grads: Any) -> None:
            tasks.append(current_graph_task())
            seen.append(tasks[-1].outstanding_tasks)

        loss = a * b
        for node in (loss.grad_fn, a.grad_fn, b.grad_fn):
            node.register_prehook(look)
        loss.backward()
        return seen, tasks[0].outstanding_tasks, len({id(t) for t in tasks}), tasks[0].completed()

    # the root alone; then both factors are pushed and one of them runs; then the other one
    assert mode.run(step) == ([1, 2, 1], 0, 1, True)


@pytest.mark.row("B36", "B37")
@by_both
def test_the_root_is_the_first_push_and_the_rest_follow_from_it(mode: Mode, by: By) -> None:
    def step() -> Any:
        return _traced_backward((by.leaf(1.0) * 2).exp().sum())

    trace = mode.run(step)
    if by.is_repeated(mode, trace):
        return
    names = ["SumBackward0", "ExpBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    pushed_then_run = [(kind, name) for name in names for kind in ("ready", "exec")]
    assert [(e.kind, e.name) for e in trace.of("ready", "exec")] == pushed_then_run
    assert {e.device for e in trace.of("ready", "exec")} == {"cpu"}


class _Net(nn.Module):
    """The network of the source: two linear layers, a threshold, a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1, self.linear2, self.relu = nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()

    def forward(self, x: Any) -> Any:
        x = self.linear1(x)
        return self.relu(x) + self.linear2(x)


@pytest.mark.row("E2")
@by_both
def test_the_network_of_the_source(mode: Mode, by: By) -> None:
    def step(net: Any) -> Any:
        out = net(jitgrad.ones(1, 1))[0]
        return _traced_backward(out), net

    if by.name == "engine":
        mode.states(engine=HOOKED_LEAF)

    def make() -> tuple[Any]:
        net = _Net()
        by.watch(net.linear1.bias)
        return (net,)

    trace, net = mode.run(step, make)
    if by.is_repeated(mode, trace):
        assert any(leaf is net.linear1.bias for leaf in trace.events[0].leaves)
        return
    # the layer that two others use has two arrivals, everything else one; the index was done last and goes first
    (twice,) = [e.node for e in trace.of("deps") if e.count == 2]
    assert {e.count for e in trace.of("deps")} == {1, 2}
    assert trace.names("exec")[0] == "SelectBackward0"
    assert any(getattr(node, "variable", None) is net.linear1.bias for node, _ in twice.next_edges)


@pytest.mark.row("E6")
@by_both
def test_a_trace_prints_what_the_author_printed(mode: Mode, by: By) -> None:
    def step() -> Any:
        h = by.leaf(1.0) * 2
        return _traced_backward((h.sin() * h).sum())

    trace = mode.run(step)
    lines, length = str(trace).splitlines(), len(trace)
    assert len(lines) == length + 1
    assert repr(trace) == f"<Trace of {length} events>"
    if by.is_repeated(mode, trace):
        assert [str(event) for event in trace] == ["recorded 1 no node ran"]
        return
    words = [str(event) for event in trace.of("not_ready", "accumulate")]
    assert lines[0].split() == ["event", "node", "device", "thread", "count"]
    shown = [line.split()[1:3] for line in lines[1:]]
    assert ["deps", "SinBackward0"] in shown
    assert ["ready", "SumBackward0"] in shown
    assert ["not_ready", "MulBackward0#1"] in shown  # two multiplications: they are numbered as they appear
    assert ["accumulate", "MulBackward0#1"] in shown
    assert words == ["not_ready MulBackward0 1", "accumulate MulBackward0"]


def test_traces_end_nest_and_know_their_kinds() -> None:
    y = (_leaf(1.0) * 2).sum()
    with engine.trace() as outer:
        y.backward(retain_graph=True)
        with engine.trace() as inner:
            y.backward(retain_graph=True)
    y.backward()
    assert len(outer) == 2 * len(inner) > 0
    assert {event.kind for event in outer} <= set(KINDS)
    with pytest.raises(ValueError, match="no kind of event: 'run'; known: deps, ready"):
        outer.of("run")
    outer.clear()
    assert len(outer) == 0
