"""Note [Indexed rows]: gathers and scatters whose index is the same along a row; lanes of scatters that cannot meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import Case

import jitgrad as jg
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.dtypes import int64
from tests.modes import Mode

_DTYPES = (np.float32, np.float64, np.int64)
_COMBINED = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


class Draw:
    """One gather or scatter, at random: a table, an index that is the same along some dimensions, a source."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 5))
        most = {1: 300, 2: 70, 3: 20, 4: 9}[rank]
        table = rng.integers(1, most, rank)
        self.dim = int(rng.integers(rank))
        is_whole = rng.random(rank) < 0.7
        index = np.where(is_whole, table, [rng.integers(1, n + 1) for n in table])
        index[self.dim] = rng.integers(1, 2 * most)
        self.same = [d for d in range(rank) if rng.random() < 0.6]
        self.is_expanded_outside = bool(rng.random() < 0.3)
        self.is_turned = bool(rng.random() < 0.3)
        self.kind = str(rng.choice(["gather", "set", *_COMBINED]))
        dtype = _DTYPES[int(rng.integers(len(_DTYPES)))]
        small = np.where(np.isin(np.arange(rank), self.same), 1, index)
        self.shape = tuple(int(n) for n in index)
        self.index = rng.integers(0, table[self.dim], small)
        scale = 0.2 if self.kind == "prod" else 3.0  # products stay small
        numbers = [scale * rng.standard_normal([int(n) for n in shape]) for shape in (table, index)]
        self.table, self.source = (((x + 1) if self.kind == "prod" else x).astype(dtype) for x in numbers)

    def wanted(self) -> np.ndarray:
        """What NumPy computes, element by element in order."""
        grid = list(np.indices(self.shape))
        grid[self.dim] = np.broadcast_to(self.index, self.shape)
        if self.kind == "gather":
            return self.table[tuple(grid)]
        out = self.table.copy()
        if self.kind == "set":
            for at in np.ndindex(self.shape):
                out[tuple(g[at] for g in grid)] = self.source[at]
        else:
            _COMBINED[self.kind].at(out, tuple(grid), self.source)
        return out

    def operands(self) -> tuple[Any, ...]:
        index = jg.from_numpy(self.index)
        table = np.ascontiguousarray(self.table.T) if self.is_turned else self.table
        return (
            jg.from_numpy(table.copy()), index.expand(self.shape) if self.is_expanded_outside else index,
            jg.from_numpy(self.source.copy()),
        )  # fmt: skip

    def step(self, x: Any, index: Any, source: Any) -> Any:
        if self.is_turned:
            x = x.permute(*range(x.ndim)[::-1])
        at = index.expand(self.shape)
        if self.kind == "gather":
            return x.gather(self.dim, at)
        if self.kind == "set":
            return x.scatter(self.dim, at, source)
        return x.scatter_reduce(self.dim, at, source, self.kind)


@pytest.mark.parametrize("seed", range(120))
def test_random_ones(seed: int, mode: Mode) -> None:
    draw = Draw(seed)
    found = mode.run(lambda *args: [draw.step(*args)], draw.operands)[0]
    wanted = draw.wanted()
    assert found.numpy().dtype == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=1e-5)


def _leaf(b: Builder, *shape: int) -> Value:
    return b.make("input", (), (len(shape), jg.empty(shape, dtype=jg.int64)._aval), shape, int64)


def _grid(b: Builder, index: Value, dim: int) -> list[Value]:
    return [index if d == dim else b.iota(index.shape, d) for d in range(len(index.shape))]


def test_an_index_that_is_the_same_along_rows_is_one_for_each_row() -> None:
    b = Builder()
    row = b.expand(b.reshape(_leaf(b, 8), (8, 1)), (8, 5))
    source, table = _leaf(b, 8, 5), _leaf(b, 9, 5)
    for index in (row, b.where(b.lt(row, b.const(0, int64)), b.const(9, int64), row)):
        v = b.scatter("add", table, _grid(b, index, 0), source)
        assert [i.shape for i in v.srcs[2:]] == [(8,)]
        assert b.gather(table, _grid(b, index, 0)).srcs[1].shape == (8,)
    deep = b.expand(b.reshape(_leaf(b, 8), (8, 1, 1)), (8, 5, 4))
    assert [i.shape for i in b.gather(_leaf(b, 9, 5, 4), _grid(b, deep, 0)).srcs[1:]] == [(8,)]
    middle = b.expand(b.reshape(_leaf(b, 3, 8), (3, 8, 1)), (3, 8, 4))
    assert [i.shape for i in b.gather(_leaf(b, 3, 9, 4), _grid(b, middle, 1)).srcs[1:]] == [(3, 8), (3, 8)]


