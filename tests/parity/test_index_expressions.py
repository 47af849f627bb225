"""Random index expressions, read and written: PyTorch and jitgrad agree on values, gradients and refusals.

An expression is drawn from integers, slices, None, Ellipsis, booleans, masks, tensors of positions, lists and what
PyTorch refuses. The tensor is row-major or transposed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

from tests.side_by_side import difference, observe  # noqa: E402

ATOMS: dict[str, Callable[[Any, int], Any]] = {
    "0": lambda t, n: 0,
    "-1": lambda t, n: -1,
    ":2": lambda t, n: slice(0, 2),
    "::2": lambda t, n: slice(None, None, 2),
    ":": lambda t, n: slice(None),
    "None": lambda t, n: None,
    "...": lambda t, n: Ellipsis,
    "positions": lambda t, n: t.tensor([0, 1]),
    "a column of positions": lambda t, n: t.tensor([[0], [1]]),
    "positions from the end": lambda t, n: t.tensor([-1, 0, -2]),
    "int32 positions": lambda t, n: t.tensor([1, 0], dtype=t.int32),
    "a position": lambda t, n: t.tensor(1),
    "a mask": lambda t, n: t.tensor(([True, False, True] * 3)[:n]),
    "a mask of two dimensions": lambda t, n: t.tensor([[True, False, True], [False, True, False]]),
    "True": lambda t, n: True,
    "False": lambda t, n: False,
    "an array": lambda t, n: np.array([0, 1]),
    "a list": lambda t, n: [1, 0],
    "a tuple": lambda t, n: (0, 1),
    "a range": lambda t, n: range(2),
    "nothing": lambda t, n: [],
    "out of range": lambda t, n: 9,
    "positions out of range": lambda t, n: t.tensor([7]),
    "a float": lambda t, n: 1.5,
    "backwards": lambda t, n: slice(None, None, -1),
}
REFUSED = ("out of range", "positions out of range", "a float", "backwards")
SHAPES: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (2, 3, 2), (2, 3, 4, 2), ())


def expressions(seed: int, count: int) -> list[tuple[tuple[int, ...], tuple[str, ...], bool]]:
    """(shape, the names of the atoms, whether the tensor is transposed)."""
    rng = random.Random(seed)
    found: list[tuple[tuple[int, ...], tuple[str, ...], bool]] = []
    while len(found) < count:
        names = tuple(rng.choice(list(ATOMS)) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))
        if sum(name in REFUSED for name in names) < 2:
            found.append((rng.choice(SHAPES), names, rng.random() < 0.25))
    return found


def _index(t: Any, shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
    """The expression; a mask is as long as the dimension it meets."""
    free = {"None", "...", "True", "False"}
    used = sum(2 if name == "a mask of two dimensions" else name not in free for name in names)
    items, dim = [], 0
    for name in names:
        items.append(ATOMS[name](t, shape[dim] if dim < len(shape) else 3))
        if name == "...":
            dim += max(len(shape) - used, 0)
        elif name not in free:
            dim += 2 if name == "a mask of two dimensions" else 1
    return tuple(items) if len(items) > 1 else items[0]


def _tensor(t: Any, shape: tuple[int, ...], is_transposed: bool) -> Any:
    values = t.arange(float(np.prod(shape, dtype=int)))
    if not is_transposed:
        return values.reshape(shape)
    return values.reshape(shape[::-1]).permute(*reversed(range(len(shape)))) if shape else values.reshape(())


def _read(t: Any, shape: Any, names: Any, is_transposed: bool) -> Any:
    x = _tensor(t, shape, is_transposed).detach().requires_grad_()
    y = x[_index(t, shape, names)]
    (y * y).sum().backward()
    return y, y._base is not None, x.grad


def _write(t: Any, shape: Any, names: Any, is_transposed: bool) -> Any:
    x, value = _tensor(t, shape, is_transposed).clone(), t.tensor(3.0, requires_grad=True)
    x[_index(t, shape, names)] = value * 2
    (x * x).sum().backward()
    return x.detach(), value.grad


def _write_numbers(t: Any, shape: Any, names: Any, is_transposed: bool) -> Any:
    x = _tensor(t, shape, is_transposed)
    x[_index(t, shape, names)] = 5
    whole = x.long()
    whole[_index(t, shape, names)] = whole[_index(t, shape, names)] * 10 + 1
    return x, whole


USES = {"read": _read, "written": _write, "written with numbers": _write_numbers}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("use", USES)
def test_index_expressions(use: str, seed: int) -> None:
    for expression in expressions(seed, 40):
        want = observe(lambda e=expression: USES[use](torch, *e))
        found = difference(observe(lambda e=expression: USES[use](jitgrad, *e)), want)
        assert not found, expression


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
def test_index_expressions_in_a_compiled_step(use: str) -> None:
    for expression in expressions(100, 4):
        want = observe(lambda e=expression: USES[use](torch, *e))
        step = jitgrad.compile(lambda e=expression: USES[use](jitgrad, *e))
        for call in ("cold", "second", "warm"):
            assert not difference(observe(step), want), (expression, call)
