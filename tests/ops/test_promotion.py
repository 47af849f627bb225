"""Result dtypes of mixed operands: every pair of dtypes, tensors with and without dimensions, Python numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import jitgrad
from jitgrad import functions

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
NUMBERS = (True, 2, 1.5)
OPERATIONS = ("add", "mul", "div", "maximum", "pow", "eq", "where", "floor_divide")


def _operands(library: Any) -> list[Any]:
    """Per dtype a vector and a 0-d tensor, then plain numbers."""
    made: list[Any] = []
    for name in DTYPES:
        dtype = getattr(library, name)
        made += [library.ones(2, dtype=dtype), library.ones((), dtype=dtype)]
    return [*made, *NUMBERS]


def _compute(library: Any, operation: str, x: Any, y: Any) -> Any:
    if operation == "where":
        return library.where(library.ones(2, dtype=library.bool), x, y)
    return getattr(library, operation)(x, y)


def _outcome(library: Any, operation: str, x: Any, y: Any) -> Any:
    """(dtype, shape, values) or the error's type."""
    try:
        out = _compute(library, operation, x, y)
    except (RuntimeError, TypeError) as error:
        return type(error)
    return str(out.dtype).split(".")[-1], tuple(out.shape), out.detach().tolist()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_result_is_torchs_for_every_pair(operation: str) -> None:
    library = _Jitgrad()
    pairs = itertools.product(
        zip(_operands(library), _operands(torch), strict=True), zip(_operands(library), _operands(torch), strict=True)
    )
    for (x, their_x), (y, their_y) in pairs:
        tensors = [isinstance(v, torch.Tensor) for v in (their_x, their_y)]
        if not any(tensors) and operation != "where":
            continue
        if not all(tensors) and operation == "maximum":
            continue  # torch.maximum takes tensors only
        if not tensors[0] and operation not in ("pow", "where", "eq"):
            continue  # torch's functions take the tensor first
        got, want = _outcome(library, operation, x, y), _outcome(torch, operation, their_x, their_y)
        if not tensors[0] and want is TypeError:
            continue
        assert got == want, (operation, their_x, their_y)


def test_the_lattice_is_torchs() -> None:
    for a, b in itertools.product(DTYPES, repeat=2):
        ours, theirs = [getattr(jitgrad, n) for n in (a, b)], [getattr(torch, n) for n in (a, b)]
        assert f"torch.{jitgrad.promote_types(*ours).name}" == str(torch.promote_types(*theirs)), (a, b)
        assert jitgrad.can_cast(*ours) == torch.can_cast(*theirs), (a, b)
    for ours, theirs in zip(_operands(jitgrad)[:-3], _operands(torch)[:-3], strict=True):
        for x, y in zip(_operands(jitgrad), _operands(torch), strict=True):
            assert f"torch.{jitgrad.result_type(ours, x).name}" == str(torch.result_type(theirs, y)), (theirs, y)


class _Jitgrad:
    """jitgrad with torch's names for dtypes."""

    bool = jitgrad.bool

    def __getattr__(self, name: str) -> Any:
        return getattr(functions, name, None) or getattr(jitgrad, name)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "cumsum", "exp", "abs", "floor", "amax", "any", "softmax", "norm"]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_result_is_torchs(name: str, dtype: str) -> None:
    results = []
    for library in (_Jitgrad(), torch):
        x = library.ones((2, 3), dtype=getattr(library, dtype))
        args = (0,) if name in ("cumsum", "softmax") else ()
        try:
            out = getattr(x, name)(*args)
            results.append((str(out.dtype).split(".")[-1], tuple(out.shape)))
        except (RuntimeError, TypeError, NotImplementedError) as error:
            results.append((type(error).__name__.replace("NotImplementedError", "RuntimeError"),))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_limits_of_floats_are_torchs(name: str) -> None:
    ours, theirs = jitgrad.finfo(getattr(jitgrad, name)), torch.finfo(getattr(torch, name))
    for field in "dtype bits eps max min tiny smallest_normal resolution".split():
        assert getattr(ours, field) == getattr(theirs, field)
    assert repr(ours) == repr(theirs)
    assert jitgrad.finfo().dtype == "float32"


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_limits_of_integers_are_torchs(name: str) -> None:
    ours, theirs = jitgrad.iinfo(getattr(jitgrad, name)), torch.iinfo(getattr(torch, name))
    assert (ours.dtype, ours.bits, ours.max, ours.min) == (theirs.dtype, theirs.bits, theirs.max, theirs.min)
    assert repr(ours) == f"iinfo(min={theirs.min}, max={theirs.max}, dtype={name})"  # PyTorch rounds them


def test_limits_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="requires a floating point input type"):
        jitgrad.finfo(jitgrad.int32)
    with pytest.raises(TypeError, match="requires an integer input type"):
        jitgrad.iinfo(jitgrad.float32)


def test_constants_are_torchs() -> None:
    assert (jitgrad.pi, jitgrad.e, jitgrad.inf) == (torch.pi, torch.e, torch.inf)
    assert jitgrad.nan != jitgrad.nan
