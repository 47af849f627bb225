"""Compiled functions as parts of a loop in plain Python: random graphs of calls and eager operations."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import Tensor, nn, stats
from jitgrad.cpython.liveness import counts_references
from jitgrad.nn import functional as F

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]


def same(function: Function) -> Function:
    return function


def _read(x: Tensor) -> Tensor:
    hidden = (x @ W).tanh()
    return hidden * (2 if hidden.detach().sum().item() > 0.0517 else 3)


def _read_twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    first = x.sin() * y
    if first.isnan().any() or first.max() > 1e30:
        return first, x
    return first.cos() * V, first


def _read_at_the_end(x: Tensor, y: Tensor) -> Tensor:
    made = (x * V).sin() + y
    assert not made.isnan().any()
    return made


def _part_across_a_read(x: Tensor) -> Tensor:
    part = x.tanh()[0]
    return part.exp() * x if part.sum().item() > 0.0517 else x / (2 + part)


def _written_after_a_read(x: Tensor, y: Tensor) -> Tensor:
    made = x * y
    made.mean().item()
    made.mul_(0.5)
    return made.exp() * made


def _counted(x: Tensor) -> Tensor:
    STATE[0].add_(0.1)
    return x.tanh() * 2


def _scaled_by_what_is_counted(x: Tensor) -> Tensor:
    """A second call writes what the first has saved."""
    STATE[0].add_(0.1)
    return x.sin() * STATE[0]


def _normalized(x: Tensor) -> Tensor:
    return F.batch_norm(x @ W, STATE[1], STATE[2], training=True, eps=0.5)


def _state_and_reads(x: Tensor) -> Tensor:
    STATE[1].mul_(0.5).add_(x.detach().mean(0))
    hidden = (x - STATE[1].clone()).tanh()
    if hidden.mean() > 5:
        return hidden
    STATE[2].copy_(hidden.detach()[1])
    return hidden * W


FUNCTIONS: list[tuple[int, Function]] = [
    (2, lambda x, y: (x @ W).tanh() * y),
    (2, lambda x, y: (x * y, x + y.exp())),
    (1, lambda x: F.gelu(x)),
    (1, lambda x: x * 2),
    (1, lambda x: x),
    (2, lambda x, y: y),
    (1, lambda x: x.t()),
    (1, lambda x: (x.sum(0, keepdim=True).expand(3, 3), x)),
    (2, lambda x, y: (x.detach() * y, y.cos())),
    (1, lambda x: x.clone().mul_(0.5).add_(W)),
    (1, lambda x: (x[0] + x[1:], 3)[0].sum() * x),
    (2, lambda x, y: jg.where(y > 0, x, y * 0.1)),
    (1, lambda x: x.softmax(1) @ x),
    (2, lambda x, y: jg.cat((x, y))[1:4]),
    (2, lambda x, y: (x.reshape(9)[1:] * y.t().view(3, 3)[0, 0]).sum() * y),
    (1, lambda x: (x.reshape(9).view(1, 9) * x.reshape(9)).view(3, 3)),
    (1, lambda x: (x @ W, x * V)),
    (2, lambda x, y: (x.tanh(), x.tanh() @ V, y * W)),
    (1, lambda x: ((x @ V).t(), (x.exp() * 0.1).reshape(9).view(3, 3))),
    (1, lambda x: ((W * V).t(), x)),
    (1, _read),
    (2, _read_twice),
    (2, _read_at_the_end),
    (1, _part_across_a_read),
    (2, _written_after_a_read),
    (1, _counted),
    (1, _scaled_by_what_is_counted),
    (1, _normalized),
    (1, _state_and_reads),
]
"""How many arguments, and what is done; all are matrices of three by three."""
W = jg.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()
V = jg.linspace(1, -0.5, 9).reshape(3, 3).requires_grad_()
STATE = [jg.zeros(()), jg.zeros(3), jg.ones(3)]
"""What some of them write."""


class Graph:
    """A random graph of calls of these functions, and of what is done with it."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.calls = [
            (rng.randrange(len(FUNCTIONS)), rng.randrange(99), rng.randrange(99), rng.random() < 0.7)
            for _ in range(rng.randint(1, 8))
        ]
        self.ends = [rng.choice(ENDS) for _ in range(3)]
        self.look = rng.choice(LOOKS)
        self.at = rng.randrange(99)

    def observe(self, wrap: Wrap) -> list[Any]:
        functions = [(count, function, wrap(function)) for count, function in FUNCTIONS]
        found: list[Any] = []
        for tensor in STATE:
            tensor.zero_()
        for turn in range(6):
            W.grad = V.grad = None
            a = (jg.arange(9.0).reshape(3, 3) * 0.1 + turn).sin().requires_grad_()
            b = jg.full((3, 3), 0.3).requires_grad_()
            values = [a, b, a * b]
            for index, i, j, is_wrapped in self.calls:
                count, plain, wrapped = functions[index]
                operands = (values[i % len(values)], values[j % len(values)])[:count]
                made = (wrapped if is_wrapped else plain)(*operands)
                values += made if isinstance(made, tuple) else (made,)
            notes: list[Any] = []
            try:
                if turn > 2:  # programs are known by then
                    self.look(values[self.at % len(values)], notes)
                self.ends[turn % 3](values, a, b, notes)
            except RuntimeError as error:
                notes.append(type(error).__name__)
            found += [*notes, a.grad, b.grad, W.grad, V.grad, values[-1], *[tensor.clone() for tensor in STATE]]
        return [x.detach().numpy().copy() if isinstance(x, Tensor) else x for x in found]


