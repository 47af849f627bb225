"""Images at other extents: along each dimension an element of the result is a weighted sum of elements around a place.

Owns: ``upsample_nearest1d`` to ``upsample_bicubic2d``, and ``upsample_backward``, the sum that is their derivative.
Must not know: Tensor, kernels, how extents and factors are given.

The parameter ``rows`` has, for each of the last dimensions, (extent, extent of the result, factor or None, corners are
aligned). Places and weights depend on these alone: NumPy's half remembers them, a kernel computes them once per call.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from jitgrad.dtypes import float32, float64, int64
from jitgrad.ops.aval import make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import Vjp, define

__all__ = ["Row", "cubic_weights", "taps_of"]

Row = tuple[int, int, float | None, bool]


def cubic_weights(part: Any, a: float = -0.75) -> tuple[Any, Any, Any, Any]:
    """Weights of the elements at distances 1 + t, t, 1 - t and 2 - t."""

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return far(part + 1), near(part), near(1 - part), far(2 - part)


def _step(row: Row) -> float:
    """How far places are from each other, in elements."""
    extent, out, factor, is_aligned = row
    if is_aligned:
        return (extent - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / factor if factor else extent / out


def taps_of(row: Row, is_cubic: bool) -> list[tuple[Any, Any]]:
    """(Positions of elements, their weights) for each tap, arrays of as many numbers as there are places."""
    extent, out, _, is_aligned = row
    at = np.arange(out) * _step(row) if is_aligned else (np.arange(out) + 0.5) * _step(row) - 0.5
    if not is_cubic and not is_aligned:
        at = np.maximum(at, 0.0)
    low = np.floor(at).astype(np.int64)
    if not is_cubic:
        low = np.minimum(low, extent - 1)
    part = at - low
    taps, weights = ((-1, 0, 1, 2), cubic_weights(part)) if is_cubic else ((0, 1), (1 - part, part))
    return [(np.clip(low + tap, 0, extent - 1), weight) for tap, weight in zip(taps, weights, strict=True)]


@lru_cache(maxsize=256)
def _np_taps(kind: str, row: Row) -> list[tuple[Any, Any]]:
    """``taps_of``, and of the nearest element under each place's edge or (exact) centre, found in float32 as PyTorch's;
    its weight is None."""
    if not kind.startswith("nearest"):
        return taps_of(row, kind == "cubic")
    at = np.arange(row[1], dtype=np.float32) + np.float32(_shift(kind))
    return [(np.minimum(np.floor(at * _nearest_step(row)).astype(np.int64), row[0] - 1), None)]


def _shift(kind: str) -> float:
    return 0.5 if kind == "nearest-exact" else 0.0


def _nearest_step(row: Row) -> Any:
    extent, out, factor, _ = row
    return np.float32(1.0 / factor) if factor else np.float32(extent) / np.float32(out)


def _np_resampled(x: Any, kind: str, rows: tuple[Row, ...]) -> Any:
    for axis, row in enumerate(rows, x.ndim - len(rows)):
        column = (-1, *[1] * (x.ndim - axis - 1))
        terms = [
            x.take(places, axis) if weight is None else x.take(places, axis) * weight.astype(x.dtype).reshape(column)
            for places, weight in _np_taps(kind, row)
        ]
        x = sum(terms[1:], terms[0])
    return x


def _np_backward(g: Any, kind: str, rows: tuple[Row, ...]) -> Any:
    for axis, row in reversed(list(enumerate(rows, g.ndim - len(rows)))):
        out = np.zeros((*g.shape[:axis], row[0], *g.shape[axis + 1 :]), g.dtype)
        column = (-1, *[1] * (g.ndim - axis - 1))
        for places, weight in _np_taps(kind, row):
            term = g if weight is None else g * weight.astype(g.dtype).reshape(column)
            np.add.at(out, (*[slice(None)] * axis, places), term)
        g = out
    return g


# --- the primitives' half ---


def _taps(b: Any, kind: str, row: Row) -> list[tuple[Any, Any]]:
    """``_np_taps`` of primitives."""
    extent, out, _, is_aligned = row
    index = b.iota((out,), 0)
    if kind.startswith("nearest"):
        at = b.mul(b.add(b.cast(index, float32), _shift(kind)), float(_nearest_step(row)))
        return [(b.min(b.cast(b.floor(at), int64), extent - 1), None)]
    at = b.cast(index, float64)
    at = b.mul(at, _step(row)) if is_aligned else b.sub(b.mul(b.add(at, 0.5), _step(row)), 0.5)
    if kind == "linear":
        at = b.max(at, 0.0)
    low = b.floor(at)
    if kind == "linear":
        low = b.min(low, 1.0 * (extent - 1))
    part, first = b.sub(at, low), b.cast(low, int64)
    taps = (-1, 0, 1, 2) if kind == "cubic" else (0, 1)
    weights = _cubic(b, part) if kind == "cubic" else (b.sub(1.0, part), part)
    places = [b.max(b.min(b.add(first, tap), extent - 1), 0) for tap in taps]
    return list(zip(places, weights, strict=True))


_NEAR = (1.0, 0.0, -2.25, 1.25)
_FAR = (3.0, -6.0, 3.75, -0.75)
"""Polynomials of the distance, as in ``cubic_weights``."""


def _cubic(b: Any, part: Any) -> list[Any]:
    rows = ((b.add(part, 1.0), _FAR), (part, _NEAR), (b.sub(1.0, part), _NEAR), (b.sub(2.0, part), _FAR))
    found = []
    for distance, coefficients in rows:
        total = b.const(coefficients[-1], float64, distance.shape)
        for coefficient in coefficients[-2::-1]:
            total = b.add(b.mul(total, distance), coefficient)
        found.append(total)
    return found


def _weighted(b: Any, x: Any, axis: int, weight: Any) -> Any:
    if weight is None:
        return x
    column = (x.shape[axis], *[1] * (len(x.shape) - axis - 1))
    return b.mul(x, b.reshape(b.cast(weight, x.dtype), column))


def _read(b: Any, x: Any, axis: int, places: Any) -> Any:
    shape = (*x.shape[:axis], *places.shape)
    return b.gather(x, [*(b.iota(shape, dim) for dim in range(axis)), b.expand(places, shape)])


def _lower_resampled(b: Any, x: Any, kind: str, rows: tuple[Row, ...]) -> Any:
    lead = len(x.shape) - len(rows)
    if all(map(_repeats, [kind] * len(rows), rows)):
        return _repeated(b, x, [out // extent for extent, out, *_ in rows])
    for axis, row in enumerate(rows, lead):
        terms = [_weighted(b, _wide(b, kind, _read(b, x, axis, at)), axis, w) for at, w in _taps(b, kind, row)]
        x = _added(b, terms)
    return x


def _repeated(b: Any, x: Any, counts: list[int]) -> Any:
    """Each element so many times along each of the last dims; in memory of its own, whose rows others read whole."""
    lead = len(x.shape) - len(counts)
    split, wide = [*x.shape[:lead]], [*x.shape[:lead]]
    for extent, count in zip(x.shape[lead:], counts, strict=True):
        split += [extent, 1]
        wide += [extent, count]
    shape = tuple(n * count for n, count in zip(x.shape[lead:], counts, strict=True))
    return b.copy(b.reshape(b.expand(b.reshape(x, tuple(split)), tuple(wide)), (*x.shape[:lead], *shape)))


def _wide(b: Any, kind: str, x: Any) -> Any:
    """What is only moved keeps its dtype."""
    return x if kind.startswith("nearest") else b.widened(x)


def _added(b: Any, terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    return total


def _repeats(kind: str, row: Row) -> bool:
    """Whether each element stands several times in a row, equally often."""
    extent, out, factor, _ = row
    is_whole = kind.startswith("nearest") and not out % extent and (not factor or factor * extent == out)
    return is_whole and math.log2(out // extent).is_integer()


def _lower_backward(b: Any, g: Any, kind: str, rows: tuple[Row, ...]) -> Any:
    g = b.widened(g)
    lead = len(g.shape) - len(rows)
    for axis in reversed(range(lead, len(g.shape))):
        row = rows[axis - lead]
        counts = [np.bincount(places, minlength=row[0]).max() for places, _ in _np_taps(kind, row)]
        taps = zip(_taps(b, kind, row), counts, strict=True)
        g = _added(b, [_sum_of_readers(b, g, axis, row[0], *tap, int(count)) for tap, count in taps])
    return g


_MOST_READERS = 16
"""Places that read one element: so many are visited one by one."""


def _sum_of_readers(b: Any, g: Any, axis: int, extent: int, places: Any, weight: Any, most: int) -> Any:
    """For each element, the sum over those of the ``places`` that read it, which follow each other: they never fall.

    Args:
        most: how many read one element at most.
    """
    out = places.shape[0]
    element, place = b.iota((extent, out), 0), b.expand(b.reshape(places, (1, out)), (extent, out))
    start, end = (b.sum(b.cast(before, int64), (1,)) for before in (b.lt(place, element), b.le(place, element)))
    if most > _MOST_READERS:
        at = b.add(b.reshape(start, (extent, 1)), b.iota((extent, most), 1))
        term = _read_there(b, g, axis, at, b.lt(at, b.reshape(end, (extent, 1))), weight)
        return b.sum(term, (axis + 1,))
    reads = [b.add(start, n) for n in range(most)]
    return _added(b, [_read_there(b, g, axis, at, b.lt(at, end), weight) for at in reads])


def _read_there(b: Any, g: Any, axis: int, at: Any, is_there: Any, weight: Any) -> Any:
    """``g`` times the weights at places of an axis; zeros where nothing is there."""
    inside = b.min(at, g.shape[axis] - 1)
    found = _read(b, g, axis, inside)
    column = (*at.shape, *[1] * (len(g.shape) - axis - 1))
    if weight is not None:
        found = b.mul(found, b.reshape(b.gather(b.cast(weight, g.dtype), [inside]), column))
    return b.where(b.expand(b.reshape(is_there, column), found.shape), found, b.const(0.0, g.dtype))


def _shape(x: Any, rows: tuple[Row, ...], which: int) -> tuple[int, ...]:
    return (*x.shape[: len(x.shape) - len(rows)], *(row[which] for row in rows))


_KINDS = {
    **{f"upsample_nearest{n}d": "nearest" for n in (1, 2, 3)},
    **{f"upsample_nearest_exact{n}d": "nearest-exact" for n in (1, 2, 3)},
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
"""Operation -> the kind of its weights."""


def _node(name: str) -> str:
    words = name.removesuffix("d")[:-1].split("_")
    return f"{''.join(map(str.capitalize, words))}{name[-2:].upper()}Backward0"


for _name, _kind in _KINDS.items():
    define(
        _name,
        aval=lambda x, rows: make_aval(_shape(x, rows, 1), x.dtype),
        numpy=lambda x, rows, _kind=_kind: _np_resampled(x, _kind, rows),
        lower=lambda b, x, rows, _kind=_kind: _lower_resampled(b, x, _kind, rows),
        vjps=[Vjp(lambda c, g, _kind=_kind: call("upsample_backward", g, _kind, *c.params))],
        node_name=_node(_name),
    )


def _backward_rule(c: Any, g: Any) -> Any:
    kind, rows = c.params
    name = next(name for name, own in _KINDS.items() if own == kind and (len(rows) == int(name[-2]) or own == "cubic"))
    return call(name, g, rows)


define(
    "upsample_backward",
    aval=lambda g, kind, rows: make_aval(_shape(g, rows, 0), g.dtype),
    numpy=_np_backward,
    lower=_lower_backward,
    vjps=[Vjp(_backward_rule)],
)
