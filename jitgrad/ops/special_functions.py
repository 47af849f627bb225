"""Special functions of one or two arguments under ``torch.special``'s names, and those of the gamma distribution.

Owns: entr, erfcx, i0e, i1e, log_ndtr, ndtri, xlog1py, zeta, igamma, igammac, angle, frexp. zeta, igamma, igammac and
frexp have no lowerings: in a compiled step NumPy runs between two native pieces.
Must not know: Tensor, kernels.

Sources: Abramowitz and Stegun, "Handbook of Mathematical Functions": 7.1.23 for erfcx, 9.7.1 for the scaled Bessel
functions, 6.5.29 and 6.5.31 for the incomplete gamma functions, 23.2.9 for the zeta function. ndtri solves
``log_ndtr(x) = log(p)`` by Newton's method. Derivatives follow PyTorch's ``derivatives.yaml``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, int32
from jitgrad.ops.arithmetic import binary_aval, lower_promoted, np_promoted
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.gamma_functions import bessel_rule, hurwitz_zeta, in_double, normal_lowering
from jitgrad.ops.pointwise import float_aval, zero_grad
from jitgrad.ops.shapes import float_dtype, is_number, np_operand, number_like, operand, torch_dtype_name
from jitgrad.ops.special import np_erfc, np_erfcx
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

_SQRT_2, _SQRT_2PI = math.sqrt(2.0), math.sqrt(2 * math.pi)

# --- entr ---


def _np_entr(x: Any) -> Any:
    x = np_operand(x, float_dtype(x))
    inside = np.where(x == 0, x.dtype.type(0), -x * np.log(x))
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(-np.inf), inside))


def _lower_entr(b: Any, x: Any) -> Any:
    x = operand(b, x, float_dtype(x))
    zero = b.const(0.0, x.dtype)
    inside = b.where(b.eq(x, zero), zero, b.neg(b.mul(x, b.log(x))))
    return b.where(b.isnan(x), x, b.where(b.lt(x, zero), b.const(-math.inf, x.dtype), inside))


define(
    "special_entr",
    aval=float_aval,
    numpy=_np_entr,
    lower=_lower_entr,
    vjps=[Vjp(lambda c, g, x: g * -(1 + x.log()), (0,))],
)

# --- the error function, scaled, and the normal distribution ---


def np_log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution function of a float64 array."""
    t = x / _SQRT_2
    left = np.log(np_erfcx(-np.minimum(t, 0)) / 2) - t * t
    right = np.log1p(-np_erfc(np.maximum(t, -1)) / 2)
    return np.where(np.isnan(x), x, np.where(x < -1, left, right))


def _np_ndtri(p: Any) -> Any:
    tail = np.minimum(p, 1 - p)
    inside = (tail > 0) & (tail < 0.5)
    log_p = np.log(np.where(inside, tail, 0.25))
    x = -np.sqrt(np.maximum(-2 * log_p - np.log(np.maximum(-4 * math.pi * log_p, 1)), 0))
    for _ in range(12):
        value = np_log_ndtr(x)
        x = x - (value - log_p) * np.exp(value + x * x / 2) * _SQRT_2PI
    x = np.where(inside, np.where(p < 0.5, x, -x), 0.0)
    at_edge = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    return np.where((p > 0) & (p < 1), x, at_edge)


def _log_ndtr_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    return g / _SQRT_2PI * (-(out + x * x / 2)).exp()


define(
    "special_erfcx",
    aval=float_aval,
    numpy=in_double(np_erfcx),
    lower=normal_lowering("special_erfcx"),
    vjps=[Vjp(lambda c, g, x, out: (2.0 * x * out - 2.0 / math.sqrt(math.pi)) * g, (0, "out"))],
)
define(
    "special_log_ndtr",
    aval=float_aval,
    numpy=in_double(np_log_ndtr),
    lower=normal_lowering("special_log_ndtr"),
    vjps=[Vjp(_log_ndtr_rule, (0, "out"))],
)
define(
    "special_ndtri",
    aval=float_aval,
    numpy=in_double(_np_ndtri),
    lower=normal_lowering("special_ndtri"),
    vjps=[Vjp(lambda c, g, out: g * _SQRT_2PI * (out * out / 2).exp(), ("out",))],
)

# --- Bessel functions times exp(-|x|) ---


