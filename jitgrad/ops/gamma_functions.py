"""The logarithm of the gamma function, its derivatives, and the inverse of the error function.

Owns: lgamma, digamma, polygamma, erfinv, erfc, i0, special_i1; their NumPy rules and derivatives. Of polygamma only
orders 0 and 1 have a kernel, i0 and special_i1 have none: in a compiled step NumPy runs between two native pieces.
Must not know: Tensor, kernels.

Sources: Abramowitz and Stegun, "Handbook of Mathematical Functions": 6.3.5 to 6.3.18 for digamma (recurrence,
reflection, asymptotic series), 6.4.10 for polygamma as a Hurwitz zeta function, 23.1.30 (Euler and Maclaurin) for that.
erfinv begins with the closed form of S. Winitzki (2008), and is refined by Halley's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import finfo
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.pointwise import float_aval
from jitgrad.ops.shapes import float_dtype, np_operand
from jitgrad.ops.special import np_erf, np_erfc
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["bessel_rule", "hurwitz_zeta", "in_double", "normal_lowering"]

_SERIES_FROM = 10.0
"""Where the asymptotic series are used; smaller arguments are moved there by recurrences."""

_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k: digamma(x) is log x - 1/2x - sum of these over x^2k."""

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_MAX_STEPS = 10_000


def in_double(function: Any) -> Any:
    """A NumPy rule that computes in float64 and answers in the dtype of its input."""

    def rule(x: Any, *params: Any) -> Any:
        x = np_operand(x, float_dtype(x))
        with np.errstate(all="ignore"):
            return np.asarray(function(np.asarray(x, np.float64), *params), np.float64).astype(x.dtype)

    return rule


def _lgamma_of_one(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # at a pole, or beyond the largest number
        return math.inf


_lgamma = np.frompyfunc(_lgamma_of_one, 1, 1)


def _digamma(x: Any) -> Any:
    is_reflected = x <= 0
    y = np.where(is_reflected, 1 - x, x)
    total = np.zeros_like(y)
    for _ in range(int(_SERIES_FROM)):
        is_small = y < _SERIES_FROM
        total -= np.where(is_small, 1 / y, 0)
        y = np.where(is_small, y + 1, y)
    z = 1 / (y * y)
    series = np.zeros_like(y)
    for coefficient in reversed(_DIGAMMA):
        series = (series + coefficient) * z
    total += np.log(y) - 0.5 / y - series
    reflected = total - math.pi / np.tan(math.pi * (x - np.rint(x)))
    at_pole = np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    return np.where(is_reflected, np.where(x == np.floor(x), at_pole, reflected), total)


_LAST_FACTORIAL = 170
"""170! is the last one that a double holds."""


def _polygamma(x: Any, n: int) -> Any:
    if n == 0:
        return _digamma(x)
    if n == 1:  # below zero by reflection, where a sum would begin too far away
        sine = np.sin(math.pi * (x - np.rint(x)))
        reflected = math.pi**2 / (sine * sine) - hurwitz_zeta(2, np.where(x < 0.5, 1 - x, 1.0))
        return np.where(x < 0.5, reflected, hurwitz_zeta(2, np.where(x < 0.5, 1.0, x)))
    sign = 1.0 if n % 2 else -1.0
    if n > _LAST_FACTORIAL:  # PyTorch's product of an infinity and a sum that may underflow to 0
        return sign * np.inf * hurwitz_zeta(n + 1, x)
    return sign * math.factorial(n) * hurwitz_zeta(n + 1, x)


def hurwitz_zeta(s: Any, q: Any) -> Any:
    """The sum of (q + k)^-s over k = 0, 1, ...; s is a number above 1, or an array of numbers above 1."""
    s = s * 1.0
    finite = q[np.isfinite(q)]
    num_terms = math.ceil(min(max(_SERIES_FROM - finite.min(initial=_SERIES_FROM), 0.0), _MAX_STEPS))
    total = np.zeros_like(q)
    for _ in range(num_terms):
        is_small = q < _SERIES_FROM
        total += np.where(is_small, q**-s, 0)
        q = np.where(is_small, q + 1, q)
    power = q**-s
    total += power * q / (s - 1) + 0.5 * power
    factor = s * power / q / 2
    for k, number in enumerate(_BERNOULLI):
        total += number * factor
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q) / ((2 * k + 3) * (2 * k + 4))
    return np.where(q == np.inf, 0.0, total)


