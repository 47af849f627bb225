"""Operations that count elements, or find places among sorted ones.

Owns: searchsorted, isin, histc, and the graph nodes of what ``unique`` and ``histogram`` find. None has a lowering.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, bool_, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.shapes import check_fits, dtype_of, shape_of, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


# --- searchsorted(sorted, values | out_int32, right) ---


def _search_aval(edges: Aval, values: Any, out_int32: bool, right: bool) -> Aval:
    return make_aval(shape_of(values), int32 if out_int32 else int64)


def _np_search(edges: Any, values: Any, out_int32: bool, right: bool) -> Any:
    side: Any = "right" if right else "left"
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, values, side))
    places = np.empty(values.shape, np.int64)
    for row in np.ndindex(*edges.shape[:-1]):
        places[row] = np.searchsorted(edges[row], values[row], side)
    return places


define("searchsorted", aval=_search_aval, numpy=_np_search, num_inputs=2)


# --- isin(elements, test_elements | invert) ---


def _isin_aval(x: Any, among: Any, invert: bool) -> Aval:
    if bool_ in (dtype_of(x), dtype_of(among)):
        raise RuntimeError("Unsupported input type encountered for isin(): Bool")
    return make_aval(shape_of(x), bool_)


_FEW_PAIRS = 4096
"""Up to here each pair is compared: sorting takes NumPy several calls."""


def _np_isin(x: Any, among: Any, invert: bool) -> Any:
    elements, others = np.asarray(x), np.asarray(among)
    if elements.size * others.size > _FEW_PAIRS:
        return np.isin(elements, others, invert=invert)
    found = (elements[..., None] == others.ravel()).any(-1)
    return np.logical_not(found) if invert else found


define("isin", aval=_isin_aval, numpy=_np_isin, num_inputs=2)


# --- histc(x | bins, min, max) ---


def _range_of(x: Any, low: float, high: float) -> tuple[float, float]:
    """The ends of the histogram: those of the data if none are given, and never equal."""
    if low == high and x.size:
        low, high = x.min().item(), x.max().item()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return (low - 1, high + 1) if low == high else (low, high)


def _histc_aval(x: Aval, bins: int, low: float, high: float) -> Aval:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{torch_dtype_name(x.dtype)}'")
    for bound in (low, high):
        check_fits(bound, x.dtype)
    return make_aval((bins,), x.dtype)


def _places(inside: Any, bins: int, low: float, high: float) -> Any:
    """In which box each element is, as a real number; of elements so large that the dtype overflows on the way, too."""
    number = inside.dtype.type
    found = (inside - number(low)) * number(bins) / number(high - low)
    if not np.isfinite(found).all():
        scale = max(abs(low), abs(high))
        first, last = low / scale, high / scale
        found = (inside.astype(np.float64) / scale - first) / (last - first) * bins
    return found


def _np_histc(x: Any, bins: int, low: float, high: float) -> Any:
    low, high = _range_of(x, low, high)
    inside = x[(x >= low) & (x <= high)]
    places = np.minimum(_places(inside, bins, low, high).astype(np.int64), bins - 1)
    return np.bincount(places, minlength=bins).astype(x.dtype)


define("histc", aval=_histc_aval, numpy=_np_histc, checks_reals=True)


# --- what was found by reading x(x, found): behind a node that has no derivative ---


def _no_rule(name: str) -> Callable[..., Any]:
    def rule(c: RuleContext, g: Any) -> Any:
        if name == "histogram":
            raise RuntimeError("derivative for aten::histogram is not implemented")
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return rule


for _name in ("_unique2", "unique_dim", "unique_consecutive", "histogram"):
    define(
        _name,
        aval=lambda x, found: make_aval(found.shape, dtype_of(found)),
        numpy=lambda x, found: found.copy(),
        lower=lambda b, x, found: found,
        vjps=[Vjp(_no_rule(_name)), None],
        num_inputs=2,
        node_name="torch::autograd::NotImplemented" if _name == "histogram" else None,
    )
