"""Products of vectors that are no sums over a dimension.

Owns: linalg_cross.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import broadcast, wrap_dim
from jitgrad.ops.table import Vjp, define

__all__ = ["check_cross"]

_NEXT = ((1, 2), (2, 0), (0, 1))
"""The components whose products make each component."""


def _cross_aval(x: Aval, y: Aval, dim: int) -> Aval:
    if x.dtype.category is BOOLEAN:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    check_cross(x, y, dim)
    return make_aval(broadcast("linalg.cross", x.shape, y.shape), x.dtype)


def check_cross(x: Aval, y: Aval, dim: int) -> None:
    """RuntimeError unless these are vectors of three along ``dim``."""
    if x.ndim != y.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, x.ndim)
    if x.shape[d] != 3 or y.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[d]} and {y.shape[d]}"
        )


def _np_cross(x: Any, y: Any, dim: int) -> Any:
    x, y = np.moveaxis(x, dim, 0), np.moveaxis(y, dim, 0)
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in _NEXT]
    return np.stack(parts, dim)


def _lower_cross(b: Any, x: Any, y: Any, dim: int) -> Any:
    d = wrap_dim(dim, len(x.shape))
    wide, parts = [], []
    for v in (x, y):
        starts, stops = [0] * len(v.shape), list(v.shape)
        each = []
        for i in range(3):
            starts[d], stops[d] = i, i + 1
            each.append(b.slice(v, tuple(starts), tuple(stops), [1] * len(v.shape)))
        wide.append(each)
    left, right = wide
    for i, j in _NEXT:
        parts.append(b.sub(b.mul(left[i], right[j]), b.mul(left[j], right[i])))
    return b.cat(parts, d)


define(
    "linalg_cross",
    aval=_cross_aval,
    numpy=_np_cross,
    lower=_lower_cross,
    vjps=[
        Vjp(lambda c, g, y: call("linalg_cross", y.expand(g.shape), g, *c.params), (1,)),
        Vjp(lambda c, g, x: call("linalg_cross", g, x.expand(g.shape), *c.params), (0,)),
    ],
    num_inputs=2,
)
