"""Images read at positions that are a tensor, and the sums that are their derivatives.

Owns: ``grid_sampler_2d``, ``grid_sampler_3d``, ``grid_sampler_spread``.
Must not know: Tensor, kernels.

Along each dimension a result is a sum of few elements around a position, each times a weight that depends on the
position: a result is ``sum_ij u_i v_j x[i, j]``. Its derivative by a position is the same sum with the derivative of a
weight, so that derivatives of any order are these operations, too. Parameters are (mode, padding_mode, align_corners,
order); ``order`` says, per dimension, which derivative of the weights is meant.

The formulas are written with operators, and serve both halves: arrays, and primitives as ``Expression``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

Ints = tuple[int, ...]

_DEGREE = {"nearest": 0, "bilinear": 1, "bicubic": 3}
"""Of the weights, as polynomials of the position: what is differentiated more often is 0."""


# --- one dimension ---


class _Tap(NamedTuple):
    """One of the elements that a result is made of, along one dimension.

    Attributes:
        index: its number, inside the dimension.
        is_there: whether the mode's position is inside; else the element counts as 0.
        weight: it is multiplied by.
    """

    index: Any
    is_there: Any
    weight: Any


def _floor(x: Any) -> Any:
    return x.floor() if isinstance(x, Expression) else np.floor(x)


def _rounded(x: Any) -> Any:
    return x.round() if isinstance(x, Expression) else np.rint(x)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, Expression):
        return condition.where(yes, no)
    return np.where(condition, yes, np.asarray(no, np.asarray(yes).dtype))


def _scale(extent: int, is_aligned: bool) -> float:
    return (extent - 1) / 2 if is_aligned else extent / 2


def _scaled(at: Any, extent: int, is_aligned: bool) -> Any:
    """[-1, 1] as positions of elements."""
    return (at + 1.0) * _scale(extent, True) if is_aligned else ((at + 1.0) * (1.0 * extent) - 1.0) * 0.5


def _clipped(at: Any, extent: int) -> Any:
    low = _where(at < 0.0, at * 0.0, at)
    return _where(low > extent - 1.0, low * 0.0 + (extent - 1.0), low)


def _mirror(extent: int, is_aligned: bool) -> tuple[float, float]:
    """(Where positions are reflected first, how far it is to where they are reflected next)."""
    return (0.0, extent - 1.0) if is_aligned else (-0.5, 1.0 * extent)


def _is_even(n: Any) -> Any:
    half = n * 0.5
    return (half - _floor(half)) < 0.25


def _inside(at: Any, extent: int, padding: str, is_aligned: bool) -> Any:
    """Positions that the mode moves into the dimension."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, span = _mirror(extent, is_aligned)
        if not span:
            return at * 0.0
        distance = _where(at < low, low - at, at - low)
        flips = _floor(distance / span)
        rest = distance - flips * span
        at = _where(_is_even(flips), rest, span - rest) + low
    return _clipped(at, extent)


def _slope(at: Any, extent: int, padding: str, is_aligned: bool) -> Any:
    """The derivative of ``_inside``; 0 at the ends of the dimension, where it has none."""
    if padding == "zeros":
        return 1.0
    one = at * 0.0 + 1.0
    moved = at
    if padding == "reflection":
        low, span = _mirror(extent, is_aligned)
        if not span:
            return at * 0.0
        distance = _where(at < low, low - at, at - low)
        one = _where(_is_even(_floor(distance / span)), one, -one)
        one = _where(at < low, -one, one)
        flips = _floor(distance / span)
        rest = distance - flips * span
        moved = _where(_is_even(flips), rest, span - rest) + low
    return _where((moved > 0.0) & (moved < extent - 1.0), one, one * 0.0)


def _tap(place: Any, extent: int, weight: Any) -> _Tap:
    is_there = (place >= 0.0) & (place < 1.0 * extent)
    inner = _where(is_there, place, place * 0.0 if not isinstance(place, Expression) else 0.0)
    index = inner.cast(int64) if isinstance(inner, Expression) else np.nan_to_num(inner).astype(np.int64)
    return _Tap(index, is_there, weight)


_A = -0.75  # Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981
_NEAR = (1.0, 0.0, -(_A + 3), _A + 2)
_FAR = (-4 * _A, 8 * _A, -5 * _A, _A)
_CUBIC = ((1.0, 1.0, _FAR), (0.0, 1.0, _NEAR), (1.0, -1.0, _NEAR), (2.0, -1.0, _FAR))
"""Per element around a position: its distance is the first number plus the second one times the fraction; its weight is
the polynomial of the distance."""


