"""Regions: a layout of a storage as slices of another one's dimensions.

Owns: ``Region``, ``region_of``, and reading, replacing and filling a region over primitives.
Must not know: Tensor, kernels.

``base`` is row-major. If its memory, seen as some other shape, has the view as a slice per dimension, kernels reach the
view's elements by affine index maps. Diagonals, overlapping and broadcast layouts have no such form.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from jitgrad.ops.aval import Aval

__all__ = ["Region", "lower_add", "lower_scatter", "lower_select", "region_of"]

Shape = tuple[int, ...]


class Region(NamedTuple):
    """Where a view lies in its base.

    Attributes:
        whole: the base's memory, seen as this shape;
        starts, steps, counts: the slice of each of its dimensions;
        order: per extent of the view other than 1, the dimension of ``whole`` that it runs along.
    """

    whole: Shape
    starts: Shape
    steps: Shape
    counts: Shape
    order: Shape


@functools.lru_cache(maxsize=4096)
def region_of(base: Aval, view: Aval) -> Region | None:
    """The view as a region of ``base``; None if it is not one."""
    first = view.offset - base.offset
    if base.dtype is not view.dtype or not base.is_contiguous or not base.numel or not view.numel or first < 0:
        return None
    for whole in _shapes(base, view):
        found = _fit(whole, first, view)
        if found is not None:
            return found
    return None


def _shapes(base: Aval, view: Aval) -> list[Shape]:
    """The base's own shape, a vector, and one that is cut where the view's strides are."""
    shapes = [base.shape, (base.numel,)]
    cut: list[int] = []
    rest = base.numel
    for step in sorted({s for n, s in zip(view.shape, view.stride, strict=True) if n != 1 and s > 1}, reverse=True):
        if rest % step:
            break
        cut.append(rest // step)
        rest = step
    else:
        shapes.append((*cut, rest))
    return shapes


def _fit(whole: Shape, first: int, view: Aval) -> Region | None:
    strides = [math.prod(whole[d + 1 :]) for d in range(len(whole))]
    starts, rest = [], first
    for n, stride in zip(whole, strides, strict=True):
        starts.append(rest // stride)
        rest %= stride
        if starts[-1] >= n:
            return None
    steps, counts = [1] * len(whole), [1] * len(whole)
    order: list[int] = []
    for n, step in zip(view.shape, view.stride, strict=True):
        if n == 1:
            continue
        d = next((d for d, s in enumerate(strides) if whole[d] != 1 and 0 < s <= step and step % s == 0), None)
        if d is None or d in order:
            return None
        steps[d], counts[d] = step // strides[d], n
        if starts[d] + (n - 1) * steps[d] >= whole[d]:
            return None
        order.append(d)
    return Region(whole, tuple(starts), tuple(steps), tuple(counts), tuple(order))


def _stops(w: Region) -> Shape:
    return tuple(start + (n - 1) * step + 1 for start, step, n in zip(w.starts, w.steps, w.counts, strict=True))


def lower_select(b: Any, x: Any, base: Aval, view: Aval) -> Any:
    """What the view sees of ``x``, a value of the base's shape."""
    w = region_of(base, view)
    assert w is not None
    block = b.slice(b.reshape(x, w.whole), w.starts, _stops(w), w.steps)
    kept = tuple(w.counts[d] for d in sorted(w.order))
    rank = sorted(w.order)
    moved = b.permute(b.reshape(block, kept), tuple(rank.index(d) for d in w.order))
    return b.reshape(moved, view.shape)


def _block(b: Any, src: Any, w: Region, view: Aval) -> Any:
    """A value of the view's shape, in the order of the region's dimensions."""
    seen = b.reshape(b.expand(src, view.shape), tuple(w.counts[d] for d in w.order))
    return b.reshape(b.permute(seen, tuple(sorted(range(len(w.order)), key=w.order.__getitem__))), w.counts)


def lower_scatter(b: Any, x: Any, src: Any, base: Aval, view: Aval) -> Any:
    """``x`` with ``src`` where the view looks."""
    w = region_of(base, view)
    assert w is not None
    placed = b.update(b.reshape(x, w.whole), _block(b, b.cast(src, x.dtype), w, view), w.starts, w.steps)
    return b.reshape(placed, base.shape)


def lower_add(b: Any, src: Any, base: Aval, view: Aval) -> Any:
    """Zeros with ``src`` where the view looks."""
    zeros = b.const(src.dtype.np.type(0).item(), src.dtype, base.shape)
    return lower_scatter(b, zeros, src, base, view)
