"""Comparisons, predicates, logical and bitwise operations.

Owns: their table entries. None is differentiable; a comparison in place (``x.gt_(y)``) passes zeros on.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, bool_
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.pointwise.arithmetic import binary_aval, lower_promoted, np_promoted
from jitgrad.ops.pointwise.pointwise import zero_grad
from jitgrad.ops.shapes import broadcast, dtype_of, np_operand, operand, result_dtype, shape_of, torch_dtype_name
from jitgrad.ops.table import Vjp, define

__all__: list[str] = []


def _bool_aval(name: str) -> Any:
    def rule(*inputs: Any) -> Aval:
        result_dtype(*inputs)  # refuses integers that are too wide
        return make_aval(broadcast(name, *map(shape_of, inputs)), bool_)

    return rule


_COMPARISONS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _define_comparison(name: str, np_function: Any) -> None:
    define(
        name,
        aval=_bool_aval(name),
        numpy=np_promoted(np_function),
        lower=lower_promoted(lambda b, x, y: getattr(b, name)(x, y)),
        num_inputs=2,
    )


def _define_comparison_as_self(name: str, np_function: Any) -> None:
    """``x.gt_(y)``: zeros and ones of x's own dtype, through which no gradient goes."""
    compare = np_promoted(np_function)

    def lower(b: Any, x: Any, y: Any) -> Any:
        return b.cast(lower_promoted(lambda b, x, y: getattr(b, name)(x, y))(b, x, y), x.dtype)

    lower.takes_short = True  # type: ignore[attr-defined]
    define(
        f"{name}_as_self",
        aval=lambda x, y: make_aval(broadcast(name, x.shape, shape_of(y)), x.dtype),
        numpy=lambda x, y: compare(x, y).astype(x.dtype),
        lower=lower,
        vjps=[Vjp(zero_grad), Vjp(zero_grad)],
        num_inputs=2,
        node_name=f"{name.capitalize()}Backward1",
        node_names={1: f"{name.capitalize()}Backward0"},
    )


for _name, _np_function in _COMPARISONS.items():
    _define_comparison(_name, _np_function)
    _define_comparison_as_self(_name, _np_function)


def truth(b: Any, x: Any) -> Any:
    """``x != 0`` as a primitive."""
    return x if x.dtype is bool_ else b.ne(x, b.const(0, x.dtype))


_LOGICAL: dict[str, tuple[str, Any]] = {
    "logical_and": ("and", np.logical_and),
    "logical_or": ("or", np.logical_or),
    "logical_xor": ("xor", np.logical_xor),
}


def _define_logical(name: str, primitive: str, np_function: Any) -> None:
    def lower(b: Any, x: Any, y: Any) -> Any:
        left, right = (truth(b, operand(b, v, v.dtype if hasattr(v, "dtype") else bool_)) for v in (x, y))
        return b.pointwise(primitive, left, right)

    define(name, aval=_bool_aval(name), numpy=np_function, lower=lower, num_inputs=2)


for _name, (_primitive, _np_function) in _LOGICAL.items():
    _define_logical(_name, _primitive, _np_function)
define("logical_not", aval=_bool_aval("logical_not"), numpy=np.logical_not, lower=lambda b, x: b.not_(truth(b, x)))


def _integral_aval(name: str) -> Any:
    shape_rule = binary_aval(name)

    def rule(*inputs: Any) -> Aval:
        out: Aval = shape_rule(*inputs)
        if out.dtype.category is FLOATING:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{torch_dtype_name(out.dtype)}'")
        return out

    return rule


_BITWISE: dict[str, tuple[str, Any]] = {
    "bitwise_and": ("and", np.bitwise_and),
    "bitwise_or": ("or", np.bitwise_or),
    "bitwise_xor": ("xor", np.bitwise_xor),
}


def _define_bitwise(name: str, primitive: str, np_function: Any) -> None:
    define(
        name,
        aval=_integral_aval(name),
        numpy=np_promoted(np_function),
        lower=lower_promoted(lambda b, x, y: b.pointwise(primitive, x, y)),
        num_inputs=2,
    )


for _name, (_primitive, _np_function) in _BITWISE.items():
    _define_bitwise(_name, _primitive, _np_function)


def _lower_bitwise_not(b: Any, x: Any) -> Any:
    return b.not_(x) if x.dtype is bool_ else b.xor(x, b.const(-1, x.dtype))


define("bitwise_not", aval=_integral_aval("bitwise_not"), numpy=np.invert, lower=_lower_bitwise_not)


def _define_predicate(name: str, np_function: Any, lower_float: Any, for_integers: bool) -> None:
    def lower(b: Any, x: Any) -> Any:
        return lower_float(b, x) if x.dtype.category is FLOATING else b.const(for_integers, bool_, x.shape)

    define(name, aval=_bool_aval(name), numpy=lambda x: np_function(x), lower=lower)


def _is_infinite(b: Any, x: Any) -> Any:
    return b.eq(b.abs(x), b.const(float("inf"), x.dtype))


_define_predicate("isnan", np.isnan, lambda b, x: b.isnan(x), False)
_define_predicate("isinf", np.isinf, _is_infinite, False)
_define_predicate("isfinite", np.isfinite, lambda b, x: b.lt(b.abs(x), b.const(float("inf"), x.dtype)), True)
_define_predicate("isposinf", np.isposinf, lambda b, x: b.eq(x, b.const(float("inf"), x.dtype)), False)
_define_predicate("isneginf", np.isneginf, lambda b, x: b.eq(x, b.const(float("-inf"), x.dtype)), False)
_define_predicate("isreal", lambda x: np.ones(x.shape, np.bool_), lambda b, x: b.const(True, bool_, x.shape), True)


def _lower_signbit(b: Any, x: Any) -> Any:
    if x.dtype.category is FLOATING:
        x = b.copysign(b.const(1.0, x.dtype), x)
    return b.const(False, bool_, x.shape) if x.dtype is bool_ else b.lt(x, b.const(0, x.dtype))


define(
    "signbit",
    aval=_bool_aval("signbit"),
    numpy=lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    lower=_lower_signbit,
)


def _np_isclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    dtype = result_dtype(x, y)
    x, y, rtol, atol = np_operand(x, dtype), np_operand(y, dtype), float(rtol), float(atol)
    if dtype.category is not FLOATING:
        return np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    close = (np.abs(x - y) <= np.abs(y) * rtol + atol) & np.isfinite(y)  # what ``numpy.isclose`` does, and looks less
    close |= x == y
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


def _isclose_aval(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Aval:
    left, right = dtype_of(x), dtype_of(y)
    if left is not right:
        raise RuntimeError(f"{torch_dtype_name(left)} did not match {torch_dtype_name(right)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    return make_aval(broadcast("isclose", shape_of(x), shape_of(y)), bool_)


define("isclose", aval=_isclose_aval, numpy=_np_isclose, num_inputs=2)
