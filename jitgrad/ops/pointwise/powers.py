"""Powers: ``tensor ** number`` with its cheap special cases, and the general form.

Owns: ``pow_scalar`` and ``pow``.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import broadcast, check_fits, is_number, np_operand, operand, result_dtype, shape_of
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _reject(x: Any, exponent: Any) -> None:
    """Powers that PyTorch does not define."""
    if not is_number(exponent) and result_dtype(x, exponent).category is BOOLEAN:
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    if isinstance(exponent, int) and exponent < 0 and result_dtype(x, exponent).category < FLOATING:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def _pow_scalar_aval(x: Aval, exponent: Any) -> Aval:
    _reject(x, exponent)
    dtype = result_dtype(x, exponent)
    check_fits(exponent, dtype)
    return make_aval(x.shape, dtype)


# the exponents that PyTorch's CPU kernel also special-cases: exact or cheaper, and the same eagerly and compiled
_NP_POWERS: dict[float, Any] = {
    0.5: np.sqrt,
    1: lambda x: x.copy(),
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    -0.5: lambda x: 1 / np.sqrt(x),
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
}
_LOWER_POWERS: dict[float, Any] = {
    0.5: lambda b, x: b.sqrt(x),
    1: lambda b, x: x,
    2: lambda b, x: b.mul(x, x),
    3: lambda b, x: b.mul(b.mul(x, x), x),
    -0.5: lambda b, x: b.div(b.const(1.0, x.dtype), b.sqrt(x)),
    -1: lambda b, x: b.div(b.const(1.0, x.dtype), x),
    -2: lambda b, x: b.div(b.const(1.0, x.dtype), b.mul(x, x)),
}


def _np_pow_scalar(x: Any, exponent: Any) -> Any:
    dtype = result_dtype(x, exponent)
    base, special = np_operand(x, dtype), _NP_POWERS.get(exponent)
    return special(base) if special and dtype.category is not BOOLEAN else np.power(base, np_operand(exponent, dtype))


def _float_pow_scalar(x: Any, exponent: Any) -> Any:
    """The same where nothing has to be cast."""
    special = _NP_POWERS.get(exponent)
    return special(x) if special else np.power(x, x.dtype.type(exponent))


_np_pow_scalar.direct = _float_pow_scalar  # type: ignore[attr-defined]
_np_pow_scalar.takes_halves = True  # type: ignore[attr-defined]


def _lower_pow_scalar(b: Any, x: Any, exponent: Any) -> Any:
    dtype = result_dtype(x, exponent)
    base, special = operand(b, x, dtype), _LOWER_POWERS.get(exponent)
    return special(b, base) if special and dtype.category is not BOOLEAN else b.pow(base, operand(b, exponent, dtype))


_lower_pow_scalar.takes_short = True  # type: ignore[attr-defined]


def _pow_base_rule(g: Any, x: Any, exponent: float) -> Any:
    if exponent == 0:
        return call("zeros_like", g)
    if exponent == 2:
        return g * (2 * x)
    return g * (exponent * call("pow_scalar", x, exponent - 1))


_pow_scalar_aval.checks_numbers = ("half", "integer")  # type: ignore[attr-defined]

define(
    "pow_scalar",
    aval=_pow_scalar_aval,
    numpy=_np_pow_scalar,
    lower=_lower_pow_scalar,
    vjps=[Vjp(lambda c, g, x: _pow_base_rule(g, x, c.params[0]), (0,))],
    node_name="PowBackward0",
)


def _pow_aval(x: Any, y: Any) -> Aval:
    _reject(x, y)
    check_fits(y, result_dtype(x, y))
    return make_aval(broadcast("pow", shape_of(x), shape_of(y)), result_dtype(x, y))


def _np_pow(x: Any, y: Any) -> Any:
    if is_number(y):
        return _np_pow_scalar(x, y)
    dtype = result_dtype(x, y)
    base, exponent = np_operand(x, dtype), np_operand(y, dtype)
    if dtype.is_inexact:
        return np.power(base, exponent)
    # PyTorch: 1 ** -n = 1, (-1) ** -n = +-1, anything else 0; NumPy refuses negative exponents
    positive = np.power(base, np.maximum(exponent, 0))
    odd = np.where(exponent % 2 != 0, base, 1)
    return np.where(exponent >= 0, positive, np.where(np.abs(base) == 1, odd, 0))


def _float_pow(x: Any, y: Any) -> Any:
    """The same where nothing has to be cast."""
    return np.power(x, y) if isinstance(y, np.ndarray) else _float_pow_scalar(x, y)


_np_pow.direct = _float_pow  # type: ignore[attr-defined]
_np_pow.takes_halves = True  # type: ignore[attr-defined]


def _pow_x_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    if is_number(y):
        return _pow_base_rule(g, x, y)
    return call("where", call("eq", y, 0.0), 0.0, g * (y * call("pow", x, y - 1)))


def _pow_y_rule(c: RuleContext, g: Any, x: Any, y: Any, out: Any) -> Any:
    if is_number(x):
        if x == 0:
            return call("where", call("ge", y, 0.0), 0.0, g * (out * -math.inf))
        return g * (out * (math.log(x) if x > 0 else math.nan))
    at_zero = call("logical_and", call("eq", x, 0.0), call("ge", y, 0.0))
    return call("where", at_zero, 0.0, g * (out * x.log()))


def _lower_pow(b: Any, x: Any, y: Any) -> Any:
    if not hasattr(y, "shape"):
        return _lower_pow_scalar(b, x, y)
    dtype = result_dtype(x, y)
    return b.pow(operand(b, x, dtype), operand(b, y, dtype))


_lower_pow.takes_short = True  # type: ignore[attr-defined]


_pow_aval.checks_numbers = ("half", "integer")  # type: ignore[attr-defined]

define(
    "pow",
    aval=_pow_aval,
    numpy=_np_pow,
    lower=_lower_pow,
    vjps=[Vjp(_pow_x_rule, (0, 1)), Vjp(_pow_y_rule, (0, 1, "out"))],
    num_inputs=2,
    node_name="PowBackward1",
    node_names={1: "PowBackward0", 0: "PowBackward2"},
)
