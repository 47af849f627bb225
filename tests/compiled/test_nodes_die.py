"""What Nodes hold dies in a compiled step when nobody can reach it any more, and not before; so does memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg
from jitgrad.cpython.liveness import counts_references
from jitgrad.runtime.storage.storage import Storage

_TURNS = 40

_FEW = 12
"""Nodes that wait to be asked for: Note [Nodes that die]. Where references are not counted they wait for a read."""


class Token:
    """What Python hangs on a Node. Counts how many there are, and the most that there were."""

    alive = most = 0

    def __init__(self) -> None:
        Token.alive += 1
        Token.most = max(Token.most, Token.alive)

    def __del__(self) -> None:
        Token.alive -= 1

    def nothing(self) -> None:
        """Called by hooks, which so hold the token."""


class Doubled(jg.autograd.Function):
    """Saves its operand, and keeps a token."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.token = Token()
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.token is not None
        return grad * 2 + ctx.saved_tensors[0] * 0


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Reference counts must do: what waits for the collector has not died."""
    gc.collect()
    gc.disable()
    Token.alive = Token.most = 0
    yield
    gc.enable()


def by_a_function(w: Any) -> Any:
    return Doubled.apply(w)


def by_a_hook(w: Any) -> Any:
    token, h = Token(), w * 3
    h.register_hook(lambda grad: token.nothing())
    return h


def by_a_hook_of_the_node(w: Any) -> Any:
    token, h = Token(), w.exp()  # a Node that saves its result
    h.grad_fn.register_hook(lambda grads, seeds: token.nothing())
    return h


def by_metadata(w: Any) -> Any:
    h = w * w  # a Node that saves its operands
    h.grad_fn.metadata["token"] = Token()
    return h


def by_packing(w: Any) -> Any:
    with jg.autograd.graph.saved_tensors_hooks(lambda t: (t.detach(), Token()), lambda packed: packed[0]):
        return w.exp()


KINDS = [by_a_function, by_a_hook, by_a_hook_of_the_node, by_metadata, by_packing]


@pytest.mark.parametrize("hang", KINDS)
def test_what_a_dropped_graph_holds_dies_in_the_step(mode: Mode, hang: Callable[[Any], Any]) -> None:
    def step(w: Any) -> Any:
        Token.most = Token.alive
        for _ in range(_TURNS):
            loss = (hang(w) * 2).sum()
        return loss.detach()

    mode.run(step, lambda: (jg.ones(3, requires_grad=True),))
    assert Token.alive == 0
    if counts_references or mode.name == "eager":
        assert Token.most <= _FEW


@pytest.mark.parametrize("hang", KINDS)
def test_a_read_shows_that_it_has_died(mode: Mode, hang: Callable[[Any], Any]) -> None:
    seen: list[int] = []

    def step(w: Any) -> Any:
        seen.clear()
        for _ in range(5):
            loss = hang(w).sin().sum()
            loss.item()
            seen.append(Token.alive)
        del loss
        jg.ones(2).sum().item()
        seen.append(Token.alive)

    mode.run(step, lambda: (jg.ones(3, requires_grad=True),))
    assert seen == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("hang", KINDS)
def test_what_somebody_can_reach_lives(mode: Mode, hang: Callable[[Any], Any]) -> None:
    """Only a value computed from it is left, from before the Node was made or after; others come and go."""

    def step(w: Any) -> Any:
        h = w * 1
        before = h.cos()
        kept = hang(h)
        h.grad_fn.metadata["mine"] = "kept"
        after = (kept * 5).sum()
        del kept, h
        for turn in range(_TURNS):
            loss = (hang(w) * 2).sum()
            if turn % 10 == 0:
                loss.item()
        del loss
        alive = Token.alive
        node = before.grad_fn.next_functions[0][0]
        (after + before.sum()).backward()
        return alive, node.metadata, w.grad.clone()

    alive, metadata, grad = mode.run(step, lambda: (jg.ones(3, requires_grad=True),))
    assert alive >= 1
    assert metadata == {"mine": "kept"}
    Token.alive = 0
    assert grad.tolist() == pytest.approx(step(jg.ones(3, requires_grad=True))[2].tolist(), rel=1e-6)


def test_a_hook_is_called_though_only_the_trace_leads_to_it(mode: Mode) -> None:
    def step(w: Any) -> Any:
        calls: list[int] = []
        h = w * 3
        h.register_hook(lambda grad: calls.append(1))
        loss = (h * 2).sum()
        del h
        for _ in range(_TURNS):
            other = w * 4
            other.register_hook(lambda grad: calls.append(100))
            other.sum().item()
        del other
        loss.backward()
        return calls

    assert mode.run(step, lambda: (jg.ones(3, requires_grad=True),)) == [1]


def test_a_node_that_the_user_holds_is_the_same_node(mode: Mode) -> None:
    def step(w: Any) -> Any:
        h = w.exp()
        node = h.grad_fn
        del h
        for _ in range(_TURNS):
            (w * 2).sum().grad_fn.metadata["turn"] = Token()
        w.sum().item()
        saved = node._saved_result
        assert saved.grad_fn is node
        (saved * 2).sum().backward()
        return w.grad.clone()

    assert mode.run(step, lambda: (jg.zeros(3, requires_grad=True),)).tolist() == [2, 2, 2]


def test_written_values_and_views_keep_their_nodes(mode: Mode) -> None:
    def step(w: Any) -> Any:
        y = w * 1
        part = y[:2]
        Doubled.apply(w).sum()
        part.mul_(Doubled.apply(w)[:2])
        del part
        for _ in range(_TURNS):
            Doubled.apply(w).sum().item()
        y.mul_(Doubled.apply(w))
        y.sum().backward()
        return w.grad.clone()

    make = lambda: (jg.tensor([1.0, 2.0, 3.0], requires_grad=True),)  # noqa: E731
    assert mode.run(step, make).tolist() == pytest.approx(step(*make()).tolist(), rel=1e-6)


def test_a_loop_that_reads_keeps_the_memory_of_the_last_turns(mode: Mode) -> None:
    """Without Nodes of Python's, too."""
    found = []

    def step(w: Any) -> Any:
        for _ in range(_TURNS):
            loss = (w.exp() * w).sin().sum()
            loss.item()
        found[:] = [sum(type(x) is Storage and x.nbytes >= 1_000_000 for x in gc.get_objects())]
        return loss.detach()

    mode.run(step, lambda: (jg.ones(500_000, requires_grad=True),))
    if counts_references or mode.name == "eager":
        assert found[0] <= 2 * _TURNS / 3  # two are saved in each turn


