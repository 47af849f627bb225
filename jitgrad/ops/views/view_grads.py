"""Views of scattered elements, and the derivatives of views that leave elements out.

Owns: diagonal, unfold, as_strided, and slice_backward, diagonal_backward, unfold_backward: zeros with gradients.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, check_inside, contiguous_strides, last_position, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.views.views import lower_slice

__all__ = ["is_inside", "lower_diagonal_backward", "lower_slice_backward"]


# --- slice_backward(g, shape, dim, start, stop, step) ---


def _np_slice_backward(g: Any, shape: tuple[int, ...], dim: int, start: int, stop: int, step: int) -> Any:
    out = np.zeros(shape, g.dtype)
    out[(slice(None),) * dim + (slice(start, stop, step),)] = g
    return out


def lower_slice_backward(b: Any, g: Any, shape: tuple[int, ...], dim: int, start: int, stop: int, step: int) -> Any:
    """Zeros with ``g`` in a slice.

    ``g`` is spread by ``step`` with zeros between (a reshape, a pad, a reshape), then padded to the full extent.
    """
    count = g.shape[dim]
    if step > 1 and count:
        split = b.reshape(g, (*g.shape[: dim + 1], 1, *g.shape[dim + 1 :]))
        hi = [0] * len(split.shape)
        hi[dim + 1] = step - 1
        padded = b.pad(split, [0] * len(hi), hi)
        g = b.reshape(padded, (*g.shape[:dim], count * step, *g.shape[dim + 1 :]))
        g = lower_slice(b, g, dim, 0, (count - 1) * step + 1, 1)
    lo, hi = [0] * len(shape), [0] * len(shape)
    lo[dim] = start
    hi[dim] = shape[dim] - start - g.shape[dim]
    return b.pad(g, lo, hi)


define(
    "slice_backward",
    aval=lambda g, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_slice_backward,
    lower=lower_slice_backward,
    vjps=[Vjp(lambda c, g: call("slice", g, c.params[1], c.params[2], c.params[3], c.params[4]))],
)


# --- diagonal(x, offset, dim1, dim2) ---


def _diagonal_parts(shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> tuple[int, int, int, int]:
    """(first dim, second dim, length, offset)."""
    first, second = wrap_dim(dim1, len(shape)), wrap_dim(dim2, len(shape))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = shape[first] + min(offset, 0), shape[second] - max(offset, 0)
    return first, second, max(0, min(rows, columns)), offset


def _diagonal_aval(x: Aval, offset: int, dim1: int, dim2: int) -> Aval:
    first, second, length, _ = _diagonal_parts(x.shape, offset, dim1, dim2)
    rest = [d for d in range(x.ndim) if d not in (first, second)]
    start = max(offset, 0) * x.stride[second] + max(-offset, 0) * x.stride[first]
    return make_aval(
        (*(x.shape[d] for d in rest), length),
        x.dtype,
        (*(x.stride[d] for d in rest), x.stride[first] + x.stride[second]),
        x.offset + (start if length else 0),
    )


def _lower_diagonal(b: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    first, second, length, _ = _diagonal_parts(x.shape, offset, dim1, dim2)
    rest = [d for d in range(len(x.shape)) if d not in (first, second)]
    moved = b.permute(x, (first, second, *rest))
    step = b.iota((length,), 0)
    taken = b.gather(moved, [b.add(step, max(-offset, 0)), b.add(step, max(offset, 0))])
    return b.permute(taken, (*range(1, len(rest) + 1), 0))


def _diagonal_rule(c: RuleContext, g: Any) -> Any:
    assert c.avals[0] is not None
    return call("diagonal_backward", g, c.avals[0].shape, *c.params)


define("diagonal", aval=_diagonal_aval, lower=_lower_diagonal, vjps=[Vjp(_diagonal_rule)], is_view=True)


def _np_diagonal_backward(g: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    first, second, length, _ = _diagonal_parts(shape, offset, dim1, dim2)
    out = np.zeros(shape, g.dtype)
    moved = np.moveaxis(out, (first, second), (-2, -1))
    step = np.arange(length)
    moved[..., step + max(-offset, 0), step + max(offset, 0)] = g
    return out


def lower_diagonal_backward(b: Any, g: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    """Zeros with ``g`` on a diagonal.

    An element is on the diagonal if its row and column numbers say so: a comparison, which fuses.
    """
    first, second, length, _ = _diagonal_parts(shape, offset, dim1, dim2)
    rest = [d for d in range(len(shape)) if d not in (first, second)]
    down, rows, columns = max(-offset, 0), shape[first], shape[second]
    full_rows = b.pad(g, [0] * len(rest) + [down], [0] * len(rest) + [rows - down - length])
    batch = tuple(shape[d] for d in rest)
    grid = (*batch, rows, columns)
    spread = b.expand(b.reshape(full_rows, (*batch, rows, 1)), grid)
    hit = b.eq(b.add(b.iota(grid, len(rest)), offset), b.iota(grid, len(rest) + 1))
    placed = b.where(hit, spread, b.const(0, g.dtype))
    order = {**{d: i for i, d in enumerate(rest)}, first: len(rest), second: len(rest) + 1}
    return b.permute(placed, tuple(order[d] for d in range(len(shape))))


define(
    "diagonal_backward",
    aval=lambda g, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_diagonal_backward,
    lower=lower_diagonal_backward,
    vjps=[Vjp(lambda c, g: call("diagonal", g, *c.params[1:]))],
)


# --- unfold(x, dim, size, step): sliding windows ---


_LONG_STRIDE = 1 << 58
"""64 bits do not count the bytes of a stride like this."""


def _unfold_aval(x: Aval, dim: int, size: int, step: int) -> Aval:
    d = wrap_dim(dim, x.ndim)
    extent = x.shape[d] if x.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > extent:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {extent} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape = (*x.shape[:d], (extent - size) // step + 1, *x.shape[d + 1 :], size)
    if not x.ndim:
        return make_aval((size,), x.dtype, (1,), x.offset)
    own = x.stride[d]
    if own * step >= _LONG_STRIDE:
        step = extent + 1  # it has one window, too
    return make_aval(shape, x.dtype, (*x.stride[:d], own * step, *x.stride[d + 1 :], own), x.offset)


def _windows(b: Any, count: int, size: int, step: int) -> Any:
    """Positions [count, size] of the windows' elements."""
    shape = (count, size)
    return b.add(b.mul(b.iota(shape, 0), step), b.iota(shape, 1))


