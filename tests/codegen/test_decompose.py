"""The choice of algorithms: which one a primitive becomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.decompose import DECOMPOSE
from jitgrad.codegen.primitives.simplify import rewrite
from jitgrad.codegen.routines.walks import WALKS
from jitgrad.dtypes import float32, int64
from jitgrad.ops.aval import make_aval


def _log_softmax(b: Builder, x: Value) -> Value:
    shifted = b.sub(x, b.reduce("max", x, (1,), keepdim=True))
    return b.sub(shifted, b.log(b.reduce("sum", b.exp(shifted), (1,), keepdim=True)))


def _bias(b: Builder, columns: int) -> Value:
    return b.expand(b.input(2, make_aval((columns,), float32)), (columns, columns))


_COMPUTED: dict[str, Callable[[Builder, Value], Value]] = {
    "input": lambda b, x: x,
    "exp": lambda b, x: b.exp(x),
    "log_softmax": _log_softmax,
    "of a product": lambda b, x: _log_softmax(b, b.matmul(x, b.permute(x, (1, 0)))),
    "of a layer": lambda b, x: _log_softmax(b, b.add(b.matmul(x, b.permute(x, (1, 0))), _bias(b, x.shape[0]))),
    "flipped": lambda b, x: b.exp(b.slice(x, (0, x.shape[1] - 1), (x.shape[0], -1), (1, -1))),
    "sums": lambda b, x: b.exp(b.sum(b.expand(b.reshape(x, (*x.shape, 1)), (*x.shape, 9)), (2,))),
}


def one_of_each_row(rows: int, columns: int, name: str) -> Value:
    """``x[arange(rows), chosen]`` of an input, or of something that is computed from one."""
    b = Builder()
    x: Value = b.input(0, make_aval((rows, columns), float32))
    chosen = b.input(1, make_aval((rows,), int64))
    picked = b.gather(_COMPUTED[name](b, x), [b.iota((rows,), 0), chosen])
    return rewrite([picked], DECOMPOSE, b)[0]


def _ops_of(v: Value) -> dict[str, Value]:
    found, stack = {}, [v]
    while stack:
        one = stack.pop()
        found[one.op] = one
        stack += one.srcs
    return found


@pytest.mark.parametrize(
    ("name", "columns", "is_walked"),
    [
        ("input", 4, True), ("input", 64, False), ("input", 500, False), ("exp", 4, True), ("exp", 64, False),
        ("exp", 500, False), ("flipped", 64, True), ("flipped", 500, False), ("sums", 64, True),
    ],
)  # fmt: skip
def test_rows_are_walked_where_they_are_short_or_computed_from_others(name: str, columns: int, is_walked: bool) -> None:
    """A walk compares each column with the chosen one; else one element is read, and computed from."""
    ops = _ops_of(one_of_each_row(8, columns, name))
    assert ("reduce_max" in ops, "gather" in ops) == (is_walked, not is_walked)


@pytest.mark.parametrize(
    ("name", "table"), [("log_softmax", "input"), ("of a product", "matmul"), ("of a layer", "add")]
)
def test_one_column_of_a_softmax_is_computed_from_one_element(name: str, table: str) -> None:
    gather = _ops_of(one_of_each_row(64, 64, name))["gather"]
    assert gather.srcs[0].op == table
    assert gather.shape == (64,)


def test_none_of_one_element_has_no_elements() -> None:
    b = Builder()
    first = b.sort(b.input(0, make_aval((3, 1), float32)), 1, False, 0)
    assert [v.shape for v in rewrite(first, WALKS, b)] == [(3, 0), (3, 0)]