def _i1e_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """Near 0 the derivative is that of x / 2."""
    is_tiny = call("le", call("abs", x), float(np.finfo(x.dtype.np).eps))
    safe = call("where", is_tiny, float(np.finfo(x.dtype.np).eps), x)
    slope = call("special_i0e", safe) - out * (call("sgn", safe) + call("reciprocal", safe))
    return g * call("where", is_tiny, 0.5, slope)


define(
    "special_i0e",
    aval=float_aval,
    numpy=in_double(bessel_rule(0, is_scaled=True)),
    lower=normal_lowering("special_i0e"),
    vjps=[Vjp(lambda c, g, x, out: g * (call("special_i1e", x) - call("sgn", x) * out), (0, "out"))],
    node_name="SpecialI0EBackward0",
)
define(
    "special_i1e",
    aval=float_aval,
    numpy=in_double(bessel_rule(1, is_scaled=True)),
    lower=normal_lowering("special_i1e"),
    vjps=[Vjp(_i1e_rule, (0, "out"))],
    node_name="SpecialI1EBackward0",
)

# --- x log(1 + y) ---


def _np_xlog1py(x: Any, y: Any) -> Any:
    y = number_like(y, x)
    return np.where(np.isnan(y), y, np.where(x == 0, np.zeros_like(x), x * np.log1p(y)))


def _lower_xlog1py(b: Any, x: Any, y: Any) -> Any:
    zero = b.const(0.0, x.dtype)
    return b.where(b.isnan(y), y, b.where(b.eq(x, zero), zero, b.mul(x, b.log1p(y))))


def _xlog1py_x_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    slope = call("special_xlog1py", g, y)
    if is_number(y):
        return call("where", call("eq", x, 0.0), 0.0, slope) if y <= -1 else slope
    return call("where", call("logical_and", call("eq", x, 0.0), call("le", y, -1.0)), 0.0, slope)


define(
    "special_xlog1py",
    aval=binary_aval("xlog1py", float_dtype),
    numpy=np_promoted(_np_xlog1py, float_dtype),
    lower=lower_promoted(_lower_xlog1py, float_dtype),
    vjps=[Vjp(_xlog1py_x_rule, (0, 1)), Vjp(lambda c, g, x, y: g * (x / (y + 1)), (0, 1))],
    num_inputs=2,
    node_names={0: "SpecialXlog1PyBackward1", 1: "SpecialXlog1PyBackward2"},
    node_name="SpecialXlog1PyBackward0",
)

# --- the zeta function of Hurwitz, and the incomplete gamma functions ---


def _pairwise(function: Any) -> Any:
    """A NumPy rule of two float64 arrays of one shape."""

    def rule(x: Any, y: Any) -> Any:
        dtype = float_dtype(x, y).np
        with np.errstate(all="ignore"):
            a, b = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
            return np.asarray(function(np.array(a), np.array(b)), np.float64).astype(dtype)

    return rule


def _np_zeta(s: Any, q: Any) -> Any:
    """Not a number below s = 1, and for negative q with a broken exponent; infinite at s = 1 and at the poles."""
    is_pole = (q <= 0) & (q == np.floor(q))
    is_bad = (s < 1) | ((q <= 0) & (s != np.floor(s))) | np.isnan(s) | np.isnan(q)
    usual = (s > 1) & ~is_pole & ~is_bad
    out = hurwitz_zeta(np.where(usual, s, 2.0), np.where(usual, q, 1.0))
    out = np.where(usual, out, np.nan)
    return np.where((s == 1) | ((s > 1) & is_pole), np.inf, out)


