"""Special functions of one or two arguments under ``torch.special``'s names, and those of the gamma distribution.

Owns: entr, erfcx, i0e, i1e, log_ndtr, ndtri, xlog1py, zeta, igamma, igammac, angle, frexp. frexp has no lowering: in a
compiled step NumPy runs between two native pieces. Kernels and NumPy rules of most are formulas of ``normal_formulas``,
``zeta_formulas`` and ``incomplete_gamma_formulas``, which are imported when one is used.
Must not know: Tensor, kernels.

Derivatives follow PyTorch's ``derivatives.yaml``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, int32
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.pointwise.arithmetic import binary_aval, lower_promoted, np_promoted
from jitgrad.ops.pointwise.gamma_functions import late_rules
from jitgrad.ops.pointwise.pointwise import float_aval, zero_grad
from jitgrad.ops.shapes import float_dtype, is_number, np_operand, number_like, operand, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

_SQRT_2PI = math.sqrt(2 * math.pi)
_NORMAL = LazyModule("jitgrad.ops.formulas.normal_formulas")
_ZETA = LazyModule("jitgrad.ops.formulas.zeta_formulas")
_INCOMPLETE = LazyModule("jitgrad.ops.formulas.incomplete_gamma_formulas")

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


def _define_unary(name: str, vjp: Vjp, node_name: str | None = None) -> None:
    numpy, lower = late_rules(_NORMAL, name)
    define(name, aval=float_aval, numpy=numpy, lower=lower, vjps=[vjp], node_name=node_name)


def _log_ndtr_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    return g / _SQRT_2PI * (-(out + x * x / 2)).exp()


_define_unary(
    "special_erfcx", Vjp(lambda c, g, x, out: (2.0 * x * out - 2.0 / math.sqrt(math.pi)) * g, (0, "out"))
)
_define_unary("special_log_ndtr", Vjp(_log_ndtr_rule, (0, "out")))
_define_unary("special_ndtri", Vjp(lambda c, g, out: g * _SQRT_2PI * (out * out / 2).exp(), ("out",)))

# --- Bessel functions times exp(-|x|) ---


def _i1e_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """Near 0 the derivative is that of x / 2."""
    is_tiny = call("le", call("abs", x), float(np.finfo(x.dtype.np).eps))
    safe = call("where", is_tiny, float(np.finfo(x.dtype.np).eps), x)
    slope = call("special_i0e", safe) - out * (call("sgn", safe) + call("reciprocal", safe))
    return g * call("where", is_tiny, 0.5, slope)


_define_unary(
    "special_i0e",
    Vjp(lambda c, g, x, out: g * (call("special_i1e", x) - call("sgn", x) * out), (0, "out")),
    "SpecialI0EBackward0",
)
_define_unary("special_i1e", Vjp(_i1e_rule, (0, "out")), "SpecialI1EBackward0")

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


def _unknown(name: str) -> Any:
    def rule(c: RuleContext, g: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return rule


def _define_pair(name: str, module: LazyModule, aval: Any, vjps: list[Vjp]) -> None:
    numpy, lower = late_rules(module, name)
    define(name, aval=aval, numpy=numpy, lower=lower, vjps=vjps, num_inputs=2)


_define_pair(
    "special_zeta",
    _ZETA,
    binary_aval("zeta", float_dtype),
    [Vjp(_unknown("zeta")), Vjp(lambda c, g, s, q: g * -s * call("special_zeta", s + 1.0, q), (0, 1))],
)


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


for _name, _sign in (("igamma", 1), ("igammac", -1)):
    _define_pair(
        _name,
        _INCOMPLETE,
        _igamma_aval(_name),
        [
            Vjp(_unknown(f"{_name}: input")),
            Vjp(lambda c, g, a, x, sign=_sign: g * _density(a, x) * sign, (0, 1)),
        ],
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
