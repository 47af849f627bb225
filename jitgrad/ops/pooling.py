"""Pooling over windows of the last two dimensions of [N, C, H, W].

Owns: max_pool2d (values and flat positions), avg_pool2d, and their linear derivatives.
Must not know: Tensor, kernels.

Parameters are (kernel, stride, padding), each a pair. A window is visited offset by offset, each offset being one
strided slice, so that lowerings are pointwise over slices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.convolution import add_windows, out_extent, pad_2d, window_2d
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

Pair = tuple[int, int]


def _out(shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair) -> Pair:
    return (
        out_extent(shape[2], kernel[0], stride[0], padding[0], 1),
        out_extent(shape[3], kernel[1], stride[1], padding[1], 1),
    )


def _pooled_shape(x: Aval, kernel: Pair, stride: Pair, padding: Pair) -> tuple[int, ...]:
    if x.ndim != 4:
        raise RuntimeError(f"non-empty 3D or 4D (batch mode) tensor expected for input, got shape {list(x.shape)}")
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={padding[0]}, kernel_size={kernel[0]} "
            "and dilation=1"
        )
    if max(*kernel, *stride, *padding) >= 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: 64 bits do not hold {max(*kernel, *stride, *padding)}")
    out = _out(x.shape, kernel, stride, padding)
    if min(out) <= 0:
        raise RuntimeError(
            f"Given input size: ({x.shape[1]}x{x.shape[2]}x{x.shape[3]}). Calculated output size: "
            f"({x.shape[1]}x{out[0]}x{out[1]}). Output size is too small"
        )
    return (*x.shape[:2], *out)


def _offsets(kernel: Pair) -> list[Pair]:
    return [(i, j) for i in range(kernel[0]) for j in range(kernel[1])]


def _np_tap(padded: Any, at: Pair, out: Pair, stride: Pair) -> Any:
    """A view of the elements at one offset, for every window."""
    rows = slice(at[0], at[0] + (out[0] - 1) * stride[0] + 1, stride[0])
    return padded[:, :, rows, at[1] : at[1] + (out[1] - 1) * stride[1] + 1 : stride[1]]


def _np_padded(x: Any, padding: Pair, value: float) -> Any:
    return (
        np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=value) if any(padding) else x
    )


# --- max ---


def _first_position(out: Pair, width: int, stride: Pair, padding: Pair) -> Any:
    """Flat position in the input of each window's first element (it may lie in the padding)."""
    rows = (np.arange(out[0]) * stride[0] - padding[0])[:, None]
    return rows * width + (np.arange(out[1]) * stride[1] - padding[1])[None, :]


def _first_inside(out: Pair, width: int, stride: Pair, padding: Pair) -> Any:
    """The same of the first element that does not lie in the padding: PyTorch's choice if all are -inf."""
    rows = np.maximum(np.arange(out[0]) * stride[0] - padding[0], 0)[:, None]
    return rows * width + np.maximum(np.arange(out[1]) * stride[1] - padding[1], 0)[None, :]