def _unknown(name: str) -> Any:
    def rule(c: RuleContext, g: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return rule


define(
    "special_zeta",
    aval=binary_aval("zeta", float_dtype),
    numpy=_pairwise(_np_zeta),
    vjps=[
        Vjp(_unknown("zeta")),
        Vjp(lambda c, g, s, q: g * -s * call("special_zeta", s + 1.0, q), (0, 1)),
    ],
    num_inputs=2,
)

_TERMS = 20_000


def _series(a: Any, x: Any) -> Any:
    """P times gamma(a + 1) e^x / x^a, for x < a + 1."""
    term = np.ones_like(x)
    total = term.copy()
    for k in range(1, _TERMS):
        term = term * x / (a + k)
        total += term
        if not (term > 1e-17 * total).any():
            break
    return total


def _fraction(a: Any, x: Any) -> Any:
    """Q times gamma(a) e^x / x^a, for x >= a + 1; the continued fraction by Lentz's method."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / b
    h = d.copy()
    for k in range(1, _TERMS):
        factor = -k * (k - a)
        b = b + 2
        d = factor * d + b
        c = b + factor / c
        d, c = np.where(np.abs(d) < tiny, tiny, d), np.where(np.abs(c) < tiny, tiny, c)
        d = 1 / d
        step = d * c
        h = h * step
        if not (np.abs(step - 1) > 4e-16).any():  # less is not told from 1 by all
            break
    return h


_NOTHING = -800.0
"""The exponential of less is 0."""
_lgamma = np.frompyfunc(math.lgamma, 1, 1)


def _both(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """(P, Q, where they are defined) of positive finite arguments; other elements hold something."""
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    u, v = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    log_scale = u * np.log(v) - v - np.asarray(_lgamma(u), np.float64)
    is_low = v < u + 1
    is_far = log_scale < _NOTHING  # neither would settle there, and both are taken times 0
    is_high = ~(is_low | is_far)
    low = np.exp(log_scale) / u * _series(u, np.where(is_low & ~is_far, v, 0.0))
    high = np.exp(log_scale) * _fraction(np.where(is_high, u, 1.0), np.where(is_high, v, 3.0))
    return np.where(is_low, low, 1 - high), np.where(is_low, 1 - low, high), inside


def _np_igamma(a: Any, x: Any) -> Any:
    lower, _, inside = _both(a, x)
    return np.where(inside, lower, _at_edges(a, x, 0.0, 1.0))


def _np_igammac(a: Any, x: Any) -> Any:
    _, upper, inside = _both(a, x)
    return np.where(inside, upper, _at_edges(a, x, 1.0, 0.0))


def _at_edges(a: Any, x: Any, at_zero: float, at_infinity: float) -> Any:
    """With an argument that is zero, infinite or wrong; ``at_zero`` is the value at x = 0."""
    is_wrong = (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x))
    known = np.where((x == 0) | np.isinf(a), at_zero, at_infinity)
    return np.where(is_wrong, np.nan, np.where((a == 0) & (x > 0), at_infinity, known))


def _density(a: Any, x: Any) -> Any:
    return ((a - 1) * x.log() - x - call("lgamma", a)).exp()


def _igamma_aval(name: str) -> Any:
    rule = binary_aval(name)

    def checked(a: Any, x: Any) -> Aval:
        out: Aval = rule(a, x)
        if out.dtype.category < FLOATING:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{torch_dtype_name(out.dtype)}'")
        return out

    return checked


for _name, _function, _sign in (("igamma", _np_igamma, 1), ("igammac", _np_igammac, -1)):
    define(
        _name,
        aval=_igamma_aval(_name),
        numpy=_pairwise(_function),
        vjps=[
            Vjp(_unknown(f"{_name}: input")),
            Vjp(lambda c, g, a, x, sign=_sign: g * _density(a, x) * sign, (0, 1)),
        ],
        num_inputs=2,
    )

# --- the angle of a real number, mantissa and exponent ---


def _np_angle(x: Any) -> Any:
    x = np_operand(x, float_dtype(x))
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))


def _lower_angle(b: Any, x: Any) -> Any:
    x = operand(b, x, float_dtype(x))
    zero = b.const(0.0, x.dtype)
    return b.where(b.isnan(x), x, b.where(b.lt(x, zero), b.const(math.pi, x.dtype), zero))


define("angle", aval=float_aval, numpy=_np_angle, lower=_lower_angle, vjps=[Vjp(zero_grad)], runs_once=True)


def _frexp_aval(x: Aval) -> tuple[Aval, Aval]:
    if x.dtype.category < FLOATING:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return make_aval(x.shape, x.dtype), make_aval(x.shape, int32)


def _frexp_rule(c: RuleContext, g: Any, exponent: Any) -> Any:
    return g[0] / call("exp2", exponent.to(g[0].dtype))


def _np_frexp(x: Any) -> tuple[Any, Any]:
    mantissa, exponent = np.frexp(x)
    return mantissa, np.where(np.isfinite(x), exponent, 0).astype(np.int32)


define("frexp", aval=_frexp_aval, numpy=_np_frexp, vjps=[Vjp(_frexp_rule, ("out1",))])
