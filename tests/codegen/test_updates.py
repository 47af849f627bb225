"""Updates: random chains against NumPy, what is stored in place, and how many kernels a long chain takes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.codegen.interpreter import Case


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _window(rng: random.Random, shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    starts, steps, counts = [], [], []
    for n in shape:
        step = rng.choice([1, 1, 1, 2, 3])
        start = rng.randrange(n) if rng.random() < 0.6 else 0
        room = -(-(n - start) // step)
        count = room if rng.random() < 0.6 else rng.randint(1, room)
        starts.append(start)
        steps.append(step if count > 1 else 1)
        counts.append(count)
    return starts, steps, counts


def _chain(rng: random.Random, b: Any, x: Any, y: Any) -> Any:
    """Writes of all kinds to ``x``, some of what was written before."""
    at = x
    for _ in range(rng.randint(1, 9)):
        shape = at.shape
        starts, steps, counts = _window(rng, shape)
        stops = [s + n * t for s, t, n in zip(starts, steps, counts, strict=True)]
        old = b.slice(at, starts, stops, steps)
        kind = rng.randrange(5)
        if kind == 0:
            new = b.const(rng.choice([0.0, 1.5]), x.dtype, tuple(counts))
        elif kind == 1:
            new = b.add(old, 1.0)
        elif kind == 2:
            new = b.tanh(b.mul(old, 0.5))
        elif kind == 3:
            new = b.slice(y, starts, stops, steps)
        else:
            new = b.expand(b.reshape(b.sum(old, range(len(shape))), (1,) * len(shape)), tuple(counts))
        at = b.update(at, new, starts, steps)
        if rng.random() < 0.15:
            at = b.permute(at, (1, 0)) if at.shape[0] == at.shape[1] else at
    return at


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed: int) -> None:
    shape = random.Random(seed).choice([(6, 6), (9, 4), (5, 7), (17, 3)])

    def lower(b: Any, x: Any, y: Any) -> Any:
        rng = random.Random(seed)
        rng.random()
        whole = _chain(rng, b, x, y)
        rest = b.reshape(b.sum(whole, (1,)), (whole.shape[0],))
        return whole, rest, b.mul(whole, 2.0)

    arrays = [array(*shape), array(*shape, seed=1)]
    Case(lower, arrays).check()
    Case(lower, arrays, writes=[(0, 0)]).check()
    Case(lower, arrays, writes=[(0, 0), (2, 1)]).check()


def _row_by_row(b: Any, x: Any, w: Any, count: int) -> Any:
    at, row = x, b.slice(x, (0, 0), (1, x.shape[1]), (1, 1))
    for i in range(1, count):
        row = b.tanh(b.mul(b.slice(at, (i - 1, 0), (i, x.shape[1]), (1, 1)), w))
        at = b.update(at, row, (i, 0), (1, 1))
    return at


def test_a_loop_over_rows_computes_each_once() -> None:
    """A recurrence: rows are stored where they belong, by a few kernels; no kernel goes over the whole per write."""
    case = Case(lambda b, x, w: _row_by_row(b, x, w, 40), [array(40, 8), array(1, 8, seed=1)]).check()
    assert case.launches <= 6


def test_a_row_of_a_large_storage_costs_a_row() -> None:
    def lower(b: Any, buffer: Any, row: Any) -> Any:
        return b.update(buffer, b.mul(row, 2.0), (7, 0), (1, 1))

    case = Case(lower, [array(1000, 4), array(1, 4, seed=1)], writes=[(0, 0)]).check()
    (step,) = case.program.steps
    assert case.launches == 1
    assert all(launch.units <= 4 for stage in step.stages for launch in stage)  # type: ignore[union-attr]


def test_disjoint_windows_are_stored_each_by_itself() -> None:
    """The second write reads what the first has replaced, as it was before."""

    def lower(b: Any, x: Any) -> Any:
        low = b.slice(x, (0,), (4,), (1,))
        at = b.update(x, b.add(b.slice(x, (4,), (8,), (1,)), 1.0), (0,), (1,))
        return b.update(at, b.mul(low, 3.0), (4,), (1,))

    Case(lower, [array(100)], writes=[(0, 0)]).check()
