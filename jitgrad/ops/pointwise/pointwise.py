"""Unary pointwise operations: elementary functions, rounding, signs.

Owns: their table entries. Activations are in ``activations``, binary operations in ``arithmetic``.
Must not know: Tensor, kernels.

Derivatives follow PyTorch's ``derivatives.yaml``, also in what they save: version-counter errors depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.special import np_erf, np_sigmoid
from jitgrad.ops.shapes import as_dtype, float_dtype, np_operand, operand, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

LN2, LN10 = math.log(2.0), math.log(10.0)


def float_aval(x: Aval) -> Aval:
    """Same shape; integers become the default floating dtype."""
    return make_aval(x.shape, float_dtype(x))


def same_aval(x: Aval) -> Aval:
    """Same shape and dtype, row-major."""
    return make_aval(x.shape, x.dtype)


def zero_grad(c: RuleContext, g: Any) -> Any:
    """The derivative of a piecewise constant function."""
    return call("zeros_like", g)


_NODE_NAMES = {"log1p": "Log1PBackward0", "rad2deg": "Rad2DegBackward0", "deg2rad": "Deg2RadBackward0"}


def _define_float_unary(name: str, np_function: Any, rule: Any, save: int | str | None, lower: Any = None) -> None:
    def numpy(x: Any) -> Any:
        return np_function(np_operand(x, float_dtype(x)))

    numpy.direct = np_function  # type: ignore[attr-defined]  # for callers that know the input to be floating

    def lower_primitive(b: Any, x: Any) -> Any:
        return (lower or getattr(b, name))(operand(b, x, float_dtype(x)))

    def lower_composed(b: Any, x: Any) -> Any:
        return lower(b, operand(b, x, float_dtype(x)))

    define(
        name,
        node_name=_NODE_NAMES.get(name),
        aval=float_aval,
        numpy=numpy,
        lower=lower_composed if lower else lower_primitive,
        vjps=[Vjp(rule, () if save is None else (save,))],
    )


# name: NumPy function, derivative, what it saves
FLOAT_UNARY: dict[str, tuple[Any, Any, int | str]] = {
    "exp": (np.exp, lambda c, g, out: g * out, "out"),
    "exp2": (np.exp2, lambda c, g, out: g * out * LN2, "out"),
    "expm1": (np.expm1, lambda c, g, out: g * (out + 1), "out"),
    "log": (np.log, lambda c, g, x: g / x, 0),
    "log2": (np.log2, lambda c, g, x: g / (x * LN2), 0),
    "log10": (np.log10, lambda c, g, x: g / (x * LN10), 0),
    "log1p": (np.log1p, lambda c, g, x: g / (x + 1), 0),
    "sqrt": (np.sqrt, lambda c, g, out: g / (2 * out), "out"),
    "sin": (np.sin, lambda c, g, x: g * x.cos(), 0),
    "cos": (np.cos, lambda c, g, x: g * -x.sin(), 0),
    "tan": (np.tan, lambda c, g, out: g * (1 + out * out), "out"),
    "asin": (np.arcsin, lambda c, g, x: g * call("rsqrt", 1 - x * x), 0),
    "acos": (np.arccos, lambda c, g, x: g * -call("rsqrt", 1 - x * x), 0),
    "atan": (np.arctan, lambda c, g, x: g / (x * x + 1), 0),
    "sinh": (np.sinh, lambda c, g, x: g * call("cosh", x), 0),
    "cosh": (np.cosh, lambda c, g, x: g * call("sinh", x), 0),
    "tanh": (np.tanh, lambda c, g, out: g * (1 - out * out), "out"),
    "sigmoid": (np_sigmoid, lambda c, g, out: g * (1 - out) * out, "out"),
    "erf": (np_erf, lambda c, g, x: g * (call("exp", -(x * x)) * (2 / math.sqrt(math.pi))), 0),
}
for _name, (_np_function, _rule, _save) in FLOAT_UNARY.items():
    _define_float_unary(_name, _np_function, _rule, _save)

# --- inverse hyperbolic functions, by log1p where the argument is near its point of expansion ---

_SQUARE_IS_FINITE = 1e9
"""Above, x * x is near 2^64, 1 is nothing beside it, and asinh(x) = acosh(x) = log(2 x)."""


def _log_twice(b: Any, x: Any) -> Any:
    return b.add(b.log(x), b.const(LN2, x.dtype))


def _lower_asinh(b: Any, x: Any) -> Any:
    """sign(x) log1p(a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|; Abramowitz and Stegun 4.6.20, without cancellation."""
    one, a = b.const(1.0, x.dtype), b.abs(x)
    square = b.mul(a, a)
    near = b.log1p(b.add(a, b.div(square, b.add(one, b.sqrt(b.add(square, one))))))
    return b.copysign(b.where(b.gt(a, b.const(_SQUARE_IS_FINITE, x.dtype)), _log_twice(b, a), near), x)


def _lower_acosh(b: Any, x: Any) -> Any:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1; Abramowitz and Stegun 4.6.21."""
    one = b.const(1.0, x.dtype)
    t = b.sub(x, one)
    near = b.log1p(b.add(t, b.sqrt(b.mul(t, b.add(t, b.const(2.0, x.dtype))))))
    inside = b.where(b.gt(x, b.const(_SQUARE_IS_FINITE, x.dtype)), _log_twice(b, x), near)
    return b.where(b.lt(x, one), b.const(math.nan, x.dtype), inside)


def _lower_atanh(b: Any, x: Any) -> Any:
    """sign(x) log1p(2 a / (1 - a)) / 2 with a = |x|; Abramowitz and Stegun 4.6.22."""
    a = b.abs(x)
    ratio = b.div(b.add(a, a), b.sub(b.const(1.0, x.dtype), a))
    return b.copysign(b.mul(b.const(0.5, x.dtype), b.log1p(ratio)), x)


_define_float_unary("asinh", np.arcsinh, lambda c, g, x: g * call("rsqrt", x * x + 1), 0, _lower_asinh)
_define_float_unary("acosh", np.arccosh, lambda c, g, x: g * call("rsqrt", x * x - 1), 0, _lower_acosh)
_define_float_unary("atanh", np.arctanh, lambda c, g, x: g / (1 - x * x), 0, _lower_atanh)

# --- sinc, angles, logit ---


def _np_sinc(x: Any) -> Any:
    angle = x * x.dtype.type(math.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / angle)


def _lower_sinc(b: Any, x: Any) -> Any:
    angle = b.mul(x, b.const(math.pi, x.dtype))
    return b.where(b.eq(x, b.const(0.0, x.dtype)), b.const(1.0, x.dtype), b.div(b.sin(angle), angle))


def _sinc_rule(c: RuleContext, g: Any, x: Any) -> Any:
    angle = x * math.pi
    slope = g * ((angle * angle.cos() - angle.sin()) / (angle * x))
    return call("where", call("eq", x * x * math.pi, 0.0), 0.0, slope)


_define_float_unary("sinc", _np_sinc, _sinc_rule, 0, _lower_sinc)


def _define_scaling(name: str, factor: float) -> None:
    _define_float_unary(
        name,
        lambda x: x * x.dtype.type(factor),
        lambda c, g: g * factor,
        None,
        lambda b, x: b.mul(x, b.const(factor, x.dtype)),
    )


_define_scaling("rad2deg", 180 / math.pi)
_define_scaling("deg2rad", math.pi / 180)


def _np_logit(x: Any, eps: float | None) -> Any:
    x = np_operand(x, float_dtype(x))
    if eps is not None:
        number = x.dtype.type
        x = np.where(x < number(eps), number(eps), np.where(x > number(1 - eps), number(1 - eps), x))
    return np.log(x / (1 - x))


def _lower_logit(b: Any, x: Any, eps: float | None) -> Any:
    x = operand(b, x, float_dtype(x))
    if eps is not None:
        low, high = b.const(float(eps), x.dtype), b.const(1.0 - eps, x.dtype)
        x = b.where(b.lt(x, low), low, b.where(b.gt(x, high), high, x))
    return b.log(b.div(x, b.sub(b.const(1.0, x.dtype), x)))


def _logit_rule(c: RuleContext, g: Any, x: Any) -> Any:
    eps = c.params[0]
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1.0 - eps, 0.0)
    beyond = call("logical_or", call("lt", x, low), call("gt", x, high))
    return call("where", beyond, outside, g / (x * (1 - x)))