def _cubic_weight(part: Any, tap: int, order: int) -> Any:
    offset, sign, coefficients = _CUBIC[tap]
    derived = np.polynomial.polynomial.polyder(coefficients, order) * sign**order
    distance = part * sign + offset
    total: Any = distance * 0.0 + float(derived[-1])
    for coefficient in derived[-2::-1]:
        total = total * distance + float(coefficient)
    return total


def _taps(at: Any, extent: int, mode: str, padding: str, is_aligned: bool, order: int) -> list[_Tap]:
    """The elements around positions in [-1, 1]; none if the derivative of this order is 0."""
    if order > _DEGREE[mode]:
        return []
    at, scale = _scaled(at, extent, is_aligned), _scale(extent, is_aligned)
    if mode == "bicubic":
        low = _floor(at)
        part = at - low
        weights = [_cubic_weight(part, tap, order) * scale**order for tap in range(4)]
        places = [_inside(low + float(step), extent, padding, is_aligned) for step in (-1, 0, 1, 2)]
        return [_tap(place, extent, weight) for place, weight in zip(places, weights, strict=True)]
    moved = _inside(at, extent, padding, is_aligned)
    if mode == "nearest":
        return [_tap(_rounded(moved), extent, None)]
    low = _floor(moved)
    if order:
        slope = _slope(at, extent, padding, is_aligned) * scale
        return [_tap(low, extent, -slope), _tap(low + 1.0, extent, slope)]
    part = moved - low
    return [_tap(low, extent, 1.0 - part), _tap(low + 1.0, extent, part)]


# --- all dimensions ---


def _all_taps(axes: list[Any], extents: Ints, params: tuple[Any, ...]) -> list[list[_Tap]]:
    mode, padding, is_aligned, order = params
    rows = zip(axes, extents, order, strict=True)
    return [_taps(at, extent, mode, padding, is_aligned, nr) for at, extent, nr in rows]


def _times(x: Any, weight: Any) -> Any:
    return x if weight is None else x * weight


def _sum_of_taps(taps: list[list[_Tap]], pick: Any, indices: tuple[Any, ...] = (), is_there: Any = None) -> Any:
    """``sum u_i v_j pick([i, j], is_there)``: dimension by dimension."""
    if not taps:
        return pick(indices, is_there)
    total = None
    for tap in taps[0]:
        seen = tap.is_there if is_there is None else is_there & tap.is_there
        term = _times(_sum_of_taps(taps[1:], pick, (*indices, tap.index), seen), tap.weight)
        total = term if total is None else total + term
    return total


def _products(taps: list[list[_Tap]], x: Any, indices: tuple[Any, ...] = (), is_there: Any = None) -> Iterator[Any]:
    """(Indices, whether they are there, ``u_i v_j x``) of each element."""
    if not taps:
        yield indices, is_there, x
        return
    for tap in taps[0]:
        seen = tap.is_there if is_there is None else is_there & tap.is_there
        yield from _products(taps[1:], _times(x, tap.weight), (*indices, tap.index), seen)


def _np_axes(grid: Any) -> list[Any]:
    """Positions per dimension of an image, first dimension first: [N, 1, *out]."""
    return [grid[:, None, ..., n] for n in reversed(range(grid.shape[-1]))]


def _np_lead(x: Any, dims: int) -> tuple[Any, Any]:
    n, channels, *_ = x.shape
    ones = (1,) * dims
    return np.arange(n).reshape(n, 1, *ones), np.arange(channels).reshape(1, channels, *ones)


def _np_sample(x: Any, grid: Any, *params: Any) -> Any:
    shape = (*x.shape[:2], *grid.shape[1:-1])
    taps = _all_taps(_np_axes(grid), x.shape[2:], params)
    if not all(taps):
        return np.zeros(shape, x.dtype)
    lead = _np_lead(x, len(taps))

    def pick(indices: tuple[Any, ...], is_there: Any) -> Any:
        return np.where(is_there, x[(*lead, *indices)], x.dtype.type(0))

    return np.broadcast_to(_sum_of_taps(taps, pick), shape)


def _np_spread(g: Any, grid: Any, extents: Ints, *params: Any) -> Any:
    out = np.zeros((*g.shape[:2], *extents), g.dtype)
    taps = _all_taps(_np_axes(grid), extents, params)
    lead = _np_lead(g, len(taps))
    for indices, is_there, value in _products(taps, g):
        np.add.at(out, (*lead, *indices), np.where(is_there, value, g.dtype.type(0)))
    return out


