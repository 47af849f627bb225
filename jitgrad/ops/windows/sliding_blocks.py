"""Sliding windows of an image as columns, and the sum of such columns: each is the derivative of the other.

Owns: ``im2col``, ``col2im``. Must not know: Tensor, kernels, how arguments are given.

Parameters are (image, kernel, dilation, padding, stride), a number each for height and width. Images are [*, C, H, W],
columns [*, C * kernel elements, windows].
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from jitgrad.ops.aval import make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import Vjp, define
from jitgrad.ops.windows.convolution import add_windows, out_extent, pad_last, window_slice

__all__: list[str] = []

Pair = tuple[int, int]

_MOST_TAPS = 49
"""Positions of a window that one kernel adds up; of more, rows are added up first."""


def _counts(image: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Pair:
    height, width = map(out_extent, image, kernel, stride, padding, dilation)
    return height, width


def _full(image: Pair, padding: Pair) -> Pair:
    return image[0] + 2 * padding[0], image[1] + 2 * padding[1]


def _columns_shape(x: Any, *params: Pair) -> tuple[int, ...]:
    *lead, channels = x.shape[:-2]
    return (*lead, channels * math.prod(params[1]), math.prod(_counts(*params)))


def _image_shape(x: Any, image: Pair, kernel: Pair, *rest: Pair) -> tuple[int, ...]:
    *lead, columns = x.shape[:-1]
    return (*lead, columns // math.prod(kernel), *image)


def _np_seen(at: tuple[int, ...], counts: Pair, dilation: Pair, stride: Pair) -> tuple[Any, ...]:
    """The index of what position ``at`` of every window sees of the padded images."""
    first = [i * d for i, d in zip(at, dilation, strict=True)]
    return (..., *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(first, counts, stride, strict=True)))


def _np_im2col(x: Any, image: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Any:
    params = image, kernel, dilation, padding, stride
    if not x.size:
        return np.empty(_columns_shape(x, *params), x.dtype)
    counts = _counts(*params)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding])
    out: Any = np.empty((*x.shape[:-2], *kernel, *counts), x.dtype)
    for at in itertools.product(*map(range, kernel)):
        out[(..., *at, slice(None), slice(None))] = padded[_np_seen(at, counts, dilation, stride)]
    return out.reshape(_columns_shape(x, *params))


def _np_col2im(x: Any, image: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Any:
    counts = _counts(image, kernel, dilation, padding, stride)
    shape = _image_shape(x, image, kernel)
    if not x.size:
        return np.empty(shape, x.dtype)
    taps = x.reshape(*shape[:-2], *kernel, *counts)
    out = np.zeros((*shape[:-2], *_full(image, padding)), x.dtype)
    for at in itertools.product(*map(range, kernel)):
        out[_np_seen(at, counts, dilation, stride)] += taps[(..., *at, slice(None), slice(None))]
    return out[..., padding[0] : padding[0] + image[0], padding[1] : padding[1] + image[1]]


def _lower_im2col(b: Any, x: Any, *params: Pair) -> Any:
    image, kernel, dilation, padding, stride = params
    if 0 in x.shape:
        return b.const(0, x.dtype, _columns_shape(x, *params))
    counts, (_, width) = _counts(*params), _full(image, padding)
    padded = pad_last(b, x, padding, padding)
    planes = math.prod(x.shape[:-2])
    rows = [(kernel[0], dilation[0] * width), (counts[0], stride[0] * width)]
    columns = [(kernel[1], dilation[1]), (counts[1], stride[1])]
    digits = [[(planes, math.prod(_full(image, padding)))], rows[:1], columns[:1], rows[1:], columns[1:]]
    return b.reshape(b.windows(padded, digits), _columns_shape(x, *params))


def _lower_col2im(b: Any, x: Any, image: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Any:
    counts, full = _counts(image, kernel, dilation, padding, stride), _full(image, padding)
    shape = _image_shape(x, image, kernel)
    planes = math.prod(shape[:-2])
    taps = b.reshape(x, (planes, *kernel, *counts))
    if math.prod(kernel) > _MOST_TAPS:
        rows = b.reshape(b.permute(taps, (0, 1, 3, 2, 4)), (planes * kernel[0] * counts[0], kernel[1], 1, counts[1]))
        wide = _added(b, rows, (1, kernel[1]), (1, dilation[1]), (1, full[1]), (1, stride[1]))
        rows = b.reshape(wide, (planes, kernel[0], counts[0], full[1]))
        total = _added(b, rows, (kernel[0], 1), (dilation[0], 1), full, (stride[0], 1))
    else:
        total = _added(b, b.reshape(taps, (planes, math.prod(kernel), *counts)), kernel, dilation, full, stride)
    inside = window_slice(b, total, padding, image, (1, 1))
    return b.reshape(inside, shape)


def _added(b: Any, taps: Any, kernel: Pair, dilation: Pair, full: Pair, stride: Pair) -> Any:
    """[planes, taps, *out]: the sum of all taps where their positions of the windows saw [planes, *full]."""
    planes, count, *out = taps.shape
    each = [
        b.reshape(b.slice(taps, [0, n, 0, 0], [planes, n + 1, *out], [1] * 4), (planes, *out)) for n in range(count)
    ]
    offsets = [(i * dilation[0], j * dilation[1]) for i, j in itertools.product(*map(range, kernel))]
    return add_windows(b, each, offsets, full, stride)


for _name, _shape, _numpy, _lower, _adjoint, _node in (
    ("im2col", _columns_shape, _np_im2col, _lower_im2col, "col2im", "Im2ColBackward0"),
    ("col2im", _image_shape, _np_col2im, _lower_col2im, "im2col", "Col2ImBackward0"),
):
    define(
        _name,
        aval=lambda x, *params, _shape=_shape: make_aval(_shape(x, *params), x.dtype),
        numpy=_numpy,
        lower=_lower,
        vjps=[Vjp(lambda c, g, _adjoint=_adjoint: call(_adjoint, g, *c.params))],
        node_name=_node,
    )
