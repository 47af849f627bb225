"""Activation functions.

Owns: their table entries.
Must not know: Tensor, kernels.

Sources: GELU (Hendrycks and Gimpel 2016), SiLU (Elfwing et al. 2017), ELU (Clevert et al. 2015); thresholds and
subgradients are PyTorch's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING, finfo, uint8
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.special import np_erf, np_sigmoid
from jitgrad.ops.pointwise.pointwise import same_aval
from jitgrad.ops.shapes import broadcast, check_fits, operand, torch_dtype_name, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.views.views import lower_slice

__all__: list[str] = []

SQRT_HALF = math.sqrt(0.5)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
SIXTH = float(np.float32(1 / 6))  # PyTorch has this constant in float32, whatever the dtype
GELU_SCALE, GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def _float_only(name: str) -> Any:
    def rule(x: Aval, *params: Any) -> Aval:
        if x.dtype.category < FLOATING:
            raise NotImplementedError(f"\"{name}\" not implemented for '{torch_dtype_name(x.dtype)}'")
        return make_aval(x.shape, x.dtype)

    return rule


def _zero(b: Any, x: Any) -> Any:
    return b.const(0.0 if x.dtype.category is FLOATING else 0, x.dtype)


def _relu_aval(x: Aval) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise RuntimeError("Boolean inputs not supported for relu")
    return same_aval(x)


define(
    "relu",
    aval=_relu_aval,
    numpy=lambda x: np.maximum(x, x.dtype.type(0)),
    lower=lambda b, x: b.max(x, _zero(b, x)),
    vjps=[Vjp(lambda c, g, out: call("threshold_backward", g, out), ("out",))],
)


def _define_slope(name: str, np_rule: Any, lower: Any) -> None:
    """``name(g, x | *params)``: g times a piecewise constant of x. Its derivative in x is zero.

    PyTorch has zeros for the second derivative of relu and its like, not an error, so the graph must have an edge.
    """
    define(
        name,
        aval=lambda g, x, *params: make_aval(broadcast(name, g.shape, x.shape), g.dtype),
        numpy=np_rule,
        lower=lower,
        vjps=[
            Vjp(lambda c, g, x: call(name, g, x, *c.params), (1,)),
            Vjp(lambda c, g: call("zeros_like", g)),
        ],
        num_inputs=2,
    )


_define_slope(
    "threshold_backward",
    lambda g, out: np.where(out <= 0, g.dtype.type(0), g),
    lambda b, g, out: b.where(b.le(out, _zero(b, out)), _zero(b, g), g),
)
_define_slope(
    "leaky_relu_backward",
    lambda g, x, slope: np.where(x > 0, g, g * g.dtype.type(slope)),
    lambda b, g, x, slope: b.where(b.gt(x, _zero(b, x)), g, b.mul(g, b.const(float(slope), g.dtype))),
)
_define_slope(
    "hardtanh_backward",
    lambda g, x, lo, hi: np.where((x <= lo) | (x >= hi), g.dtype.type(0), g),
    lambda b, g, x, lo, hi: b.where(b.or_(b.le(x, lo), b.ge(x, hi)), _zero(b, g), g),
)


def _hardtanh_aval(x: Aval, lo: float, hi: float) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if x.dtype is uint8 and (lo < 0 or hi < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    check_fits(lo, x.dtype)
    check_fits(hi, x.dtype)
    return same_aval(x)


define(
    "hardtanh",
    aval=_hardtanh_aval,
    numpy=lambda x, lo, hi: np.minimum(np.maximum(x, x.dtype.type(lo)), x.dtype.type(hi)),
    lower=lambda b, x, lo, hi: b.min(b.max(x, operand(b, lo, x.dtype)), operand(b, hi, x.dtype)),
    vjps=[Vjp(lambda c, g, x: call("hardtanh_backward", g, x, *c.params), (0,))],
)


# --- gelu(x, approximate) ---


def _np_gelu(x: Any, approximate: str) -> Any:
    number = x.dtype.type
    if approximate == "tanh":
        inner = number(GELU_SCALE) * (x + number(GELU_CUBIC) * (x * x * x))
        return number(0.5) * x * (1 + np.tanh(inner))
    return x * number(0.5) * (1 + np_erf(x * number(SQRT_HALF)))


def _lower_gelu(b: Any, x: Any, approximate: str) -> Any:
    def number(value: float) -> Any:
        return b.const(value, x.dtype)

    if approximate == "tanh":
        cubic = b.mul(number(GELU_CUBIC), b.mul(b.mul(x, x), x))
        squashed = b.tanh(b.mul(number(GELU_SCALE), b.add(x, cubic)))
    else:
        squashed = b.erf(b.mul(x, number(SQRT_HALF)))
    return b.mul(b.mul(x, number(0.5)), b.add(number(1.0), squashed))


def _gelu_rule(c: RuleContext, g: Any, x: Any) -> Any:
    if c.params[0] == "tanh":
        inner = GELU_SCALE * (x + GELU_CUBIC * (x * x * x))
        squashed = inner.tanh()
        slope = (1 - squashed * squashed) * (GELU_SCALE * (1 + 3 * GELU_CUBIC * (x * x)))
        return g * (0.5 * (1 + squashed) + 0.5 * x * slope)
    cdf = 0.5 * (1 + call("erf", x * SQRT_HALF))
    pdf = (x * x * -0.5).exp() * INV_SQRT_2PI
    return g * (cdf + x * pdf)


def _gelu_aval(x: Aval, approximate: str) -> Aval:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _float_only("GeluKernelImpl")(x)


define("gelu", aval=_gelu_aval, numpy=_np_gelu, lower=_lower_gelu, vjps=[Vjp(_gelu_rule, (0,))])


# --- silu, softplus, elu, leaky_relu ---


def _silu_rule(c: RuleContext, g: Any, x: Any) -> Any:
    s = x.sigmoid()
    return g * (s * (1 + x * (1 - s)))


define(
    "silu",
    aval=_float_only("silu_cpu"),
    numpy=lambda x: x * np_sigmoid(x),
    lower=lambda b, x: b.mul(x, b.sigmoid(x)),
    vjps=[Vjp(_silu_rule, (0,))],
)


def _np_softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * x.dtype.type(beta)
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / x.dtype.type(beta))


def _lower_softplus(b: Any, x: Any, beta: float, threshold: float) -> Any:
    factor = b.const(float(beta), x.dtype)
    scaled = b.mul(x, factor)
    soft = b.div(b.log1p(b.exp(scaled)), factor)
    return b.where(b.gt(scaled, b.const(float(threshold), x.dtype)), x, soft)


def _softplus_rule(c: RuleContext, g: Any, x: Any) -> Any:
    beta, threshold = c.params
    scaled = x * beta
    return call("where", call("gt", scaled, threshold), g, g * scaled.sigmoid())


define(
    "softplus",
    aval=_float_only("softplus_cpu"),
    numpy=_np_softplus,
    lower=_lower_softplus,
    vjps=[Vjp(_softplus_rule, (0,))],
)


def _np_log_sigmoid(x: Any) -> Any:
    return np.minimum(x, x.dtype.type(0)) - np.log1p(np.exp(-np.abs(x)))


define(
    "log_sigmoid",
    aval=_float_only("log_sigmoid_cpu"),
    numpy=_np_log_sigmoid,
    lower=lambda b, x: b.sub(b.min(x, _zero(b, x)), b.log1p(b.exp(b.neg(b.abs(x))))),
    vjps=[Vjp(lambda c, g, x: g * (-x).sigmoid(), (0,))],
)


# elu(x | alpha, scale, input_scale): scale * x above 0, scale * alpha * expm1(input_scale * x) below


def _np_elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    number = x.dtype.type
    above = x if scale == 1 else x * number(scale)
    return np.where(x > 0, above, np.expm1(x * number(input_scale)) * number(alpha * scale))


def _lower_elu(b: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    def times(value: Any, factor: float) -> Any:
        return value if factor == 1 else b.mul(value, b.const(float(factor), x.dtype))

    below = times(b.expm1(times(x, input_scale)), alpha * scale)
    return b.where(b.gt(x, _zero(b, x)), times(x, scale), below)


def _elu_rule(c: RuleContext, g: Any, x: Any) -> Any:
    alpha, scale, input_scale = c.params
    below = call("where", call("lt", x, 0.0), x, 0.0)  # the exponential of a large x would make 0 * inf
    slope = (below if input_scale == 1 else below * input_scale).exp() * (alpha * scale * input_scale)
    return call("where", call("le", x, 0.0), g * slope, g if scale == 1 else g * scale)


def _celu_aval(x: Aval, alpha: float, scale: float, input_scale: float) -> Aval:
    return _float_only("elu_cpu")(x)


for _name in ("elu", "celu"):
    define(_name, aval=_celu_aval, numpy=_np_elu, lower=_lower_elu, vjps=[Vjp(_elu_rule, (0,))])


# --- mish, hardsigmoid, hardswish, glu ---


def _np_mish(x: Any) -> Any:
    return x * np.tanh(_np_softplus(x, 1.0, 20.0))


def _mish_rule(c: RuleContext, g: Any, x: Any) -> Any:
    squashed = call("softplus", x, 1.0, 20.0).tanh()
    return g * (squashed + x * x.sigmoid() * (1 - squashed * squashed))


define(
    "mish",
    aval=_float_only("mish_cpu"),
    numpy=_np_mish,
    lower=lambda b, x: b.mul(x, b.tanh(_lower_softplus(b, x, 1.0, 20.0))),
    vjps=[Vjp(_mish_rule, (0,))],
)


def _np_hardsigmoid(x: Any) -> Any:
    number = x.dtype.type
    return np.minimum(np.maximum(x + number(3), number(0)), number(6)) / number(6)


def _lower_hardsigmoid(b: Any, x: Any) -> Any:
    three, six = b.const(3.0, x.dtype), b.const(6.0, x.dtype)
    return b.div(b.min(b.max(b.add(x, three), _zero(b, x)), six), six)


# PyTorch has no derivative of this operation; here it is the same as for every slope
_define_slope(
    "hardsigmoid_backward",
    lambda g, x: np.where((x > -3) & (x < 3), g * g.dtype.type(SIXTH), g.dtype.type(0)),
    lambda b, g, x: b.where(
        b.and_(b.gt(x, b.const(-3.0, x.dtype)), b.lt(x, b.const(3.0, x.dtype))),
        b.mul(g, b.const(SIXTH, g.dtype)),
        _zero(b, g),
    ),
)
define(
    "hardsigmoid",
    aval=_float_only("hardsigmoid_cpu"),
    numpy=_np_hardsigmoid,
    lower=_lower_hardsigmoid,
    vjps=[Vjp(lambda c, g, x: call("hardsigmoid_backward", g, x), (0,))],
)


def _hardswish_rule(c: RuleContext, g: Any, x: Any) -> Any:
    inside = call("where", call("lt", x, 3.0), g * (x / 3 + 0.5), g)
    return call("where", call("le", x, -3.0), 0.0, inside)


define(
    "hardswish",
    aval=_float_only("hardswish_cpu"),
    numpy=lambda x: x * _np_hardsigmoid(x),
    lower=lambda b, x: b.mul(x, _lower_hardsigmoid(b, x)),
    vjps=[Vjp(_hardswish_rule, (0,))],
)


def _glu_aval(x: Aval, dim: int) -> Aval:
    if not x.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    d = wrap_dim(dim, x.ndim)
    if x.shape[d] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {x.shape[d]}")
    _float_only("glu_cpu")(x)
    return make_aval((*x.shape[:d], x.shape[d] // 2, *x.shape[d + 1 :]), x.dtype)


def _np_glu(x: Any, dim: int) -> Any:
    value, gate = np.split(x, 2, dim)
    return value * np_sigmoid(gate)


def _lower_glu(b: Any, x: Any, dim: int) -> Any:
    d = wrap_dim(dim, len(x.shape))
    half = x.shape[d] // 2
    return b.mul(lower_slice(b, x, d, 0, half, 1), b.sigmoid(lower_slice(b, x, d, half, 2 * half, 1)))


def _glu_rule(c: RuleContext, g: Any, x: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    d = wrap_dim(c.params[0], aval.ndim)
    half = aval.shape[d] // 2
    value, gate = x.narrow(d, 0, half), x.narrow(d, half, half).sigmoid()
    return call("cat", [g * gate, g * value * gate * (1 - gate)], d)


define("glu", aval=_glu_aval, numpy=_np_glu, lower=_lower_glu, vjps=[Vjp(_glu_rule, (0,))])


define(
    "leaky_relu",
    aval=_float_only("leaky_relu_cpu"),
    numpy=lambda x, slope: np.where(x > 0, x, x * x.dtype.type(slope)),
    lower=lambda b, x, slope: b.where(b.gt(x, _zero(b, x)), x, b.mul(x, b.const(float(slope), x.dtype))),
    vjps=[Vjp(lambda c, g, x: call("leaky_relu_backward", g, x, c.params[0]), (0,))],
)


# --- thresholds: hardshrink, softshrink, threshold, prelu ---


def _is_between(b: Any, x: Any, lambd: float) -> Any:
    low, high = (b.const(float(limit), x.dtype) for limit in (-lambd, lambd))
    return b.and_(b.ge(x, low), b.le(x, high))


_define_slope(
    "hardshrink_backward",
    lambda g, x, lambd: np.where((x >= x.dtype.type(-lambd)) & (x <= x.dtype.type(lambd)), g.dtype.type(0), g),
    lambda b, g, x, lambd: b.where(_is_between(b, x, lambd), _zero(b, g), g),
)
define(
    "hardshrink",
    aval=_float_only("hardshrink_cpu"),
    numpy=lambda x, lambd: np.where((x >= x.dtype.type(-lambd)) & (x <= x.dtype.type(lambd)), x.dtype.type(0), x),
    lower=lambda b, x, lambd: b.where(_is_between(b, x, lambd), _zero(b, x), x),
    vjps=[Vjp(lambda c, g, x: call("hardshrink_backward", g, x, *c.params), (0,))],
)


def _softshrink_aval(x: Aval, lambd: float) -> Aval:
    out: Aval = _float_only("softshrink_check")(x)
    limit = finfo(x.dtype).max
    if not 0 <= lambd <= limit:
        name = torch_dtype_name(x.dtype)
        raise RuntimeError(f"lambda must be in range [0, {limit:g}] for input dtype {name}, but found {lambd:g}")
    return out


def _np_softshrink(x: Any, lambd: float) -> Any:
    limit = x.dtype.type(lambd)
    return np.where(x > limit, x - limit, np.where(x < -limit, x + limit, x * x.dtype.type(0)))


def _lower_softshrink(b: Any, x: Any, lambd: float) -> Any:
    limit, below = b.const(float(lambd), x.dtype), b.const(-float(lambd), x.dtype)
    return b.where(
        b.gt(x, limit), b.sub(x, limit), b.where(b.lt(x, below), b.add(x, limit), b.mul(x, _zero(b, x)))
    )


define(
    "softshrink",
    aval=_softshrink_aval,
    numpy=_np_softshrink,
    lower=_lower_softshrink,
    vjps=[Vjp(lambda c, g, x: call("hardshrink_backward", g, x, *c.params), (0,))],
)


def _threshold_aval(x: Aval, threshold: float, value: float) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")
    check_fits(threshold, x.dtype)
    check_fits(value, x.dtype)
    return same_aval(x)


_define_slope(
    "threshold_at_backward",
    lambda g, x, threshold: np.where(x <= x.dtype.type(threshold), g.dtype.type(0), g),
    lambda b, g, x, threshold: b.where(b.le(x, operand(b, threshold, x.dtype)), _zero(b, g), g),
)
define(
    "threshold",
    aval=_threshold_aval,
    numpy=lambda x, threshold, value: np.where(x <= x.dtype.type(threshold), x.dtype.type(value), x),
    lower=lambda b, x, threshold, value: b.where(
        b.le(x, operand(b, threshold, x.dtype)), operand(b, value, x.dtype), x
    ),
    vjps=[Vjp(lambda c, g, x: call("threshold_at_backward", g, x, c.params[0]), (0,))],
)


def _prelu_aval(x: Aval, weight: Aval) -> Aval:
    _float_only("prelu_cpu")(x)
    return make_aval(broadcast("prelu", x.shape, weight.shape), x.dtype)


define(
    "_prelu_kernel",
    aval=_prelu_aval,
    numpy=lambda x, weight: np.where(x > 0, x, x * weight),
    lower=lambda b, x, weight: b.where(b.gt(x, _zero(b, x)), x, b.mul(x, weight)),
    vjps=[
        Vjp(lambda c, g, x, weight: call("where", call("gt", x, 0.0), g, g * weight), (0, 1)),
        Vjp(lambda c, g, x: call("where", call("gt", x, 0.0), 0.0, g * x), (0,)),
    ],
    num_inputs=2,
)
