"""Convolutions whose padding is not multiplied: a product for each region of positions that see the same taps.

Owns: ``Axis``, ``Weight``; ``regions_pay`` and ``region_product``, ``taps_pay`` and ``tap_products``.
Must not know: kernels, strides and dilations of a convolution (an ``Axis`` says what they come to).

# Note [Regions of a convolution]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# On a small image much of what windows see is padding: of 3x3 windows over 4x4 elements 44 of 144. Positions that see
# the same taps of the window are a *region*: a corner, an edge, the inside. Each region is a product of its own, over
# these taps only, and reads the image as it is; regions are put side by side.
# A corner is one position: vectors must be filled by something else. So the image is copied with its batch as the
# innermost dimension, [C, *image, N], and the result is made in that order, and turned back. The two copies cost less
# than a padded copy does. Where regions have no padding to leave out, the order alone may pay: a 7x7 image fills 49 of
# 64 lanes, 16 of them fill all.
# Elements are summed in the same order as with padding, of which all terms are zeros: the same bits, but where a weight
# is infinite or not a number, which padding would multiply by zero.
# The gradient of the weight sums over positions, so that each tap has its own: a product for each tap, over the
# positions where it sees an element. Both operands are those copies, which the other two products have made. The
# results are [taps, O, C], and turned round: that pays where a batch is large.
# With symbolic extents the regions are those of the example, and the longest takes what the others leave; guards say
# that each sees the same taps.
# Example: 16 images, 3x3, padding 1, 256 to 256 channels, 8x8: nine products, 484/576 of the multiply-adds: 9.3 ms
# instead of 10.9 on an AMD EPYC, one thread; 512 channels, 4x4: 7.7 instead of 11.2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.ops.aval import contiguous_strides
from jitgrad.symbols.advice import advice
from jitgrad.symbols.number import value_of

__all__ = ["FEW_POSITIONS", "Axis", "Weight", "region_product", "regions_pay", "tap_products", "taps_pay"]

Ints = tuple[int, ...]
Digits = Sequence[tuple[int, int]]

FEW_POSITIONS = 8  # with fewer, products of padded images have the outputs along their vectors
_LANES = 16
_FEW_IMAGES = 8  # fewer do not fill vectors
_FEW_CHANNELS = 64  # of fewer channels, a copy of a panel for each tap costs too much
_LONG = 512  # positions, of which few see padding
_MOST_PRODUCTS = 30  # a window of three taps has 27 in three dimensions
_PRODUCT_COST = 4000  # vector multiply-adds that one more product must save: to plan, and to launch
_COPY_COST = 20  # of a vector that is copied, in multiply-adds
_TURN_COST = 150  # of a vector of the weight's gradient, which mostly goes to memory and comes back for it
_GAIN = 104  # percent: what gains less is left alone


class Axis(NamedTuple):
    """How windows move along one dimension: ``positions`` of them, ``taps`` each.

    Position i sees, with its tap t, element ``at + i * step + t * tap_step`` of the image, if it is one of ``extent``.
    """

    positions: int
    at: int
    step: int
    taps: int
    tap_step: int
    extent: int

    @property
    def is_known(self) -> bool:
        """Whether its extents are no symbols."""
        return type(self.positions) is type(self.extent) is int

    def sees(self, position: int, tap: int) -> bool:
        """Whether there is an element; a guard, if extents are symbolic."""
        place = self.at + position * self.step + tap * self.tap_step
        return bool(place >= 0) and bool(place < self.extent)

    def seen(self, position: int) -> range:
        """The taps with which a position sees an element, which follow each other; of the example's extents."""
        plain = self._replace(extent=value_of(self.extent))
        seen = [tap for tap in range(self.taps) if plain.sees(position, tap)]
        return range(seen[0], seen[-1] + 1) if seen else range(0)


class Weight(NamedTuple):
    """The factor of all images: where it begins in a value, the digits of an output, of the channels summed over and
    of the taps along each axis, Note [Windows]."""

    value: Any
    start: int
    outs: tuple[int, int]
    channels: tuple[int, int]
    taps: Digits


class _Region(NamedTuple):
    """Along one axis: some positions, and the taps with which they all see an element."""

    first: int
    positions: int
    tap: int
    taps: int


def _regions(axis: Axis) -> list[_Region]:
    """In order. The taps of a position that see an element follow each other.

    Of symbolic extents: those of the example, of which the longest is as long as the others leave it.
    """
    found: list[_Region] = []
    for i in range(value_of(axis.positions)):
        seen = axis.seen(i)
        if found and found[-1][2:] == (seen.start, len(seen)):
            found[-1] = found[-1]._replace(positions=found[-1].positions + 1)
        else:
            found.append(_Region(i, 1, seen.start, len(seen)))
    return found if axis.is_known else _of_any_count(axis, found)


