"""Convolution of two or three dimensions and its two derivatives, which are closed under differentiation.

Owns: conv2d, conv2d_input, conv2d_weight.
Must not know: Tensor, kernels.

Each is one matrix product over *columns*: [N, G, C/G * window, positions], the input's patches (im2col; Chellapilla et
al. 2006). NumPy's rules unfold them; kernels read them from the padded image (``convolution_products``). Where every
group has one channel of its own (depthwise), each position of the window is one multiply-add over a slice of it.

Parameters are (stride, padding, dilation, groups), each but the last with a number per dimension.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["Geometry", "add_windows", "pad_last", "window_slice"]

_products = LazyModule("jitgrad.ops.windows.convolution_products")

Pair = tuple[int, int]
Ints = tuple[int, ...]


class Geometry(NamedTuple):
    """The sizes of one convolution: of two dimensions, or of three."""

    n: int
    c: int
    image: Ints
    o: int
    kernel: Ints
    out: Ints
    groups: int

    @property
    def columns(self) -> tuple[int, int, int, int]:
        return (self.n, self.groups, self.c // self.groups * math.prod(self.kernel), math.prod(self.out))


def out_extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many positions a window has along one dimension."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def geometry(x: Ints, w: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Geometry:
    """The sizes that an input shape and a weight shape make."""
    out = tuple(map(out_extent, x[2:], w[2:], stride, padding, dilation))
    return Geometry(x[0], x[1], x[2:], w[0], w[2:], out, groups)


def _conv_aval(x: Aval, w: Aval, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Aval:
    dims = len(stride)
    if x.ndim != dims + 2:
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to conv{dims}d, but got input of size: "
            f"{list(x.shape)}"
        )
    if w.ndim != x.ndim:
        raise RuntimeError(
            f"conv{dims}d: expected {x.ndim}-D input and weight, but got shapes {list(x.shape)} and {list(w.shape)}"
        )
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
    if any(n <= 0 for n in geo.out):
        padded = " x ".join(str(n + 2 * p) for n, p in zip(geo.image, padding, strict=True))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({padded}). "
            f"Kernel size: ({' x '.join(map(str, geo.kernel))}). Kernel size can't be greater than actual input size"
        )
    return make_aval((geo.n, geo.o, *geo.out), x.dtype)


# --- the primitives' half ---


def pad_last(b: Any, x: Any, before: Sequence[int], behind: Sequence[int], value: float = 0.0) -> Any:
    """Pad the last dimensions."""
    lead = [0] * (len(x.shape) - len(before))
    return b.pad(x, [*lead, *before], [*lead, *behind], value)


def window_slice(b: Any, x: Any, at: Ints, out: Ints, stride: Ints) -> Any:
    """The elements that offset ``at`` of every window sees: a strided slice of the last dimensions."""
    lead = len(x.shape) - len(at)
    starts = [0] * lead + list(at)
    stops = list(x.shape[:lead]) + [a + (n - 1) * s + 1 for a, n, s in zip(at, out, stride, strict=True)]
    return b.slice(x, starts, stops, [1] * lead + list(stride))


def add_windows(b: Any, taps: list[Any], offsets: Sequence[Ints], full: Ints, stride: Ints) -> Any:
    """The sum of ``taps`` [*, *out], each where its offset of every window saw an element of [*, *full].

    With strides, positions that are equal modulo the stride see the same offsets: each such phase is a sum of shifted
    taps, and the phases are put side by side. Example: with stride 2, even rows see the even offsets only.
    """
    dims = len(full)
    lead, out = taps[0].shape[:-dims], taps[0].shape[-dims:]
    count = [-(-size // step) for size, step in zip(full, stride, strict=True)]

    def phase(which: Ints) -> Any:
        total = None
        for tap, at in zip(taps, offsets, strict=True):
            if tuple(a % s for a, s in zip(at, stride, strict=True)) == which:
                lo = [a // s for a, s in zip(at, stride, strict=True)]
                hi = [size - first - o for size, first, o in zip(count, lo, out, strict=True)]
                placed = pad_last(b, tap, lo, hi)
                total = placed if total is None else b.add(total, placed)
        return b.const(0, taps[0].dtype, (*lead, *count)) if total is None else total

    def side_by_side(which: Ints) -> Any:
        """All phases that begin with ``which``: [*, count, phases, ..]."""
        dim = len(which)
        if dim == dims:
            return b.reshape(phase(which), (*lead, *itertools.chain(*((n, 1) for n in count))))
        found = [side_by_side((*which, i)) for i in range(stride[dim])]
        return found[0] if len(found) == 1 else b.cat(found, len(lead) + 2 * dim + 1)

    whole = b.reshape(side_by_side(()), (*lead, *(n * s for n, s in zip(count, stride, strict=True))))
    return b.slice(whole, [0] * len(whole.shape), [*lead, *full], [1] * len(whole.shape))


def _offsets(geo: Geometry, dilation: Ints) -> list[Any]:
    """Where each position of the window is."""
    return [
        tuple(i * d for i, d in zip(at, dilation, strict=True)) for at in itertools.product(*map(range, geo.kernel))
    ]


def _without_padding(b: Any, taps: list[Any], geo: Geometry, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    """The taps, added where their windows saw the input."""
    full = (geo.image[0] + 2 * padding[0], geo.image[1] + 2 * padding[1])
    total = add_windows(b, taps, _offsets(geo, dilation), full, stride)
    stops = [geo.n, geo.c, padding[0] + geo.image[0], padding[1] + geo.image[1]]
    return b.slice(total, [0, 0, *padding], stops, [1] * 4)


def _grouped_weight(geo: Geometry) -> tuple[int, int, int]:
    return (geo.groups, geo.o // geo.groups, geo.columns[2])


def _grouped_out(geo: Geometry) -> tuple[int, int, int, int]:
    return (geo.n, geo.groups, geo.o // geo.groups, math.prod(geo.out))


def _pair(extents: Ints) -> Pair:
    return extents[0], extents[1]


_MOST_TAPS = 49  # positions of a window that one kernel adds up


def _is_depthwise(geo: Geometry) -> bool:
    return geo.c == geo.groups > 1 and len(geo.image) == 2 and math.prod(geo.kernel) <= _MOST_TAPS


def _taps(
    b: Any, padded: Any, geo: Geometry, out: Pair, stride: Pair, offsets: list[Pair]
) -> list[Any]:  # fmt: skip
    """Per offset, what it sees: [N, G, planes per group, *out]."""
    shape = (geo.n, geo.groups, padded.shape[1] // geo.groups, *out)
    return [b.reshape(window_slice(b, padded, at, out, stride), shape) for at in offsets]


def _weights(b: Any, w: Any, geo: Geometry) -> list[Any]:
    """Per position of the window, the weights: [1, G, planes per group, 1, 1]."""
    positions = itertools.product(*map(range, geo.kernel))
    shape = (1, geo.groups, geo.o // geo.groups, 1, 1)
    return [
        b.reshape(b.slice(w, [0, 0, i, j], [geo.o, 1, i + 1, j + 1], [1] * 4), shape) for i, j in positions
    ]  # fmt: skip


def _sum_of_products(b: Any, xs: list[Any], ys: list[Any]) -> Any:
    total = None
    for x, y in zip(xs, ys, strict=True):
        product = b.mul(x, y)
        total = product if total is None else b.add(total, product)
    return total


def _lower_depthwise(b: Any, x: Any, w: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    taps = _taps(b, pad_last(b, x, padding, padding), geo, _pair(geo.out), stride, _offsets(geo, dilation))
    return b.reshape(_sum_of_products(b, taps, _weights(b, w, geo)), (geo.n, geo.o, *geo.out))


def _lower_depthwise_input(
    b: Any, g: Any, w: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair
) -> Any:  # fmt: skip
    weights = _weights(b, w, geo)
    if stride == (1, 1) and _reaches_all(geo, padding, dilation):
        # windows over the padded gradient, from their other end
        last = (dilation[0] * (geo.kernel[0] - 1), dilation[1] * (geo.kernel[1] - 1))
        around = (last[0] - padding[0], last[1] - padding[1])
        padded = pad_last(b, g, around, around)
        offsets = [(last[0] - i, last[1] - j) for i, j in _offsets(geo, dilation)]
        total = _sum_of_products(b, _taps(b, padded, geo, _pair(geo.image), stride, offsets), weights)
        return b.reshape(b.sum(total, (2,)), (geo.n, geo.c, *geo.image))
    planes = b.reshape(g, (geo.n, geo.groups, geo.o // geo.groups, *geo.out))
    shape = (geo.n, geo.c, *geo.out)
    taps = [b.reshape(b.sum(b.mul(planes, weight), (2,)), shape) for weight in weights]
    return _without_padding(b, taps, geo, stride, padding, dilation)


def _reaches_all(geo: Geometry, padding: Pair, dilation: Pair) -> bool:
    """Whether the padding is no wider than the window: else some windows see nothing."""
    return all(p <= d * (k - 1) for p, d, k in zip(padding, dilation, geo.kernel, strict=True))


def _lower_depthwise_weight(
    b: Any, x: Any, g: Any, geo: Geometry, stride: Pair, padding: Pair, dilation: Pair
) -> Any:  # fmt: skip
    taps = _taps(b, pad_last(b, x, padding, padding), geo, _pair(geo.out), stride, _offsets(geo, dilation))
    planes = b.reshape(g, (geo.n, geo.groups, geo.o // geo.groups, *geo.out))
    sums = [b.reshape(b.sum(b.mul(tap, planes), (0, 3, 4)), (geo.o, 1, 1)) for tap in taps]
    return b.reshape(b.cat(sums, 2), (geo.o, 1, *geo.kernel))


def _lower_conv(b: Any, x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
    geo = geometry(x.shape, w.shape, stride, padding, dilation, groups)
    if _is_depthwise(geo):
        return _lower_depthwise(b, x, w, geo, stride, padding, dilation)
    return _products.forward_product(b, x, w, geo.out, stride, padding, dilation, groups)


def _lower_conv_input(
    b: Any, g: Any, w: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(shape, w.shape, stride, padding, dilation, groups)
    if _is_depthwise(geo):
        return _lower_depthwise_input(b, g, w, geo, stride, padding, dilation)
    return _products.input_product(b, g, w, shape, stride, padding, dilation, groups)


def _lower_conv_weight(
    b: Any, x: Any, g: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(x.shape, shape, stride, padding, dilation, groups)
    if _is_depthwise(geo):
        return _lower_depthwise_weight(b, x, g, geo, stride, padding, dilation)
    return _products.weight_product(b, x, g, shape, stride, padding, dilation, groups)


# --- NumPy's half ---


def _np_seen(geo: Geometry, at: Ints, stride: Ints) -> tuple[Any, ...]:
    """The index of what offset ``at`` of every window sees of the padded images."""
    spans = (slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(at, geo.out, stride, strict=True))
    return (slice(None), slice(None), *spans)


def _np_columns(x: Any, geo: Geometry, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding))) if any(padding) else x
    out = np.empty((geo.n, geo.c, math.prod(geo.kernel), *geo.out), x.dtype)
    for k, at in enumerate(_offsets(geo, dilation)):
        out[:, :, k] = padded[_np_seen(geo, at, stride)]
    return out.reshape(geo.columns)


def _np_conv(x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
    geo = geometry(x.shape, w.shape, stride, padding, dilation, groups)
    columns = _np_columns(x, geo, stride, padding, dilation)
    return np.matmul(w.reshape(_grouped_weight(geo)), columns).reshape(geo.n, geo.o, *geo.out)


def _np_conv_input(
    g: Any, w: Any, shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    geo = geometry(shape, w.shape, stride, padding, dilation, groups)
    columns = np.matmul(w.reshape(_grouped_weight(geo)).transpose(0, 2, 1), g.reshape(_grouped_out(geo)))
    taps = columns.reshape(geo.n, geo.c, math.prod(geo.kernel), *geo.out)
    whole = tuple(n + 2 * p for n, p in zip(geo.image, padding, strict=True))
    out = np.zeros((geo.n, geo.c, *whole), g.dtype)
    for k, at in enumerate(_offsets(geo, dilation)):
        out[_np_seen(geo, at, stride)] += taps[:, :, k]
    inside = (slice(p, p + n) for p, n in zip(padding, geo.image, strict=True))
    return out[(slice(None), slice(None), *inside)]


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
    missing_edges=1,
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
