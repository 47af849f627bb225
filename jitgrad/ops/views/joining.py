"""Joining and repeating: cat, stack, flip, roll, repeat, pad.

Owns: their table entries. ``cat`` and ``stack`` take one list of tensors.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jitgrad.dtypes import DType, promote_types
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import as_dtype, check_fits, np_cast, numel, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.views.views import lower_slice

__all__: list[str] = []


def _joint_dtype(xs: Any) -> Any:
    """The dtype that all are promoted to; lists are long, and nearly always of one dtype."""
    return functools.reduce(promote_types, map(as_dtype, dict.fromkeys([x.dtype for x in xs])))


def _are_alike(arrays: Any) -> bool:
    """Whether all arrays are of one dtype."""
    first = arrays[0].dtype
    return all([x.dtype is first for x in arrays])


def _cast_all(arrays: Any, out: DType) -> list[Any]:
    """The arrays as arrays of one dtype."""
    return [x if x.dtype == out.np else np_cast(x, out) for x in arrays]


# --- cat ---


def _is_legacy_empty(x: Any) -> bool:
    """A 1-D tensor without elements joins anything (an old rule that PyTorch keeps)."""
    return x.shape == (0,)


def _cat_parts(xs: Any) -> list[Any]:
    return [x for x in xs if not _is_legacy_empty(x)] or list(xs[:1])


def _cat_aval(xs: tuple[Aval, ...], dim: int) -> Aval:
    if not xs:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for i, x in enumerate(xs):
        if not x.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    parts = _cat_parts(xs)
    first = parts[0]
    d = wrap_dim(dim, first.ndim)
    for i, x in enumerate(parts[1:], 1):
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
        if any(n != m for k, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if k != d):
            wrong = next(k for k, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if k != d and n != m)
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {d}. Expected size {first.shape[wrong]} but got size "
                f"{x.shape[wrong]} for tensor number {i} in the list."
            )
    return make_aval((*first.shape[:d], sum(x.shape[d] for x in parts), *first.shape[d + 1 :]), _joint_dtype(xs))


def _np_cat(xs: Any, dim: int) -> Any:
    first = xs[0].dtype
    for x in xs:
        if x.dtype is not first or x.shape == (0,):
            break
    else:
        return np.concatenate(xs, dim)
    parts = _cat_parts(xs)
    return np.concatenate(parts if _are_alike(xs) else _cast_all(parts, _joint_dtype(xs)), axis=dim)


def _lower_cat(b: Any, xs: Any, dim: int) -> Any:
    parts, out = _cat_parts(xs), _joint_dtype(xs)
    return b.cat([b.cast(x, out) for x in parts], wrap_dim(dim, len(parts[0].shape)))


def _cat_rule(c: RuleContext, g: Any) -> tuple[Any, ...]:
    parts = _cat_parts(c.avals)
    d = wrap_dim(c.params[0], parts[0].ndim)
    grads, at = [], 0
    for x in c.avals:
        assert x is not None
        if _is_legacy_empty(x) and x not in parts:
            grads.append(filled(0.0, x, (0,)))
            continue
        grads.append(g.narrow(d, at, x.shape[d]))
        at += x.shape[d]
    return tuple(grads)


define("cat", aval=_cat_aval, numpy=_np_cat, lower=_lower_cat, vjps=[Vjp(_cat_rule)], num_inputs=-1)


# --- stack ---


def _stack_aval(xs: tuple[Aval, ...], dim: int) -> Aval:
    if not xs:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = xs[0]
    for i, x in enumerate(xs):
        if x.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                f"{list(x.shape)} at entry {i}"
            )
    d = wrap_dim(dim, first.ndim + 1)
    return make_aval((*first.shape[:d], len(xs), *first.shape[d:]), _joint_dtype(xs))


def _np_stack(xs: Any, dim: int) -> Any:
    arrays = xs if _are_alike(xs) else _cast_all(xs, _joint_dtype(xs))
    at = wrap_dim(dim, arrays[0].ndim + 1)
    place = (slice(None),) * at + (None,)  # as ``np.stack`` does it, without its checks of the shapes
    return np.concatenate([x[place] for x in arrays], axis=at)


def _lower_stack(b: Any, xs: Any, dim: int) -> Any:
    d, out = wrap_dim(dim, len(xs[0].shape) + 1), _joint_dtype(xs)
    shape = (*xs[0].shape[:d], 1, *xs[0].shape[d:])
    return b.cat([b.reshape(b.cast(x, out), shape) for x in xs], d)


def _stack_rule(c: RuleContext, g: Any) -> tuple[Any, ...]:
    return tuple(call("select", g, c.params[0], i) for i in range(len(c.avals)))


define("stack", aval=_stack_aval, numpy=_np_stack, lower=_lower_stack, vjps=[Vjp(_stack_rule)], num_inputs=-1)


# --- flip, roll, repeat, pad ---


def _flip_axes(rank: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    axes = tuple(wrap_dim(d, rank) for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return axes if rank else ()


def _lower_flip(b: Any, x: Any, dims: tuple[int, ...]) -> Any:
    axes = _flip_axes(len(x.shape), dims)
    starts = [n - 1 if d in axes else 0 for d, n in enumerate(x.shape)]
    stops = [-1 if d in axes else n for d, n in enumerate(x.shape)]
    return b.slice(x, starts, stops, [-1 if d in axes else 1 for d in range(len(x.shape))])


define(
    "flip",
    aval=lambda x, dims: (_flip_axes(x.ndim, dims), make_aval(x.shape, x.dtype))[1],
    numpy=lambda x, dims: np.flip(x, _flip_axes(x.ndim, dims)).copy(),
    lower=_lower_flip,
    vjps=[Vjp(lambda c, g: call("flip", g, c.params[0]))],
)


def _roll_aval(x: Aval, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Aval:
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return make_aval(x.shape, x.dtype)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for d in dims:
        if not x.ndim:
            raise IndexError(f"Dimension specified as {d} but tensor has no dimensions")
        wrap_dim(d, x.ndim)
    return make_aval(x.shape, x.dtype)


def _np_roll(x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """Over the flattened tensor without dims."""
    return np.roll(x, shifts, dims) if dims else np.roll(x.reshape(-1), shifts[0]).reshape(x.shape)


def _lower_roll(b: Any, x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if not dims:
        return b.reshape(_lower_roll(b, b.reshape(x, (numel(x.shape),)), shifts, (0,)), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrap_dim(dim, len(x.shape))
        n = x.shape[d] if x.shape else 0
        cut = shift % n if n else 0
        if cut:
            x = b.cat([lower_slice(b, x, d, n - cut, n, 1), lower_slice(b, x, d, 0, n - cut, 1)], d)
    return x


define(
    "roll",
    aval=_roll_aval,
    numpy=_np_roll,
    lower=_lower_roll,
    vjps=[Vjp(lambda c, g: call("roll", g, tuple(-s for s in c.params[0]), c.params[1]))],
)


def _repeat_parts(shape: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[list[int], list[int], tuple[int, ...]]:
    """(shape with 1s between, shape with the repeats between, result)."""
    if len(repeats) < len(shape):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(r < 0 for r in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(repeats)}: {list(repeats)} (repeat)")
    padded = (1,) * (len(repeats) - len(shape)) + shape
    before = [k for n in padded for k in (1, n)]
    between = [k for r, n in zip(repeats, padded, strict=True) for k in (r, n)]
    return before, between, tuple(r * n for r, n in zip(repeats, padded, strict=True))


def _lower_repeat(b: Any, x: Any, repeats: tuple[int, ...]) -> Any:
    before, between, out = _repeat_parts(x.shape, repeats)
    return b.reshape(b.expand(b.reshape(x, tuple(before)), tuple(between)), out)


def _repeat_rule(c: RuleContext, g: Any) -> Any:
    assert c.avals[0] is not None
    _, between, _ = _repeat_parts(c.avals[0].shape, c.params[0])
    if not between:
        return g
    return g.reshape(tuple(between)).sum(tuple(range(0, len(between), 2)), False).reshape(c.avals[0].shape)


def _np_repeat(x: Any, repeats: tuple[int, ...]) -> Any:
    shape = _repeat_parts(x.shape, repeats)[2]
    if not math.prod(shape):  # NumPy would make parts that are not empty
        return np.empty(shape, x.dtype)
    return np.tile(x, repeats)


define(
    "repeat",
    aval=lambda x, repeats: make_aval(_repeat_parts(x.shape, repeats)[2], x.dtype),
    numpy=_np_repeat,
    lower=_lower_repeat,
    vjps=[Vjp(_repeat_rule)],
)


def _pad_aval(x: Aval, lo: tuple[int, ...], hi: tuple[int, ...], value: float) -> Aval:
    shape = tuple(n + a + z for n, a, z in zip(x.shape, lo, hi, strict=True))
    if any(n + min(a, 0) + min(z, 0) < 0 for n, a, z in zip(x.shape, lo, hi, strict=True)):
        raise RuntimeError(f"The input size {list(x.shape)}, plus negative padding, resulted in a negative output size")
    check_fits(value, x.dtype, is_strict=True)
    return make_aval(shape, x.dtype)


def _crop(b: Any, x: Any, lo: tuple[int, ...], hi: tuple[int, ...]) -> Any:
    for d, (a, z) in enumerate(zip(lo, hi, strict=True)):
        x = lower_slice(b, x, d, max(-a, 0), x.shape[d] - max(-z, 0), 1)
    return x


def _np_pad(x: Any, lo: tuple[int, ...], hi: tuple[int, ...], value: float) -> Any:
    inner = x[tuple(slice(max(-a, 0), n - max(-z, 0)) for n, a, z in zip(x.shape, lo, hi, strict=True))]
    widths = [(max(a, 0), max(z, 0)) for a, z in zip(lo, hi, strict=True)]
    return np.pad(inner, widths, constant_values=x.dtype.type(value)) if widths else x.copy()


def _lower_pad(b: Any, x: Any, lo: tuple[int, ...], hi: tuple[int, ...], value: float) -> Any:
    inner = _crop(b, x, lo, hi)
    return b.pad(inner, [max(a, 0) for a in lo], [max(z, 0) for z in hi], x.dtype.np.type(value).item())


def _pad_rule(c: RuleContext, g: Any) -> Any:
    lo, hi, _ = c.params
    return call("constant_pad", g, tuple(-a for a in lo), tuple(-z for z in hi), 0.0)


define(
    "constant_pad",
    aval=_pad_aval,
    numpy=_np_pad,
    lower=_lower_pad,
    vjps=[Vjp(_pad_rule)],
    node_name="ConstantPadNdBackward0",
)
