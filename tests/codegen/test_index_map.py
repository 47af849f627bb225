"""Index maps against NumPy's own indexing: every element's address through random movements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jitgrad.codegen.fusion.domain import Domain
from jitgrad.codegen.fusion.index_map import Split, linear, through_pad, through_reshape, through_slice
from jitgrad.ops.aval import contiguous_strides


def addresses(domain: Domain, expr: tuple[int, ...]) -> np.ndarray:
    """The expression's value at every index of the domain, in order."""
    points = itertools.product(*(range(n) for n in domain.extents))
    return np.array([expr[0] + sum(c * i for c, i in zip(expr[1:], p, strict=True)) for p in points])


@pytest.mark.parametrize(
    "out,inner", [((6, 4), (2, 3, 4)), ((2, 12), (2, 3, 4)), ((24,), (2, 3, 4)), ((8, 3), (2, 4, 3)), ((2, 1, 3), (6,))]
)
def test_reshape_splits_loops_where_it_must(out: tuple[int, ...], inner: tuple[int, ...]) -> None:
    domain = Domain(tuple(n for n in out if n != 1))
    dims = tuple(range(len(domain.shape)))
    for _ in range(4):
        found = through_reshape(domain.identity(out, dims), out, inner, domain.extents)
        if not isinstance(found, Split):
            break
        domain = domain.split(found)
    assert found is not None and not isinstance(found, Split)
    expr = linear(found, contiguous_strides(inner), 0, len(domain.extents))
    np.testing.assert_array_equal(addresses(domain, expr), np.arange(24 if 6 not in inner else 6))


def test_reshape_that_no_loop_can_do() -> None:
    """4 x 6 as 2 x 3 x 4: the middle index needs parts of both loops."""
    domain = Domain((4, 6))
    for _ in range(4):
        found = through_reshape(domain.identity((4, 6), (0, 1)), (4, 6), (2, 3, 4), domain.extents)
        if not isinstance(found, Split):
            break
        domain = domain.split(found)
    assert found is None


@pytest.mark.parametrize("start,step,n", [(0, 1, 5), (2, 2, 3), (8, -2, 4), (9, -1, 10)])
def test_slice(start: int, step: int, n: int) -> None:
    domain = Domain((n,))
    m = through_slice(domain.identity((n,), (0,)), (start,), (step,))
    np.testing.assert_array_equal(addresses(domain, linear(m, (1,), 0, 1)), start + step * np.arange(n))


@pytest.mark.parametrize("lo,hi,step", [(1, 2, 1), (0, 3, 1), (2, 0, -1), (1, 1, 2), (3, 3, -2)])
def test_pad_range_is_where_the_operand_exists(lo: int, hi: int, step: int) -> None:
    n = 5
    count = -(-(n + lo + hi) // abs(step))
    start = 0 if step > 0 else n + lo + hi - 1
    domain = Domain((count,))
    m = through_slice(domain.identity((count,), (0,)), (start,), (step,))
    found = through_pad(m, (lo,), (hi,), (n,), domain.extents)
    assert found is not None
    inner, ranges, inside = found
    at = addresses(domain, linear(inner, (1,), 0, 1))
    exists = np.arange(count) >= 0
    for r in ranges:
        exists &= (np.arange(count) >= r.lo) & (np.arange(count) < r.hi)
    np.testing.assert_array_equal(exists & inside, (at >= 0) & (at < n))
