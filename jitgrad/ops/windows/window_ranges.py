"""Windows of one dimension: which elements each of them sees.

Owns: ``Ranges``, what makes them, and reading a dimension through them, in both halves: arrays and primitives.
Must not know: what is done with the elements.

# Note [Ranges]
# ~~~~~~~~~~~~~
# Window i of a dimension begins at floor((i * num + low) / den), ends below floor((i * num + high) / den), and sees
# every ``step``-th element from its first one on; what lies outside of the dimension is not there.
#   windows of a kernel k, stride s, padding p, dilation d   num = s   den = 1   low = -p   high = d (k - 1) + 1 - p
#   part i of n of an extent E, [floor(i E / n), ceil((i + 1) E / n))   num = E   den = n   low = 0   high = E + n - 1
# The windows that an element lies in are such a range, too: its numbers follow from i * num + low < (e + 1) * den <=
# i * num + high. So the derivative of a sum over windows is a sum over windows (``transposed``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jitgrad.symbols.number import lifted

__all__ = ["Ranges", "np_tap", "np_taps", "parts", "read_tap", "read_taps", "sliding"]


class Ranges(NamedTuple):
    """The windows of one dimension, see Note [Ranges].

    Attributes:
        out: how many windows there are.
        extent: of the dimension that they lie in.
        num, den, low, high, step: see the Note.
        taps: how many elements the longest window sees.
    """

    out: int
    extent: int
    num: int
    den: int
    low: int
    high: int
    step: int
    taps: int

    @property
    def is_sliding(self) -> bool:
        """Whether all windows are alike: each sees ``taps`` elements, some of which may lie outside."""
        return self.den == 1

    @property
    def is_spread(self) -> bool:
        """Whether it is ``transposed()`` of windows that are alike."""
        return self.num == 1 < self.den

    @property
    def is_inside(self) -> bool:
        """Whether no window sees anything that lies outside; of windows that are alike."""
        return self.low >= 0 and (self.out - 1) * self.num + self.high <= self.extent

    @property
    def is_identity(self) -> bool:
        return self.taps == 1 and self.num == self.den and not self.low and self.out == self.extent

    @property
    def are_tiles(self) -> bool:
        """Whether windows lie side by side from the first element on, so that each element belongs to at most one."""
        return self.is_sliding and self.step == 1 and not self.low and self.num == self.high

    @property
    def is_whole(self) -> bool:
        """Whether there are tiles, and none ends outside."""
        return self.are_tiles and self.out * self.num <= self.extent

    def transposed(self) -> Ranges:
        """Which of these windows each element lies in, where they skip none."""
        out, extent, num, den, low, high, _, _ = self
        return _ranges(extent, out, den, num, den - high + num - 1, den - low - 1 + num)


def _ranges(out: int, extent: int, num: int, den: int, low: int, high: int, step: int = 1) -> Ranges:
    longest = -(-(high - low) // step) if den == 1 else lifted(_longest)(out, extent, num, den, low, high)
    return Ranges(out, extent, num, den, low, high, step, longest)


@lru_cache(maxsize=1024)
def _longest(out: int, extent: int, num: int, den: int, low: int, high: int) -> int:
    """The most elements of a window; of those that lie inside the dimension."""
    at = np.arange(out)
    first, end = np.maximum((at * num + low) // den, 0), np.minimum((at * num + high) // den, extent)
    return max(int((end - first).max(initial=1)), 1)


def sliding(extent: int, out: int, kernel: int, stride: int, padding: int = 0, dilation: int = 1) -> Ranges:
    """``out`` windows of a pool."""
    return _ranges(out, extent, stride, 1, -padding, dilation * (kernel - 1) + 1 - padding, dilation)


def parts(extent: int, out: int) -> Ranges:
    """A dimension in ``out`` parts of about the same length, which may overlap."""
    if out and not extent % out:
        return sliding(extent, out, extent // out, extent // out)
    if out and not out % extent:
        return sliding(out, extent, out // extent, out // extent).transposed()
    return _ranges(out, extent, extent, out, 0, extent + out - 1)


# --- NumPy's half ---


@lru_cache(maxsize=256)
def np_taps(ranges: Ranges) -> tuple[Any, Any]:
    """(Positions that windows see, clipped into the dimension; which of them are there): [out, taps] arrays."""
    at = np.arange(ranges.out)[:, None]
    first = (at * ranges.num + ranges.low) // ranges.den
    if ranges.is_spread:  # its first windows are not there
        first = np.maximum(first, 0)
    places = first + np.arange(ranges.taps)[None, :] * ranges.step
    end = np.minimum((at * ranges.num + ranges.high) // ranges.den, ranges.extent)
    return np.clip(places, 0, max(ranges.extent - 1, 0)), (places >= 0) & (places < end)


def np_tap(x: Any, axis: int, ranges: Ranges, tap: int, outside: Any) -> Any:
    """Element ``tap`` of each window along an axis of an array; ``outside`` where nothing is there."""
    places, there = np_taps(ranges)
    found = x.take(places[:, tap], axis)
    if there[:, tap].all():
        return found
    return np.where(there[:, tap].reshape(-1, *[1] * (x.ndim - axis - 1)), found, outside)


# --- the primitives' half ---


def _bounds(b: Any, ranges: Ranges, at: Any) -> tuple[Any, Any]:
    """(First element, end) of the windows that ``at`` numbers."""
    scaled = b.mul(at, ranges.num)
    first, end = (b.floordiv(b.add(scaled, n), ranges.den) for n in (ranges.low, ranges.high))
    return b.max(first, 0) if ranges.is_spread else first, b.min(end, ranges.extent)


def _gathered(b: Any, x: Any, axis: int, places: Any, there: Any, outside: Any) -> Any:
    """``x`` at places of an axis; the places' own dimensions take that axis' place."""
    shape = (*x.shape[:axis], *places.shape)
    lead = [b.iota(shape, dim) for dim in range(axis)]
    clipped = b.max(b.min(places, x.shape[axis] - 1), 0)
    found = b.gather(x, [*lead, b.expand(clipped, shape)])
    seen = b.reshape(there, (*there.shape, *[1] * (len(x.shape) - axis - 1)))
    return b.where(b.expand(seen, found.shape), found, b.const(outside, found.dtype))


def read_tap(b: Any, x: Any, axis: int, ranges: Ranges, tap: int, outside: Any) -> Any:
    """``np_tap`` of a primitive, of windows that are alike by a slice."""
    if ranges.is_sliding:
        return _sliced(b, x, axis, ranges, tap, outside)
    first, end = _bounds(b, ranges, b.iota((ranges.out,), 0))
    places = b.add(first, tap * ranges.step)
    return _gathered(b, x, axis, places, b.lt(places, end), outside)


def _sliced(b: Any, x: Any, axis: int, ranges: Ranges, tap: int, outside: Any) -> Any:
    before = max(-ranges.low, 0)
    behind = max((ranges.out - 1) * ranges.num + ranges.high - ranges.extent, 0)
    rank = len(x.shape)
    lo, hi = ([n if dim == axis else 0 for dim in range(rank)] for n in (before, behind))
    padded = b.pad(x, lo, hi, outside)
    start = ranges.low + before + tap * ranges.step
    starts = [start if dim == axis else 0 for dim in range(rank)]
    stops = [start + (ranges.out - 1) * ranges.num + 1 if dim == axis else n for dim, n in enumerate(padded.shape)]
    return b.slice(padded, starts, stops, [ranges.num if dim == axis else 1 for dim in range(rank)])


def read_taps(b: Any, x: Any, axis: int, ranges: Ranges, outside: Any) -> Any:
    """All elements of each window: the axis becomes two, [out, taps]."""
    if ranges.is_whole:
        stop = ranges.out * ranges.num
        stops = [stop if dim == axis else n for dim, n in enumerate(x.shape)]
        kept = b.slice(x, [0] * len(stops), stops, [1] * len(stops))
        return b.reshape(kept, (*x.shape[:axis], ranges.out, ranges.num, *x.shape[axis + 1 :]))
    shape = (ranges.out, ranges.taps)
    first, end = _bounds(b, ranges, b.iota(shape, 0))
    places = b.add(first, b.mul(b.iota(shape, 1), ranges.step))
    return _gathered(b, x, axis, places, b.and_(b.ge(places, 0), b.lt(places, end)), outside)
