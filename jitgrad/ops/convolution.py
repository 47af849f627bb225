"""Two-dimensional convolution and its two derivatives, which are closed under differentiation.

Owns: conv2d, conv2d_input, conv2d_weight.
Must not know: Tensor, kernels.

Each is one matrix product over *columns*: [N, G, C/G * KH * KW, OH * OW], the input's patches (im2col; Chellapilla et
al. 2006). Columns are slices of the padded input put side by side; adding columns back is slices padded and summed.

Parameters are (stride, padding, dilation, groups), each a pair but the last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["Geometry", "pad_2d", "place_2d", "window_2d"]

Pair = tuple[int, int]


class Geometry(NamedTuple):
    """The sizes of one convolution."""

    n: int
    c: int
    h: int
    w: int
    o: int
    kh: int
    kw: int
    oh: int
    ow: int
    groups: int

    @property
    def columns(self) -> tuple[int, int, int, int]:
        return (self.n, self.groups, self.c // self.groups * self.kh * self.kw, self.oh * self.ow)


def out_extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many positions a window has along one dimension."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def geometry(
    x: tuple[int, ...], w: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Geometry:
    """The sizes that an input shape and a weight shape make."""
    oh = out_extent(x[2], w[2], stride[0], padding[0], dilation[0])
    ow = out_extent(x[3], w[3], stride[1], padding[1], dilation[1])
    return Geometry(x[0], x[1], x[2], x[3], w[0], w[2], w[3], oh, ow, groups)


def _conv_aval(x: Aval, w: Aval, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Aval:
    if x.ndim != 4:
        raise RuntimeError(
            f"Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: {list(x.shape)}"
        )
    if w.ndim != 4:
        raise RuntimeError(f"conv2d: expected 4-D input and weight, but got shapes {list(x.shape)} and {list(w.shape)}")
    if x.dtype is not w.dtype:
        raise RuntimeError(
            f"Input type ({torch_dtype_name(x.dtype)}) and weight type ({torch_dtype_name(w.dtype)}) should be the same"
        )
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have "
            f"{w.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )
    geo = geometry(x.shape, w.shape, stride, padding, dilation, groups)
    if geo.oh <= 0 or geo.ow <= 0:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({geo.h + 2 * padding[0]} x {geo.w + 2 * padding[1]}). "
            f"Kernel size: ({geo.kh} x {geo.kw}). Kernel size can't be greater than actual input size"
        )
    return make_aval((geo.n, geo.o, geo.oh, geo.ow), x.dtype)


# --- the primitives' half ---


def pad_2d(b: Any, x: Any, padding: Pair, value: float = 0.0) -> Any:
    """Pad the last two dimensions."""
    lo = [0] * (len(x.shape) - 2) + list(padding)
    return b.pad(x, lo, lo, value)


def window_2d(b: Any, x: Any, at: Pair, out: Pair, stride: Pair) -> Any:
    """The elements that offset ``at`` of every window sees: a strided slice of the last two dimensions."""
    lead = len(x.shape) - 2
    starts = [0] * lead + list(at)
    stops = list(x.shape[:lead]) + [a + (n - 1) * s + 1 for a, n, s in zip(at, out, stride, strict=True)]
    return b.slice(x, starts, stops, [1] * lead + list(stride))


def place_2d(b: Any, x: Any, at: Pair, full: Pair, stride: Pair, lead: tuple[Any, ...] = ()) -> Any:
    """The inverse of ``window_2d``: extents ``full``, x where ``at`` of a window saw an element, zeros elsewhere.

    ``lead`` are constant positions in the dimensions of x before the last two: x[..., *lead, :, :] is placed.
    """
    outer, out = x.shape[: len(x.shape) - 2 - len(lead)], x.shape[-2:]
    shape = (*outer, *full)
    indices: list[Any] = [b.iota(shape, d) for d in range(len(outer))]
    indices += [b.const(position, int64, shape) for position in lead]
    seen = None
    for axis in (0, 1):
        distance = b.sub(b.iota(shape, len(outer) + axis), at[axis])
        window = b.floordiv(distance, stride[axis]) if stride[axis] > 1 else distance
        inside = b.and_(b.ge(distance, 0), b.lt(window, out[axis]))
        if stride[axis] > 1:
            inside = b.and_(inside, b.eq(b.mul(window, stride[axis]), distance))
        seen = inside if seen is None else b.and_(seen, inside)
        indices.append(b.min(b.max(window, 0), out[axis] - 1))
    return b.where(seen, b.gather(x, indices), b.const(0.0, x.dtype))


def _offsets(geo: Geometry, dilation: Pair) -> list[Pair]:
    return [(i * dilation[0], j * dilation[1]) for i in range(geo.kh) for j in range(geo.kw)]


def _lower_columns(b: Any, x: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    padded = pad_2d(b, x, padding)
    out = (geo.oh, geo.ow)
    taps = [window_2d(b, padded, at, out, stride) for at in _offsets(geo, dilation)]
    stacked = b.cat([b.reshape(t, (geo.n, geo.c, 1, *out)) for t in taps], 2)
    return b.reshape(stacked, geo.columns)


def _lower_uncolumns(b: Any, columns: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    taps = b.reshape(columns, (geo.n, geo.c, geo.kh * geo.kw, geo.oh, geo.ow))
    full = (geo.h + 2 * padding[0], geo.w + 2 * padding[1])
    total = None
    for k, at in enumerate(_offsets(geo, dilation)):
        if stride == (1, 1):
            tap = b.slice(taps, [0, 0, k, 0, 0], [geo.n, geo.c, k + 1, geo.oh, geo.ow], [1] * 5)
            hi = [0, 0, full[0] - at[0] - geo.oh, full[1] - at[1] - geo.ow]
            placed = b.pad(b.reshape(tap, (geo.n, geo.c, geo.oh, geo.ow)), [0, 0, *at], hi)
        else:
            placed = place_2d(b, taps, at, full, stride, (k,))
        total = placed if total is None else b.add(total, placed)
    stops = [geo.n, geo.c, padding[0] + geo.h, padding[1] + geo.w]
    return b.slice(total, [0, 0, *padding], stops, [1] * 4)


def _grouped_weight(geo: Geometry) -> tuple[int, int, int]:
    return (geo.groups, geo.o // geo.groups, geo.columns[2])


def _grouped_out(geo: Geometry) -> tuple[int, int, int, int]:
    return (geo.n, geo.groups, geo.o // geo.groups, geo.oh * geo.ow)


def _lower_conv(b: Any, x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
    geo = geometry(x.shape, w.shape, stride, padding, dilation, groups)
    columns = _lower_columns(b, x, geo, stride, padding, dilation)
    out = b.matmul(b.reshape(w, _grouped_weight(geo)), columns)
    return b.reshape(out, (geo.n, geo.o, geo.oh, geo.ow))


def _lower_conv_input(
    b: Any, g: Any, w: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(shape, w.shape, stride, padding, dilation, groups)
    flipped = b.permute(b.reshape(w, _grouped_weight(geo)), (0, 2, 1))
    columns = b.matmul(flipped, b.reshape(g, _grouped_out(geo)))
    return _lower_uncolumns(b, columns, geo, stride, padding, dilation)


def _lower_conv_weight(
    b: Any, x: Any, g: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(x.shape, shape, stride, padding, dilation, groups)
    columns = _lower_columns(b, x, geo, stride, padding, dilation)
    per_image = b.matmul(b.reshape(g, _grouped_out(geo)), b.permute(columns, (0, 1, 3, 2)))
    return b.reshape(b.sum(per_image, (0,)), shape)


# --- NumPy's half ---


def _np_columns(x: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)) if any(padding) else x
    out = np.empty((geo.n, geo.c, geo.kh * geo.kw, geo.oh, geo.ow), x.dtype)
    for k, (i, j) in enumerate(_offsets(geo, dilation)):
        out[:, :, k] = padded[
            :, :, i : i + (geo.oh - 1) * stride[0] + 1 : stride[0], j : j + (geo.ow - 1) * stride[1] + 1 : stride[1]
        ]
    return out.reshape(geo.columns)


def _np_conv(x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
    geo = geometry(x.shape, w.shape, stride, padding, dilation, groups)
    columns = _np_columns(x, geo, stride, padding, dilation)
    return np.matmul(w.reshape(_grouped_weight(geo)), columns).reshape(geo.n, geo.o, geo.oh, geo.ow)


def _np_conv_input(
    g: Any, w: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(shape, w.shape, stride, padding, dilation, groups)
    columns = np.matmul(w.reshape(_grouped_weight(geo)).transpose(0, 2, 1), g.reshape(_grouped_out(geo)))
    taps = columns.reshape(geo.n, geo.c, geo.kh * geo.kw, geo.oh, geo.ow)
    out = np.zeros((geo.n, geo.c, geo.h + 2 * padding[0], geo.w + 2 * padding[1]), g.dtype)
    for k, (i, j) in enumerate(_offsets(geo, dilation)):
        out[
            :, :, i : i + (geo.oh - 1) * stride[0] + 1 : stride[0], j : j + (geo.ow - 1) * stride[1] + 1 : stride[1]
        ] += taps[:, :, k]
    return out[:, :, padding[0] : padding[0] + geo.h, padding[1] : padding[1] + geo.w]


def _np_conv_weight(
    x: Any, g: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(x.shape, shape, stride, padding, dilation, groups)
    columns = _np_columns(x, geo, stride, padding, dilation)
    per_image = np.matmul(g.reshape(_grouped_out(geo)), columns.transpose(0, 1, 3, 2))
    return per_image.sum(axis=0).reshape(shape)


# --- entries: each derivative is one of the three ---


def _shape(c: RuleContext, position: int) -> tuple[int, ...]:
    aval = c.avals[position]
    assert aval is not None
    return aval.shape


define(
    "conv2d",
    aval=_conv_aval,
    numpy=_np_conv,
    lower=_lower_conv,
    vjps=[
        Vjp(lambda c, g, w: call("conv2d_input", g, w, _shape(c, 0), *c.params), (1,)),
        Vjp(lambda c, g, x: call("conv2d_weight", x, g, _shape(c, 1), *c.params), (0,)),
    ],
    num_inputs=2,
    node_name="ConvolutionBackward0",
)
define(
    "conv2d_input",
    aval=lambda g, w, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_conv_input,
    lower=_lower_conv_input,
    vjps=[
        Vjp(lambda c, g, w: call("conv2d", g, w, *c.params[1:]), (1,)),
        Vjp(lambda c, g, grad: call("conv2d_weight", g, grad, _shape(c, 1), *c.params[1:]), (0,)),
    ],
    num_inputs=2,
    node_name="ConvolutionBackwardBackward0",
)
define(
    "conv2d_weight",
    aval=lambda x, g, shape, *rest: make_aval(shape, g.dtype),
    numpy=_np_conv_weight,
    lower=_lower_conv_weight,
    vjps=[
        Vjp(lambda c, g, grad: call("conv2d_input", grad, g, _shape(c, 0), *c.params[1:]), (1,)),
        Vjp(lambda c, g, x: call("conv2d", x, g, *c.params[1:]), (0,)),
    ],
    num_inputs=2,
    node_name="ConvolutionBackwardBackward0",
)