def _lower_unfold(b: Any, x: Any, dim: int, size: int, step: int) -> Any:
    if not x.shape:
        return b.reshape(x, (size,))
    d = wrap_dim(dim, len(x.shape))
    count = (x.shape[d] - size) // step + 1
    dims = [[digit] for digit in zip(x.shape, contiguous_strides(x.shape), strict=True)]
    own = dims[d][0][1]
    dims[d] = [(count, own * step)]
    return b.cast(b.windows(x, [*dims, [(size, own)]]), x.dtype)


def _unfold_rule(c: RuleContext, g: Any) -> Any:
    assert c.avals[0] is not None
    return call("unfold_backward", g, c.avals[0].shape, *c.params)


define("unfold", aval=_unfold_aval, lower=_lower_unfold, vjps=[Vjp(_unfold_rule)], is_view=True)


def _np_unfold_backward(g: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    if not shape:
        return g.sum(dtype=g.dtype)
    d = wrap_dim(dim, len(shape))
    out = np.zeros(shape, g.dtype)
    count = g.shape[d]
    for k in range(size):
        out[(slice(None),) * d + (slice(k, k + (count - 1) * step + 1, step),)] += g[..., k]
    return out


def _lower_unfold_backward(b: Any, g: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    if not shape:
        return b.reshape(g, ()) if g.shape == (1,) else b.const(0.0, g.dtype)
    d, rank = wrap_dim(dim, len(shape)), len(shape)
    moved = b.permute(g, (d, rank, *(i for i in range(rank) if i != d)))
    rest = tuple(n for i, n in enumerate(shape) if i != d)
    summed = b.scatter_add((shape[d], *rest), [_windows(b, g.shape[d], size, step)], moved)
    return b.permute(summed, (*range(1, d + 1), 0, *range(d + 1, rank)))


define(
    "unfold_backward",
    aval=lambda g, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_unfold_backward,
    lower=_lower_unfold_backward,
    vjps=[Vjp(lambda c, g: call("unfold", g, *c.params[1:]))],
)


# --- as_strided: any layout; reads through the storage, so it only runs eagerly ---


def _as_strided_aval(x: Aval, shape: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Aval:
    if len(shape) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: sizes {list(shape)}, strides {list(stride)} (as_strided)"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    view = make_aval(shape, x.dtype, stride, x.offset if offset is None else offset)
    if view.offset < 0 or min(shape, default=0) < 0:
        check_inside(view, 0)  # raises: there is no such storage
    return view


def is_inside(x: Aval, shape: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> bool:
    """Whether the elements of a row-major ``x`` that begins its storage are all that such a view sees."""
    if not x.is_contiguous or x.offset:
        return False
    view = _as_strided_aval(x, shape, stride, offset)
    return not view.numel or last_position(view) < x.numel


def _as_strided_rule(c: RuleContext, g: Any) -> Any:
    assert c.avals[0] is not None
    if not g._aval.numel:  # zeros that depend on nothing, as PyTorch's
        return filled(0, make_aval(c.avals[0].shape, g._aval.dtype).on(g._aval.device))
    return call("as_strided_backward", g, c.avals[0], *c.params)


define("as_strided", aval=_as_strided_aval, vjps=[Vjp(_as_strided_rule)], is_view=True)


def _element_positions(aval: Aval) -> Any:
    """The storage position of each element."""
    at = np.full(aval.shape, aval.offset, np.int64)
    for d, (n, step) in enumerate(zip(aval.shape, aval.stride, strict=True)):
        at += (np.arange(n) * step).reshape((n,) + (1,) * (aval.ndim - d - 1))
    return at


def _places(x: Aval, *params: Any) -> tuple[Any, Any, Any]:
    """Storage positions of the view and of the input's own elements, and how often each position is the input's."""
    at, own = _element_positions(_as_strided_aval(x, *params)), _element_positions(x)
    size = int(max(at.max(initial=-1), own.max(initial=-1))) + 1
    return at, own, np.maximum(np.bincount(own.reshape(-1), minlength=size), 1)


def _np_as_strided_backward(g: Any, x: Aval, *params: Any) -> Any:
    """Add up in a copy of the storage, then read through the input's layout; an element seen twice shares equally."""
    at, own, times = _places(x, *params)
    storage = np.zeros(times.shape, g.dtype)
    np.add.at(storage, at.reshape(-1), g.reshape(-1))
    return (storage / times.astype(g.dtype))[own]


def _np_as_strided_again(g: Any, x: Aval, *params: Any) -> Any:
    """The transpose of ``as_strided_backward``: into the storage through the input's layout, out through the view's."""
    at, own, times = _places(x, *params)
    storage = np.zeros(times.shape, g.dtype)
    np.add.at(storage, own.reshape(-1), g.reshape(-1))
    return (storage / times.astype(g.dtype))[at]


define(
    "as_strided_backward",
    aval=lambda g, x, *params: make_aval(x.shape, g.dtype),
    numpy=_np_as_strided_backward,
    vjps=[Vjp(lambda c, g: call("as_strided_again", g, *c.params))],
)
define(
    "as_strided_again",
    aval=lambda g, x, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_as_strided_again,
    vjps=[Vjp(lambda c, g: call("as_strided_backward", g, *c.params))],
)
