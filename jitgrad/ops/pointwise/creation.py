"""Operations that make, copy or convert values: ``full``, ``arange``, ``clone``, casts.

Owns: their table entries.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import INTEGER, DType, bool_, float64, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.pointwise.pointwise import zero_grad
from jitgrad.ops.shapes import as_dtype, broadcast, check_fits, np_cast, np_operand, operand
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.symbols.number import lifted

__all__: list[str] = []


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def _full_aval(value: Any, shape: tuple[int, ...], dtype: DType) -> Aval:
    check_fits(value, dtype)
    return make_aval(_checked_shape(shape), dtype)


def _np_full(value: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    number = dtype.number(value) if dtype.is_short else value
    try:
        return np.full(shape, number, dtype.np)
    except TypeError:  # True passes for a 1 that was met before
        return np.full(tuple(map(int, shape)), number, dtype.np)


define(
    "full",
    aval=_full_aval,
    numpy=_np_full,
    lower=lambda b, value, shape, dtype: b.expand(operand(b, value, dtype), shape),
)


def _like_aval(x: Aval, dtype: DType | None = None) -> Aval:
    return make_aval(x.shape, dtype or x.dtype)


def _define_like(name: str, value: int) -> None:
    define(
        name,
        aval=_like_aval,
        numpy=lambda x, dtype=None: np.full(x.shape, value, dtype.np if dtype else x.dtype),
        lower=lambda b, x, dtype=None: b.const((dtype or x.dtype).number(value), dtype or x.dtype, x.shape),
    )


_define_like("zeros_like", 0)
_define_like("ones_like", 1)


def _range_length(start: float, end: float, step: float) -> int:
    if step == 0 or step != step:
        raise RuntimeError(f"step must be nonzero, but is {step}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    try:
        return math.ceil((end - start) / step)
    except (OverflowError, ValueError) as error:  # infinite, NaN
        raise RuntimeError(f"arange: unsupported range: {start} -> {end} by {step}") from error


def _counted(name: str, dtype: DType) -> DType:
    if dtype is bool_:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return dtype


def _arange_aval(start: float, end: float, step: float, dtype: DType) -> Aval:
    if _counted("arange", dtype).is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.type_name}'")
    return make_aval((_range_length(start, end, step),), dtype)


def _is_counted_in_ints(start: float, step: float) -> bool:
    return isinstance(start, int) and isinstance(step, int) and max(abs(start), abs(step)) < 1 << 63


def _np_arange(start: float, end: float, step: float, dtype: DType) -> Any:
    is_whole = _is_counted_in_ints(start, step)
    wide: Any = np.int64 if is_whole else np.float64
    start, step = (start, step) if is_whole else (float(start), float(step))
    return (np.arange(_range_length(start, end, step), dtype=wide) * step + start).astype(dtype.np)


def _lower_arange(b: Any, start: float, end: float, step: float, dtype: DType) -> Any:
    wide = int64 if _is_counted_in_ints(start, step) else float64
    index = b.cast(b.iota((_range_length(start, end, step),), 0, int64), wide)
    number = lifted(wide.number)
    scaled = b.mul(index, b.const(number(step), wide))
    return b.cast(b.add(scaled, b.const(number(start), wide)), dtype)


define(
    "arange",
    aval=_arange_aval,
    numpy=_np_arange,
    lower=_lower_arange,
    num_inputs=0,
)


def _np_linspace(start: float, end: float, steps: int, dtype: DType) -> Any:
    """Counted from both ends towards the middle, as in PyTorch, so that the numbers are symmetric."""
    if steps == 1:
        return np.full(1, dtype.number(start), dtype.np)
    number = np.float64 if dtype.category is INTEGER else dtype.np.type
    if dtype.category is INTEGER:
        start, end = dtype.number(start), dtype.number(end)
    step = number((end - start) / (steps - 1))
    if dtype.is_half:  # PyTorch computes in the dtype itself here
        step = (number(end) - number(start)) / number(steps - 1)
    index = np.arange(steps).astype(number)
    return np.where(index < steps // 2, number(start) + step * index, number(end) - step * (number(steps - 1) - index))


define(
    "linspace",
    aval=lambda start, end, steps, dtype: make_aval(_checked_shape((steps,)), _counted("linspace", dtype)),
    numpy=_np_linspace,
    num_inputs=0,
)


def _lower_eye(b: Any, n: int, m: int, dtype: DType) -> Any:
    return b.cast(b.eq(b.iota((n, m), 0), b.iota((n, m), 1)), dtype)


define(
    "eye",
    aval=lambda n, m, dtype: make_aval(_checked_shape((n, m)), dtype),
    numpy=lambda n, m, dtype: np.eye(n, m, dtype=dtype.np),
    lower=_lower_eye,
    num_inputs=0,
)

define(
    "clone",
    aval=lambda x: make_aval(x.shape, x.dtype),
    numpy=lambda x: x.copy(),
    lower=lambda b, x: x,
    vjps=[Vjp(lambda c, g: g)],
)


define(
    "contiguous",
    aval=lambda x, stride: make_aval(x.shape, x.dtype, stride),
    numpy=lambda x, stride: x,
    lower=lambda b, x, stride: x,
    vjps=[Vjp(lambda c, g: g)],
    node_name="CloneBackward0",
)
"""A copy with the strides that are given; None: row-major."""


def _np_cast(x: Any, dtype: DType) -> Any:
    return np_cast(x, dtype)


def _lower_cast(b: Any, x: Any, dtype: DType) -> Any:
    return b.ne(x, b.const(0, x.dtype)) if dtype is bool_ and x.dtype is not bool_ else b.cast(x, dtype)


def _cast_rule(c: RuleContext, g: Any) -> Any:
    """The gradient in the input's dtype; of a real input the real part of it, Note [Complex forms]."""
    aval = c.avals[0]
    assert aval is not None
    if g._aval.dtype.is_complex and not aval.dtype.is_complex:
        g = call("view_as_real", g).select(-1, 0)
    return g.to(aval.device, aval.dtype)


