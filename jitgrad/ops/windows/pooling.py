"""Pools: the largest element, and the sum or mean, of each window of the last one to three dimensions.

Owns: ``max_pool1d`` to ``max_pool3d``, ``avg_pool1d`` to ``avg_pool3d``, their adaptive forms, and their derivatives.
Must not know: Tensor, kernels, how a pool's arguments say where windows lie.

The parameter ``windows`` has the ``Ranges`` of each dimension that is pooled, see Note [Ranges]; all dimensions before
these are kept. Windows of few elements are visited element by element, each being one strided slice, so that lowerings
are pointwise over slices. Larger ones are pooled dimension by dimension.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.indexing.gathering import no_wrap
from jitgrad.ops.pointwise.arithmetic import lower_trunc_divide, np_trunc_divide
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.windows.convolution import add_windows, pad_last, window_slice
from jitgrad.ops.windows.window_ranges import Ranges, np_tap, np_taps, read_tap, read_taps, sliding

__all__ = ["Windows", "spread_of_one"]

Windows = tuple[Ranges, ...]

_MOST_TAPS = 49
"""Elements of a window that are visited one by one."""
_MOST_IN_LINE = 16
"""The same along one dimension, where windows are pooled dimension by dimension."""


def _shape(x: Any, windows: Windows) -> tuple[int, ...]:
    return (*x.shape[: len(x.shape) - len(windows)], *(w.out for w in windows))


def _pooled(x: Aval, windows: Windows) -> Aval:
    """The aval of what is pooled. Kernels read and write where the windows say: ValueError if these are of others."""
    _check_last(x, tuple([w.extent for w in windows]))
    return make_aval(_shape(x, windows), x.dtype)


def _check_last(x: Aval, extents: tuple[int, ...]) -> None:
    if x.shape[max(x.ndim - len(extents), 0) :] != extents:
        raise ValueError(f"pool: its windows are for the extents {list(extents)}, the tensor has shape {list(x.shape)}")


def _is_small(windows: Windows) -> bool:
    """Whether windows are alike and have few elements."""
    return all(w.is_sliding for w in windows) and math.prod(w.taps for w in windows) <= _MOST_TAPS


def _offsets(windows: Windows) -> list[tuple[int, ...]]:
    """Where the elements of a window are, from its first one on; of windows that are alike."""
    return list(itertools.product(*(range(0, w.taps * w.step, w.step) for w in windows)))


def _around(windows: Windows) -> tuple[list[int], list[int]]:
    """How far windows reach beyond the first and the last element of each dimension; of windows that are alike."""
    behind = [max((w.out - 1) * w.num + w.high - w.extent, 0) for w in windows]
    return [max(-w.low, 0) for w in windows], behind


def _slices(b: Any, x: Any, windows: Windows, outside: Any) -> list[Any]:
    """Per offset, what it sees."""
    before, behind = _around(windows)
    padded = pad_last(b, x, before, behind, outside)
    firsts = [w.low + n for w, n in zip(windows, before, strict=True)]
    counts, steps = tuple(w.out for w in windows), tuple(w.num for w in windows)
    return [
        window_slice(b, padded, tuple(map(sum, zip(firsts, at, strict=True))), counts, steps)
        for at in _offsets(windows)
    ]


# --- max ---


def _least(dtype: Any) -> Any:
    """What is never larger than an element."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _np_max_pool(x: Any, windows: Windows) -> tuple[Any, Any]:
    if not x.size:
        return np.zeros(_shape(x, windows), x.dtype), np.zeros(_shape(x, windows), np.int64)
    lead = x.ndim - len(windows)
    pooled = x.shape[lead:]
    best, at = x, np.broadcast_to(np.arange(math.prod(pooled)).reshape(pooled), x.shape)
    for dim in reversed(range(len(windows))):  # so that the first of equal elements in memory is the first one met
        best, at = _np_best(best, at, lead + dim, windows[dim])
    return best, at


