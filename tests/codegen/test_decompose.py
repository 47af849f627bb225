"""The choice of algorithms: which one a primitive becomes."""

from __future__ import annotations

import pytest

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.decompose import DECOMPOSE
from jitgrad.codegen.primitives.simplify import rewrite
from jitgrad.codegen.routines.walks import WALKS
from jitgrad.dtypes import float32, int64
from jitgrad.ops.aval import make_aval


def one_of_each_row(columns: int, is_computed: bool) -> Value:
    """``x[arange(8), chosen]`` of an input, or of something that is computed from one."""
    b = Builder()
    x: Value = b.input(0, make_aval((8, columns), float32))
    chosen = b.input(1, make_aval((8,), int64))
    picked = b.gather(b.exp(x) if is_computed else x, [b.iota((8,), 0), chosen])
    return rewrite([picked], DECOMPOSE, b)[0]


@pytest.mark.parametrize(
    ("columns", "is_computed", "op"), [(64, True, "reduce_max"), (64, False, "gather"), (4, False, "reduce_max")]
)
def test_rows_are_walked_where_they_are_computed_or_short(columns: int, is_computed: bool, op: str) -> None:
    found = one_of_each_row(columns, is_computed)
    while found.op == "reshape":
        (found,) = found.srcs
    assert found.op == op


def test_none_of_one_element_has_no_elements() -> None:
    b = Builder()
    first = b.sort(b.input(0, make_aval((3, 1), float32)), 1, False, 0)
    assert [v.shape for v in rewrite(first, WALKS, b)] == [(3, 0), (3, 0)]
