"""Looking into a graph: its nodes and edges, numbers, saved values; as a picture, and in words."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, NOTHING_HELD, Mode

import jitgrad
from jitgrad import nn
from jitgrad.autograd import Function, engine, grad, graph
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of


def _leaf(*values: float):
    return jitgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


@pytest.mark.row("A5")
def test_output_numbers(mode: Mode) -> None:
    mode.states(no_launch=NOTHING_HELD)
    def step(x):
        a, b = (x * 1).chunk(2)
        c, _ = x.max(0)
        return (a.output_nr, b.output_nr, c.output_nr), a.grad_fn is b.grad_fn, graph.get_gradient_edge(b).output_nr

    assert mode.run(step, lambda: (_leaf(),)) == ((0, 1, 0), True, 1)


@pytest.mark.row("A6")
def test_uses_of_a_leaf_share_one_accumulator_that_dies_with_the_graph(mode: Mode) -> None:
    def step(x):
        first, second = x * 2, x.exp()
        accumulator = first.grad_fn.next_functions[0][0]
        same = second.grad_fn.next_functions[0][0] is accumulator
        return same, accumulator.variable is x, first, second

    x = _leaf()
    same, is_x, first, second = mode.run(step, lambda: (x,))
    assert same
    assert is_x
    # the leaf holds it weakly, the graph holds it
    alive = weakref.ref(second.grad_fn.next_functions[0][0])
    assert alive() is accumulator_of(x)
    del first, second
    gc.collect()
    assert alive() is None


@pytest.mark.row("A16", engine=HOOKED)
def test_a_parent_without_grad_gets_none_and_is_never_reached(mode: Mode) -> None:
    def step(x, c):
        y = x * c
        edges = [(node is None, nr) for node, nr in y.grad_fn.next_functions]
        with engine.trace() as trace:
            y.sum().backward()
        return edges, x.grad, c.grad, [str(event) for event in trace if "exec" in str(event)]

    edges, x_grad, c_grad, executed = mode.run(step, lambda: (_leaf(), jitgrad.tensor([3.0, 4.0])))
    assert edges == [(False, 0), (True, 0)]
    assert x_grad.tolist() == [3.0, 4.0]
    assert c_grad is None
    assert len(executed) == 3  # the sum, the product, the leaf x


@pytest.mark.row("A20")
def test_the_graph_can_be_looked_at_before_backward(mode: Mode) -> None:
    def step(x, w):
        loss = ((x * w).tanh() + x).sum()
        names, node = [], loss.grad_fn
        while node is not None:
            names.append(node.name())
            node = node.next_functions[0][0] if node.next_functions else None
        return names, x.grad

    names, x_grad = mode.run(step, lambda: (_leaf(), _leaf()))
    assert names == ["SumBackward0", "AddBackward0", "TanhBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    assert x_grad is None


@pytest.mark.row("B10")
def test_sequence_numbers_rise_and_leaves_have_the_highest(mode: Mode) -> None:
    def step(x):
        a = x * 2
        b = a.exp()
        c = b + a
        numbers = [t.grad_fn._sequence_nr() for t in (a, b, c)]
        return numbers, a.grad_fn.next_functions[0][0]._sequence_nr()

    numbers, of_leaf = mode.run(step, lambda: (_leaf(),))
    assert numbers[0] < numbers[1] < numbers[2]
    assert of_leaf == 2**64 - 1


@pytest.mark.row("C9")
def test_a_node_can_be_called_and_knows_its_depth(mode: Mode) -> None:
    def step(x):
        a = x * x
        b = a * 2 + x  # the longest path: add, mul, mul, leaf
        result = a.grad_fn(jitgrad.ones(2))
        depths = [t.grad_fn.topological_nr for t in (b, a)] + [a.grad_fn.next_edges[0][0].topological_nr]
        bases = [c.__name__ for c in type(a.grad_fn).__mro__]
        return [g.tolist() for g in result], depths, len(a.grad_fn.next_edges), bases

    gradients, depths, count, bases = mode.run(step, lambda: (_leaf(),))
    assert gradients == [[1.0, 2.0], [1.0, 2.0]]
    assert depths == [3, 1, 0]
    assert count == 2
    assert "Node" in bases


class _Same(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.mark.row("C9", engine=HOOKED)
def test_nodes_of_functions_know_their_depth(mode: Mode) -> None:
    def step(x: Any) -> Any:
        first = _Same.apply(x)
        second = _Same.apply(first * 2)
        second.sum().backward()
        return first.grad_fn.topological_nr, second.grad_fn.topological_nr, x.grad.tolist()

    assert mode.run(step, lambda: (jitgrad.ones(1, requires_grad=True),)) == (1, 3, [2.0])


@pytest.mark.row("C10", engine=ARGUMENTS)
def test_gradient_edges(mode: Mode) -> None:
    def step(x):
        y = x * 2
        leaf, inner = graph.get_gradient_edge(x), graph.get_gradient_edge(y)
        facts = leaf.node is y.grad_fn.next_functions[0][0], leaf.output_nr, inner.node is y.grad_fn, inner.output_nr
        with pytest.raises(RuntimeError, match="does not require gradients"):
            graph.get_gradient_edge(jitgrad.ones(1))
        return facts, grad((y * y).sum(), [leaf, inner])

    facts, (of_x, of_y) = mode.run(step, lambda: (_leaf(),))
    assert facts == (True, 0, True, 0)
    assert of_x.tolist() == [8.0, 16.0]
    assert of_y.tolist() == [4.0, 8.0]


@pytest.mark.row("C19", engine=HOOKED)
def test_saved_tensors_are_gone_after_backward(mode: Mode) -> None:
    def step(x):
        y = x.exp()
        node = y.grad_fn
        before = node._saved_result
        y.sum().backward()
        with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
            node._saved_result  # noqa: B018 - looking raises
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"):
            node._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
        return before, before.grad_fn is node

    before, has_history = mode.run(step, lambda: (_leaf(0.0, 1.0),))
    assert [round(v, 4) for v in before.tolist()] == [1.0, 2.7183]
    assert has_history


@pytest.mark.row("C26", engine=HOOKED)
def test_the_current_node_is_known_in_hooks_and_nowhere_else(mode: Mode) -> None:
    def step(x):
        y = x * 2
        z = y.exp()
        seen = []
        y.register_hook(lambda g: seen.append(graph.current_node() is y.grad_fn))
        z.grad_fn.register_hook(lambda gi, go: seen.append(graph.current_node() is z.grad_fn))
        before = graph.current_node()
        z.sum().backward()
        return before, seen, graph.current_node()

    assert mode.run(step, lambda: (_leaf(),)) == (None, [True, True], None)


def _edges(node, seen):
    if node not in seen:
        seen[node] = [target for target, _ in node.next_functions if target is not None]
        for target in seen[node]:
            _edges(target, seen)
    return seen


@pytest.mark.row("D21")
def test_a_picture_has_every_node_and_every_edge(mode: Mode) -> None:
    def step(x, w):
        h = x.matmul(w)
        a, b = h.chunk(2)
        loss = (a * b + h.sum()).sum()
        found = _edges(loss.grad_fn, {})
        text = jitgrad.to_dot(loss, {"weight": w, "x": x})
        return text, [node.name() for node in found], sum(map(len, found.values()))

    def make():
        return _leaf(1.0, 2.0, 3.0), jitgrad.ones(3, 4, requires_grad=True)

    text, names, num_edges = mode.run(step, make)
    assert text.startswith("digraph {")
    assert text.rstrip().endswith("}")
    for name in names:
        if name != "torch::autograd::AccumulateGrad":
            assert text.count(f'"{name}\\n') == names.count(name), name
    assert len(re.findall(r"^  n[0-9a-f]+ \[", text, re.MULTILINE)) == len(names)
    assert len(re.findall(r"^  n[0-9a-f]+ -> ", text, re.MULTILINE)) == num_edges
    assert '"weight\\n(3, 4)"' in text
    assert '"x\\n(3,)"' in text
    assert ' [label="1"]' in text  # into the second output of chunk


def test_a_picture_of_several_results_and_of_none() -> None:
    x = _leaf()
    text = graph.to_dot([x * 2, x.exp()])
    assert text.count("fillcolor=palegreen") == 2
    assert text.count("fillcolor=lightblue") == 1
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        jitgrad.to_dot(jitgrad.ones(2))


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda x: x.sum(0, keepdim=True), {"dim": (0,), "keepdim": True, "self_sym_sizes": (2,)}),
        (lambda x: x**3, {"exponent": 3, "self": [1.0, 2.0]}),
        (lambda x: x.softmax(0), {"dim": 0}),
        (lambda x: x * jitgrad.tensor([3.0, 4.0]), {"self": None, "other": [3.0, 4.0]}),
        (lambda x: x.sqrt() * 0 + x.clamp(0.0, 1.0), {}),
        (lambda x: x[0:1], {"dim": 0, "start": 0, "end": 1, "step": 1}),
        (lambda x: jitgrad.where(x > 1, x, x), {"condition": [False, True]}),
        (lambda x: x.reshape(1, 2).mm(jitgrad.ones(2, 1)), {"mat2": [[1.0], [1.0]], "self": None}),
    ],
)
def test_saved_values_have_pytorchs_names(mode: Mode, make, names) -> None:
    def step(x):
        node = make(x).grad_fn
        with pytest.raises(AttributeError, match="object has no attribute '_saved_nothing'"):
            node._saved_nothing  # noqa: B018 - looking raises
        return {name: getattr(node, f"_saved_{name}") for name in names}

    values = mode.run(step, lambda: (_leaf(),))
    assert {n: v.tolist() if isinstance(v, jitgrad.Tensor) else v for n, v in values.items()} == names


def test_notes_on_a_node() -> None:
    node = (_leaf() * 2).grad_fn
    node.metadata["mine"] = 1
    assert node.metadata == {"mine": 1}
    assert [tuple(a.shape) for a in node._input_metadata] == [(2,)]


def _used_under_no_grad():
    x = _leaf()
    with jitgrad.no_grad():
        y = x * 2
    return x, (y * _leaf()).sum()


def _detached():
    x = _leaf()
    return x, (x.detach() * _leaf()).sum()


def _in_the_graph():
    x = _leaf()
    return x, (x * 2).sum()


def _not_a_leaf():
    h = _leaf() * 2
    return h, h.sum()


def _of_another_copy():
    layer = nn.Linear(2, 1)
    unused = nn.Linear(2, 1)
    return unused.weight, layer(jitgrad.ones(1, 2)).sum()


@pytest.mark.parametrize(
    "make, pattern",
    [
        (_used_under_no_grad, r"not in the graph of the loss .*no_grad"),
        (_detached, r"not in the graph of the loss .*detach"),
        (_of_another_copy, r"not in the graph of the loss \(.* leaves: .*\(1, 2\)"),
        (_in_the_graph, "is in the graph of the loss.*backward.. has not been called"),
        (_not_a_leaf, r"not a leaf: MulBackward0 .*retain_grad\(\)"),
        (lambda: (jitgrad.ones(2), None), "requires_grad is False"),
        (lambda: (jitgrad.tensor([1]), None), "dtype is jitgrad.int64"),
        (lambda: (_leaf(), jitgrad.ones(1)), "The loss does not require grad"),
        (lambda: (_leaf(), None), "No graph refers to it"),
    ],
)
def test_why_a_gradient_is_none(make, pattern) -> None:
    tensor, loss = make()
    assert re.search(pattern, jitgrad.why_none(tensor, loss))


def test_why_a_gradient_is_none_without_a_loss() -> None:
    x = _leaf()
    y = x * 2
    assert "part of a graph, but no backward has reached it" in jitgrad.why_none(x)
    y.sum().backward(inputs=[y])
    assert "inputs= named other tensors" in jitgrad.why_none(x)
    assert "It is not None" in jitgrad.why_none(y)
    z = x * 3
    z.retain_grad()
    assert "MulBackward0 has received none" in jitgrad.why_none(z)