def _np_best(x: Any, at: Any, axis: int, ranges: Ranges) -> tuple[Any, Any]:
    """The largest element of each window along an axis, and its position, of which there is one per element."""
    places, there = np_taps(ranges)
    least = _least(x.dtype)
    first = np.take_along_axis(places, there.argmax(1)[:, None], 1)[:, 0]  # PyTorch's choice if all are -inf
    found = at.take(first, axis)
    best = np.full(found.shape, least, x.dtype)
    for tap in range(ranges.taps):
        value = np_tap(x, axis, ranges, tap, least)
        better = (value > best) | np.isnan(value)
        best = np.where(better, value, best)
        found = np.where(better, np_tap(at, axis, ranges, tap, 0), found)
    return best, found


def _lower_max_pool(b: Any, x: Any, windows: Windows) -> tuple[Any, Any]:
    if _is_small(windows):
        return _lower_small_max(b, x, windows)
    lead = len(x.shape) - len(windows)
    best, at = x, _flat_positions(b, x.shape, [b.iota(x.shape, lead + dim) for dim in range(len(windows))])
    for dim in reversed(range(len(windows))):
        if not windows[dim].is_identity:
            best, at = _lower_best(b, best, at, lead + dim, windows[dim])
    return best, at


def _flat_positions(b: Any, shape: tuple[int, ...], places: list[Any]) -> Any:
    """Positions in the last dimensions of ``shape``, flattened, from one in each."""
    flat = places[0]
    for place, extent in zip(places[1:], shape[len(shape) - len(places) + 1 :], strict=True):
        flat = b.add(b.mul(flat, extent), place)
    return flat


def _starts(b: Any, shape: tuple[int, ...], windows: Windows) -> list[Any]:
    """Per dimension, where each window of a result of this shape begins; it may be outside."""
    lead = len(shape) - len(windows)
    return [b.add(b.mul(b.iota(shape, lead + dim), w.num), w.low) for dim, w in enumerate(windows)]


def _first_inside(b: Any, start: Any, ranges: Ranges) -> Any:
    """The first element of each window that is not outside: PyTorch's choice if all are -inf."""
    if ranges.low >= 0 or ranges.step == 1:
        return b.max(start, 0) if ranges.low < 0 else start
    skipped = b.floordiv(b.sub(ranges.step - 1, b.min(start, 0)), ranges.step)
    return b.add(start, b.mul(skipped, ranges.step))


def _lower_small_max(b: Any, x: Any, windows: Windows) -> tuple[Any, Any]:
    shape, least = _shape(x, windows), _least(x.dtype.np)
    starts = _starts(b, shape, windows)
    base = _flat_positions(b, x.shape, starts)
    at = _flat_positions(b, x.shape, [_first_inside(b, *pair) for pair in zip(starts, windows, strict=True)])
    best = b.const(least, x.dtype, shape)
    extents = [w.extent for w in windows]
    for offset, tap in zip(_offsets(windows), _slices(b, x, windows, least), strict=True):
        better = b.or_(b.gt(tap, best), b.isnan(tap))
        best = b.where(better, tap, best)
        at = b.where(better, b.add(base, sum(n * math.prod(extents[k + 1 :]) for k, n in enumerate(offset))), at)
    return best, at


def _lower_best(b: Any, x: Any, at: Any, axis: int, ranges: Ranges) -> tuple[Any, Any]:
    """``_np_best`` of primitives."""
    if ranges.taps > _MOST_IN_LINE:
        return _lower_best_of_many(b, x, at, axis, ranges)
    least = _least(x.dtype.np)
    shape = (*x.shape[:axis], ranges.out, *x.shape[axis + 1 :])
    best, found = b.const(least, x.dtype, shape), _lower_first(b, at, axis, ranges)
    for tap in range(ranges.taps):
        value = read_tap(b, x, axis, ranges, tap, least)
        better = b.or_(b.gt(value, best), b.isnan(value))
        best = b.where(better, value, best)
        found = b.where(better, read_tap(b, at, axis, ranges, tap, 0), found)
    return best, found


def _lower_first(b: Any, at: Any, axis: int, ranges: Ranges) -> Any:
    """The position of the first element of each window."""
    if not ranges.is_sliding or ranges.low >= 0:
        return read_tap(b, at, axis, ranges, 0, 0)
    start = b.add(b.mul(b.iota((ranges.out,), 0), ranges.num), ranges.low)
    return _along(b, at, axis, b.reshape(_first_inside(b, start, ranges), _column(at, axis, ranges.out)))