def _axes(b: Any, grid: Any, channels: int) -> list[Expression]:
    """``_np_axes`` of primitives, repeated for all channels: to compute weights again costs less than to read them."""
    found = []
    dims = grid.shape[-1]
    shape = (grid.shape[0], 1, *grid.shape[1:-1])
    for n in reversed(range(dims)):
        starts, stops = [*[0] * (dims + 1), n], [*grid.shape[:-1], n + 1]
        at = b.widened(b.reshape(b.slice(grid, starts, stops, [1] * (dims + 2)), shape))
        found.append(Expression(b, b.expand(at, (shape[0], channels, *shape[2:]))))
    return found


def _flat(b: Any, shape: Ints, extents: Ints, indices: tuple[Any, ...]) -> Any:
    """Numbers of elements of the images [N, C, *extents], flattened: of one index there is less to compute."""
    flat = b.add(b.mul(b.iota(shape, 0), shape[1]), b.iota(shape, 1))
    for index, extent in zip(indices, extents, strict=True):
        flat = b.add(b.mul(flat, extent), index.value)
    return flat


def _lower_sample(b: Any, x: Any, grid: Any, *params: Any) -> Any:
    shape = (*x.shape[:2], *grid.shape[1:-1])
    taps = _all_taps(_axes(b, grid, x.shape[1]), x.shape[2:], params)
    if not all(taps):
        return b.const(0.0, x.dtype, shape)

    flat = b.reshape(x, (math.prod(x.shape),))

    def pick(indices: tuple[Any, ...], is_there: Any) -> Any:
        found = b.widened(b.gather(flat, [_flat(b, shape, x.shape[2:], indices)]))
        return is_there.where(Expression(b, found), 0.0)

    return b.cast(_sum_of_taps(taps, pick).value, x.dtype)


def _lower_spread(b: Any, g: Any, grid: Any, extents: Ints, *params: Any) -> Any:
    shape = (*g.shape[:2], *extents)
    total = b.const(0.0, g.dtype.compute, (math.prod(shape),))
    taps = _all_taps(_axes(b, grid, g.shape[1]), extents, params)
    for indices, is_there, value in _products(taps, Expression(b, b.widened(g))):
        index, term = _flat(b, g.shape, extents, indices), is_there.where(value, 0.0).value
        if params[0] != "bicubic":  # a loop that adds element by element computes slowly; what it reads must be little
            index, term = b.copy(index), b.copy(term)
        total = b.scatter("add", total, [index], term)
    return b.cast(b.reshape(total, shape), g.dtype)


# --- entries ---


def _sampled(x: Any, grid: Any, params: tuple[Any, ...]) -> Any:
    return call(f"grid_sampler_{len(params[-1])}d", x, grid, *params)


def _grid_gradient(g: Any, x: Any, grid: Any, params: tuple[Any, ...]) -> Any:
    """The derivative of ``sum(g * sample(x, grid))`` by ``grid``."""
    mode, *rest, order = params
    parts = []
    for axis in reversed(range(len(order))):
        if order[axis] == _DEGREE[mode]:
            parts.append(call("zeros_like", call("select", grid, -1, 0)))
            continue
        more = (*order[:axis], order[axis] + 1, *order[axis + 1 :])
        parts.append(call("sum_dim", g * _sampled(x, grid, (mode, *rest, more)), (1,), False, None))
    return call("stack", parts, -1)


def _sample_rule(c: RuleContext, g: Any, grid: Any) -> Any:
    assert c.avals[0] is not None
    return call("grid_sampler_spread", g, grid, c.avals[0].shape[2:], *c.params)


def _sample_aval(x: Aval, grid: Aval, *params: Any) -> Aval:
    return make_aval((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


for _dims in (2, 3):
    define(
        f"grid_sampler_{_dims}d",
        aval=_sample_aval,
        numpy=_np_sample,
        lower=_lower_sample,
        vjps=[
            Vjp(_sample_rule, (1,)),
            Vjp(lambda c, g, x, grid: _grid_gradient(g, x, grid, c.params), (0, 1)),
        ],
        num_inputs=2,
        node_name=f"GridSampler{_dims}DBackward0",
    )
define(
    "grid_sampler_spread",
    aval=lambda g, grid, extents, *params: make_aval((*g.shape[:2], *extents), g.dtype),
    numpy=_np_spread,
    lower=_lower_spread,
    vjps=[
        Vjp(lambda c, g, grid: _sampled(g, grid, c.params[1:]), (1,)),
        Vjp(lambda c, g, first, grid: _grid_gradient(first, g, grid, c.params[1:]), (0, 1)),
    ],
    num_inputs=2,
)
