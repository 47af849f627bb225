"""Rules of operations on complex numbers that differ from those on real ones.

Owns: ``AVALS``, ``NUMPY``, ``CONJUGATED``, ``VJPS``, ``TANGENTS``, ``REFUSALS``: by the operation's name, what takes
the place of its own rule.
Must not know: which operations have complex forms (``complex_forms``).

Derivatives are those of PyTorch's FunctionsManual.cpp, with its values where they do not exist.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import adjoint
from jitgrad.ops.reductions.reductions import Dim, restore
from jitgrad.ops.shapes import contiguous_dims, is_number, np_operand, reduced_shape, result_dtype, wrap_dims
from jitgrad.ops.table import OPS, RuleContext, Vjp

__all__ = ["AVALS", "CONJUGATED", "NUMPY", "REFUSALS", "TANGENTS", "VJPS"]


def _real(x: Any) -> Any:
    return call("view_as_real", x).select(-1, 0) if x._aval.dtype.is_complex else x


# --- shapes: results that are real ---


def _real_like(x: Aval) -> Aval:
    return make_aval(x.shape, x.dtype.to_real())


def _reduced_real(x: Aval, dim: Dim, keepdim: bool) -> Aval:
    return make_aval(reduced_shape(x.shape, wrap_dims(dim, x.ndim), keepdim), x.dtype.to_real())


AVALS: dict[str, Any] = {
    "abs": _real_like,
    "angle": _real_like,
    "var": lambda x, dim, correction, keepdim: _reduced_real(x, dim, keepdim),
    "std": lambda x, dim, correction, keepdim: _reduced_real(x, dim, keepdim),
    "linalg_vector_norm": lambda x, order, dim, keepdim: _reduced_real(x, dim, keepdim),
}


# --- NumPy rules ---


def _np_sgn(x: Any) -> Any:
    """Part by part: NumPy divides by a real number as by a complex one, which overflows early."""
    size = np.abs(x)
    divisor = np.where(size == 0, size.dtype.type(1), size)
    out = np.empty_like(x)
    out.real, out.imag = (np.where(size == 0, size.dtype.type(0), part / divisor) for part in (x.real, x.imag))
    return out


def _np_var(x: Any, dim: Dim, correction: float, keepdim: bool) -> Any:
    dims = wrap_dims(dim, x.ndim)
    count, real = contiguous_dims(x.shape, dims), x.real.dtype.type
    centred = x - np.sum(x, axis=dims, keepdims=True) / real(count)
    squares = centred.real * centred.real + centred.imag * centred.imag
    return np.sum(squares, axis=dims, keepdims=keepdim) / real(max(0.0, count - correction))


def _np_norm(x: Any, order: float, dim: Dim, keepdim: bool) -> Any:
    dims, size = wrap_dims(dim, x.ndim), np.abs(x)
    if order == 2:
        return np.sqrt(np.sum(size * size, axis=dims, keepdims=keepdim))
    if math.isinf(order):
        return (np.max if order > 0 else np.min)(size, axis=dims, keepdims=keepdim)
    if order == 0:
        return np.sum(x != 0, axis=dims, keepdims=keepdim).astype(size.dtype)
    if order == 1:
        return np.sum(size, axis=dims, keepdims=keepdim)
    number = size.dtype.type
    return np.power(np.sum(np.power(size, number(order)), axis=dims, keepdims=keepdim), number(1 / order))


def _np_logaddexp(x: Any, y: Any) -> Any:
    dtype = result_dtype(x, y)
    x, y = np.broadcast_arrays(np_operand(x, dtype), np_operand(y, dtype))
    is_less = x.real < y.real
    small, large = np.where(is_less, x, y), np.where(is_less, y, x)
    return np.where((x == y) & np.isinf(x.real), x, large + np.log1p(np.exp(small - large)))


def _np_logsumexp(x: Any, dim: Dim, keepdim: bool) -> Any:
    axes = wrap_dims(dim, x.ndim)
    top = np.max(x.real, axis=axes, keepdims=True) if x.size else np.zeros(reduced_shape(x.shape, axes, True))
    top = np.where(np.isinf(top), 0, top).astype(x.real.dtype)
    out = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return out.reshape(reduced_shape(x.shape, axes, keepdim))


def _np_logcumsumexp(x: Any, dim: int) -> Any:
    if not x.ndim or not x.size:
        return x.copy()
    rows = np.moveaxis(x, dim, 0)
    out = np.empty_like(rows)
    out[0] = rows[0]
    for i in range(1, len(rows)):
        out[i] = _np_logaddexp(rows[i], out[i - 1])
    return np.moveaxis(out, 0, dim)


def _np_sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _np_ldexp(x: Any, y: Any) -> Any:
    dtype = result_dtype(x, y)
    return np_operand(x, dtype) * np.power(dtype.np.type(2), np_operand(y, dtype))


def _np_full(value: complex, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.full(shape, value if dtype.is_complex else dtype.number(value.real), dtype.np)


NUMPY: dict[str, Any] = {
    "full": _np_full,
    "sgn": _np_sgn,
    "angle": np.angle,
    "isreal": np.isreal,
    "var": _np_var,
    "std": lambda *args: np.sqrt(_np_var(*args)),
    "linalg_vector_norm": _np_norm,
    "ldexp": _np_ldexp,
    "logaddexp": _np_logaddexp,
    "logsumexp": _np_logsumexp,
    "logcumsumexp": _np_logcumsumexp,
    "sigmoid": _np_sigmoid,
    "silu": lambda x: x * _np_sigmoid(x),
}


def _np_nan_to_num(x: Any, *replacements: float | None) -> Any:
    parts = [OPS["nan_to_num"].numpy(part, *replacements) for part in (x.real, x.imag)]  # type: ignore[misc]
    return (parts[0] + 1j * parts[1]).astype(x.dtype)


NUMPY["nan_to_num"] = _np_nan_to_num


# --- derivatives ---


def _nan_to_num_rule(c: RuleContext, g: Any, x: Any) -> Any:
    """Part by part."""
    finite = call("isfinite", call("view_as_real", x.detach()))
    pairs = call("where", finite, call("view_as_real", g), 0.0)
    return call("complex", pairs.select(-1, 0), pairs.select(-1, 1))


def _abs_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("sgn", x)


def _sgn_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    size = x.abs()
    along = _real(g / out) * out
    return call("where", call("eq", size, 0.0), 0.0, (g / size) - along / size)


def _angle_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return call("where", call("eq", x, 0.0), 0.0, g * x / call("pow_scalar", x.abs(), 2) * 1j)


def _norm_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    aval, order = c.avals[0], c.params[0]
    assert aval is not None
    g, norm = restore(g, aval, c.params[1]), restore(out, aval, c.params[1])
    if order == 0:
        return None
    if order == 1:
        return call("sgn", x) * g
    if order == 2:
        return call("where", call("eq", norm, 0.0), 0.0, g * (x / norm))
    if math.isinf(order):
        ties = call("eq", x.abs(), norm).to(norm.dtype)
        return call("sgn", x) * ((g / ties.sum(wrap_dims(c.params[1], aval.ndim), True)) * ties)
    if order < 1:
        power = call("where", call("eq", x, 0.0), 0.0, call("pow_scalar", x.abs(), order - 1))
        return call("sgn", x) * power * g * call("pow_scalar", norm, 1 - order)
    scale = g / call("pow_scalar", norm, order - 1)
    power = call("sgn", x) * call("pow_scalar", x.abs(), order - 1)
    return power * call("where", call("eq", norm, 0.0), 0.0, scale)


def _is_not_negative(y: Any) -> Any:
    """Whether an exponent is real and at least 0: a power of zero to it does not move with it."""
    if not y._aval.dtype.is_complex:
        return call("ge", y, 0.0)
    parts = call("view_as_real", y.detach())
    return call("logical_and", call("ge", parts.select(-1, 0), 0.0), call("eq", parts.select(-1, 1), 0.0))


def _pow_exponent_rule(c: RuleContext, g: Any, x: Any, y: Any, out: Any) -> Any:
    if is_number(x):
        if x == 0:
            return call("where", _is_not_negative(y), 0.0, g * (out * -math.inf))
        return g * (out * cmath.log(x))
    logarithm = x.to(c.out_avals[0].dtype).log()
    at_zero = call("logical_and", call("eq", x, 0.0), _is_not_negative(y))
    return call("where", at_zero, 0.0, g * (out * logarithm))


def _pow_base_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    if is_number(y):
        return g * (y * call("pow", x, y - 1)) if y != 0 else call("zeros_like", g)
    return call("where", call("eq", y, 0.0), 0.0, g * (y * call("pow", x, y - 1)))


_MATRIX_FUNCTIONS = LazyModule("jitgrad.ops.linalg.matrix_functions")

CONJUGATED: dict[str, tuple[Vjp | None, ...]] = {
    "mul": (
        Vjp(lambda c, g, y: g * _conj(y), (1,)),
        Vjp(lambda c, g, x: g * _conj(x), (0,)),
    ),
    "mm": (Vjp(lambda c, g, y: call("mm", g, adjoint(y)), (1,)), Vjp(lambda c, g, x: call("mm", adjoint(x), g), (0,))),
}
"""Rules of holomorphic functions that are conjugated as they stand: the commonest, one conjugation instead of two."""


def _conj(x: Any) -> Any:
    if is_number(x):
        return x.conjugate()
    return call("conj_physical", x) if x._aval.dtype.is_complex else x


VJPS: dict[str, tuple[Vjp | None, ...]] = {
    "abs": (Vjp(_abs_rule, (0,)),),
    "sgn": (Vjp(_sgn_rule, (0, "out")),),
    "angle": (Vjp(_angle_rule, (0,)),),
    "nan_to_num": (Vjp(_nan_to_num_rule, (0,)),),
    "linalg_vector_norm": (Vjp(_norm_rule, (0, "out")),),
    "_linalg_slogdet": (Vjp(lambda *args: _MATRIX_FUNCTIONS.complex_slogdet_rule(*args), (0, "out")),),
    "pow": (Vjp(_pow_base_rule, (0, 1)), Vjp(_pow_exponent_rule, (0, 1, "out"))),
}


# --- tangents ---


def _norm_tangent(use: Any) -> tuple[Any, ...]:
    """The sum of what each element contributes, Re(conj(gradient) tangent): right also where the norm has a kink."""
    out, gradient = use.outs[0], use.vjp(0)
    weights = gradient(call("ones_like", out))
    if weights is None:
        return (None,)
    terms = _real(call("conj_physical", weights) * use.tangents[0])
    return (call("sum_dim", terms, use.params[1], False, None).reshape(out._aval.shape),)


TANGENTS: dict[str, Any] = {"linalg_vector_norm": _norm_tangent}


# --- refusals that are not NotImplementedError('"name_cpu" not implemented for ..') ---

_NO = NotImplementedError
_EXTREMES = ("maximum", "minimum", "fmax", "fmin")
REFUSALS: dict[str, tuple[type[Exception], str]] = {
    **dict.fromkeys(
        ("clamp", "clamp_tensor", "clamp_min", "clamp_max", "clamp_low", "clamp_high", "relu"),
        (_NO, "clamp is not supported for complex types"),
    ),
    **{name: (_NO, f"{name} is not supported for complex inputs") for name in ("floor", "ceil", "trunc")},
    **{name: (RuntimeError, f"{name} not implemented for complex tensors.") for name in _EXTREMES},
    **{name: (RuntimeError, f"{name} does not support complex inputs.") for name in ("isposinf", "isneginf")},
    **{name: (RuntimeError, f"{name} is not supported for complex tensors.") for name in ("rad2deg", "deg2rad")},
    **{name: (RuntimeError, f"{name}(): does not support complex input") for name in ("argmax", "argmin")},
    "max_dim": (RuntimeError, "max(): does not support complex input"),
    "min_dim": (RuntimeError, "min(): does not support complex input"),
    "max": (_NO, '"max_all" not implemented for \'{dtype}\''),
    "min": (_NO, '"min_all" not implemented for \'{dtype}\''),
    "floor_divide": (_NO, '"div_floor_cpu" not implemented for \'{dtype}\''),
    "heaviside": (RuntimeError, "heaviside is not yet implemented for complex tensors."),
    "isin": (RuntimeError, "Unsupported input type encountered for isin(): {dtype}"),
    "sign": (_NO, "torch.sign is not intended to support complex numbers. Please use torch.sgn instead."),
    "signbit": (_NO, "signbit is not implemented for complex tensors."),
    "_fft_r2c": (RuntimeError, "Only supports floating-point dtypes, but found: {dtype}"),
    "sort": (RuntimeError, " Sort does not support complex dtypes on CPU"),
    "topk": (RuntimeError, " topk does not support complex dtypes on CPU"),
}