def _column(x: Any, axis: int, count: int) -> tuple[int, ...]:
    return (*[1] * axis, count, *[1] * (len(x.shape) - axis - 1))


def _along(b: Any, x: Any, axis: int, places: Any) -> Any:
    """``x`` at places of an axis, which broadcast."""
    shape = (*x.shape[:axis], places.shape[axis], *x.shape[axis + 1 :])
    indices = [b.expand(places, shape) if dim == axis else b.iota(shape, dim) for dim in range(len(shape))]
    return b.gather(x, indices)


def _lower_best_of_many(b: Any, x: Any, at: Any, axis: int, ranges: Ranges) -> tuple[Any, Any]:
    """By a reduction. Of several NaNs it is the last one, as where each element is compared with the best one."""
    least = _least(x.dtype.np)
    taps = read_taps(b, x, axis, ranges, least)
    best = b.reduce("max", taps, (axis + 1,))
    tap = b.argreduce("argmax", taps, axis + 1)
    if x.dtype.category is FLOATING:
        last = b.reduce("max", b.where(b.isnan(taps), b.iota(taps.shape, axis + 1), -1), (axis + 1,))
        tap = b.where(b.ge(last, 0), last, tap)
    first = b.iota(best.shape, axis)
    start = b.floordiv(b.add(b.mul(first, ranges.num), ranges.low), ranges.den)
    place = b.add(start, b.mul(tap, ranges.step))
    if ranges.low < 0:  # the first of equal ones may be outside
        place = b.where(b.eq(best, least), _first_inside(b, start, ranges), place)
    return best, _along(b, at, axis, place)


def _max_pool_backward_aval(g: Aval, at: Aval, windows: Windows) -> Aval:
    _check_last(g, tuple([w.out for w in windows]))
    _check_last(at, g.shape)
    return make_aval((*g.shape[: g.ndim - len(windows)], *(w.extent for w in windows)), g.dtype)


def _max_pool_read_aval(x: Aval, at: Aval, windows: Windows) -> Aval:
    _check_last(x, tuple([w.extent for w in windows]))
    _check_last(at, _shape(x, windows))
    return make_aval(at.shape, x.dtype)


def _max_pool_aval(x: Aval, windows: Windows) -> tuple[Aval, Aval]:
    pooled = _pooled(x, windows)
    return pooled, make_aval(pooled.shape, int64)


def _max_pool_rule(c: RuleContext, g: tuple[Any, Any], at: Any) -> Any:
    return call("max_pool_backward", g[0], at, *c.params)


def _np_flat(at: Any, dims: int) -> tuple[Any, Any]:
    """(Which of the kept dimensions, flattened; positions), which broadcast."""
    rows = at.reshape(math.prod(at.shape[: at.ndim - dims]), -1)
    return np.arange(rows.shape[0])[:, None], rows


def _np_max_pool_backward(g: Any, at: Any, windows: Windows) -> Any:
    index = _np_flat(at, len(windows))
    extents = tuple(w.extent for w in windows)
    out = np.zeros((index[0].shape[0], math.prod(extents)), g.dtype)
    np.add.at(out, index, g.reshape(index[1].shape))
    return out.reshape(*g.shape[: g.ndim - len(windows)], *extents)


def _flat_index(b: Any, at: Any, dims: int) -> list[Any]:
    return [*(b.iota(at.shape, dim) for dim in range(len(at.shape) - dims)), at]


def _tile(b: Any, x: Any, windows: Windows) -> Any:
    """[.., out, ..] as [.., out, taps, ..], repeated."""
    lead = x.shape[: len(x.shape) - len(windows)]
    ones = itertools.chain(*((w.out, 1) for w in windows))
    return b.expand(b.reshape(x, (*lead, *ones)), (*lead, *itertools.chain(*((w.out, w.taps) for w in windows))))