def _least(dtype: Any) -> Any:
    """What is never larger than an element."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _np_max_pool(x: Any, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Any, Any]:
    out = _out(x.shape, kernel, stride, padding)
    padded = _np_padded(x, padding, _least(x.dtype))
    base = _first_position(out, x.shape[3], stride, padding)
    best = np.full((*x.shape[:2], *out), _least(x.dtype), x.dtype)
    at = np.broadcast_to(_first_inside(out, x.shape[3], stride, padding), best.shape)
    for i, j in _offsets(kernel):
        tap = _np_tap(padded, (i, j), out, stride)
        better = (tap > best) | np.isnan(tap)
        best = np.where(better, tap, best)
        at = np.where(better, base + (i * x.shape[3] + j), at)
    return best, at


def _lower_max_pool(b: Any, x: Any, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Any, Any]:
    out, width = _out(x.shape, kernel, stride, padding), x.shape[3]
    least = _least(x.dtype.np)
    padded = pad_2d(b, x, padding, least)
    shape = (*x.shape[:2], *out)
    rows = b.sub(b.mul(b.iota(shape, 2), stride[0]), padding[0])
    columns = b.sub(b.mul(b.iota(shape, 3), stride[1]), padding[1])
    base = b.add(b.mul(rows, width), columns)
    best, at = b.const(least, x.dtype, shape), base
    if any(padding):
        at = b.add(b.mul(b.max(rows, 0), width), b.max(columns, 0))
    for i, j in _offsets(kernel):
        tap = window_2d(b, padded, (i, j), out, stride)
        better = b.or_(b.gt(tap, best), b.isnan(tap))
        best = b.where(better, tap, best)
        at = b.where(better, b.add(base, i * width + j), at)
    return best, at


def _max_pool_aval(x: Aval, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Aval, Aval]:
    if 0 in x.shape[2:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got: {list(x.shape)}"
        )
    shape = _pooled_shape(x, kernel, stride, padding)
    return make_aval(shape, x.dtype), make_aval(shape, int64)


def _max_pool_rule(c: RuleContext, g: tuple[Any, Any], at: Any) -> Any:
    assert c.avals[0] is not None
    return call("max_pool2d_backward", g[0], at, c.avals[0].shape, *c.params)


define(
    "max_pool2d",
    aval=_max_pool_aval,
    numpy=_np_max_pool,
    lower=_lower_max_pool,
    vjps=[Vjp(_max_pool_rule, ("out1",))],
    node_name="MaxPool2DWithIndicesBackward0",
)


def _flat_grid(at: Any) -> tuple[Any, Any]:
    n, c = at.shape[:2]
    return np.arange(n)[:, None, None, None], np.arange(c)[None, :, None, None]


def _np_max_pool_backward(g: Any, at: Any, shape: tuple[int, ...], *params: Pair) -> Any:
    out = np.zeros((*shape[:2], shape[2] * shape[3]), g.dtype)
    np.add.at(out, (*_flat_grid(at), at), g)
    return out.reshape(shape)


def _tiles(shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair) -> bool:
    """Whether windows lie side by side, so that every element belongs to at most one."""
    return kernel == stride and padding == (0, 0)


def _tile(b: Any, x: Any, kernel: Pair) -> Any:
    """[N, C, OH, OW] as [N, C, OH, KH, OW, KW], repeated."""
    n, c, oh, ow = x.shape
    return b.expand(b.reshape(x, (n, c, oh, 1, ow, 1)), (n, c, oh, kernel[0], ow, kernel[1]))


def _untile(b: Any, tiles: Any, shape: tuple[int, ...]) -> Any:
    """[N, C, OH, KH, OW, KW] as [N, C, H, W], with zeros where no window fits any more."""
    n, c, oh, kh, ow, kw = tiles.shape
    return b.pad(b.reshape(tiles, (n, c, oh * kh, ow * kw)), [0] * 4, [0, 0, shape[2] - oh * kh, shape[3] - ow * kw])


def _lower_max_pool_backward(
    b: Any, g: Any, at: Any, shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair
) -> Any:
    """The gradient goes to the element that won: by comparison where windows do not overlap, else by scatter."""
    if not _tiles(shape, kernel, stride, padding):
        flat = (*shape[:2], shape[2] * shape[3])
        return b.reshape(b.scatter_add(flat, [b.iota(at.shape, 0), b.iota(at.shape, 1), at], g), shape)
    tiles = _tile(b, g, kernel)
    rows = b.add(b.mul(b.iota(tiles.shape, 2), kernel[0]), b.iota(tiles.shape, 3))
    columns = b.add(b.mul(b.iota(tiles.shape, 4), kernel[1]), b.iota(tiles.shape, 5))
    won = b.eq(_tile(b, at, kernel), b.add(b.mul(rows, shape[3]), columns))
    return _untile(b, b.where(won, tiles, b.const(0.0, g.dtype)), shape)


def _np_max_pool_read(x: Any, at: Any, *params: Pair) -> Any:
    return x.reshape((*x.shape[:2], -1))[(*_flat_grid(at), at)]


def _lower_max_pool_read(b: Any, x: Any, at: Any, *params: Pair) -> Any:
    flat = b.reshape(x, (*x.shape[:2], x.shape[2] * x.shape[3]))
    return b.gather(flat, [b.iota(at.shape, 0), b.iota(at.shape, 1), at])


define(
    "max_pool2d_backward",
    aval=lambda g, at, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_max_pool_backward,
    lower=_lower_max_pool_backward,
    vjps=[Vjp(lambda c, g, at: call("max_pool2d_read", g, at, *c.params[1:]), (1,)), None],
    num_inputs=2,
)
define(
    "max_pool2d_read",
    aval=lambda x, at, *params: make_aval(at.shape, x.dtype),
    numpy=_np_max_pool_read,
    lower=_lower_max_pool_read,
    vjps=[
        Vjp(lambda c, g, at: call("max_pool2d_backward", g, at, c.avals[0].shape, *c.params), (1,)),
        None,
    ],
    num_inputs=2,
)


# --- average ---


def _np_avg_pool(x: Any, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    out = _out(x.shape, kernel, stride, padding)
    padded = _np_padded(x, padding, 0.0)
    total = sum(_np_tap(padded, at, out, stride) for at in _offsets(kernel))
    return total / x.dtype.type(kernel[0] * kernel[1])


def _lower_avg_pool(b: Any, x: Any, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    out = _out(x.shape, kernel, stride, padding)
    padded = pad_2d(b, x, padding)
    total = None
    for at in _offsets(kernel):
        tap = window_2d(b, padded, at, out, stride)
        total = tap if total is None else b.add(total, tap)
    return b.div(total, b.const(float(kernel[0] * kernel[1]), x.dtype))


def _np_avg_pool_backward(g: Any, shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair) -> Any:
    full = np.zeros((*shape[:2], shape[2] + 2 * padding[0], shape[3] + 2 * padding[1]), g.dtype)
    share = g / g.dtype.type(kernel[0] * kernel[1])
    for at in _offsets(kernel):
        _np_tap(full, at, g.shape[2:], stride)[...] += share
    return full[:, :, padding[0] : padding[0] + shape[2], padding[1] : padding[1] + shape[3]]


def _lower_avg_pool_backward(b: Any, g: Any, shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair) -> Any:
    count = b.const(float(kernel[0] * kernel[1]), g.dtype)
    if _tiles(shape, kernel, stride, padding):
        return _untile(b, _tile(b, b.div(g, count), kernel), shape)
    full = (shape[2] + 2 * padding[0], shape[3] + 2 * padding[1])
    offsets = list(_offsets(kernel))
    total = add_windows(b, [g] * len(offsets), offsets, full, stride)
    inner = b.slice(total, [0, 0, *padding], [*shape[:2], padding[0] + shape[2], padding[1] + shape[3]], [1] * 4)
    return b.div(inner, count)


define(
    "avg_pool2d",
    aval=lambda x, *params: make_aval(_pooled_shape(x, *params), x.dtype),
    numpy=_np_avg_pool,
    lower=_lower_avg_pool,
    vjps=[Vjp(lambda c, g: call("avg_pool2d_backward", g, c.avals[0].shape, *c.params))],
    node_name="AvgPool2DBackward0",
    runs_once=True,
)
define(
    "avg_pool2d_backward",
    aval=lambda g, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_avg_pool_backward,
    lower=_lower_avg_pool_backward,
    vjps=[Vjp(lambda c, g: call("avg_pool2d", g, *c.params[1:]))],
)