def _of_any_count(axis: Axis, found: list[_Region]) -> list[_Region]:
    """Regions behind the longest are counted from the end. What each sees is asked again: guards."""
    longest = found.index(max(found, key=lambda region: region.positions))
    behind = sum(region.positions for region in found[longest + 1 :])
    more = axis.positions - value_of(axis.positions)
    moved = [region._replace(first=more + region.first) for region in found[longest + 1 :]]
    middle = found[longest]._replace(positions=axis.positions - found[longest].first - behind)
    every = [*found[:longest], middle, *moved]
    for region in every:
        stop = region.tap + region.taps
        for tap in (region.tap - 1, region.tap, stop - 1, stop):
            if 0 <= tap < axis.taps:
                axis.sees(region.first, tap)
                axis.sees(region.first + region.positions - 1, tap)
    return every


def _positions(axis: Axis, tap: int) -> tuple[int, int]:
    """The first position where a tap sees an element, and how many there are."""
    total = value_of(axis.positions)
    seen = [i for i in range(total) if tap in axis.seen(i)]
    if axis.is_known or not seen:
        return (seen[0], len(seen)) if seen else (0, 0)
    for i in (seen[0] - 1, seen[0]):
        if i >= 0:
            axis.sees(i, tap)
    for i in (seen[-1], seen[-1] + 1):
        if i < total:
            axis.sees(axis.positions - total + i, tap)
    return seen[0], axis.positions - total + len(seen)


def regions_pay(parts: Sequence[Sequence[Axis]], images: int, channels: int, outs: int) -> bool:
    """Whether products of regions take less time than those over padded images, one for each of ``parts``.

    ``channels`` that each result sums over, ``outs`` of all groups.
    """
    every = [axis for axes in parts for axis in axes]
    return all(map(_can_be_cut, every)) and _regions_gain(parts, images, channels, outs)


def _can_be_cut(axis: Axis) -> bool:
    """Whether the regions are known, be it as functions of extents: where some positions see nothing, they are not."""
    if any(type(n) is not int for n in axis[1:5]) or value_of(axis.positions) > _LONG:
        return False
    return axis.is_known or all(axis.seen(i) for i in range(value_of(axis.positions)))


