"""Joined products: which are joined, that the operands are not moved without need, and bits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.decompose import DECOMPOSE
from jitgrad.codegen.primitives.join import LONG, TALL, join_products
from jitgrad.codegen.primitives.simplify import SIMPLIFY, rewrite, topological
from jitgrad.dtypes import float32
from jitgrad.ops.aval import make_aval
from tests.codegen.interpreter import Case, evaluate

STEPS, ROWS, WIDTH = 5, 4, 24
Lower = Callable[..., Any]


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) / math.sqrt(shape[-1]) for shape in shapes]


def joined(lower: Lower, *shapes: tuple[int, ...]) -> tuple[list[Value], Counter[str]]:
    """The graph after the pass, checked against the one before by the primitives' meaning."""
    b, applied = Builder(), Counter[str]()
    made = lower(b, *(b.input(n, make_aval(shape, float32)) for n, shape in enumerate(shapes)))
    before = rewrite(made if isinstance(made, list) else [made], SIMPLIFY, b)
    after = rewrite(join_products(before, b, applied), SIMPLIFY, b)
    inputs = dict(enumerate(arrays(*shapes)))
    for x, y in zip(evaluate(after, inputs), evaluate(before, inputs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    return after, applied


def products(results: list[Value]) -> list[Value]:
    return [v for v in topological(results) if v.op == "matmul"]


def step(b: Builder, x: Value, t: int) -> Value:
    """x[t]"""
    _, rows, columns = x.shape
    return b.reshape(b.slice(x, (t, 0, 0), (t + 1, rows, columns), (1, 1, 1)), (rows, columns))


def loop(b: Builder, x: Value, w: Value, u: Value) -> list[Value]:
    """The states of a plain recurrence."""
    h = b.expand(b.const(0.0, float32), x.shape[1:2] + u.shape[:1])
    states = []
    for t in range(x.shape[0]):
        h = b.tanh(b.add(b.matmul(step(b, x, t), w), b.matmul(h, u)))
        states.append(h)
    return states


def test_products_of_all_inputs_are_one_and_nothing_is_moved() -> None:
    last, applied = joined(lambda b, *xs: loop(b, *xs)[-1], (STEPS, ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))
    assert applied == {TALL: STEPS}
    assert len(products(last)) == 1 + STEPS
    assert not any(v.op == "cat" for v in topological(last))


def test_products_of_computed_inputs_are_one() -> None:
    def two_layers(b: Builder, x: Value, *weights: Value) -> Value:
        w, u, above_w, above_u = weights
        states = loop(b, x, w, u)
        h = b.expand(b.const(0.0, float32), states[0].shape)
        for below in states:
            h = b.tanh(b.add(b.matmul(below, above_w), b.matmul(h, above_u)))
        return h

    shapes = ((STEPS, ROWS, WIDTH), *[(WIDTH, WIDTH)] * 4)
    result, applied = joined(two_layers, *shapes)
    assert applied == {TALL: 2 * STEPS}
    assert len(products(result)) == 2 + 2 * STEPS
    Case(two_layers, arrays(*shapes)).check()


def test_weights_that_wait_for_each_other_are_no_cycle() -> None:
    """x @ v needs y @ w, and y' @ w needs x' @ v: of the two pairs only one can be joined."""

    def crossed(b: Builder, x: Value, y: Value, v: Value, w: Value) -> list[Value]:
        return [b.matmul(b.tanh(b.matmul(y, w)), v), b.matmul(b.tanh(b.matmul(x, v)), w)]

    shapes = ((ROWS, WIDTH), (ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))
    results, applied = joined(crossed, *shapes)
    assert applied == {TALL: 2}
    assert len(products(results)) == 3
    Case(crossed, arrays(*shapes)).check()


def gradient(b: Builder, x: Value, g: Value) -> Value:
    """The gradient of a weight that each step used."""
    total = b.matmul(b.permute(step(b, g, STEPS - 1), (1, 0)), step(b, x, STEPS - 1))
    for t in reversed(range(STEPS - 1)):
        total = b.add(total, b.matmul(b.permute(step(b, g, t), (1, 0)), step(b, x, t)))
    return total


def test_a_sum_of_products_is_one_and_nothing_is_moved() -> None:
    shapes = (STEPS, ROWS, WIDTH), (STEPS, ROWS, WIDTH)
    result, applied = joined(gradient, *shapes)
    assert applied == {LONG: STEPS}
    (product,) = products(result)
    assert product.srcs[0].shape == (1, WIDTH, STEPS * ROWS)
    assert not any(v.op in ("cat", "add", "slice") for v in topological(result))
    assert Case(gradient, arrays(*shapes)).check().launches == 1


def test_a_long_product_is_one_chain_over_all_steps() -> None:
    """As documented: the bits of a product whose operands were given as one."""

    def whole(b: Builder, x: Value, g: Value) -> Value:
        rows = [b.reshape(v, (STEPS * ROWS, WIDTH)) for v in (x, g)]
        return b.matmul(b.permute(rows[1], (1, 0)), rows[0])

    given = arrays((STEPS, ROWS, WIDTH), (STEPS, ROWS, WIDTH))
    (sums,), (at_once,) = Case(gradient, given).run()[0], Case(whole, given).run()[0]
    np.testing.assert_array_equal(sums, at_once)


def test_a_tall_product_has_the_bits_of_its_parts() -> None:
    def each(b: Builder, x: Value, w: Value) -> list[Value]:
        return [b.matmul(step(b, x, t), w) for t in range(STEPS)]

    given = arrays((STEPS, ROWS, WIDTH), (WIDTH, 2 * WIDTH))
    for t, part in enumerate(Case(each, given).run()[0]):
        (alone,) = Case(lambda b, x, w, t=t: b.matmul(step(b, x, t), w), given).run()[0]
        np.testing.assert_array_equal(part, alone)


def test_other_terms_stay_in_the_sum() -> None:
    def with_decay(b: Builder, x: Value, g: Value, w: Value) -> Value:
        return b.add(b.add(b.mul(w, 0.1), gradient(b, x, g)), b.matmul(w, w))

    shapes = (STEPS, ROWS, WIDTH), (STEPS, ROWS, WIDTH), (WIDTH, WIDTH)
    result, applied = joined(with_decay, *shapes)
    assert applied == {LONG: STEPS}  # w @ w is as long as it is wide
    assert len(products(result)) == 2
    Case(with_decay, arrays(*shapes)).check()


def test_a_sum_that_is_read_on_the_way_is_a_product_of_its_own() -> None:
    def partial(b: Builder, x: Value, g: Value) -> list[Value]:
        terms = [b.matmul(b.permute(step(b, g, t), (1, 0)), step(b, x, t)) for t in range(4)]
        half = b.add(terms[0], terms[1])
        return [half, b.add(b.add(half, terms[2]), terms[3])]

    results, applied = joined(partial, (STEPS, ROWS, WIDTH), (STEPS, ROWS, WIDTH))
    assert applied == {LONG: 4}
    assert [p.srcs[0].shape[2] for p in products(results)] == [2 * ROWS, 2 * ROWS]


@pytest.mark.parametrize("name,rows", [("many rows", 100), ("one row", 1)])
def test_when_rows_are_joined(name: str, rows: int) -> None:
    def each(b: Builder, x: Value, w: Value) -> list[Value]:
        return [b.matmul(step(b, x, t), w) for t in range(STEPS)]

    assert joined(each, (STEPS, rows, WIDTH), (WIDTH, WIDTH))[1] == ({TALL: STEPS} if rows == 1 else {})


def test_parts_of_a_cat_are_stored_in_the_cat_around_it_at_once() -> None:
    """The gates' gradients of a step, side by side, are an operand by themselves and a part of a long one."""

    def nested(b: Builder, x: Value) -> list[Value]:
        inner = [b.cat([b.tanh(step(b, x, t)), b.sin(step(b, x, t))], 1) for t in range(2)]
        return [b.cat(inner, 0), inner[1]]

    case = Case(nested, arrays((2, ROWS, WIDTH))).check()
    assert case.launches == 1

    b = Builder()
    values = rewrite(nested(b, b.input(0, make_aval((2, ROWS, WIDTH), float32))), DECOMPOSE, b)
    assert [v.op for v in values[0].srcs] == ["cat", "cat"]


def test_a_cat_of_one_cat_is_that_cat() -> None:
    def nested(b: Builder, x: Value) -> Value:
        inner = b.cat([b.tanh(x), b.sin(x)], 1)
        return b.cat([b.slice(inner, (0, 0), (0, 2 * WIDTH), (1, 1)), inner], 0)

    Case(nested, arrays((ROWS, WIDTH))).check()
