"""``x[t]`` by an integer tensor without dimensions: a view, also where it is a gather. Note [Picked parts]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import Tensor, stats


def _write_to_the_whole(x: Tensor, t: Tensor) -> Any:
    row = x[t]
    x.mul_(2)
    return row + 0, row


def _write_to_the_part(x: Tensor, t: Tensor) -> Any:
    row = x[t]
    row.add_(5)
    return x + 0, row


def _write_to_an_element_of_the_part(x: Tensor, t: Tensor) -> Any:
    column = x[:, t]
    column[1] = 9
    x[0] -= 1
    return column + 0, x + 0


def _a_part_of_a_part(x: Tensor, t: Tensor) -> Any:
    row = x[t]
    one = row[t]
    one.mul_(10)
    first = (row + 0, x + 0)
    x.zero_()
    return first, row + 0, one + 0


def _two_parts(x: Tensor, t: Tensor) -> Any:
    row, column = x[t], x[:, t]
    row += 1
    seen = column + 0
    column *= 3
    return seen, row + 0, x + 0


def _the_position_moves_on(x: Tensor, t: Tensor) -> Any:
    row = x[t]
    t.sub_(1)
    x.add_(1)
    return row + 0, x[t] + 0


def _q_learning(x: Tensor, t: Tensor) -> Any:
    q = x[t]
    best = q.max()
    x[t, 1] += 0.5 * (1 + best - q[1])
    return q + 0, best


STEPS = [
    _write_to_the_whole,
    _write_to_the_part,
    _write_to_an_element_of_the_part,
    _a_part_of_a_part,
    _two_parts,
    _the_position_moves_on,
    _q_learning,
]


def _plain(x: Any) -> Any:
    return [_plain(y) for y in x] if isinstance(x, tuple) else x.tolist()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("position", [0, 2])
def test_as_eagerly(mode: Mode, step: Callable[..., Any], position: int) -> None:
    def whole(x: Tensor, t: Tensor) -> Any:
        y = x * 1  # a value of the step, and an input
        return _plain(step(y, t.clone())), _plain(step(x, t)), x.tolist(), y.tolist()

    def fresh() -> tuple[Tensor, Tensor]:
        return jitgrad.arange(12.0).reshape(3, 4).clone(), jitgrad.tensor(position)

    assert mode.run(lambda: whole(*fresh())) == whole(*fresh())


def test_gradients_go_to_the_whole(mode: Mode) -> None:
    w = jitgrad.ones(3, 4, requires_grad=True)
    t = jitgrad.tensor(1)

    def step() -> Any:
        x = w * 2
        row = x[t]
        x.mul_(3)
        loss = (row * row).sum() + x.sum()
        loss.backward()
        found = w.grad.tolist()
        w.grad = None
        return found

    assert mode.run(step) == [[6.0] * 4, [78.0] * 4, [6.0] * 4]


def test_parts_that_nobody_keeps_cost_nothing() -> None:
    x, t = jitgrad.ones(3, 4), jitgrad.tensor(1)

    @jitgrad.compile
    def step() -> Tensor:
        total = x[t].sum() + x[:, t].max()
        x.add_(1)
        return total

    for _ in range(3):
        step()
    before = stats()
    step()
    after = stats()
    assert after["segments"] - before["segments"] == 1
    assert after["fallbacks"] == before["fallbacks"]
