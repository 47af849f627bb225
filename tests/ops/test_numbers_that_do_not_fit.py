"""Python numbers that a dtype does not hold: they wrap or are refused as in PyTorch, also as run-time scalars."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")

Call = Callable[[Any, Any, Any], Any]

OPERATIONS: dict[str, Call] = {
    "add": lambda lib, x, s: x + s,
    "rsub": lambda lib, x, s: s - x,
    "mul": lambda lib, x, s: x * s,
    "lt": lambda lib, x, s: x < s,
    "and": lambda lib, x, s: x & s,
    "clamp": lambda lib, x, s: lib.clamp(x, max=s),
    "masked_fill": lambda lib, x, s: x.masked_fill(x > 0, s),
    "fill_": lambda lib, x, s: x.clone().fill_(s),
    "full_like": lambda lib, x, s: lib.full_like(x, s),
    "alpha": lambda lib, x, s: lib.add(x, x, alpha=s),
    "index_fill": lambda lib, x, s: x.index_fill(0, lib.tensor([0]), s),
    "scatter": lambda lib, x, s: x.scatter(0, lib.tensor([0]), s),
    "add_": lambda lib, x, s: x.clone().add_(s),
}
NUMBERS = (300, -1, 70000, 2**40, 2**63, 2**64, -(2**63) - 1)
FLOATS = (70000.0, 1e39)


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        out = call()
    except Exception as error:
        return type(error)
    return str(out.dtype).rpartition(".")[2], out.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_they_wrap_or_are_refused_as_in_pytorch(name: str, dtype: str) -> None:
    """Eagerly, as a constant of a step, and where two other numbers have made the number an argument."""
    if dtype == "float16" and name == "and":
        return
    call = OPERATIONS[name]
    x, y = (lib.tensor([1, 2], dtype=getattr(lib, dtype)) for lib in (jg, torch))
    compiled = jg.compile(lambda x, s: call(jg, x, s))
    for s in (3, 4, 5) if "int" in dtype else (3.5, 4.5, 5.5):
        assert _outcome(lambda s=s: compiled(x, s)) == _outcome(lambda s=s: call(torch, y, s))
    for s in NUMBERS if "int" in dtype else FLOATS:
        want = _outcome(lambda s=s: call(torch, y, s))
        both = [_outcome(lambda s=s: call(jg, x, s)), _outcome(lambda s=s: compiled(x, s))]
        assert both[0] == both[1], (s, both)
        is_refused = isinstance(want, type)
        assert isinstance(both[0], type) == is_refused, (s, want, both[0])
        if not is_refused:
            assert both[0] == want, s


def test_a_growing_number_is_one_promotion() -> None:
    """Only numbers of short dtypes are told apart by size, and only for operations that refuse some."""
    step = jg.compile(lambda x, s: (x * s).clamp(max=s))
    x = jg.tensor([1.0, 2.0])
    for s in (1, 2, 3):
        step(x, s)
    before = jg.stats()["promotions"]
    for s in (100, 200, 40000, 2**33, 0.5):
        assert step(x, s).tolist() == [float(s), float(s)]
    assert jg.stats()["promotions"] - before <= 1  # the float is another type


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", [*OPERATIONS, "iadd", "where", "addcmul", "compare in place"])
def test_ints_of_more_than_64_bits_are_refused_as_in_pytorch(name: str, dtype: str) -> None:
    """PyTorch has no place for them; the target of a refused write is as it was, and other numbers are taken again."""
    more: dict[str, Callable[..., Any]] = {
        "iadd": lambda lib, x, s: operator.iadd(x.clone(), s),
        "where": lambda lib, x, s: lib.where(x > 1, x, s),
        "addcmul": lambda lib, x, s: lib.addcmul(x, x, x, value=s),
        "compare in place": lambda lib, x, s: x.clone().ge_(s),
    }
    if dtype == "float32" and name == "and":
        return
    call = {**OPERATIONS, **more}[name]
    x, y = (lib.tensor([1, 2], dtype=getattr(lib, dtype)) for lib in (jg, torch))
    compiled = jg.compile(lambda x, s: call(jg, x, s))
    for s in (3, 2**70, 4, 2**64, 5, -(2**63) - 1, 6, 2**70, -(2**70), 7):
        want = _outcome(lambda s=s: call(torch, y, s))
        assert (want is OverflowError) == (abs(s) > 10)
        assert _outcome(lambda s=s: call(jg, x, s)) == _outcome(lambda s=s: compiled(x, s)) == want, s
    with pytest.raises(OverflowError) as ours:
        call(jg, x, -(2**70))
    with pytest.raises(OverflowError) as theirs:
        call(torch, y, -(2**70))
    assert str(ours.value) == str(theirs.value)
