"""``tensor`` of Python's numbers, alone, in rows and in tables: the values, dtypes and refusals of PyTorch."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")

FLOATS = (0.0, -0.0, 1.5, -3.25, 1e-50, 1e300, 0.1, math.inf, math.nan, 70000.0, 2.0**-149)
INTS = (0, 1, -1, 7, 255, 256, -129, 2**31, -(2**63), 2**63 - 1)
HUGE = (2**63, -(2**63) - 1, 2**70)
DTYPES = (None, None, None, "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")


def a_number(rng: random.Random, kind: str) -> Any:
    if kind == "float":
        return rng.choice(FLOATS)
    if kind == "bool":
        return rng.random() < 0.5
    return rng.choice(INTS if rng.random() < 0.98 else HUGE)


def data(rng: random.Random) -> Any:
    """A number, a row or a table; now and then of numbers of several types, ragged or empty.

    PyTorch takes ragged rows of which the first is empty, and forgets the numbers in the others: there are none.
    """
    kind = rng.choice(("float", "int", "bool"))
    sequence = rng.choice((list, tuple))

    def row(count: int) -> Any:
        kinds = rng.choices(("float", "int", "bool"), k=count) if rng.random() < 0.1 else [kind] * count
        return sequence(a_number(rng, k) for k in kinds)

    depth, count = rng.randrange(4), rng.choice((0, 1, 2, 3, 8, 64, 65))
    if depth == 0:
        return a_number(rng, kind)
    if depth == 1:
        return row(count)
    height = rng.choice((1, 2, 5))
    table = sequence(row(count + (count > 0 and rng.random() < 0.01)) for _ in range(height))
    return table if depth == 2 else [table, table]


def made(lib: Any, numbers: Any, dtype: str | None, requires_grad: bool) -> Any:
    """(dtype, shape, values) of the tensor, or the type of the error."""
    try:
        x = lib.tensor(numbers, dtype=None if dtype is None else getattr(lib, dtype), requires_grad=requires_grad)
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)
    assert x.is_leaf and x.requires_grad is requires_grad and x._version == 0
    return str(x.dtype).split(".")[1], tuple(x.shape), tuple(x.stride()), repr(x.detach().tolist())


def is_left_open(numbers: Any, dtype: str | None) -> bool:
    """Whether C leaves open what the conversion gives; or integers come among floats, which NumPy rounds first."""
    text = repr(numbers)
    return dtype in ("int64", "int32", "uint8") and any(x in text for x in ("inf", "nan", "e-", "e+", "."))


def are_alike(own: Any, theirs: Any, numbers: Any) -> bool:
    """Whether two outcomes are the same; of several numbers that do not fit, the libraries name one or another."""
    if own == theirs:
        return True
    is_huge = any(str(x) in repr(numbers) for x in HUGE)
    return is_huge and {own, theirs} <= {ValueError, RuntimeError}


@pytest.mark.parametrize("seed", range(40))
def test_tensors_are_pytorchs(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        numbers, dtype = data(rng), rng.choice(DTYPES)
        if is_left_open(numbers, dtype):
            continue
        requires_grad = dtype in ("float32", "float64") and rng.random() < 0.3
        own, theirs = (made(lib, numbers, dtype, requires_grad) for lib in (jitgrad, torch))
        assert are_alike(own, theirs, numbers), (numbers, dtype, own, theirs)


def test_the_default_dtype_is_that_of_floats() -> None:
    for name in ("float64", "float32"):
        jitgrad.set_default_dtype(getattr(jitgrad, name))
        try:
            found = jitgrad.tensor([1.5, 2.5]), jitgrad.tensor(1.5), jitgrad.tensor([[0.1]]), jitgrad.tensor([1, 2])
            assert [x.dtype for x in found] == [getattr(jitgrad, name)] * 3 + [jitgrad.int64]
        finally:
            jitgrad.set_default_dtype(jitgrad.float32)


def test_a_tensor_is_not_the_list() -> None:
    numbers = [1.0, 2.0]
    x = jitgrad.tensor(numbers)
    x.add_(1)
    assert numbers == [1.0, 2.0] and jitgrad.tensor(numbers).tolist() == [1.0, 2.0]
