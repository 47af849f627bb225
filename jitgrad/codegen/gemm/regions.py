"""Which terms of its sum a vector of columns needs, where windows see padding.

Owns: ``Seen``, ``ColumnRegion``, ``regions_of``, ``regions_gain``, ``blocks_of``.
Must not know: LLVM, how panels are copied, tables.

# Note [Regions of a product]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A padded image is mostly read where it is an image. But the first row of a result sees zeros with each window's first
# row, and these terms may be left out: sums start at zero, so their bits stay what they are (but where A is infinite or
# not a number). A product says what its columns see: for each axis of the image the number of positions, the element
# that position 0 sees with tap 0, what a position and a tap move on, the number of taps, and the elements that are no
# padding. A vector of columns needs the taps with which one of its lanes sees an element. Vectors that need the same
# ones are a *region*: its panels have a list of k of their own, in the same order. A panel belongs to one region, so
# vectors of all images are counted region by region; a block, which is what a unit of work does, lies in one, too.
# This leaves out padding along all axes but the one along which the lanes lie, if rows are whole vectors; others need
# nearly all taps. Where images are so small that the last axis matters, the images are what lies along the lanes, Note
# [Regions of a convolution].
# Example: 4 images of 16 channels, 16x16x16, windows of 3x3x3, padding 1: 256 vectors an image, 196 need all taps, 56
# two thirds, 4 need 12 of 27: 92 % of the terms.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

__all__ = ["ColumnRegion", "Seen", "blocks_of", "regions_gain", "regions_of"]

Seen = tuple[tuple[int, int, int, int, int, int], ...]
"""Per axis of the image: positions, at, step, taps, tap_step, extent. Position i sees element ``at + i * step +
t * tap_step`` with tap t, and zeros outside of ``extent``. Without any axis, all terms are needed."""

_MOST_REGIONS = 27
_MOST_PAIRS = 1 << 22  # of a column and a tap, in an image: a larger one sees little padding


class ColumnRegion(NamedTuple):
    """Vectors of columns, numbered within an image, and what their sums need of k, both in order."""

    vectors: np.ndarray
    ks: np.ndarray


@functools.lru_cache(maxsize=256)
def regions_of(seen: Seen, n: int, k: int, width: int) -> tuple[ColumnRegion, ...]:
    """The regions of an image's ``n`` columns, in vectors of ``width``; a region of all where there is little gain."""
    vectors = -(-n // width)
    everything = (ColumnRegion(np.arange(vectors), np.arange(k)),)
    taps = math.prod(axis[3] for axis in seen)
    if not seen or seen[-1][0] % width or n * taps > _MOST_PAIRS or not vectors:
        return everything
    needs = np.ones((1, 1), bool)  # [positions, taps] of the axes so far
    for positions, at, step, count, tap_step, extent in seen:
        place = at + np.arange(positions)[:, None] * step + np.arange(count) * tap_step
        inside = (place >= 0) & (place < extent)
        needs = (needs[:, None, :, None] & inside[None, :, None, :]).reshape(len(needs) * positions, -1)
    of_vectors: np.ndarray = np.logical_or.reduce(needs.reshape(vectors, width, taps), axis=1)
    of_vectors[~of_vectors.any(1), 0] = True  # a sum has one term at least: the memory has zeros there
    bits = np.packbits(of_vectors, axis=1)
    _, firsts, which = np.unique(bits.view(f"V{bits.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    if len(firsts) > _MOST_REGIONS:
        return everything
    kinds, channels = of_vectors[firsts], np.arange(k // taps)[:, None] * taps
    order = np.argsort(-kinds.sum(1), kind="stable")  # the region that needs most is the longest, mostly
    return tuple(ColumnRegion(np.flatnonzero(which == r), (channels + np.flatnonzero(kinds[r])).ravel()) for r in order)


def regions_gain(seen: Seen, n: int, k: int, images: int, width: int) -> int:
    """What regions leave out of a product, in thousandths; each has a panel that is not full, a vector more."""
    regions = regions_of(seen, n, k, width)
    needed = sum(images * len(region.vectors) * len(region.ks) for region in regions) + (len(regions) - 1) * k
    return 1000 - 1000 * needed // max(1, images * -(-n // width) * k)


def blocks_of(seen: Seen, n: int, k: int, images: int, width: int, unit_n: int) -> np.ndarray:
    """[blocks, 3]: the region, its first vector of all images, one past its last; of ``unit_n`` vectors at most."""
    blocks = []
    for number, region in enumerate(regions_of(seen, n, k, width)):
        count = images * len(region.vectors)
        firsts = np.arange(0, count, unit_n)
        blocks.append(np.stack([np.full(len(firsts), number), firsts, np.minimum(firsts + unit_n, count)], axis=1))
    return np.concatenate(blocks)