define(
    "logit",
    aval=lambda x, eps: float_aval(x),
    numpy=_np_logit,
    lower=_lower_logit,
    vjps=[Vjp(_logit_rule, (0,))],
)

_define_float_unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda c, g, out: g * (-0.5 * (out * out * out)),
    "out",
    lambda b, x: b.div(b.const(1.0, x.dtype), b.sqrt(x)),
)
_define_float_unary(
    "reciprocal",
    lambda x: 1 / x,
    lambda c, g, out: -g * (out * out),
    "out",
    lambda b, x: b.div(b.const(1.0, x.dtype), x),
)


def _no_bools_aval(name: str) -> Any:
    def rule(x: Aval) -> Aval:
        if x.dtype.category is BOOLEAN:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
        return same_aval(x)

    return rule


def _define_same_dtype(name: str, np_function: Callable[[Any], Any], rule: Any, save: tuple[int, ...] = ()) -> None:
    """Rounding and signs: integers map to integers, for which rounding is the identity."""
    rounds = name in ("floor", "ceil", "round", "trunc")

    def numpy(x: Any) -> Any:
        return x.copy() if (rounds and x.dtype.kind in "bi") else np_function(x)

    def lower(b: Any, x: Any) -> Any:
        return x if rounds and x.dtype.category < FLOATING else getattr(b, name)(x)

    define(name, aval=_no_bools_aval(name), numpy=numpy, lower=lower, vjps=[Vjp(rule, save)])


