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
the other way round, with images and positions as its rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jitgrad.ops.aval import contiguous_strides
from jitgrad.symbols.advice import advice

__all__ = ["forward_product", "input_product", "weight_product"]

Ints = tuple[int, ...]
_FEW_POSITIONS = 8
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


def _channels_product(
    b: Any, weight: tuple[Any, int, Any, Any], image: tuple[Any, int, Any, Any], sizes: Ints, out: Ints
) -> Any:
    """out[n, (g, m), p] = sum over k of weight[g, m, k] * image[n, g, k, p].

    Args:
        weight: a value, where it begins, the digits of (m), of (k).
        image: the same of (k), of (p).
        sizes: N, G.
        out: the extents of p.
    """
    (n, groups), (w, w_start, w_m, w_k), (x, x_start, x_k, x_p) = sizes, weight, image
    per_group = (math.prod(w.shape) // groups, math.prod(x.shape[1:]) // groups)
    if not _are_few(math.prod(out), _FEW_POSITIONS):
        a = b.windows(w, [[(n, 0), (groups, per_group[0])], w_m, w_k], w_start)
        columns = b.windows(x, [[(n, per_group[1] * groups), (groups, per_group[1])], x_k, x_p], x_start)
        product = b.matmul(a, columns)
        return b.reshape(product, (n, groups * product.shape[1], *out))
    rows = b.windows(x, [[(groups, per_group[1])], [(n, per_group[1] * groups), *x_p], x_k], x_start)
    product = b.matmul(rows, b.windows(w, [[(groups, per_group[0])], w_k, w_m], w_start))
    m = product.shape[2]
    parts = b.permute(b.reshape(product, (groups, n, math.prod(out), m)), (1, 0, 3, 2))
    return b.reshape(parts, (n, groups * m, *out))


def forward_product(
    b: Any, x: Any, w: Any, out: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The convolution of x [N, C, ...] with w [O, C / G, ...]: [N, O, *out]."""
    padded, kernel = _padded(b, x, padding, padding), w.shape[2:]
    steps, plane = _steps(padded), math.prod(padded.shape[2:])
    taps = math.prod(w.shape[1:])
    columns = [(w.shape[1], plane), *_digits(kernel, steps, dilation)]
    return _channels_product(
        b,
        (w, 0, [(w.shape[0] // groups, taps)], [(taps, 1)]),
        (padded, 0, columns, _digits(out, steps, stride)),
        (x.shape[0], groups),
        out,
    )


def weight_product(
    b: Any, x: Any, g: Any, shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The gradient of the weight [O, C / G, ...]: batch and positions are what is summed over."""
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
    padded = _padded(b, g, tuple(lo), tuple(hi))
    steps, plane = _steps(padded), math.prod(padded.shape[2:])

    def part(chosen: list[_Phase]) -> Any:
        if not all(p.taps for p in chosen):
            return b.const(0.0, g.dtype, (*shape[:2], *counts))
        seen = tuple(p.taps for p in chosen)
        outs = w.shape[0] // groups
        return _channels_product(
            b,
            _weight_of(b, w, chosen, groups, shape[0] * math.prod(counts)),
            (
                padded,
                sum((p.at + before) * s for p, before, s in zip(chosen, lo, steps, strict=True)),
                [(outs, plane), *_digits(seen, steps, tuple(p.at_step for p in chosen))],
                [*zip(counts, steps, strict=True)],
            ),
            (shape[0], groups),
            counts,
        )

    return _side_by_side(b, phases, part, shape, counts)


def _weight_of(b: Any, w: Any, chosen: list[_Phase], groups: int, positions: int) -> tuple[Any, int, Any, Any]:
    """The factor that a phase multiplies: a value, where it begins, the digits of the channel and of (output, tap).

    A phase that sees some of the taps copies them, and so does one of many ``positions``, which all images have: in
    place, each step along k, or each output, would be in another line of the cache.
    """
    (every, channels), kernel = w.shape[:2], w.shape[2:]
    outs, seen, steps = every // groups, tuple(p.taps for p in chosen), tuple(p.tap_step for p in chosen)
    if seen == tuple(kernel) and _are_few(positions, _MANY_COLUMNS):
        window, taps = contiguous_strides(tuple(kernel)), math.prod(kernel)
        first = sum(p.tap * s for p, s in zip(chosen, window, strict=True))
        return w, first, [(channels, taps)], [(outs, channels * taps), *_digits(seen, window, steps)]
    stops = [p.tap + (p.taps - 1) * p.tap_step + 1 for p in chosen]
    part = b.slice(w, (0, 0, *(p.tap for p in chosen)), (every, channels, *stops), (1, 1, *steps))
    depth = outs * math.prod(seen)
    rows = b.permute(b.reshape(part, (groups, outs, channels, math.prod(seen))), (0, 2, 1, 3))
    return b.reshape(rows, (groups, channels, depth)), 0, [(channels, depth)], [(depth, 1)]


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
