"""Copies in which the part that a view sees is replaced: the out-of-place forms of writes to views.

Owns: select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter.
Must not know: Tensor, kernels.

Each uses its view operation: the result has the source's elements where the view looks, and the input's elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.lib.stride_tricks import as_strided

from jitgrad.ops.aval import Aval, check_inside, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import as_dtype, operand, wrap_dim
from jitgrad.ops.table import OPS, RuleContext, Vjp, define
from jitgrad.ops.views.view_grads import lower_diagonal_backward, lower_slice_backward
from jitgrad.ops.views.views import normalize_slice

__all__: list[str] = []

Shape = tuple[int, ...]


def _place_select(b: Any, v: Any, shape: Shape, dim: int, index: int) -> Any:
    d = wrap_dim(dim, len(shape))
    at = index % shape[d]
    return lower_slice_backward(b, b.reshape(v, (*v.shape[:d], 1, *v.shape[d:])), shape, d, at, at + 1, 1)


def _place_slice(b: Any, v: Any, shape: Shape, dim: int, start: int | None, stop: int | None, step: int) -> Any:
    d = wrap_dim(dim, len(shape))
    first, last = normalize_slice(shape[d], start, stop, step)
    return lower_slice_backward(b, v, shape, d, first, last, step)


_PLACED: dict[str, Callable[..., Any]] = {
    "select": _place_select,
    "slice": _place_slice,
    "diagonal": lower_diagonal_backward,
}
"""View operation -> lowering of zeros with ``v`` where the view looks."""


def _part_of(view: str, x: Any, params: tuple[Any, ...]) -> Aval:
    """What the view operation sees of a row-major tensor like ``x``."""
    whole = make_aval(tuple(x.shape), as_dtype(x.dtype))
    part: Aval = OPS[view].aval(whole, *params)
    check_inside(part, whole.numel * whole.dtype.itemsize)
    return part


def _numpy(view: str) -> Callable[..., Any]:
    def rule(x: Any, src: Any, *params: Any) -> Any:
        out, part = x.copy(order="C"), _part_of(view, x, params)
        strides = tuple(s * out.itemsize for s in part.stride)
        as_strided(out.reshape(-1)[part.offset :], part.shape, strides)[...] = src
        return out

    return rule


def _lower(view: str) -> Callable[..., Any] | None:
    if view not in _PLACED:
        return None

    def rule(b: Any, x: Any, src: Any, *params: Any) -> Any:
        part = _part_of(view, x, params).shape
        here = _PLACED[view](b, b.expand(operand(b, 1, x.dtype), part), x.shape, *params)
        return b.where(b.ne(here, b.const(0, x.dtype)), _PLACED[view](b, src, x.shape, *params), x)

    return rule


def _src_rule(view: str) -> Callable[..., Any]:
    def rule(c: RuleContext, g: Any) -> Any:
        return call(view, g, *c.params)

    return rule


def _strided_src_rule(c: RuleContext, g: Any) -> Any:
    """The gradient may have any layout: it is read as if it were row-major."""
    whole = make_aval(c.out_avals[0].shape, c.out_avals[0].dtype)
    return call("strided_select", g, whole, OPS["as_strided"].aval(whole, *c.params))


def _define(view: str, text: str, src_rule: Callable[..., Any]) -> None:
    name = f"{view}_scatter"

    def aval(x: Aval, src: Aval, *params: Any) -> Aval:
        want = _part_of(view, x, params).shape
        if src.shape != want:
            raise RuntimeError(text.format(src=list(src.shape), slice=list(want)))
        return make_aval(x.shape, x.dtype)

    def self_rule(c: RuleContext, g: Any) -> Any:
        """The input's elements that were replaced get no gradient."""
        assert c.avals[1] is not None
        return call(name, g, filled(0.0, c.avals[1]), *c.params)

    define(name, aval=aval, numpy=_numpy(view), lower=_lower(view), vjps=[Vjp(self_rule), Vjp(src_rule)], num_inputs=2)


_SIZES = "expected src to have a size equal to the slice of self. src size = {src}, slice size = {slice}"
for _view in ("select", "slice", "diagonal"):
    _define(_view, _SIZES, _src_rule(_view))
_define("as_strided", _SIZES, _strided_src_rule)
