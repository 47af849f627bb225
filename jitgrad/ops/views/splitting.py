"""Views that cut a tensor into several: split and unbind.

Owns: their table entries, each with as many outputs as there are pieces.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.ops.views.views import lower_slice

__all__ = ["check_parts"]

_MOST_PARTS = 1 << 24


def check_parts(name: str, count: int) -> None:
    """RuntimeError for more views than there is memory for: of no elements, or of one that is expanded."""
    if count > _MOST_PARTS:
        raise RuntimeError(f"{name}: not enough memory for {count} views of one tensor; {_MOST_PARTS} are the most")


def _zeros(aval: Aval) -> Any:
    return filled(0.0, aval)


def _defined(c: RuleContext, g: tuple[Any, ...]) -> list[Any]:
    """The pieces' gradients, zeros where a piece was not used."""
    return [_zeros(aval) if piece is None else piece for piece, aval in zip(g, c.out_avals, strict=True)]


# --- split(x | size, dim) and split_with_sizes(x | sizes, dim) ---


def _even_sizes(extent: int, size: int) -> list[int]:
    if size == 0 and extent:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {extent}")
    check_parts("split", -(-extent // (size or 1)))
    step = size or 1
    return [min(size, extent - step * nr) for nr in range(-(-extent // step))] or [0]


def _sizes(extent: int, size: int | tuple[int, ...], dim: int) -> list[int]:
    if isinstance(size, int):
        return _even_sizes(extent, size)
    if sum(size) != extent or any(n < 0 for n in size):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's size at dimension {dim}),"
            f" but got split_sizes={list(size)}"
        )
    return list(size)


def _pieces(shape: tuple[int, ...], size: int | tuple[int, ...], dim: int) -> tuple[int, list[tuple[int, int]]]:
    """(dimension, (start, stop) of each piece)."""
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if isinstance(size, int) and size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    d = wrap_dim(dim, len(shape))
    at, cuts = 0, []
    for extent in _sizes(shape[d], size, dim):
        cuts.append((at, at + extent))
        at += extent
    return d, cuts


def _split_aval(x: Aval, size: int | tuple[int, ...], dim: int) -> tuple[Aval, ...]:
    d, cuts = _pieces(x.shape, size, dim)
    return tuple(
        make_aval((*x.shape[:d], stop - start, *x.shape[d + 1 :]), x.dtype, x.stride, x.offset + start * x.stride[d])
        for start, stop in cuts
    )


def _lower_split(b: Any, x: Any, size: int | tuple[int, ...], dim: int) -> tuple[Any, ...]:
    d, cuts = _pieces(x.shape, size, dim)
    return tuple(lower_slice(b, x, d, start, stop, 1) for start, stop in cuts)


def _split_rule(c: RuleContext, g: Any) -> Any:
    return call("cat", _defined(c, g if isinstance(g, tuple) else (g,)), c.params[1])


for _name in ("split", "split_with_sizes"):
    define(_name, aval=_split_aval, lower=_lower_split, vjps=[Vjp(_split_rule)], is_view=True)


# --- unsafe_split(x | size, dim): PyTorch's pieces share memory unseen; here they are copies ---


def _np_unsafe_split(x: Any, size: int, dim: int) -> tuple[Any, ...]:
    d, cuts = _pieces(x.shape, size, dim)
    return tuple(x[(slice(None),) * d + (slice(start, stop),)].copy() for start, stop in cuts)


def _unsafe_split_aval(x: Aval, size: int, dim: int) -> tuple[Aval, ...]:
    return tuple(make_aval(part.shape, part.dtype) for part in _split_aval(x, size, dim))


define(
    "unsafe_split", aval=_unsafe_split_aval, numpy=_np_unsafe_split, lower=_lower_split, vjps=[Vjp(_split_rule)]
)


# --- unbind(x | dim) ---


def _unbind_aval(x: Aval, dim: int) -> tuple[Aval, ...]:
    if not x.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = wrap_dim(dim, x.ndim)
    check_parts("unbind", x.shape[d])
    shape, stride = x.shape[:d] + x.shape[d + 1 :], x.stride[:d] + x.stride[d + 1 :]
    return tuple(make_aval(shape, x.dtype, stride, x.offset + i * x.stride[d]) for i in range(x.shape[d]))


def _lower_unbind(b: Any, x: Any, dim: int) -> tuple[Any, ...]:
    d = wrap_dim(dim, len(x.shape))
    shape = x.shape[:d] + x.shape[d + 1 :]
    return tuple(b.reshape(lower_slice(b, x, d, i, i + 1, 1), shape) for i in range(x.shape[d]))


def _unbind_rule(c: RuleContext, g: Any) -> Any:
    return call("stack", _defined(c, g if isinstance(g, tuple) else (g,)), c.params[0])


define("unbind", aval=_unbind_aval, lower=_lower_unbind, vjps=[Vjp(_unbind_rule)], is_view=True)