@pytest.mark.parametrize("hang", [*KINDS, lambda w: w.exp()])
def test_calls_that_ask_take_the_same_path(hang: Callable[[Any], Any]) -> None:
    """When a call asks, and for what, is the path's affair: storages that are kept to serve again do not matter."""

    @jg.compile
    def step(w: Any) -> None:
        for turn in range(3 * _TURNS):
            loss = (hang(w) * 2).sum()
            if turn % 4:
                loss.item()

    w = jg.ones(3, requires_grad=True)
    for _ in range(3):
        step(w)
    before = jg.stats()["misses"]
    step(w)
    assert jg.stats()["misses"] == before


def test_what_the_open_segment_reads_stays(mode: Mode) -> None:
    """A value survives a segment, an operation that waits reads it, nobody holds it, and the call lets go of Nodes."""

    def step(x: Any, w: Any) -> Any:
        value, written = x * 2, x * 3
        assert value.sum().item() > 0
        waits = value + 1
        written.add_(1)
        kept = written[0]
        del value, written
        for _ in range(_TURNS):
            w = Doubled.apply(w)
        return waits, kept, w.sum()

    waits, kept, total = mode.run(step, lambda: (jg.ones(3), jg.ones(2, requires_grad=True)))
    assert (waits.tolist(), kept.item(), total.item()) == ([3.0] * 3, 4.0, 2.0 ** (_TURNS + 1))