@advice
def _regions_gain(parts: Sequence[Sequence[Axis]], images: int, channels: int, outs: int) -> bool:
    if images < _FEW_IMAGES:
        return False
    padded, split, products, positions = 0, 0, 0, 0
    for axes in parts:
        seen = math.prod(axis.positions for axis in axes)
        vectors = -(-images * seen // _LANES) if seen < FEW_POSITIONS else images * -(-seen // _LANES)
        padded += vectors * math.prod(axis.taps for axis in axes)
        positions += seen
        every = [_regions(axis) for axis in axes]
        products += math.prod(map(len, every))
        if products > _MOST_PRODUCTS:
            return False
        for chosen in itertools.product(*every):
            vectors = -(-images * math.prod(r.positions for r in chosen) // _LANES)
            split += vectors * math.prod(r.taps for r in chosen)
    copied = images * positions * (channels + outs) // _LANES
    more = products * _PRODUCT_COST + copied * _COPY_COST
    return bool(padded * channels * outs * 100 > _GAIN * (split * channels * outs + more))


def _images_inside(b: Any, x: Any) -> Any:
    """Images [N, C, ...] with N as the last dimension, [C, ..., N]: a copy, as products read windows of memory."""
    return b.permute(x, (*range(1, len(x.shape)), 0))


def _steps(x: Any) -> Ints:
    """Strides of the dimensions of images in that order, in elements."""
    return contiguous_strides(tuple(x.shape[1:]))[:-1]


def region_product(b: Any, weight: Weight, x: Any, axes: Sequence[Axis], groups: int) -> Any:
    """out[n, (g, m), p] = sum over (c, t) of weight[g, m, c, t] * what position p sees of x[n, (g, c)] with tap t."""
    inside = _images_inside(b, x)
    n, channels, plane = x.shape[0], x.shape[1] // groups, math.prod(inside.shape[1:])
    steps, outs = _steps(inside), weight.outs[0]

    def part(chosen: Sequence[_Region]) -> Any:
        counts, taps = [r.positions for r in chosen], [r.taps for r in chosen]
        shape = (groups * outs, *counts, n)
        if 0 in taps:  # all that they see is padding
            return b.const(0.0, x.dtype, shape)
        each = list(zip(axes, chosen, steps, strict=True))
        at = sum((axis.at + r.first * axis.step + r.tap * axis.tap_step) * s for axis, r, s in each)
        seen = [(r.taps, axis.tap_step * s) for axis, r, s in each]
        moves = [(r.positions, axis.step * s) for axis, r, s in each]
        columns = b.windows(inside, [[(groups, channels * plane)], [(channels, plane), *seen], [*moves, (n, 1)]], at)
        first = weight.start + sum(r.tap * s for r, (_, s) in zip(chosen, weight.taps, strict=True))
        used = [(r.taps, s) for r, (_, s) in zip(chosen, weight.taps, strict=True)]
        per_group = math.prod(weight.value.shape) // groups
        a = b.windows(weight.value, [[(groups, per_group)], [weight.outs], [weight.channels, *used]], first)
        return b.reshape(b.matmul(a, columns), shape)

    whole = _joined(b, [_regions(axis) for axis in axes], part, 1)
    shape = whole.shape[:-1]
    turned = b.copy(b.permute(b.reshape(whole, (math.prod(shape), n)), (1, 0)))
    return b.reshape(turned, (n, *shape))


def _joined(b: Any, choices: Sequence[Sequence[Any]], part: Any, dim: int) -> Any:
    """What ``part`` makes of one choice for each axis, axis by axis from dimension ``dim`` on."""

    def join(chosen: list[Any]) -> Any:
        axis = len(chosen)
        if axis == len(choices):
            return part(chosen)
        parts = [join([*chosen, choice]) for choice in choices[axis]]
        return parts[0] if len(parts) == 1 else b.cat(parts, dim + axis)

    return join([])


# the gradient of the weight


def taps_pay(axes: Sequence[Axis], images: int, channels: int, outs: int) -> bool:
    """Whether products of taps take less time than one over the padded images, if there are copies with images inside.

    ``channels`` and ``outs`` of a group.
    """
    return all(map(_can_be_cut, axes)) and _taps_gain(axes, images, channels, outs)


@advice
def _taps_gain(axes: Sequence[Axis], images: int, channels: int, outs: int) -> bool:
    taps = math.prod(axis.taps for axis in axes)
    if taps > _MOST_PRODUCTS or channels < _FEW_CHANNELS or outs < _FEW_CHANNELS:
        return False
    padded = images * math.prod(axis.positions for axis in axes) * taps
    seen = images * math.prod(sum(_positions(axis, tap)[1] for tap in range(axis.taps)) for axis in axes)
    lanes = -(-channels // _LANES) * outs
    more = taps * (_PRODUCT_COST + _TURN_COST * lanes)
    return bool(padded * lanes * 100 > _GAIN * (seen * lanes + more))


def tap_products(b: Any, x: Any, g: Any, shape: Ints, axes: Sequence[Axis], groups: int) -> Any:
    """grad[(g, m), c, t] = sum over images and positions p of g[n, (g, m), p] * what p sees of x[n, (g, c)] with t."""
    xs, gs = _images_inside(b, x), _images_inside(b, g)
    n, outs, channels = x.shape[0], shape[0] // groups, shape[1]
    x_plane, g_plane = (math.prod(v.shape[1:]) for v in (xs, gs))

    def part(chosen: Sequence[int]) -> Any:
        seen = [_positions(axis, tap) for axis, tap in zip(axes, chosen, strict=True)]
        if any(type(count) is int and count == 0 for _, count in seen):  # all that the tap sees is padding
            return b.const(0.0, x.dtype, (1, *shape[:2]))
        each = list(zip(axes, chosen, seen, _steps(xs), _steps(gs), strict=True))
        at = sum((axis.at + first * axis.step + tap * axis.tap_step) * s for axis, tap, (first, _), s, _ in each)
        summed = [*((count, axis.step * s) for axis, _, (_, count), s, _ in each), (n, 1)]
        columns = b.windows(xs, [[(groups, channels * x_plane)], summed, [(channels, x_plane)]], at)
        at = sum(first * s for _, _, (first, _), _, s in each)
        summed = [*((count, s) for _, _, (_, count), _, s in each), (n, 1)]
        rows = b.windows(gs, [[(groups, outs * g_plane)], [(outs, g_plane)], summed], at)
        return b.reshape(b.matmul(rows, columns), (1, *shape[:2]))

    every = itertools.product(*(range(axis.taps) for axis in axes))
    return b.reshape(b.permute(b.cat([part(taps) for taps in every], 0), (1, 2, 0)), shape)