def _loss(values: list[Tensor]) -> Tensor:
    return sum((v.sum() * (0.5 + i) for i, v in enumerate(values[2:])), values[-1].mean())


def _backward(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    _loss(values).backward()


def _last_alone(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    values[-1].sum().backward()


def _twice(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    loss = _loss(values)
    loss.backward(retain_graph=True)
    loss.backward()


def _a_second_time(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    loss = _loss(values)
    loss.backward()
    loss.backward()


def _grad(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    notes += jg.autograd.grad(_loss(values), (a, values[len(values) // 2]), allow_unused=True)


def _second(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    (grad,) = jg.autograd.grad(_loss(values), a, create_graph=True)
    (grad * grad).sum().backward()


def _from_a_gradient(values: list[Tensor], a: Tensor, b: Tensor, notes: list[Any]) -> None:
    last = next((v for v in reversed(values) if v.grad_fn is not None), a)
    last.backward(jg.ones(3, 3).expand_as(last) * 0.5)


ENDS = [_backward, _backward, _last_alone, _twice, _a_second_time, _grad, _second, _from_a_gradient]


def _hook(value: Tensor, notes: list[Any]) -> None:
    if value.requires_grad:
        value.register_hook(lambda grad: (notes.append(grad.clone()), grad * 2)[1])


def _retain(value: Tensor, notes: list[Any]) -> None:
    if value.requires_grad:
        value.retain_grad()
        notes.append(value.is_leaf)


def _write(value: Tensor, notes: list[Any]) -> None:
    """What was saved may have been written: the backward then says so."""
    if not value.is_leaf:
        value.mul_(1.5)


def _name(value: Tensor, notes: list[Any]) -> None:
    notes.append(type(value.grad_fn).__name__)


LOOKS = [lambda value, notes: None, lambda value, notes: None, _hook, _retain, _write, _name]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("seed", range(260))
def test_random_graphs(seed: int) -> None:
    graph = Graph(seed)
    wanted = graph.observe(same)
    rounding = 1e-7 * max(np.abs(x).max() for x in wanted if isinstance(x, np.ndarray))  # what is small is a difference
    for got, want in zip(graph.observe(jg.compile), wanted, strict=True):
        if isinstance(want, np.ndarray):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5 * max(1.0, np.abs(want).max()) + rounding)
        else:
            assert got == want


@pytest.mark.usefixtures("form")
def test_a_model_in_a_plain_loop_is_a_step_of_the_plain_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph task, no Nodes of the call; the loss and the update are eager mode's."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer, forward = jg.optim.Adam(model.parameters()), jg.compile(model)
    x, labels = jg.randn(5, 3), jg.tensor([0, 1, 1, 0, 1])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(forward(x) * 2, labels).backward()
        optimizer.step()

    for _ in range(3):
        step()
    monkeypatch.setattr("jitgrad.runtime.engine.run.engine.engine.execute", None)
    if counts_references:  # else no hit closes a call
        monkeypatch.setattr("jitgrad.compiled.nodes.trace_graph.TraceGraph.run_backward", None)
    before = stats()
    step()
    after = stats()
    assert after["outside_backwards"] - before["outside_backwards"] == 1
    assert after["traces"] - before["traces"] == 1
    assert after["misses"] == before["misses"]


_SHARED, _FIRST, _SECOND = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)


def _heads(x: Tensor) -> tuple[Tensor, Tensor]:
    hidden = _SHARED(x).tanh()
    return _FIRST(hidden), _SECOND(hidden).squeeze(-1)


_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "both": lambda first, second: first.square().mean() + second.exp().mean(),
    "the first": lambda first, second: first.square().mean(),
    "the second": lambda first, second: second.exp().mean(),
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("which", _LOSSES)
def test_of_two_results_one_may_have_no_gradient(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor with a critic: what only the other head has gets no gradient at all; neither runs the engine."""
    parameters = [p for layer in (_SHARED, _FIRST, _SECOND) for p in layer.parameters()]

    def run(function: Function) -> list[Any]:
        found = []
        for turn in range(5):
            if function is not _heads and turn == 3:
                monkeypatch.setattr("jitgrad.runtime.engine.run.engine.engine.execute", None)
            for p in parameters:
                p.grad = None
            _LOSSES[which](*function(jg.linspace(-1, 1, 6).reshape(2, 3) * (turn + 1))).backward()
            found.append([None if p.grad is None else p.grad.numpy().copy() for p in parameters])
        return found

    want = run(_heads)
    got = run(jg.compile(_heads)) if counts_references else want
    assert [[g is None for g in turn] for turn in got] == [[g is None for g in turn] for turn in want]
    for one, other in zip(got, want, strict=True):
        for g, w in zip(one, other, strict=True):
            if w is not None:
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("which", [0, 1])
def test_a_graph_that_only_the_other_result_needs_is_left_alone(which: int) -> None:
    """It is no part of the backward, so what it has saved is still there afterwards."""
    function = jg.compile(lambda u, x: (x.exp(), u * x) if which == 0 else (u * x, x.exp()))
    for _ in range(5):
        a, x = jg.full((3,), 2.0).requires_grad_(), jg.zeros(3, requires_grad=True)
        u = a * a
        function(u, x)[which].sum().backward()
        assert a.grad is None and x.grad.tolist() == [1.0] * 3
        u.sum().backward()
        assert a.grad.tolist() == [4.0] * 3


@pytest.mark.usefixtures("form")
def test_the_other_result_has_its_gradient_later() -> None:
    """Of one forward: each head's backward in turn. What both need is used up unless it is retained."""
    function, found = jg.compile(_heads), []
    for turn in range(6):
        for layer in (_SHARED, _FIRST, _SECOND):
            layer.zero_grad(set_to_none=True)
        x = jg.ones(2, 3) * ((turn + 1) / 6)  # tanh is not saturated: 1 - tanh² has all its digits
        first, second = function(x)
        first.sum().backward(retain_graph=turn % 2 == 0)
        assert _SECOND.weight.grad is None
        if turn % 2:
            with pytest.raises(RuntimeError, match="second time"):
                second.sum().backward()
            continue
        second.sum().backward()
        found.append(_SHARED.weight.grad.clone())
        _SHARED.zero_grad(set_to_none=True)
        first, second = _heads(x)
        (first.sum() + second.sum()).backward()
        np.testing.assert_allclose(found[-1].numpy(), _SHARED.weight.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert len(found) == 3


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    "end",
    [lambda y: y.squeeze(-1), lambda y: y.t(), lambda y: y[:, 0], lambda y: y.view(-1), lambda y: (y, y.flatten())],
    ids=["squeeze", "t", "index", "view", "both"],
)
def test_a_view_leaves_a_call_as_lightly_as_what_it_views(end: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(3, 1)
    function = jg.compile(lambda x: end(layer(x)))
    for turn in range(5):
        if turn == 3 and counts_references:
            monkeypatch.setattr("jitgrad.compiled.nodes.trace_graph.TraceGraph.run_backward", None)
            monkeypatch.setattr("jitgrad.runtime.engine.run.engine.engine.execute", None)
        layer.zero_grad(set_to_none=True)
        made = function(jg.ones(4, 3) * turn)
        last = made[-1] if isinstance(made, tuple) else made
        (last * jg.arange(4.0)).sum().backward()
        assert layer.weight.grad.tolist() == [[6.0 * turn] * 3] and layer.bias.grad.tolist() == [6.0]
        assert last._is_view() and last._base.shape == (4, 1)


@pytest.mark.usefixtures("form")
def test_what_saves_nothing_is_a_step_of_the_plain_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = jg.compile(lambda x: x * 2 + 1)
    for nr in range(5):
        x = jg.ones(3, requires_grad=True)
        if nr == 3:
            monkeypatch.setattr("jitgrad.compiled.nodes.trace_graph.TraceGraph.attach", None)
        twice(twice(x)).sum().backward()
        assert x.grad.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.usefixtures("form")
def test_other_memory_of_a_leaf_after_the_forward() -> None:
    """A Node that has saved the leaf sees it, as in PyTorch."""
    def run(wrap: Wrap) -> list[list[float]]:
        function, w, found = wrap(lambda x: (x * w).sum()), jg.ones(3, requires_grad=True), []
        for nr in range(5):
            x = jg.ones(3, requires_grad=True)
            loss = function(x)
            if nr > 2:
                w.data = jg.full((3,), 9.0 + nr)
            loss.backward()
            found.append(x.grad.tolist())
        return found

    assert run(jg.compile) == run(same) == [[1.0] * 3] * 3 + [[12.0] * 3, [13.0] * 3]


@pytest.mark.usefixtures("form")
def test_a_used_graph_lets_go_of_its_inputs() -> None:
    function, w = jg.compile(lambda x: (x * w).sum()), jg.ones(3, requires_grad=True)
    for _ in range(4):
        x = jg.ones(3) * 2
        gone = weakref.ref(x._storage)
        loss = function(x)
        loss.backward()
        del x
        gc.collect()
        assert gone() is None
        assert loss.requires_grad


def _buffers(result: Tensor) -> dict[int, Any]:
    """What the graph of a call's result has kept, but for inputs as long as nobody has looked; -1: its room."""
    graph = result._graph
    buffers: dict[int, Any] = graph.table if graph.entered is not None else graph._buffers
    return buffers if graph.room is None else {**buffers, -1: graph.room}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("saves", ["one", "several"])
def test_a_used_graph_lets_go_of_what_it_has_saved(saves: str) -> None:
    w = jg.ones(3, requires_grad=True)
    function = jg.compile(lambda x: ((x * w).tanh() if saves == "one" else (x * w).tanh().exp()).sum())
    for _ in range(4):
        loss = function(jg.ones(3))
        own = (loss._storage, w._storage)
        kept = [storage for storage in _buffers(loss).values() if storage not in own]
        assert kept
        loss.backward()
        assert not [storage for storage in _buffers(loss).values() if storage in kept]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_results_are_differentiated_one_by_one(order: tuple[int, ...]) -> None:
    """Each backward uses up a part of what the call has saved."""
    def plain(x: Tensor) -> tuple[Tensor, ...]:
        return (x * w).tanh().exp().sum(), (x + w).sin().exp().sum(), ((x * w).cos() * x.exp()).tanh().sum()

    function, w = jg.compile(plain), jg.ones(3, requires_grad=True)
    for turn in range(5):
        x, found = jg.arange(3.0) * 0.1 + turn, []
        for results in (plain(x), function(x)):
            grads = []
            for nr in order:
                w.grad = None
                results[nr].backward()
                grads.append(w.grad.numpy().copy())
            found.append(grads)
        np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("keep", [False, True])
def test_a_graph_is_used_up(keep: bool) -> None:
    function, w = jg.compile(lambda x: (x * w).tanh()), jg.ones(3, requires_grad=True)
    for _ in range(4):
        y = function(jg.ones(3))
        y.backward(jg.ones(3), retain_graph=keep)
        once = w.grad.clone()
        if keep:
            y.backward(jg.ones(3))
            assert w.grad.tolist() == (once * 2).tolist()
        else:
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                y.backward(jg.ones(3))
            assert w.grad.tolist() == once.tolist()
        w.grad = None


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("what", ["leaf", "argument", "result"])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_what_is_written_after_the_forward_is_refused(what: str, is_wrapped: bool) -> None:
    """An optimizer's step between the two, say: no history tells of it."""
    w = jg.full((3,), 0.5, requires_grad=True)

    def plain(x: Tensor) -> Tensor:
        return (x * w).tanh()

    function = jg.compile(plain) if is_wrapped else plain
    for turn in range(6):
        x = jg.ones(3)
        y = function(x)
        with jg.no_grad():
            if turn % 2:
                {"leaf": w, "argument": x, "result": y}[what].mul_(0.5)
        if turn % 2 and what != "leaf":
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        else:
            y.sum().backward()
        w.grad = None


@pytest.mark.parametrize("looks", [False, True])
def test_a_write_through_data_between_an_operation_and_its_backward(looks: bool) -> None:
    """No version counter tells: the backward reads what is there, as in PyTorch."""
    def step(w: Tensor, data: Tensor) -> Tensor:
        y = (w * w).sum()
        if looks:
            assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
        data.mul_(2.0)
        y.backward()
        return y

    def run(step: Function) -> list[list[float]]:
        found = []
        for _ in range(5):
            w = jg.ones(3, requires_grad=True)
            step(w, w.data.view(3, 1))
            found.append(w.grad.tolist())
        return found

    assert run(jg.compile(step)) == run(step) == [[4.0] * 3] * 5


def test_a_part_and_the_whole_after_a_read() -> None:
    def step(part: Tensor, whole: Tensor) -> Any:
        first = part.sum().item()
        whole.add_(1.0)
        return first, (part * 2).tolist(), whole.sum().item()

    x, y, compiled = jg.arange(8.0), jg.arange(8.0), jg.compile(step)
    for nr in range(6):
        assert compiled(x[nr : nr + 2], x) == step(y[nr : nr + 2], y)
