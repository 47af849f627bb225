"""Convolutions of any number of dimensions as implicit matrix products, for lowering.

Owns: ``forward_product``, ``input_product``, ``weight_product``.
Must not know: kernels, how a product reads windows (Note [Windows]).

The patches of an image are a view of the padded image, and a product reads them there; nothing is unfolded. With
groups G, windows of K taps, P positions:
    forward   out[n, g]  [O/G, P]        = w[g] [O/G, C/G * K]        x  patches of image n [C/G * K, P]
    input     grad[n, g] [C/G, phase]    = w[g] [C/G, O/G * taps]     x  patches of the padded gradient
    weight    grad[g]    [C/G * K, O/G]  = patches [C/G * K, N * P]   x  gradients [N * P, O/G], then transposed;
              of many outputs, that other way round at once
With a stride, elements of the input that are equal modulo the stride see the same taps: each such *phase* is a
convolution of its own, and the phases are put side by side. Where there are only a few positions, the product is taken
the other way round, with images and positions as its rows. Where much of what windows see is padding, that is left out,
Note [Regions of a convolution].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.ops.aval import contiguous_strides
from jitgrad.ops.windows.regions import (
    FEW_POSITIONS,
    Axis,
    Weight,
    region_product,
    regions_pay,
    tap_products,
    taps_pay,
)
from jitgrad.symbols.advice import advice

__all__ = ["forward_product", "input_product", "weight_product"]

Ints = tuple[int, ...]
_MANY_OUTS = 256  # so many outputs pay for a copy of the patches; with fewer, to transpose the gradient takes less
_MANY_COLUMNS = 2048  # so many positions of all images: a copy of the weight takes 4 % of their product


def _padded(b: Any, x: Any, lo: Ints, hi: Ints) -> Any:
    return b.pad(x, (0, 0, *lo), (0, 0, *hi))


def _steps(x: Any) -> Ints:
    """Strides of the dimensions of an image, in elements."""
    return contiguous_strides(tuple(x.shape[2:]))


def _digits(extents: Ints, strides: Ints, by: Ints) -> list[tuple[int, int]]:
    return [(n, s * f) for n, s, f in zip(extents, strides, by, strict=True)]


@advice
def _are_few(positions: int, limit: int) -> bool:
    """Whether there are fewer positions than pay for another way."""
    return positions < limit


def _image_products(
    b: Any, x: Any, parts: Sequence[tuple[Weight, Sequence[Axis]]], padding: tuple[Ints, Ints], groups: int
) -> list[Any]:
    """For each part, out[n, (g, m), p] = sum over (c, t) of weight[g, m, c, t] * what p sees of x[n, (g, c)] with t.

    ``padding`` on both sides of the images, which all parts need.
    """
    outs = parts[0][0].outs[0] * groups
    if regions_pay([axes for _, axes in parts], x.shape[0], x.shape[1] // groups, outs):
        return [region_product(b, weight, x, axes, groups) for weight, axes in parts]
    padded = _padded(b, x, *padding)
    return [_channels_product(b, weight, padded, axes, padding[0], groups) for weight, axes in parts]


def _channels_product(b: Any, weight: Weight, x: Any, axes: Sequence[Axis], before: Ints, groups: int) -> Any:
    """The same of padded images, in front of which ``before`` is padding."""
    n, channels, plane, steps = x.shape[0], x.shape[1] // groups, math.prod(x.shape[2:]), _steps(x)
    out = tuple(axis.positions for axis in axes)
    start = sum((axis.at + lo) * s for axis, lo, s in zip(axes, before, steps, strict=True))
    x_k = [(channels, plane), *((axis.taps, axis.tap_step * s) for axis, s in zip(axes, steps, strict=True))]
    x_p = [(axis.positions, axis.step * s) for axis, s in zip(axes, steps, strict=True)]
    w, w_start, w_m, w_k = weight.value, weight.start, [weight.outs], [weight.channels, *weight.taps]
    w_group, x_group = math.prod(w.shape) // groups, channels * plane
    if not _are_few(math.prod(out), FEW_POSITIONS):
        a = b.windows(w, [[(n, 0), (groups, w_group)], w_m, w_k], w_start)
        columns = b.windows(x, [[(n, x_group * groups), (groups, x_group)], x_k, x_p], start, axes)
        product = b.matmul(a, columns)
        return b.reshape(product, (n, groups * product.shape[1], *out))
    rows = b.windows(x, [[(groups, x_group)], [(n, x_group * groups), *x_p], x_k], start)
    product = b.matmul(rows, b.windows(w, [[(groups, w_group)], w_k, w_m], w_start))
    m = product.shape[2]
    parts = b.permute(b.reshape(product, (groups, n, math.prod(out), m)), (1, 0, 3, 2))
    return b.reshape(parts, (n, groups * m, *out))


def _axes(x: Any, kernel: Ints, out: Ints, stride: Ints, padding: Ints, dilation: Ints) -> list[Axis]:
    each = zip(out, padding, stride, kernel, dilation, x.shape[2:], strict=True)
    return [Axis(count, -before, step, taps, apart, extent) for count, before, step, taps, apart, extent in each]


def forward_product(
    b: Any, x: Any, w: Any, out: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The convolution of x [N, C, ...] with w [O, C / G, ...]: [N, O, *out]."""
    channels, kernel = w.shape[1], tuple(w.shape[2:])
    taps = math.prod(kernel)
    window = list(zip(kernel, contiguous_strides(kernel), strict=True))
    weight = Weight(w, 0, (w.shape[0] // groups, channels * taps), (channels, taps), window)
    axes = _axes(x, kernel, out, stride, padding, dilation)
    return _image_products(b, x, [(weight, axes)], (padding, padding), groups)[0]


def weight_product(
    b: Any, x: Any, g: Any, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The gradient of the weight [O, C / G, ...]: batch and positions are what is summed over."""
    axes, sizes = _axes(x, shape[2:], g.shape[2:], stride, padding, dilation), (x.shape[0], shape[1])
    if regions_pay([axes], *sizes, shape[0]) and taps_pay(axes, *sizes, shape[0] // groups):
        return tap_products(b, x, g, shape, axes, groups)
    padded, kernel, out = _padded(b, x, padding, padding), shape[2:], g.shape[2:]
    steps, plane, positions = _steps(padded), math.prod(padded.shape[2:]), math.prod(out)
    per_group, n = shape[1], x.shape[0]
    rows = [(per_group, plane), *_digits(kernel, steps, dilation)]
    every = [(n, x.shape[1] * plane), *_digits(out, steps, stride)]
    outs = shape[0] // groups
    in_group, out_rows = (groups, outs * positions), (outs, positions)
    summed = [(n, shape[0] * positions), (positions, 1)]
    if outs >= _MANY_OUTS:
        patches = b.windows(padded, [[(groups, per_group * plane)], every, rows])
        return b.reshape(b.matmul(b.windows(g, [[in_group], [out_rows], summed]), patches), shape)
    patches = b.windows(padded, [[(groups, per_group * plane)], rows, every])
    product = b.matmul(patches, b.windows(g, [[in_group], summed, [out_rows]]))
    return b.reshape(b.permute(product, (0, 2, 1)), shape)


# the input's gradient


class _Phase(NamedTuple):
    """Along one dimension: the elements whose position is ``first`` modulo the stride.

    Attributes:
        taps: how many of the window's positions they see.
        tap, tap_step: the first of them, and how far apart they are.
        at, at_step: what element 0 reads of the gradient with that tap, and how the next tap's place differs.
    """

    taps: int
    tap: int
    tap_step: int
    at: int
    at_step: int


def _phase(first: int, kernel: int, stride: int, padding: int, dilation: int) -> _Phase:
    whole, rest = divmod(first + padding, stride)
    seen = [k for k in range(kernel) if (k * dilation) % stride == rest]
    if not seen:
        return _Phase(0, 0, 0, 0, 0)
    common = math.gcd(stride, dilation)
    at = whole - (seen[0] * dilation - rest) // stride
    return _Phase(len(seen), seen[0], stride // common, at, -dilation // common)


def input_product(
    b: Any, g: Any, w: Any, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The gradient of the input [N, C, ...], from g [N, O, ...] and w [O, C / G, ...]."""
    full, kernel = shape[2:], w.shape[2:]
    counts = tuple(-(-n // s) for n, s in zip(full, stride, strict=True))
    phases = [[_phase(a, *row) for a in range(row[1])] for row in zip(kernel, stride, padding, dilation, strict=True)]
    lo, hi = [], []
    for each, count, extent in zip(phases, counts, g.shape[2:], strict=True):
        reads = [p.at + j * p.at_step for p in each for j in (0, p.taps - 1) if p.taps]
        lo.append(max(0, -min(reads, default=0)))
        hi.append(max(0, max(reads, default=0) + count - extent))
    positions = shape[0] * math.prod(counts)
    parts = {}
    for chosen in itertools.product(*phases):
        if all(p.taps for p in chosen):
            sizes = zip(chosen, counts, g.shape[2:], strict=True)
            axes = [Axis(count, p.at, 1, p.taps, p.at_step, extent) for p, count, extent in sizes]
            parts[chosen] = (_weight_of(b, w, chosen, groups, positions), axes)
    made = dict(zip(parts, _image_products(b, g, [*parts.values()], (tuple(lo), tuple(hi)), groups), strict=True))
    nothing = b.const(0.0, g.dtype, (*shape[:2], *counts))
    return _side_by_side(b, phases, lambda chosen: made.get(tuple(chosen), nothing), shape, counts)


def _weight_of(b: Any, w: Any, chosen: Sequence[_Phase], groups: int, positions: int) -> Weight:
    """The factor that a phase multiplies. The outputs are what it sums over.

    A phase that sees some of the taps copies them, and so does one of many ``positions``, which all images have: in
    place, each step along k, or each output, would be in another line of the cache.
    """
    (every, channels), kernel = w.shape[:2], w.shape[2:]
    outs, seen, steps = every // groups, tuple(p.taps for p in chosen), tuple(p.tap_step for p in chosen)
    if seen == tuple(kernel) and _are_few(positions, _MANY_COLUMNS):
        window, taps = contiguous_strides(tuple(kernel)), math.prod(kernel)
        first = sum(p.tap * s for p, s in zip(chosen, window, strict=True))
        return Weight(w, first, (channels, taps), (outs, channels * taps), _digits(seen, window, steps))
    stops = [p.tap + (p.taps - 1) * p.tap_step + 1 for p in chosen]
    part = b.slice(w, (0, 0, *(p.tap for p in chosen)), (every, channels, *stops), (1, 1, *steps))
    taps = math.prod(seen)
    rows = b.permute(b.reshape(part, (groups, outs, channels, taps)), (0, 2, 1, 3))
    copied = b.reshape(rows, (groups, channels, outs * taps))
    inner = list(zip(seen, contiguous_strides(seen), strict=True))
    return Weight(copied, 0, (channels, outs * taps), (outs, taps), inner)


def _side_by_side(b: Any, phases: list[list[_Phase]], part: Any, shape: Ints, counts: Ints) -> Any:
    """The phases, each element at its place."""
    if all(len(each) == 1 for each in phases):
        return part([each[0] for each in phases])
    split = [n for count in counts for n in (count, 1)]

    def joined(chosen: list[_Phase]) -> Any:
        dim = len(chosen)
        if dim == len(phases):
            return b.reshape(part(chosen), (*shape[:2], *split))
        return b.cat([joined([*chosen, p]) for p in phases[dim]], 3 + 2 * dim)

    strides = [len(each) for each in phases]
    whole = b.reshape(joined([]), (*shape[:2], *(c * s for c, s in zip(counts, strides, strict=True))))
    return b.slice(whole, [0] * len(shape), list(shape), [1] * len(shape))
