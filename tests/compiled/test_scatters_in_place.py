"""Scatters into a parameter's own storage, Note [Scatters in place]: values, order, and nothing half written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import events
from tests.eager_bounds import eager_kernels_from
from tests.modes import Mode

ROWS, WIDTH = 300, 40
RNG = np.random.default_rng(5)
PLACES = RNG.integers(0, ROWS, 64)
PLACES[:8] = PLACES[8:16]  # some twice
VALUES = RNG.standard_normal((64, WIDTH)).astype(np.float32)
TABLE = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
OTHER = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)


@pytest.fixture(autouse=True)
def by_kernels() -> Iterator[None]:
    """Eager operations, too."""
    with eager_kernels_from(1):
        yield


def _table(array: np.ndarray = TABLE) -> Any:
    return jg.tensor(array.copy())


def _reduce(kind: str) -> Callable[..., Any]:
    return lambda p, i, v: p.index_reduce_(0, i, v, kind)


WRITES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "index_add_": (lambda p, i, v: p.index_add_(0, i, v), np.add),
    "index_put_": (lambda p, i, v: p.index_put_((i,), v, accumulate=True), np.add),
    "prod": (_reduce("prod"), np.multiply),
    "amax": (_reduce("amax"), np.maximum),
    "amin": (_reduce("amin"), np.minimum),
    "scatter_add_": (lambda p, i, v: p.scatter_add_(0, i[:, None].expand(64, WIDTH), v), np.add),
}


@pytest.mark.parametrize("name", WRITES)
def test_values(name: str, mode: Mode) -> None:
    write, combine = WRITES[name]
    expected = TABLE.copy()
    combine.at(expected, PLACES, VALUES)  # type: ignore[attr-defined]

    def step(p: Any, i: Any, v: Any) -> Any:
        write(p, i, v)
        return p

    with events.count("scatters_in_place") as in_place:
        found = mode.run(step, lambda: (_table(), jg.tensor(PLACES), jg.tensor(VALUES)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    assert in_place() >= (mode.name != "eager")


def test_a_table_that_is_a_part_of_a_storage(mode: Mode) -> None:
    def step(whole: Any, i: Any, v: Any) -> Any:
        whole[20:220, 3 : 3 + WIDTH].index_add_(0, i, v)
        return whole

    start = RNG.standard_normal((250, WIDTH + 7)).astype(np.float32)
    places = PLACES % 200
    expected = start.copy()
    np.add.at(expected[20:220, 3 : 3 + WIDTH], places, VALUES)
    found = mode.run(step, lambda: (_table(start), jg.tensor(places), jg.tensor(VALUES)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [0, 1])
def test_nothing_is_written_if_an_index_is_out_of_range(bad: int, mode: Mode) -> None:
    """Of either table: all indices are checked before anything is written."""
    places = [PLACES.copy(), PLACES.copy()]
    places[bad][-1] = ROWS
    tables: list[Any] = []

    def step(p: Any, q: Any, i: Any, k: Any, v: Any) -> Any:
        p.index_add_(0, i, v)
        q.index_add_(0, k, v)
        return p.sum() + q.sum()

    def arguments(at: list[np.ndarray]) -> tuple[Any, ...]:
        tables[:] = [_table(), _table(OTHER)]
        return (*tables, *map(jg.tensor, at), jg.tensor(VALUES))

    compiled = mode.wrap(step)
    for _ in range({"eager": 0, "cold": 0, "warm": 3}[mode.name]):
        compiled(*arguments([PLACES, PLACES]))
    with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|out of range"):
        compiled(*arguments(places)).item()
    expected = TABLE.copy()
    if bad == 1 and mode.name == "eager":  # the first statement was done
        np.add.at(expected, PLACES, VALUES)
    if bad == 0 or mode.name == "eager":
        np.testing.assert_allclose(tables[0].numpy(), expected, rtol=1e-5)
    np.testing.assert_array_equal(tables[1].numpy(), OTHER)
    result = compiled(*arguments([PLACES, PLACES])).item()
    both = [TABLE.copy(), OTHER.copy()]
    for array in both:
        np.add.at(array, PLACES, VALUES)
    np.testing.assert_allclose(result, sum(array.sum() for array in both), rtol=1e-3)


def test_who_reads_the_old_rows_reads_them_before(mode: Mode) -> None:
    """The source, another result, and another table's new rows are made of what the table was."""

    def step(p: Any, q: Any, i: Any) -> Any:
        old = p[i] * 2.0
        total = p.sum(1)
        p.index_add_(0, i, old + p[i.flip(0)])
        q.index_add_(0, i, old)
        return p, q, total

    expected, other = TABLE.copy(), OTHER.copy()
    np.add.at(expected, PLACES, TABLE[PLACES] * 2 + TABLE[PLACES[::-1]])
    np.add.at(other, PLACES, TABLE[PLACES] * 2)
    p, q, total = mode.run(step, lambda: (_table(), _table(OTHER), jg.tensor(PLACES)))
    np.testing.assert_allclose(p.numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(q.numpy(), other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total.numpy(), TABLE.sum(1), rtol=1e-4, atol=1e-4)


def test_who_reads_the_new_rows_reads_them_afterwards(mode: Mode) -> None:
    def step(p: Any, i: Any, v: Any) -> Any:
        p.index_add_(0, i, v)
        first = p.sum(0)
        p.index_add_(0, i.flip(0), v)
        p[0] = 1.0
        return first, p

    once = TABLE.copy()
    np.add.at(once, PLACES, VALUES)
    twice = once.copy()
    np.add.at(twice, PLACES[::-1], VALUES)
    twice[0] = 1.0
    first, p = mode.run(step, lambda: (_table(), jg.tensor(PLACES), jg.tensor(VALUES)))
    np.testing.assert_allclose(first.numpy(), once.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(p.numpy(), twice, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["SGD", "SparseAdam"])
def test_sparse_gradients_of_two_tables(kind: str, mode: Mode) -> None:
    """Steps of matrix factors, against NumPy's rules."""

    def train(run: Callable[..., Any]) -> list[np.ndarray]:
        tables = [jg.tensor(array.copy() / 10, requires_grad=True) for array in (TABLE, OTHER)]
        optimizer = getattr(jg.optim, kind)(tables, lr=0.05)

        def step(i: Any, k: Any) -> Any:
            optimizer.zero_grad()
            left = jg.nn.functional.embedding(i, tables[0], sparse=True)
            right = jg.nn.functional.embedding(k, tables[1], sparse=True)
            loss = ((left * right).sum(1) - 1.0).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = run(step)
        for n in range(4):
            call(jg.tensor(np.roll(PLACES, n)), jg.tensor((PLACES + n) % ROWS))
        return [table.detach().numpy() for table in tables]

    with events.count("scatters_in_place") as in_place:
        found = train(mode.wrap)
    with eager_kernels_from(-1):
        expected = train(lambda step: step)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    assert in_place() >= 2 or mode.name == "eager" or kind == "SparseAdam"