@pytest.mark.parametrize("what", ["own index for each element", "part of a row", "another dimension's position"])
def test_other_indices_stay(what: str) -> None:
    b = Builder()
    row = b.expand(b.reshape(_leaf(b, 5), (5, 1)), (5, 5))
    indices = _grid(b, _leaf(b, 5, 5) if what == "own index for each element" else row, 0)
    width = 6 if what == "part of a row" else 5
    if what == "another dimension's position":
        indices[1] = b.iota((5, 5), 0)
    v = b.gather(_leaf(b, 9, width), indices)
    assert [i.shape for i in v.srcs[1:]] == [(5, 5)] * 2


@pytest.mark.parametrize("is_in_place", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim", "is_same", "form"),
    [
        ((200, 64), 0, True, "col"), ((200, 64), 0, False, "col"), ((64, 200), 1, False, "row"),
        ((200,), 0, False, "row"),
    ],
)  # fmt: skip
def test_lanes_and_units_of_scatters(
    shape: tuple[int, ...], dim: int, is_same: bool, form: str, is_in_place: bool
) -> None:
    rng = np.random.default_rng(0)
    index = jg.from_numpy(rng.integers(0, 50, (shape[0], 1) if is_same else shape))
    source = jg.from_numpy(rng.standard_normal(shape).astype(np.float32))
    table = jg.zeros([50 if d == dim else n for d, n in enumerate(shape)])
    name = "scatter_add_" if is_in_place else "scatter_add"
    step = jg.compile(lambda: getattr(table, name)(dim, index.expand(shape), source))
    for _ in range(3):
        step()
    native = step.last.event.program.only.step
    launch = next(x for stage in native.stages for x in stage if "store_add" in x.name)
    assert launch.name.startswith(form)
    if form == "row":
        assert launch.units == (shape[0] if len(shape) > 1 else 1)  # rows do not meet
    elif not is_same:
        assert launch.units > 1


def test_an_index_that_may_not_be_negative_is_looked_at_once() -> None:
    """``gather`` takes no negative index, ``x[index]`` does: only there is one counted from the end."""
    x, at = jg.arange(40).float(), jg.from_numpy(np.random.default_rng(0).integers(0, 40, 500))
    names = {}
    for kind, function in (("gather", lambda: x.gather(0, at)), ("x[at]", lambda: x[at])):
        step = jg.compile(function)
        assert (step().numpy() == at.numpy()).all()
        names[kind] = step.last.event.program.only.step.stages[0][0].name
    assert "where" not in names["gather"]
    assert names["gather"] != names["x[at]"]
    step = jg.compile(lambda at: x[at])
    assert step(jg.tensor([-1, -40, 3])).tolist() == [39.0, 0.0, 3.0]
    with pytest.raises(IndexError):
        step(jg.tensor([0, 0, -41]))
    step = jg.compile(lambda at: x.gather(0, at))
    assert step(jg.tensor([1, 0, 3])).tolist() == [1.0, 0.0, 3.0]
    for bad in (-1, 40, -(2**62)):
        with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
            step(jg.tensor([1, bad, 3]))


@pytest.mark.parametrize("what", ["another value is negative", "another extent", "below another number"])
def test_an_index_that_only_looks_as_if_it_may_not_be_negative(what: str) -> None:
    table, at, other = np.arange(40.0), np.array([-1, 3, -40, 39]), np.array([5, 6, 7, 8])

    def lower(b: Any, t: Value, i: Value, y: Value) -> Value:
        tested, least = (y, 0) if what == "another value is negative" else (i, 0)
        if what == "below another number":
            least = -50
        extent = 7 if what == "another extent" else 40
        index = b.where(b.lt(tested, b.const(least, int64)), b.const(extent, int64), i)
        return b.gather(t, [index])

    Case(lower, [table, at, other]).check()


def test_a_bad_index_of_a_row_is_an_error_and_nothing_is_written(mode: Mode) -> None:
    table = jg.zeros(4, 20)
    for bad in (4, -1):

        def step(x: Any, at: Any, source: Any) -> Any:
            return x.scatter_add_(0, at.unsqueeze(1).expand(3, 20), source)

        with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 0 with size 4"):
            mode.run(lambda *args: [step(*args)], lambda bad=bad: (table, jg.tensor([0, bad, 2]), jg.ones(3, 20)))
        assert not table.any()
