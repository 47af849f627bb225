"""Conversions of every dtype to every other, of numbers that fit and of numbers that do not, as PyTorch's on x86."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")

DTYPES = "float32 float64 int32 int64 bool uint8 int8 int16 float16 bfloat16".split()
REALS = [0.0, -0.0, 0.9, -0.9, 1.5, -2.5, 7.0, 2.0**24 + 1, 2.0**31, -(2.0**31), 2.0**31 - 1, -(2.0**31) - 1, 3e9, -3e9]
REALS += [2.0**33 + 5, 1e10, -1e10, 2.0**63, -(2.0**63), 2.0**63 * 0.99999, 1e30, -1e30, 1e-45, 1e300]
REALS += [float("nan"), float("inf"), -float("inf")]
WHOLE = [0, 1, -1, 2, 2**24 + 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**33 + 5, 2**53 + 1, 2**63 - 1, -(2**63)]

USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "to": lambda lib, x, dtype: x.to(dtype),
    "copied over": lambda lib, x, dtype: lib.zeros(x.shape, dtype=dtype).copy_(x),
    "after arithmetic": lambda lib, x, dtype: (x + x).to(dtype),
    "joined": lambda lib, x, dtype: lib.cat([x.to(dtype), x.flip(0).to(dtype)]),
    "and back": lambda lib, x, dtype: x.to(dtype).to(x.dtype),
    "one element": lambda lib, x, dtype: lib.stack([x[i].to(dtype) for i in range(0, len(x), 5)]),
}


def numbers(source: str) -> Any:
    """An array of the dtype's numbers; in float32 those that bfloat16 holds."""
    if source == "bfloat16":
        return torch.tensor(REALS, dtype=torch.bfloat16).float().numpy()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        values = np.array(REALS if source.startswith("float") else WHOLE)
        return values.astype("bool" if source == "bool" else source)


def as_array(x: Any) -> Any:
    """The values; bfloat16, which NumPy lacks, as float32."""
    return x.float().numpy() if str(x.dtype).endswith("bfloat16") else x.numpy()


PAIRS = [(source, to) for source in DTYPES for to in DTYPES]


@pytest.mark.parametrize("use", USES)
def test_conversions_are_pytorchs(use: str, mode: Mode) -> None:
    def step(lib: Any, given: dict[str, Any]) -> list[Any]:
        return [USES[use](lib, given[source], getattr(lib, to)) for source, to in PAIRS]

    def given(lib: Any) -> dict[str, Any]:
        return {name: lib.tensor(numbers(name), dtype=getattr(lib, name)) for name in DTYPES}

    want = step(torch, given(torch))
    got = mode.run(lambda given: step(jg, given), lambda: (given(jg),))
    for (source, to), w, g in zip(PAIRS, want, got, strict=True):
        np.testing.assert_array_equal(as_array(g), as_array(w), err_msg=f"{source} to {to}", strict=True)


def test_constants_are_converted_as_values_are(mode: Mode) -> None:
    special = (float("nan"), float("inf"), -float("inf"), 3e9, -3e9, 1e20, 2.0**31, 1.9, -1.9)

    def step(lib: Any) -> list[Any]:
        made = [lib.full((5,), number, dtype=lib.float64) for number in special]
        return [x.to(getattr(lib, to)) for x in made for to in DTYPES]

    for got, want in zip(mode.run(lambda: step(jg)), step(torch), strict=True):
        np.testing.assert_array_equal(as_array(got), as_array(want), strict=True)
