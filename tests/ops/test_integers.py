"""Operations on integers and bools: values, dtypes and refusals are PyTorch's, at the first call and at the fifth."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import stats
from jitgrad.runtime.eager.plan import EagerPlan

DTYPES = ("uint8", "int8", "int16", "int32", "int64", "bool")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "floor_divide": lambda x, y: x // y,
    "rfloor_divide": lambda x, y: y // x,
    "remainder": lambda x, y: x % y,
    "rremainder": lambda x, y: y % x,
    "fmod": lambda x, y: x.fmod(y),
    "and": lambda x, y: x & y,
    "rand": lambda x, y: y & x,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
    "neg": lambda x, y: -x,
    "shift": lambda x, y: x << y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "clamp_min": lambda x, y: x.clamp(min=y),
    "clamp_max": lambda x, y: x.clamp_max(y),
    "where": lambda x, y: x.where(x == 1, y),
    "add_": lambda x, y: x.add_(y),
    "sub_": lambda x, y: x.sub_(y),
    "mul_": lambda x, y: x.mul_(y),
    "eq_": lambda x, y: x.eq_(y),
    "lt_": lambda x, y: x.lt_(y),
    "clamp_": lambda x, y: x.clamp_(max=y),
    "floor_divide_": lambda x, y: x.floor_divide_(y),
    "remainder_": lambda x, y: x.remainder_(y),
}
NUMBERS = (
    0, 1, 2, 3, 7, -1, -3, 100, 127, 128, 200, 255, 256, 300, -129, -200, 32767, 32768, 40000, 2**31 - 1, 2**31,
    -(2**31) - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1, True, False, 2.5, -0.5, 0.0, 1e3,
)  # fmt: skip


def _outcome(library: Any, name: str, dtype: str, values: list[int], is_column: bool, other: Any) -> tuple[Any, ...]:
    """(dtype, result, operand afterwards), or the type of the error."""
    x = library.tensor(values).to(getattr(library, dtype))
    if is_column:
        x = library.stack((x, x), 1)[:, 0]
    if isinstance(other, tuple):
        other = library.tensor(other[0]).to(getattr(library, other[1]))
    try:
        made = OPERATIONS[name](x, other)
    except Exception as error:
        return (type(error).__name__,)
    return str(made.dtype).rpartition(".")[2], repr(made.tolist()), x.tolist()


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore")
def test_random_calls_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    rng = random.Random(name)
    for _ in range(24):
        dtype, length, is_column = rng.choice(DTYPES), rng.choice((3, 7, 2000)), rng.random() < 0.3
        values = [rng.randint(-128, 127) for _ in range(length)]
        if dtype in ("bool", "uint8"):
            values = [abs(v) % (2 if dtype == "bool" else 128) for v in values]
        numbers = [n for n in NUMBERS if dtype != "bool" or n < 2**63]  # PyTorch refuses it there
        others: list[Any] = rng.sample(numbers, 3)
        if rng.random() < 0.3:
            kind = rng.choice((dtype, dtype, *DTYPES))
            others = [([rng.randint(0, 1 if kind == "bool" else 6) for _ in range(length)], kind) for _ in range(3)]
        for other in (*others, *others[:2]):
            got, want = (_outcome(lib, name, dtype, values, is_column, other) for lib in (jg, torch))
            assert got == want, (dtype, length, is_column, other)


def _count_plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    plain = EagerPlan.__init__

    def init(self: EagerPlan, *args: Any) -> None:
        made.append(args[0].name)
        plain(self, *args)

    monkeypatch.setattr(EagerPlan, "__init__", init)
    return made


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plan_is_made_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number is: ``labels == 3``, ``index % 7``, ``mask & 1``, ``index.clamp(0, last)``."""
    x = jg.tensor([0, 1, 1]).to(getattr(jg, dtype))
    calls: list[Callable[[int], Any]] = [
        lambda n: x == n,
        lambda n: x % n,
        lambda n: x + n,
        lambda n: x & n,
        lambda n: x // n,
        lambda n: jg.where(x == n, x, n),
        lambda n: x.clamp(n, n + 1) if dtype != "bool" else x < n,
        lambda n: x**n,
    ]
    for call in calls:
        call(2), call(3)
    made, before = _count_plans(monkeypatch), stats()["eager_kernels"]
    for number in (2, 3, 4, 5):
        for call in calls:
            call(number)
    assert not made
    assert stats()["eager_kernels"] == before


@pytest.mark.usefixtures("form")
def test_a_number_that_does_not_fit_is_refused_at_any_call() -> None:
    x, h = jg.tensor([1, 2], dtype=jg.int8), jg.ones(2, dtype=jg.float16)
    calls: list[Callable[[Any], Any]] = [
        lambda n: h.add(h, alpha=n), lambda n: h.addcmul(h, h, value=n), lambda n: x.clamp(max=n),
        lambda n: jg.where(x == 1, x, n), lambda n: x.add(x, alpha=n), lambda n: h.lerp(h, float(n)),
    ]  # fmt: skip
    for call in calls:
        for _ in range(3):
            call(2)
            with pytest.raises(RuntimeError, match="cannot be converted"):
                call(100_000)
    powers = jg.tensor([1, 2])
    for _ in range(3):
        assert np.array_equal((powers**3).numpy(), [1, 8])
        with pytest.raises(RuntimeError, match="negative"):
            powers**-1
