"""Binary pointwise operations beyond arithmetic: signs and magnitudes, scaled logarithms, divisors, shifts.

Owns: their table entries.
Must not know: Tensor, kernels.

Derivatives follow PyTorch's ``derivatives.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING
from jitgrad.ops.aval import Aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.pointwise.arithmetic import binary_aval, lower_promoted, np_promoted
from jitgrad.ops.pointwise.pointwise import LN2, zero_grad
from jitgrad.ops.shapes import dtype_of, float_dtype, is_number, number_like, result_dtype, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _only(name: str, kernel: str, allows: Callable[[Any], bool]) -> Any:
    """A shape rule that refuses other categories of dtypes, naming PyTorch's kernel."""
    rule = binary_aval(name)

    def checked(x: Any, y: Any) -> Aval:
        out: Aval = rule(x, y)
        if not allows(out.dtype.category):
            raise NotImplementedError(f"\"{kernel}_cpu\" not implemented for '{torch_dtype_name(out.dtype)}'")
        return out

    return checked


def _is_floating(category: Any) -> bool:
    return bool(category is FLOATING)


def _is_integer(category: Any) -> bool:
    return category < FLOATING and category is not BOOLEAN


# --- signs and magnitudes ---


def _copysign_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    return g * call("where", call("eq", x, 0.0), 0.0, out / x)


define(
    "copysign",
    aval=binary_aval("copysign", float_dtype),
    numpy=np_promoted(np.copysign, float_dtype),
    lower=lower_promoted(lambda b, x, y: b.copysign(x, y), float_dtype),
    vjps=[Vjp(_copysign_rule, (0, "out")), Vjp(zero_grad)],
    num_inputs=2,
    node_names={1: "CopysignBackward1"},
    runs_once=True,
)


def _lower_hypot(b: Any, x: Any, y: Any) -> Any:
    """a sqrt(1 + (c / a)^2), with a and c the larger and the smaller magnitude: nothing overflows early."""
    infinity, zero, one = (b.const(value, x.dtype) for value in (math.inf, 0.0, 1.0))
    x, y = b.abs(x), b.abs(y)
    larger, smaller = b.max(x, y), b.min(x, y)
    ratio = b.div(smaller, larger)
    length = b.mul(larger, b.sqrt(b.add(one, b.mul(ratio, ratio))))
    finite = b.where(b.eq(larger, zero), zero, length)
    return b.where(b.or_(b.eq(x, infinity), b.eq(y, infinity)), infinity, finite)


define(
    "hypot",
    aval=_only("hypot", "hypot", _is_floating),
    numpy=np_promoted(np.hypot),
    lower=lower_promoted(_lower_hypot),
    vjps=[
        Vjp(lambda c, g, x, out: g * (x / out), (0, "out")),
        Vjp(lambda c, g, y, out: g * (y / out), (1, "out")),
    ],
    num_inputs=2,
)


def _define_extreme(name: str, np_function: Any, primitive: str, wins: str) -> None:
    """``fmax`` and ``fmin``: a NaN loses against a number. Of equal elements the first gets the gradient."""

    def lower(b: Any, x: Any, y: Any) -> Any:
        out = b.pointwise(primitive, x, y)
        if x.dtype.category < FLOATING:
            return out
        return b.where(b.isnan(x), y, b.where(b.isnan(y), x, out))

    def is_first(x: Any, y: Any) -> Any:
        return call("logical_or", call(wins, x, y), call("isnan", y))

    define(
        name,
        aval=binary_aval(name),
        numpy=np_promoted(np_function),
        lower=lower_promoted(lower),
        vjps=[
            Vjp(lambda c, g, x, y: call("where", is_first(x, y), g, 0.0), (0, 1)),
            Vjp(lambda c, g, x, y: call("where", is_first(x, y), 0.0, g), (0, 1)),
        ],
        num_inputs=2,
    )


_define_extreme("fmax", np.fmax, "max", "ge")
_define_extreme("fmin", np.fmin, "min", "le")


def _heaviside_aval(x: Any, values: Any) -> Aval:
    if dtype_of(x) is not dtype_of(values):
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    out: Aval = binary_aval("heaviside")(x, values)
    return out


def _no_heaviside_rule(c: RuleContext, g: Any) -> Any:
    raise RuntimeError("derivative for aten::heaviside is not implemented")


define(
    "heaviside",
    aval=_heaviside_aval,
    numpy=lambda x, values: np.where(x == 0, values, (x > 0).astype(x.dtype)),
    lower=lambda b, x, values: b.where(
        b.eq(x, b.const(0, x.dtype)), values, b.cast(b.gt(x, b.const(0, x.dtype)), x.dtype)
    ),
    vjps=[Vjp(_no_heaviside_rule)] * 2,
    num_inputs=2,
    node_name="torch::autograd::NotImplemented",
)


def _nextafter_x_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    return call("where", call("ne", x, y), g, 0.0)


define(
    "nextafter",
    aval=_only("nextafter", "nextafter", _is_floating),
    numpy=np_promoted(np.nextafter),
    vjps=[Vjp(_nextafter_x_rule, (0, 1)), Vjp(zero_grad)],
    num_inputs=2,
)

# --- exponents and logarithms ---


def _ldexp_aval(x: Any, y: Any) -> Aval:
    if dtype_of(x).category is FLOATING and dtype_of(y).category is BOOLEAN:
        raise NotImplementedError("\"ldexp_cpu\" not implemented for 'Bool'")
    out: Aval = binary_aval("ldexp", float_dtype)(x, y)
    return out


