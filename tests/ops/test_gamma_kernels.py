"""Kernels of the gamma function's family and of erfc and erfinv against mpmath, over their whole domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import jitgrad
from jitgrad import events

Real = Callable[[Any], Any]


def _log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.ncdf(x)) if x < 0 else mpmath.log1p(-mpmath.ncdf(-x))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Real]] = {
    "lgamma": (lambda x: x.lgamma(), lambda x: mpmath.re(mpmath.loggamma(x))),
    "digamma": (lambda x: x.digamma(), mpmath.digamma),
    "trigamma": (lambda x: x.polygamma(1), lambda x: mpmath.psi(1, x)),
    "erfc": (lambda x: x.erfc(), mpmath.erfc),
    "erfinv": (lambda x: x.erfinv(), mpmath.erfinv),
    "erfcx": (jitgrad.special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x)),
    "log_ndtr": (jitgrad.special.log_ndtr, _log_ndtr),
    "ndtri": (jitgrad.special.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)),
    "i0": (jitgrad.special.i0, lambda x: mpmath.besseli(0, x)),
    "i1": (jitgrad.special.i1, lambda x: mpmath.besseli(1, x)),
    "i0e": (jitgrad.special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "i1e": (jitgrad.special.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
}
BOUND = {"float32": 7e-8, "float64": 1e-14}
"""Of the error, over the value, or over 1 beside the zeros of lgamma and digamma."""


def _points(name: str, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(3)
    if name == "ndtri":
        small = 10.0 ** rng.uniform(-30, -1, 60)
        x = np.concatenate([rng.uniform(0, 1, 100), small, 1 - 10.0 ** rng.uniform(-6, -1, 30)])
    elif name == "log_ndtr":  # beyond 6 its error is that of x / sqrt(2), whose square is an exponent
        x = np.concatenate([rng.normal(size=100) * 2, -(10.0 ** rng.uniform(-30, 6, 60)), rng.uniform(-30, 6, 60)])
        x = np.minimum(x, 6.0)
    elif name == "erfcx" or name.startswith("i"):
        x = np.concatenate([rng.normal(size=100) * 3, rng.uniform(-26, 100, 60), 10.0 ** rng.uniform(-30, 2, 60)])
        x = np.append(x, [8.0, np.nextafter(8, 9), -8.0, 1.0])
    elif name == "erfinv":
        near_one = 1 - 10.0 ** rng.uniform(-7 if dtype == np.float32 else -15.5, -1, 60)
        x = np.concatenate([rng.uniform(-1, 1, 100), near_one, -near_one, 10.0 ** rng.uniform(-30, -1, 30)])
    else:
        x = np.concatenate([rng.normal(size=100) * 3, rng.uniform(0, 30, 100), 10.0 ** rng.uniform(-30, 6, 60)])
        x = np.append(x, [1, 2, 8, np.nextafter(8, 0), 0.5, -0.5, -7.5, 26.0, -5.0])
    return x.astype(dtype)


def _error(name: str, x: float, got: float, dtype: Any = np.float64) -> float:
    try:
        with mpmath.workdps(40):
            want = FUNCTIONS[name][1](mpmath.mpf(x))
            scale = max(abs(want), 1.0 if name in ("lgamma", "digamma") else float(np.finfo(dtype).tiny))
            if not np.isfinite(got) and abs(want) > 3e38:
                return 0.0
            return float(abs(mpmath.mpf(got) - want) / scale) if mpmath.isfinite(want) else 0.0
    except (ValueError, ZeroDivisionError):  # a pole
        return 0.0 if not np.isfinite(got) else np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_values_are_right_to_the_last_bits(name: str, dtype: Any) -> None:
    x = _points(name, dtype)
    step = jitgrad.compile(FUNCTIONS[name][0])
    operand = jitgrad.tensor(x)
    step(operand)
    with events.count("fallbacks") as fallbacks:
        found = step(operand).numpy()
    assert fallbacks() == 0
    np.testing.assert_array_equal(found, FUNCTIONS[name][0](operand).numpy())
    errors = [_error(name, float(a), float(b), dtype) for a, b in zip(x, found, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] < BOUND[np.dtype(dtype).name], f"{name}({x[worst]!r}) = {found[worst]!r}"


def test_zeros_and_ends_are_exact() -> None:
    inf, nan = np.inf, np.nan
    x = jitgrad.tensor([1.0, 2.0, 0.0, -1.0, inf, -inf, nan])
    assert x.lgamma().tolist()[:6] == [0, 0, inf, inf, inf, inf]
    np.testing.assert_array_equal(jitgrad.tensor([0.0, -0.0, inf, -2.0]).digamma().numpy(), [-inf, inf, inf, nan])
    assert jitgrad.tensor([inf, -inf, 0.0, 30.0]).erfc().tolist() == [0, 2, 1, 0]
    np.testing.assert_array_equal(jitgrad.tensor([1.0, -1.0, 0.0, 1.5]).erfinv().numpy(), [inf, -inf, 0, nan])
    for function in (f for f, _ in FUNCTIONS.values()):
        assert np.isnan(function(jitgrad.tensor([nan])).item())


def test_ends_of_the_normal_distribution_and_of_bessel_functions() -> None:
    inf, nan = np.inf, np.nan
    x = jitgrad.tensor([0.0, -0.0, inf, -inf, nan], dtype=jitgrad.float64)
    wanted = {
        "erfcx": [1, 1, 0, inf, nan], "log_ndtr": [np.log(0.5), np.log(0.5), 0, -inf, nan],
        "i0": [1, 1, inf, inf, nan], "i1": [0, 0, inf, -inf, nan], "i0e": [1, 1, 0, 0, nan], "i1e": [0, 0, 0, 0, nan],
    }  # fmt: skip
    for name, values in wanted.items():
        np.testing.assert_allclose(FUNCTIONS[name][0](x).numpy(), values, rtol=1e-15)
    p = jitgrad.tensor([0.0, 1.0, 0.5, -0.1, 1.1, nan])
    np.testing.assert_array_equal(jitgrad.special.ndtri(p).numpy(), [-inf, inf, 0, nan, nan, nan])
    assert jitgrad.special.i0(jitgrad.tensor([713.0], dtype=jitgrad.float64)).item() < inf


def test_the_rule_of_erfinv_is_right_beside_one() -> None:
    """Where erf has lost what tells it from 1."""
    from_rule = jitgrad.ops.table.OPS["erfinv"].numpy  # type: ignore[attr-defined]
    x = 1 - 10.0 ** -np.arange(1.0, 16.0)
    errors = [_error("erfinv", float(a), float(b)) for a, b in zip(x, from_rule(x), strict=True)]
    assert max(errors) < 1e-13
