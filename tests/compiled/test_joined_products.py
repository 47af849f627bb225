"""Note [Joined products] in whole steps: values and gradients of unrolled loops are PyTorch's, in few products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import Mode

pytest.importorskip("torch", reason="parity tests compare with PyTorch")

STEPS, BATCH, HIDDEN = 6, 5, 24


WEIGHT, GATES, INPUT, STEP = (HIDDEN, HIDDEN), (4 * HIDDEN, HIDDEN), (STEPS, BATCH, HIDDEN), (BATCH, HIDDEN)
Step = Callable[..., Any]


def tensors(lib: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    rng = np.random.default_rng(7)
    return tuple(lib.tensor((0.2 * rng.standard_normal(s)).astype(np.float32), requires_grad=True) for s in shapes)


def lstm_step(lib: Any, x: Any, state: tuple[Any, Any], w: Any, u: Any) -> tuple[Any, Any]:
    h, c = state
    i, f, g, o = (x @ w.t() + h @ u.t()).chunk(4, 1)
    c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
    return lib.sigmoid(o) * lib.tanh(c), c


def lstm(lib: Any, x: Any, *weights: Any) -> Any:
    """LSTM layers as loops; two weights for each."""
    steps = x.unbind(0)
    for w, u in zip(weights[::2], weights[1::2], strict=True):
        state = (lib.zeros(BATCH, HIDDEN), lib.zeros(BATCH, HIDDEN))
        outputs = []
        for part in steps:
            state = lstm_step(lib, part, state, w, u)
            outputs.append(state[0])
        steps = outputs
    loss = lib.stack(list(steps)).square().mean() * 100
    loss.backward()
    return loss


def batch_first(lib: Any, x: Any, *weights: Any) -> Any:
    """Steps that do not lie one after the other."""
    return lstm(lib, x.reshape(BATCH, STEPS, HIDDEN).transpose(0, 1), *weights)


def branches(lib: Any, w: Any, v: Any, *inputs: Any) -> Any:
    """One small network on several inputs, and a penalty: all are terms of the weights' gradients."""
    loss = sum((lib.tanh(x @ w) @ v.t()).square().mean() for x in inputs) + 0.1 * w.square().sum()
    loss.backward()
    return loss


def read_in_the_middle(lib: Any, w: Any, u: Any, x: Any) -> Any:
    """Two segments: a value is read half way."""
    h, seen = lib.zeros(BATCH, HIDDEN), 0.0
    for t in range(STEPS):
        h = lib.tanh(x[t] @ w + h @ u)
        if t == STEPS // 2:
            seen = h.sum().item()
    h.square().sum().backward()
    return h + seen


def second_order(lib: Any, w: Any, x: Any) -> Any:
    """Gradients of gradients of a loop."""
    h = lib.zeros(BATCH, HIDDEN)
    for t in range(STEPS):
        h = lib.tanh((x[t] + h) @ w)
    (g,) = lib.autograd.grad(h.square().sum(), w, create_graph=True)
    g.square().sum().backward()
    return g


CASES: dict[str, tuple[Step, list[tuple[int, ...]]]] = {
    "one layer": (lstm, [INPUT, GATES, GATES]),
    "two layers": (lstm, [INPUT, *[GATES] * 4]),
    "batch first": (batch_first, [INPUT, GATES, GATES]),
    "branches": (branches, [WEIGHT, GATES, *[STEP] * 4]),
    "read in the middle": (read_in_the_middle, [WEIGHT, WEIGHT, INPUT]),
    "second order": (second_order, [WEIGHT, INPUT]),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, mode: Mode) -> None:
    function, shapes = CASES[name]

    def step(lib: Any, *given: Any) -> list[Any]:
        return [function(lib, *given), *(x.grad for x in given)]

    torch = pytest.importorskip("torch")
    expected = step(torch, *tensors(torch, shapes))
    for got, want in zip(mode.run(partial(step, jitgrad), lambda: tensors(jitgrad, shapes)), expected, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


def counted(name: str) -> tuple[int, int]:
    """How many products a compiled step joined: in long ones, in tall ones."""
    function, shapes = CASES[name]
    step = jitgrad.compile(partial(function, jitgrad))
    before = jitgrad.stats()
    for _ in range(2):  # a long graph is compiled when it is met for the second time
        step(*tensors(jitgrad, shapes))
    after = jitgrad.stats()
    long, tall = (after[name] - before[name] for name in ("long_products", "tall_products"))
    return long, tall


def test_products_of_an_unrolled_loop_are_joined() -> None:
    """Long are the gradients of both weights; tall are the products with the inputs, and those inputs' gradients."""
    assert counted("one layer") == (2 * STEPS, 2 * STEPS)
    assert counted("two layers") == (4 * STEPS, 4 * STEPS)
    assert counted("batch first") == (2 * STEPS, 2 * STEPS)


def test_a_loop_of_few_launches() -> None:
    """A loop's step forward is a product and the gates; backward it is a product with the gates' gradients."""
    function, shapes = CASES["one layer"]
    step = jitgrad.compile(partial(function, jitgrad))
    for _ in range(3):
        given = tensors(jitgrad, shapes)
        before = jitgrad.stats()["launches"]
        step(*given)
    assert jitgrad.stats()["launches"] - before <= 3 * STEPS + 8


def test_a_plain_step_joins_nothing() -> None:
    step = jitgrad.compile(lambda w, v, x: (jitgrad.tanh(x @ w) @ v.t()).square().sum().backward())
    before = jitgrad.stats()
    step(*tensors(jitgrad, [WEIGHT, GATES, STEP]))
    after = jitgrad.stats()
    assert all(after[name] == before[name] for name in ("long_products", "tall_products"))