def _np_ldexp(x: Any, y: Any) -> Any:
    half = np.where(np.isinf(y), y.dtype.type(0), np.floor(y * y.dtype.type(0.5)))
    return x * np.exp2(half) * np.exp2(y - half)


def _lower_ldexp(b: Any, x: Any, y: Any) -> Any:
    """In two steps: 2^y alone may overflow where the product does not."""
    is_infinite = b.eq(b.abs(y), b.const(math.inf, y.dtype))
    half = b.where(is_infinite, b.const(0.0, y.dtype), b.floor(b.mul(y, b.const(0.5, y.dtype))))
    return b.mul(b.mul(x, b.exp2(half)), b.exp2(b.sub(y, half)))


define(
    "ldexp",
    aval=_ldexp_aval,
    numpy=np_promoted(_np_ldexp, float_dtype),
    lower=lower_promoted(_lower_ldexp, float_dtype),
    vjps=[
        Vjp(lambda c, g, y: call("ldexp", g, y), (1,)),
        Vjp(lambda c, g, out: g * out * LN2, ("out",)),
    ],
    num_inputs=2,
)
define(
    "logaddexp2",
    aval=_only("logaddexp2", "logaddexp2", _is_floating),
    numpy=np_promoted(np.logaddexp2),
    lower=lower_promoted(
        lambda b, x, y: b.where(
            b.eq(x, y),  # equal infinities would give inf - inf below
            b.add(x, b.const(1.0, x.dtype)),
            b.add(
                b.max(x, y),
                b.mul(b.log1p(b.exp2(b.neg(b.abs(b.sub(x, y))))), b.const(1 / LN2, x.dtype)),
            ),
        )
    ),
    vjps=[
        Vjp(lambda c, g, x, y: g / (1 + call("exp2", y - x)), (0, 1)),
        Vjp(lambda c, g, x, y: g / (1 + call("exp2", x - y)), (0, 1)),
    ],
    num_inputs=2,
)


def _np_xlogy(x: Any, y: Any) -> Any:
    y = number_like(y, x)
    return np.where(np.isnan(y), y, np.where(x == 0, np.zeros_like(x), x * np.log(y)))


def _lower_xlogy(b: Any, x: Any, y: Any) -> Any:
    zero = b.const(0.0, x.dtype)
    return b.where(b.isnan(y), y, b.where(b.eq(x, zero), zero, b.mul(x, b.log(y))))


def _xlogy_x_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    slope = call("xlogy", g, y)
    if is_number(y):
        return call("where", call("eq", x, 0.0), 0.0, slope) if y <= 0 else slope
    return call("where", call("logical_and", call("eq", x, 0.0), call("le", y, 0.0)), 0.0, slope)


define(
    "xlogy",
    aval=binary_aval("xlogy", float_dtype),
    numpy=np_promoted(_np_xlogy, float_dtype),
    lower=lower_promoted(_lower_xlogy, float_dtype),
    vjps=[Vjp(_xlogy_x_rule, (0, 1)), Vjp(lambda c, g, x, y: g * (x / y), (0, 1))],
    num_inputs=2,
    node_names={0: "XlogyBackward1", 1: "XlogyBackward2"},
)

# --- integers ---

define("gcd", aval=_only("gcd", "gcd", _is_integer), numpy=np_promoted(np.gcd), num_inputs=2)
define("lcm", aval=_only("lcm", "lcm", _is_integer), numpy=np_promoted(np.lcm), num_inputs=2)


def _np_left_shift(x: Any, y: Any) -> Any:
    is_outside = (y < 0) | (y >= 8 * x.dtype.itemsize)
    return np.where(is_outside, x.dtype.type(0), np.left_shift(x, np.where(is_outside, y.dtype.type(0), y)))


def _np_right_shift(x: Any, y: Any) -> Any:
    last = y.dtype.type(8 * x.dtype.itemsize - (x.dtype.kind == "i"))
    return np.right_shift(x, np.where((y < 0) | (y > last), last, y))


def _lower_left_shift(b: Any, x: Any, y: Any) -> Any:
    """x 2^y, which wraps; 0 beyond the last bit."""
    zero = b.const(0, x.dtype)
    is_outside = b.or_(b.lt(y, zero), b.ge(y, b.const(8 * x.dtype.itemsize, x.dtype)))
    return b.where(is_outside, zero, b.mul(x, b.pow(b.const(2, x.dtype), b.where(is_outside, zero, y))))


def _lower_right_shift(b: Any, x: Any, y: Any) -> Any:
    """x // 2^y; beyond the last bit what is left is the sign. Short integers are computed in 32 bits."""
    zero, last = b.const(0, x.dtype), b.const(8 * x.dtype.itemsize - 1, x.dtype)
    is_far = b.or_(b.lt(y, zero), b.ge(y, last))
    near = b.floordiv(x, b.pow(b.const(2, x.dtype), b.where(is_far, zero, y)))
    return b.where(is_far, b.where(b.lt(x, zero), b.const(-1, x.dtype), zero), near)


for _name, _kernel, _np_function, _lower in (
    ("bitwise_left_shift", "lshift", _np_left_shift, _lower_left_shift),
    ("bitwise_right_shift", "rshift", _np_right_shift, _lower_right_shift),
):
    define(
        _name,
        aval=_only(_name, _kernel, _is_integer),
        numpy=np_promoted(_np_function, result_dtype),
        lower=lower_promoted(_lower),
        num_inputs=2,
    )
