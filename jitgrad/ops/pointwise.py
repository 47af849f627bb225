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
from jitgrad.ops.shapes import float_dtype, np_operand, operand, torch_dtype_name
from jitgrad.ops.special import np_erf, np_sigmoid
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
        node_name="Log1PBackward0" if name == "log1p" else None,
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
        return x if rounds and x.dtype.category is not FLOATING else getattr(b, name)(x)

    define(name, aval=_no_bools_aval(name), numpy=numpy, lower=lower, vjps=[Vjp(rule, save)])


_define_same_dtype("abs", np.abs, lambda c, g, x: g * x.sign(), (0,))
_define_same_dtype("floor", np.floor, zero_grad)
_define_same_dtype("ceil", np.ceil, zero_grad)
_define_same_dtype("trunc", np.trunc, zero_grad)
_define_same_dtype("round", np.rint, zero_grad)


def _decimals_aval(x: Aval, decimals: int) -> Aval:
    if x.dtype.category is not FLOATING and (decimals or x.dtype.category is BOOLEAN):
        raise NotImplementedError(f"\"round_vml_cpu\" not implemented for '{torch_dtype_name(x.dtype)}'")
    return x


def _np_round_decimals(x: Any, decimals: int) -> Any:
    if x.dtype.kind != "f":
        return x.copy()
    scale = x.dtype.type(10.0 ** abs(decimals))
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


def _lower_round_decimals(b: Any, x: Any, decimals: int) -> Any:
    if x.dtype.category is not FLOATING:
        return x
    scale = b.const(10.0 ** abs(decimals), x.dtype)
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


define("sign", aval=same_aval, numpy=_np_sign, lower=_lower_sign, vjps=[Vjp(zero_grad)])


def _neg_aval(x: Aval) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return same_aval(x)


define("neg", aval=_neg_aval, numpy=np.negative, lower=lambda b, x: b.neg(x), vjps=[Vjp(lambda c, g: -g)])
