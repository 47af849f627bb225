"""Largest and smallest elements, their positions.

Owns: amax, amin, max, min (values and indices), argmax, argmin.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call
from jitgrad.ops.reductions.reductions import Dim, restore
from jitgrad.ops.shapes import reduced_shape, wrap_dim, wrap_dims
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["share_all_ties"]


def _check_not_empty(name: str, x: Aval, dim: Dim, missing: type[Exception] = RuntimeError) -> None:
    """Refuse a reduction over no elements. ``missing``: the error if no dimension was named."""
    if dim is not None and dim != ():
        for d in (dim,) if isinstance(dim, int) else dim:
            if x.ndim and x.shape[d] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    elif 0 in x.shape:
        raise missing(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )


def _share_ties(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """Every element that equals the extremum gets an equal share."""
    aval, dim = c.avals[0], c.params[0] if c.params else None
    assert aval is not None
    hits = call("eq", x, restore(out, aval, dim)).to(aval.dtype)
    return restore(g, aval, dim) * (hits / hits.sum(wrap_dims(dim, aval.ndim), True))


def share_all_ties(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    """As ``_share_ties``, over all elements. A NaN counts as its own extremum."""
    same_nan = call("logical_and", call("isnan", x), call("isnan", out))
    hits = call("logical_or", call("eq", x, out), same_nan)
    return call("where", hits, g / hits.sum(), 0.0).contiguous()


def _define_full_or_dims(name: str, primitive: str, np_function: Any) -> None:
    def aval(x: Aval, dim: Dim = None, keepdim: bool = False) -> Aval:
        dims = wrap_dims(dim, x.ndim)
        _check_not_empty(name, x, dim)
        return make_aval(reduced_shape(x.shape, dims, keepdim), x.dtype)

    define(
        name,
        aval=aval,
        numpy=lambda x, dim=None, keepdim=False: np_function(x, axis=wrap_dims(dim, x.ndim), keepdims=keepdim),
        lower=lambda b, x, dim=None, keepdim=False: b.reduce(primitive, x, wrap_dims(dim, len(x.shape)), keepdim),
        vjps=[Vjp(share_all_ties if name in ("max", "min") else _share_ties, (0, "out"))],
        node_name={"max": "MaxBackward1", "min": "MinBackward1"}.get(name),
    )


_define_full_or_dims("amax", "max", np.max)
_define_full_or_dims("amin", "min", np.min)
_define_full_or_dims("max", "max", np.max)
_define_full_or_dims("min", "min", np.min)


def _np_arg(np_function: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        found = np_function(x)
        return np.reshape(found, (1,) * x.ndim) if keepdim else found
    return np_function(x, axis=dim, keepdims=keepdim) if x.ndim else np.int64(0)


def _lower_arg(primitive: str) -> Any:
    def lower(b: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
        if dim is None:
            flat = b.argreduce(primitive, b.reshape(x, (math.prod(x.shape),)), 0, False)
            return b.reshape(flat, (1,) * len(x.shape)) if keepdim else flat
        if not x.shape:
            return b.const(0, int64)
        return b.argreduce(primitive, x, wrap_dim(dim, len(x.shape)), keepdim)

    return lower


def _define_arg(name: str, np_function: Any) -> None:
    def aval(x: Aval, dim: int | None, keepdim: bool) -> Aval:
        if x.dtype.category is BOOLEAN:
            raise RuntimeError(f"{name}(): does not support bool input")
        dims = wrap_dims(dim, x.ndim)
        _check_not_empty(name, x, None if dim is None else dims[0] if dims else (), IndexError)
        return make_aval(reduced_shape(x.shape, dims, keepdim), int64)

    define(
        name,
        aval=aval,
        numpy=lambda x, dim, keepdim: _np_arg(np_function, x, dim, keepdim),
        lower=_lower_arg(name),
    )


_define_arg("argmax", np.argmax)
_define_arg("argmin", np.argmin)


def _at_position(c: RuleContext, g: tuple[Any, Any], indices: Any) -> Any:
    """The gradient goes to the element that was taken."""
    aval, dim = c.avals[0], c.params[0]
    assert aval is not None
    if not aval.ndim:
        return g[0]
    axis = wrap_dim(dim, aval.ndim)
    grid = [1] * aval.ndim
    grid[axis] = aval.shape[axis]
    positions = call("arange", 0, aval.shape[axis], 1, int64, *beside(aval)).reshape(tuple(grid))
    return call("where", call("eq", positions, restore(indices, aval, dim)), restore(g[0], aval, dim), 0.0)


def _define_with_indices(name: str, primitive: str, np_function: Any, np_arg: Any) -> None:
    def aval(x: Aval, dim: int, keepdim: bool) -> tuple[Aval, Aval]:
        dims = wrap_dims(dim, x.ndim)
        if any(x.shape[d] == 0 for d in dims):
            raise IndexError(f"{name}(): Expected reduction dim {dims[0]} to have non-zero size.")
        shape = reduced_shape(x.shape, dims, keepdim)
        return make_aval(shape, x.dtype), make_aval(shape, int64)

    def numpy(x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        return np_function(x, axis=wrap_dims(dim, x.ndim), keepdims=keepdim), _np_arg(np_arg, x, dim, keepdim)

    def lower(b: Any, x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        values = b.reduce(primitive, x, wrap_dims(dim, len(x.shape)), keepdim)
        return values, _lower_arg("arg" + primitive)(b, x, dim, keepdim)

    define(
        f"{name}_dim",
        aval=aval,
        numpy=numpy,
        lower=lower,
        vjps=[Vjp(_at_position, ("out1",))],
        node_name=f"{name.capitalize()}Backward0",
    )


_define_with_indices("max", "max", np.max, np.argmax)
_define_with_indices("min", "min", np.min, np.argmin)