def _untile(b: Any, tiles: Any, windows: Windows) -> Any:
    """[.., out, taps, ..] as [.., extent, ..]: zeros where no window fits any more, without what ends outside."""
    lead = tiles.shape[: len(tiles.shape) - 2 * len(windows)]
    whole = b.reshape(tiles, (*lead, *(w.out * w.taps for w in windows)))
    behind = [max(w.extent - w.out * w.taps, 0) for w in windows]
    padded = pad_last(b, whole, [0] * len(windows), behind)
    stops = [*lead, *(w.extent for w in windows)]
    return b.slice(padded, [0] * len(stops), stops, [1] * len(stops))


def _lower_max_pool_backward(b: Any, g: Any, at: Any, windows: Windows) -> Any:
    """The gradient goes to the element that won: by comparison where windows do not overlap, else by scatter."""
    lead, extents = g.shape[: len(g.shape) - len(windows)], tuple(w.extent for w in windows)
    if not all(w.are_tiles for w in windows):
        flat = (*lead, math.prod(extents))
        return b.reshape(b.scatter_add(flat, _flat_index(b, at, len(windows)), g), (*lead, *extents))
    tiles = _tile(b, g, windows)
    places = [
        b.add(b.mul(b.iota(tiles.shape, dim), w.taps), b.iota(tiles.shape, dim + 1))
        for dim, w in zip(range(len(lead), len(tiles.shape), 2), windows, strict=True)
    ]
    won = b.eq(_tile(b, at, windows), _flat_positions(b, (*lead, *extents), places))
    return _untile(b, b.where(won, tiles, b.const(0.0, g.dtype)), windows)


def _np_max_pool_read(x: Any, at: Any, windows: Windows) -> Any:
    index = _np_flat(at, len(windows))
    return x.reshape(index[0].shape[0], -1)[index].reshape(at.shape)


def _lower_max_pool_read(b: Any, x: Any, at: Any, windows: Windows) -> Any:
    lead = x.shape[: len(x.shape) - len(windows)]
    flat = b.reshape(x, (*lead, math.prod(w.extent for w in windows)))
    return b.gather(flat, _flat_index(b, at, len(windows)))


_MAX_POOLS = {
    "max_pool1d": "MaxPool1DBackward0",
    "max_pool2d": "MaxPool2DWithIndicesBackward0",
    "max_pool3d": "MaxPool3DWithIndicesBackward0",
    "adaptive_max_pool1d": "AdaptiveMaxPool1DBackward0",
    "adaptive_max_pool2d": "AdaptiveMaxPool2DBackward0",
    "adaptive_max_pool3d": "AdaptiveMaxPool3DBackward0",
}
"""Operation -> the name of its node."""

for _name, _node in _MAX_POOLS.items():
    define(
        _name,
        aval=_max_pool_aval,
        numpy=_np_max_pool,
        lower=_lower_max_pool,
        vjps=[Vjp(_max_pool_rule, ("out1",))],
        node_name=_node,
    )
define(
    "max_pool_backward",
    aval=_max_pool_backward_aval,
    numpy=_np_max_pool_backward,
    lower=_lower_max_pool_backward,
    vjps=[Vjp(lambda c, g, at: call("max_pool_read", g, at, *c.params), (1,)), None],
    num_inputs=2,
)
define(
    "max_pool_read",
    aval=_max_pool_read_aval,
    numpy=_np_max_pool_read,
    lower=_lower_max_pool_read,
    vjps=[Vjp(lambda c, g, at: call("max_pool_backward", g, at, *c.params), (1,)), None],
    num_inputs=2,
)


# --- the inverse of max ---


def _np_unpool(x: Any, at: Any, sizes: tuple[int, ...]) -> Any:
    count = math.prod(sizes)
    outside = (at < 0) | (at >= count)
    if outside.any():
        raise RuntimeError(
            f"Found an invalid max index: {at[outside][0]} (output volumes are of size {'x'.join(map(str, sizes))})"
        )
    index = _np_flat(at, len(sizes))
    out = np.zeros((index[0].shape[0], count), x.dtype)
    out[index] = x.reshape(index[1].shape)
    return out.reshape(*x.shape[: x.ndim - len(sizes)], *sizes)


