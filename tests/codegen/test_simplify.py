"""Rewrites: each row of the table does what its name says, and nothing that changes a bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.simplify import SIMPLIFY, rewrite, topological
from jitgrad.dtypes import bool_, float32, int64
from jitgrad.ops.aval import make_aval


def simplified(make: Callable[[Builder, Value], Any], shape: tuple[int, ...] = (3, 4), dtype: Any = float32) -> Value:
    b = Builder()
    return rewrite([make(b, b.input(0, make_aval(shape, dtype)))], SIMPLIFY, b)[0]


@pytest.mark.parametrize(
    "make,op",
    [
        (lambda b, x: b.mul(x, 1.0), "input"),
        (lambda b, x: b.mul(x, -1.0), "neg"),
        (lambda b, x: b.sub(x, 0.0), "input"),
        (lambda b, x: b.neg(b.neg(x)), "input"),
        (lambda b, x: b.add(x, b.neg(x)), "sub"),
        (lambda b, x: b.div(x, 4.0), "mul"),
        (lambda b, x: b.div(x, 3.0), "div"),
        (lambda b, x: b.mul(x, 0.0), "mul"),
        (lambda b, x: b.add(x, 0.0), "add"),
        (lambda b, x: b.pow(x, 2.0), "mul"),
        (lambda b, x: b.pow(x, 0.5), "sqrt"),
        (lambda b, x: b.pow(x, 0.0), "expand"),
        (lambda b, x: b.pow(x, 2.5), "pow"),
        (lambda b, x: b.where(b.not_(b.gt(x, 0.0)), x, b.neg(x)), "where"),
        (lambda b, x: b.reshape(b.reshape(x, (12,)), (3, 4)), "input"),
        (lambda b, x: b.permute(b.permute(x, (1, 0)), (1, 0)), "input"),
        (lambda b, x: b.sum(b.reshape(x, (3, 1, 4)), (1,)), "input"),
        (lambda b, x: b.cast(b.cast(b.gt(x, 0.0), int64), float32), "cast"),
    ],
)
def test_rule(make: Callable[[Builder, Value], Any], op: str) -> None:
    assert simplified(make).op == op


def test_constants_fold_in_their_dtype() -> None:
    v = simplified(lambda b, x: b.mul(b.const(0.1, float32), b.const(3.0, float32)))
    assert v.params == (repr((np.float32(0.1) * np.float32(3.0)).item()),)


def test_integer_zero_is_neutral() -> None:
    assert simplified(lambda b, x: b.add(x, 0), dtype=int64).op == "input"


def test_bool_products_stay() -> None:
    assert simplified(lambda b, x: b.not_(b.not_(x)), dtype=bool_).op == "input"


def test_topological_order_of_a_long_chain() -> None:
    b = Builder()
    v = b.input(0, make_aval((2,), float32))
    for _ in range(100_000):
        v = b.neg(b.add(v, 1.0)) if v.op != "neg" else b.exp(v)
    order = topological([v])
    seen: set[int] = set()
    for value in order:
        assert all(id(s) in seen for s in value.srcs)
        seen.add(id(value))
