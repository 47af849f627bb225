"""Gradients that the calls of one function add to the same leaves, Note [Sums of calls]: random loops and trees."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import Tensor
from jitgrad.compiled.backward import call_programs
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.events import count
from jitgrad.nn import functional as F

Cell = Callable[..., Any]
N = 6

pytestmark = pytest.mark.usefixtures("form")
needs_counts = pytest.mark.skipif(not counts_references, reason="calls end the general way")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(call_programs, "_PATIENCE", 1)
    yield


def leaves(dtype: Any = jg.float32, seed: int = 0) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)

    def leaf(*shape: int) -> Tensor:
        return jg.tensor(rng.standard_normal(shape) * 0.3, dtype=dtype, requires_grad=True)

    return {"w": leaf(N, 2 * N), "b": leaf(N), "s": leaf(1), "m": leaf(N, N), "t": leaf(7, N)}


def cells(p: dict[str, Tensor], wrap: Callable[[Cell], Cell]) -> list[Cell]:
    """Cells of two states each; some give a weight's gradient by a product, by a sum, in a view, by rows."""

    def joined(x: Tensor, y: Tensor) -> Tensor:
        return F.linear(jg.cat((x, y)), p["w"], p["b"]).tanh()

    def scaled(x: Tensor, y: Tensor) -> Tensor:
        return (x * p["s"] + y * p["b"]).sin()

    def multiplied(x: Tensor, y: Tensor) -> Tensor:
        return (p["m"] @ x) * y.sigmoid()

    def halved(x: Tensor, y: Tensor) -> Tensor:
        return p["m"].t()[: N // 2].sum(0) * x + y

    def looked_up(x: Tensor, y: Tensor) -> Tensor:
        return F.embedding(jg.tensor([1, 3, 1]), p["t"]).sum(0) * x - y

    def several(x: Tensor, y: Tensor) -> Tensor:
        first = F.linear(jg.stack((x, y)), p["m"], p["b"])
        return first.mean(0) * p["s"]

    def shifted(x: Tensor, y: Tensor) -> Tensor:
        return x + p["b"] + y * p["s"]  # one gradient goes to the first two, as it came

    return [wrap(f) for f in (joined, scaled, multiplied, halved, looked_up, several, shifted)]


def random_tree(parts: list[Cell], p: dict[str, Tensor], rng: random.Random) -> Tensor:
    """Calls of two of the cells over a row of states, some eager operations with the same leaves between."""
    nodes = [p["b"] * float(i + 1) for i in range(rng.randrange(2, 5))]
    chosen = rng.sample(parts, 3)
    for _ in range(rng.randrange(4, 12)):
        x, y = (nodes[rng.randrange(len(nodes))] for _ in range(2))
        kind = rng.random()
        if kind < 0.75:
            nodes.append(chosen[int(kind * 4)](x, y))
        elif kind < 0.82:
            nodes.append(x + p["b"])
        elif kind < 0.9:
            nodes.append((x * p["b"]).cos() + p["s"])
        else:
            nodes.append((p["m"] * y).sum(0))
    return jg.stack(nodes[-3:]).square().sum()


def grads_of(p: dict[str, Tensor]) -> list[Any]:
    return [None if x.grad is None else x.grad.detach().numpy().copy() for x in p.values()]


def compare(found: list[Any], wanted: list[Any], tolerance: float) -> None:
    for own, eager in zip(found, wanted, strict=True):
        assert (own is None) == (eager is None)
        if own is not None:
            np.testing.assert_allclose(own, eager, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_random_trees_have_the_gradients_of_eager_mode(seed: int, dtype: str) -> None:
    rng, kind = random.Random(seed), getattr(jg, dtype)
    eager, compiled = leaves(kind), leaves(kind)
    plain, made = cells(eager, lambda f: f), cells(compiled, jg.compile)
    for _ in range(12):
        program, twice, keeps = rng.randrange(3), rng.random() < 0.2, rng.random() < 0.3
        for p, parts in ((eager, plain), (compiled, made)):
            loss = random_tree(parts, p, random.Random(program + 100 * seed))
            loss.backward(retain_graph=twice)
            if twice:
                loss.backward()
        compare(grads_of(compiled), grads_of(eager), 1e-4 if dtype == "float32" else 1e-10)
        if not keeps:
            for p in (eager, compiled):
                for x in p.values():
                    x.grad = None


def chain(cell: Cell, x: Tensor, length: int) -> Tensor:
    state = x
    for _ in range(length):
        state = cell(state, x)
    return state.sum()


@pytest.mark.parametrize("passes", ["eagerly", "through a call"])
def test_a_gradient_that_goes_two_ways_is_not_added_to(passes: str) -> None:
    """What arrives at the leaf first is also what a call, which runs later, gets."""
    found = []
    for wrap in (lambda f: f, jg.compile):
        p = leaves(jg.float64)
        shifted = cells(p, wrap)[6]
        waved = wrap(lambda x, p=p: (x * p["b"]).sin())
        for _ in range(5):
            for leaf in p.values():
                leaf.grad = None
            x = jg.ones(N, dtype=jg.float64)
            first, second = waved(x), waved(x * 2)
            moved = first + p["b"] if passes == "eagerly" else shifted(first, x)
            (moved.square().sum() + second.sum()).backward()
        found.append(grads_of(p))
    compare(found[1], found[0], 1e-9)


@needs_counts
@pytest.mark.parametrize("nr", [0, 1, 2, 5])
def test_calls_of_a_loop_add_to_sums(nr: int) -> None:
    p = leaves()
    cell, x = cells(p, jg.compile)[nr], jg.ones(N)
    for _ in range(3):
        chain(cell, x, 8).backward()
    with count("summed_backwards") as summed, count("compiles") as compiled:
        chain(cell, x, 8).backward()
    assert (summed(), compiled()) == (7, 0)


def test_a_gradient_that_somebody_holds_is_not_added_to() -> None:
    p = leaves()
    cell, x = cells(p, jg.compile)[0], jg.ones(N)
    held: list[Any] = []
    for _ in range(6):
        for leaf in p.values():
            leaf.grad = None
        chain(cell, x, 5).backward()
        held.append((p["w"].grad, p["w"].grad.numpy().copy()))
    for grad, copy in held:
        np.testing.assert_array_equal(grad.numpy(), copy)


def test_hooks_of_leaves_see_whole_sums() -> None:
    seen: dict[str, list[Any]] = {"eager": [], "compiled": []}
    for name, wrap in (("eager", lambda f: f), ("compiled", jg.compile)):
        p = leaves()
        cell, x = cells(p, wrap)[0], jg.ones(N)
        p["w"].register_hook(lambda g, name=name: seen[name].append(g.numpy().copy()))
        p["b"].register_post_accumulate_grad_hook(lambda q, name=name: seen[name].append(q.grad.numpy().copy()))
        for _ in range(5):
            chain(cell, x, 6).backward()
    assert len(seen["eager"]) == len(seen["compiled"]) == 10
    compare(seen["compiled"], seen["eager"], 1e-4)


def test_grad_and_inputs_get_theirs() -> None:
    p = leaves()
    cell, x = cells(p, jg.compile)[0], jg.ones(N)
    for _ in range(4):
        chain(cell, x, 6).backward()
    for leaf in p.values():
        leaf.grad = None
    chain(cell, x, 6).backward()
    wanted = p["w"].grad.numpy().copy()
    (found,) = jg.autograd.grad(chain(cell, x, 6), [p["w"]])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    p["w"].grad = None
    chain(cell, x, 6).backward(inputs=[p["w"]])
    np.testing.assert_allclose(p["w"].grad.numpy(), wanted, rtol=1e-5)


def test_a_graph_of_the_backward_is_not_made_of_sums() -> None:
    results = []
    for wrap in (lambda f: f, jg.compile):
        p = leaves(jg.float64)
        cell, x = cells(p, wrap)[0], jg.ones(N, dtype=jg.float64)
        for _ in range(4):
            chain(cell, x, 6).backward()
        for leaf in p.values():
            leaf.grad = None
        (first,) = jg.autograd.grad(chain(cell, x, 6), [p["w"]], create_graph=True)
        first.square().sum().backward()
        results.append(grads_of(p))
    compare(results[1], results[0], 1e-9)


def test_same_bits_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "same_bits", True)
    p = leaves()
    cell, x = cells(p, jg.compile)[0], jg.ones(N)
    bits = set()
    with count("summed_backwards") as summed:
        for _ in range(5):
            for leaf in p.values():
                leaf.grad = None
            chain(cell, x, 6).backward()
            bits.add(p["w"].grad.numpy().tobytes())
    assert summed() == 0 and len(bits) == 1


@needs_counts
def test_patience_is_had_with_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that adds is compiled once sums have been met often: of the calls behind the first, twice a backward."""
    monkeypatch.setattr(call_programs, "_PATIENCE", 5)
    p = leaves()
    cell, x = cells(p, jg.compile)[0], jg.ones(N)
    chain(cell, x, 4).backward()
    with count("summed_backwards") as summed:
        for _ in range(2):
            chain(cell, x, 4).backward()
        assert summed() == 0
        chain(cell, x, 4).backward()
        assert summed() > 0