def _erfinv(x: Any) -> Any:
    inside = np.clip(x, -1, 1)
    log = np.log1p(-inside * inside)
    t = 2 / (math.pi * 0.147) + log / 2
    y = np.copysign(np.sqrt(np.maximum(np.sqrt(t * t - log / 0.147) - t, 0)), inside)
    for _ in range(3):
        error = np_erf(y) - inside
        far = np.sign(inside) * (1 - np.abs(inside) - np_erfc(np.abs(y)))  # erf has lost there what tells it from 1
        error = np.where(np.abs(inside) > 0.5, far, error)
        y = y - error / (2 / math.sqrt(math.pi) * np.exp(-y * y) + y * error)
    y = np.where(np.abs(x) == 1, np.copysign(np.inf, x), y)
    return np.where((np.abs(x) > 1) | np.isnan(x), np.nan, y)


def _polygamma_aval(x: Aval, n: int) -> Aval:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return float_aval(x)


def _lgamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("digamma", x)


def _digamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("polygamma", x, 1)


def _polygamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("polygamma", x, c.params[0] + 1)


def _erfinv_rule(c: RuleContext, g: Any, x: Any) -> Any:
    out = call("erfinv", x)
    return g * (call("exp", out * out) * (math.sqrt(math.pi) / 2))


_GAMMA = LazyModule("jitgrad.ops.gamma_formulas")
_NORMAL = LazyModule("jitgrad.ops.normal_formulas")


def _lowered(name: str) -> Callable[..., Any]:
    """The lowering of that name, whose module is imported when it is used."""
    return lambda b, x, *params: _GAMMA.FORMULAS[name](b, x, *params)


def _define(name: str, numpy: Any, vjp: Vjp) -> None:
    define(name, aval=float_aval, numpy=in_double(numpy), lower=_lowered(name), vjps=[vjp])


_define("lgamma", _lgamma, Vjp(_lgamma_rule, (0,)))
_define("digamma", _digamma, Vjp(_digamma_rule, (0,)))
_define("erfinv", _erfinv, Vjp(_erfinv_rule, (0,)))
define(
    "polygamma",
    aval=_polygamma_aval,
    numpy=in_double(_polygamma),
    lower=lambda b, x, n: _lowered("trigamma" if n else "digamma")(b, x),
    lowers=lambda n: n < 2,
    vjps=[Vjp(_polygamma_rule, (0,))],
)

# --- erfc, and the modified Bessel functions I0 and I1 ---

_BESSEL_SERIES_TO = 20.0
"""Where the power series ends: the asymptotic one then begins with terms that fall to the last bit."""
_BESSEL_TERMS, _BESSEL_LATE_TERMS = 60, 36


def bessel_rule(order: int, is_scaled: bool = False) -> Any:
    """I of this order, perhaps times exp(-|x|); Abramowitz and Stegun 9.6.10 and, for large arguments, 9.7.1."""

    def rule(x: Any) -> Any:
        a = np.abs(x)
        near = np.minimum(a, _BESSEL_SERIES_TO)
        square, term = near * near / 4, (near / 2) ** order
        total = term.copy()
        for k in range(1, _BESSEL_TERMS):
            term = term * square / (k * (k + order))
            total += term
        far = np.maximum(a, _BESSEL_SERIES_TO)
        late_term = np.ones_like(far)
        late = late_term.copy()
        for k in range(1, _BESSEL_LATE_TERMS):
            late_term = late_term * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far)
            late += late_term
        half = np.ones_like(far) if is_scaled else np.exp(far / 2)  # exp(far) overflows first
        if is_scaled:
            total = total * np.exp(-near)
        out = np.where(a > _BESSEL_SERIES_TO, half * (late / np.sqrt(2 * math.pi * far)) * half, total)
        return np.where(np.isnan(x), x, np.copysign(out, x) if order else out)

    return rule


def _erfc_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * (call("exp", -(x * x)) * (-2 / math.sqrt(math.pi)))


def _i0_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("special_i1", x)


def _i1_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    is_tiny = call("le", call("abs", x), finfo(x.dtype).eps)
    safe = call("where", is_tiny, 1.0, x)
    return g * call("where", is_tiny, 0.5, call("i0", safe) - out / safe)


_define("erfc", np_erfc, Vjp(_erfc_rule, (0,)))


def normal_lowering(name: str) -> Callable[..., Any]:
    """The lowering of that name in ``normal_formulas``, which is imported when it is used."""
    return lambda b, x: _NORMAL.FORMULAS[name](b, x)


for _name, _order, _vjp in (("i0", 0, Vjp(_i0_rule, (0,))), ("special_i1", 1, Vjp(_i1_rule, (0, "out")))):
    define(_name, aval=float_aval, numpy=in_double(bessel_rule(_order)), lower=normal_lowering(_name), vjps=[_vjp])