def _lower_unpool(b: Any, x: Any, at: Any, sizes: tuple[int, ...]) -> Any:
    lead, count = x.shape[: len(x.shape) - len(sizes)], math.prod(sizes)
    place = b.check(no_wrap(b, at, count), count)
    zeros = b.const(0, x.dtype, (*lead, count))
    return b.reshape(b.scatter("set", zeros, _flat_index(b, place, len(sizes)), x), (*lead, *sizes))


def _unpool_rule(c: RuleContext, g: Any, at: Any) -> Any:
    (sizes,) = c.params
    shape = at._aval.shape
    lead = shape[: len(shape) - len(sizes)]
    flat, places = g.reshape((*lead, math.prod(sizes))), at.reshape((*lead, -1))
    return call("gather", flat, places, -1).reshape(shape)


for _dims in (2, 3):
    define(
        f"max_unpool{_dims}d",
        aval=lambda x, at, sizes: make_aval((*x.shape[: x.ndim - len(sizes)], *sizes), x.dtype),
        numpy=_np_unpool,
        lower=_lower_unpool,
        vjps=[Vjp(_unpool_rule, (1,)), None],
        num_inputs=2,
        node_name=f"MaxUnpool{_dims}DBackward0",
        checks_values=True,
    )


# --- sums and means ---

Counted = int | tuple[tuple[int, int], ...]
"""What a sum is divided by: a number; or, per dimension, (first, end): where the elements that count lie."""


def _np_sum(x: Any, windows: Windows) -> Any:
    if not x.size:
        return np.zeros(_shape(x, windows), x.dtype)
    lead = x.ndim - len(windows)
    for axis, ranges in enumerate(windows, lead):
        if not ranges.is_identity:
            x = sum(np_tap(x, axis, ranges, tap, x.dtype.type(0)) for tap in range(ranges.taps))
    return x


def _np_counts(windows: Windows, counted: Counted) -> Any:
    if isinstance(counted, int):
        return counted
    total: Any = 1
    for ranges, (first, end) in zip(windows, counted, strict=True):
        at = np.arange(ranges.out) * ranges.num
        start, stop = (at + ranges.low) // ranges.den, (at + ranges.high) // ranges.den
        total = np.multiply.outer(total, np.minimum(stop, end) - np.maximum(start, first))
    return total


def _np_divided(total: Any, windows: Windows, counted: Counted) -> Any:
    """Sums as means; of integers, rounded towards 0."""
    if not total.size:
        return total
    count = np.asarray(_np_counts(windows, counted), total.dtype)
    return total / count if total.dtype.kind == "f" else np_trunc_divide(total, count)


def _lower_sum(b: Any, x: Any, windows: Windows) -> Any:
    if _is_small(windows):
        return _added(b, _slices(b, x, windows, 0))
    if all(w.is_sliding or w.is_spread for w in windows):
        whole = tuple(w.transposed() for w in windows)
        if _is_small(whole) and not all(w.are_tiles for w in whole):
            return _lower_spread(b, x, whole)
    lead = len(x.shape) - len(windows)
    for dim in _order(windows):
        x = _lower_sum_of_one(b, x, lead + dim, windows[dim])
    return x


def _order(windows: Windows) -> list[int]:
    """First what becomes shorter, whole rows first; then what becomes longer, whole rows last."""
    dims = range(len(windows))
    shorter = [dim for dim in dims if windows[dim].out <= windows[dim].extent]
    return [*shorter, *reversed([dim for dim in dims if dim not in shorter])]


