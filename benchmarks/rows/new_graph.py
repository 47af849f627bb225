"""A graph that no step has seen before: a random expression over small tensors, drawn anew every step.

This is the row that punishes compiling: a compiler meets a new program each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows.descent import descend

__all__ = ["RATE", "evaluate", "leaves", "make", "programs"]

NUM_LEAVES, EXTENT, RATE = 4, 16, 0.01
Program = list[tuple[int, int, int]]
NUM_OPERATIONS = 6


def leaves(seed: int) -> list[Any]:
    """The starting values: ``NUM_LEAVES`` square matrices."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (EXTENT, EXTENT)).astype(np.float32) for _ in range(NUM_LEAVES)]


def programs(seed: int, depth: int) -> Iterator[Program]:
    """Endless random programs: ``depth`` triples (operation, operand, operand); operands count from the newest."""
    rng = np.random.default_rng(seed)
    while True:
        codes = rng.integers(0, NUM_OPERATIONS, depth).tolist()
        first = (rng.random(depth) * np.arange(NUM_LEAVES, NUM_LEAVES + depth)).astype(int).tolist()
        yield [(code, NUM_LEAVES + i - 1, operand) for i, (code, operand) in enumerate(zip(codes, first, strict=True))]


def evaluate(program: Program, values: list[Any], unary: tuple[Callable[[Any], Any], ...]) -> Any:
    """Run a program: three unary functions, then add, multiply, subtract; the loss is the last value's mean square."""
    values = list(values)
    for code, a, b in program:
        x, y = values[a], values[b]
        if code < len(unary):
            values.append(unary[code](x) + y)
        elif code == 3:
            values.append(0.5 * (x + y))
        else:
            values.append(x * y if code == 4 else x - y)
    return (values[-1] ** 2).mean()


def make(xp: Any, seed: int, wrap: Wrap, depth: int) -> Training:
    """Gradient descent; a leaf that a graph does not reach stays as it is."""
    parameters = [xp.from_numpy(array).requires_grad_() for array in leaves(seed)]
    source = programs(seed, depth)
    unary = (xp.tanh, xp.sigmoid, xp.sin)

    @wrap.loss
    def loss_fn(program: Program) -> Any:
        return evaluate(program, parameters, unary)

    @wrap.step
    def train(program: Program) -> Any:
        loss = loss_fn(program)
        loss.backward()
        descend(xp, parameters, RATE)
        return loss.detach()

    return Training(lambda: train(next(source)), lambda: parameters)