_define_same_dtype("abs", np.abs, lambda c, g, x: g * x.sign(), (0,))
_define_same_dtype("floor", np.floor, zero_grad)
_define_same_dtype("ceil", np.ceil, zero_grad)
_define_same_dtype("trunc", np.trunc, zero_grad)
_define_same_dtype("round", np.rint, zero_grad)


def _decimals_aval(x: Aval, decimals: int) -> Aval:
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"round_vml_cpu\" not implemented for '{torch_dtype_name(x.dtype)}'")
    return same_aval(x)


def _power_of_ten(decimals: int) -> float:
    return 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf


def _np_round_decimals(x: Any, decimals: int) -> Any:
    if x.dtype.kind != "f":
        return x.copy()
    scale = x.dtype.type(_power_of_ten(decimals))
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


def _lower_round_decimals(b: Any, x: Any, decimals: int) -> Any:
    if x.dtype.category < FLOATING:
        return x
    scale = b.const(_power_of_ten(decimals), x.dtype)
    return b.div(b.round(b.mul(x, scale)), scale) if decimals > 0 else b.mul(b.round(b.div(x, scale)), scale)


define(
    "round_decimals",
    aval=_decimals_aval,
    numpy=_np_round_decimals,
    lower=_lower_round_decimals,
    vjps=[Vjp(zero_grad)],
    node_name="RoundBackward1",
)


def _np_sign(x: Any) -> Any:
    # torch.sign(nan) is 0, NumPy's is nan
    return x if x.dtype.kind == "b" else np.where(np.isnan(x), x.dtype.type(0), np.sign(x))


def _lower_sign(b: Any, x: Any) -> Any:
    if x.dtype.category is BOOLEAN:
        return x
    signed = b.sign(x)
    return b.where(b.isnan(x), 0.0, signed) if x.dtype.category is FLOATING else signed


for _name in ("sign", "sgn"):  # they differ for complex numbers
    define(_name, aval=same_aval, numpy=_np_sign, lower=_lower_sign, vjps=[Vjp(zero_grad)], runs_once=_name == "sgn")


def _frac_aval(x: Aval) -> Aval:
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"frac_cpu\" not implemented for '{torch_dtype_name(x.dtype)}'")
    return same_aval(x)


define(
    "frac",
    aval=_frac_aval,
    numpy=lambda x: x - np.trunc(x),
    lower=lambda b, x: b.sub(x, b.trunc(x)),
    vjps=[Vjp(lambda c, g: g)],
)


def _replacements(x: Any, nan: float | None, posinf: float | None, neginf: float | None) -> tuple[float, float, float]:
    """What takes the place of NaN and the infinities, in the precision of x."""
    number = as_dtype(x.dtype).np.type
    limits = np.finfo(number)
    with np.errstate(over="ignore"):
        values = (0.0 if nan is None else nan, *(
            limit if value is None else value for value, limit in ((posinf, limits.max), (neginf, limits.min))
        ))
        return tuple(number(value).item() for value in values)


def _np_nan_to_num(x: Any, *replacements: float | None) -> Any:
    if x.dtype.kind != "f":
        return x.copy()
    nan, posinf, neginf = map(x.dtype.type, _replacements(x, *replacements))
    return np.where(np.isnan(x), nan, np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, x)))


def _lower_nan_to_num(b: Any, x: Any, *replacements: float | None) -> Any:
    if x.dtype.category < FLOATING:
        return x
    nan, posinf, neginf = (b.const(value, x.dtype) for value in _replacements(x, *replacements))
    infinity = b.const(math.inf, x.dtype)
    finite = b.where(b.eq(x, infinity), posinf, b.where(b.eq(x, b.neg(infinity)), neginf, x))
    return b.where(b.isnan(x), nan, finite)


define(
    "nan_to_num",
    aval=lambda x, *replacements: same_aval(x),
    numpy=_np_nan_to_num,
    lower=_lower_nan_to_num,
    vjps=[Vjp(lambda c, g, x: g * call("isfinite", x), (0,))],
)


def _neg_aval(x: Aval) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return same_aval(x)


define("neg", aval=_neg_aval, numpy=np.negative, lower=lambda b, x: b.neg(x), vjps=[Vjp(lambda c, g: -g)])