def _added(b: Any, terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    return total


def _lower_spread(b: Any, x: Any, windows: Windows) -> Any:
    """The sum, per element, over those of the ``windows`` that it lies in: they are alike."""
    before, behind = _around(windows)
    full = tuple(n + w.extent + m for n, w, m in zip(before, windows, behind, strict=True))
    firsts = [w.low + n for w, n in zip(windows, before, strict=True)]
    offsets = [tuple(map(sum, zip(firsts, at, strict=True))) for at in _offsets(windows)]
    total = add_windows(b, [x] * len(offsets), offsets, full, tuple(w.num for w in windows))
    lead = x.shape[: len(x.shape) - len(windows)]
    starts = [*[0] * len(lead), *before]
    stops = [*lead, *(n + w.extent for n, w in zip(before, windows, strict=True))]
    return b.slice(total, starts, stops, [1] * len(stops))


def _lower_sum_of_one(b: Any, x: Any, axis: int, ranges: Ranges) -> Any:
    """The sum over windows along one axis."""
    if ranges.is_identity:
        return x
    if ranges.is_spread and (whole := ranges.transposed()).taps <= _MOST_IN_LINE * whole.num:
        return spread_of_one(b, x, axis, whole)
    if ranges.taps > _MOST_IN_LINE or (ranges.is_whole and ranges.taps > 4):
        return b.sum(read_taps(b, x, axis, ranges, 0), (axis + 1,))
    return _added(b, [read_tap(b, x, axis, ranges, tap, 0) for tap in range(ranges.taps)])


def spread_of_one(b: Any, x: Any, axis: int, ranges: Ranges) -> Any:
    """``_lower_spread`` along one axis, in memory of its own: what follows reads whole rows of it."""
    lead, behind = x.shape[:axis], x.shape[axis + 1 :]
    rows = b.reshape(x, (*lead, x.shape[axis], math.prod(behind)))
    same = sliding(rows.shape[-1], rows.shape[-1], 1, 1)
    spread = _untile(b, _tile(b, rows, (ranges, same)), (ranges, same)) if ranges.are_tiles else None
    spread = spread or _lower_spread(b, rows, (ranges, same))
    return b.copy(b.reshape(spread, (*lead, ranges.extent, *behind)))


def _lower_divided(b: Any, total: Any, windows: Windows, counted: Counted) -> Any:
    if isinstance(counted, int):
        count = b.const(counted, total.dtype)
    else:
        count = b.cast(_lower_counts(b, total.shape, windows, counted), total.dtype)
    return b.div(total, count) if total.dtype.category is FLOATING else lower_trunc_divide(b, total, count)


def _lower_counts(b: Any, shape: tuple[int, ...], windows: Windows, counted: Any) -> Any:
    lead = len(shape) - len(windows)
    total = None
    for axis, (ranges, (first, end)) in enumerate(zip(windows, counted, strict=True), lead):
        at = b.mul(b.iota((ranges.out,), 0), ranges.num)
        start, stop = (b.floordiv(b.add(at, n), ranges.den) for n in (ranges.low, ranges.high))
        length = b.sub(b.min(stop, end), b.max(start, first))
        length = b.reshape(length, (ranges.out, *[1] * (len(shape) - axis - 1)))
        total = length if total is None else b.mul(total, length)
    return total


def _sum_rule(c: RuleContext, g: Any) -> Any:
    windows, counted = c.params
    return call("avg_pool_backward", g, windows, counted)


_AVG_POOLS = {
    "avg_pool1d": "AvgPool1DBackward0",
    "avg_pool2d": "AvgPool2DBackward0",
    "avg_pool3d": "AvgPool3DBackward0",
    "adaptive_avg_pool2d": "AdaptiveAvgPool2DBackward0",
    "adaptive_avg_pool3d": "AdaptiveAvgPool3DBackward0",
}

for _name, _node in _AVG_POOLS.items():
    define(
        _name,
        aval=lambda x, windows, counted: _pooled(x, windows),
        numpy=lambda x, windows, counted: _np_divided(_np_sum(x, windows), windows, counted),
        lower=lambda b, x, windows, counted: _lower_divided(b, _lower_sum(b, x, windows), windows, counted),
        vjps=[Vjp(_sum_rule)],
        node_name=_node,
        runs_once=True,
    )


def _transposed(windows: Windows) -> Windows:
    return tuple(w.transposed() for w in windows)


define(
    "avg_pool_backward",
    aval=lambda g, windows, counted: _pooled(g, _transposed(windows)),
    numpy=lambda g, windows, counted: _np_sum(_np_divided(g, windows, counted), _transposed(windows)),
    lower=lambda b, g, windows, counted: _lower_sum(b, _lower_divided(b, g, windows, counted), _transposed(windows)),
    vjps=[Vjp(lambda c, g: call(f"avg_pool{len(c.params[0])}d", g, *c.params))],
)