define(
    "_to_copy",
    aval=lambda x, dtype: make_aval(x.shape, dtype),
    numpy=_np_cast,
    lower=_lower_cast,
    vjps=[Vjp(_cast_rule)],
    node_name="ToCopyBackward0",
)


def _copy_aval(x: Aval, src: Any) -> Aval:
    """The shape of ``x.copy_(src)``: the source must expand to the target."""
    have = getattr(src, "shape", ())
    if x.dtype.category is INTEGER:
        check_fits(src, x.dtype)
    padded = (1,) * (len(x.shape) - len(have)) + tuple(have)
    if len(have) > len(x.shape) or any(s not in (1, n) for s, n in zip(padded, x.shape, strict=True)):
        both = broadcast("copy_", x.shape, tuple(have))
        raise RuntimeError(f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(both)} (copy_)")
    return make_aval(x.shape, x.dtype)


def _lower_copy(b: Any, x: Any, src: Any) -> Any:
    stored = b.cast(src, x.dtype) if hasattr(src, "shape") else b.const(x.dtype.number(src), x.dtype)
    return b.expand(stored, x.shape)


_lower_copy.takes_short = True  # type: ignore[attr-defined]

define(
    "copy",
    aval=_copy_aval,
    numpy=lambda x, src: np.broadcast_to(np.asarray(np_operand(src, as_dtype(x.dtype))), x.shape).copy(),
    lower=_lower_copy,
    vjps=[Vjp(zero_grad), Vjp(lambda c, g: g)],
    num_inputs=2,
    node_name="torch::autograd::CopyBackwards",
    node_names={1: "FillBackward2"},
)
define(
    "zero",
    aval=lambda x: make_aval(x.shape, x.dtype),
    numpy=lambda x: np.zeros(x.shape, x.dtype),
    lower=lambda b, x: b.const(x.dtype.number(0), x.dtype, x.shape),
    vjps=[Vjp(zero_grad)],
)
