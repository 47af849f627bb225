"""Views: operations that share their input's storage.

Owns: their table entries: the layout of the result (stride and offset), and the same movement over primitives.
Must not know: Tensor, kernels.

A view has no NumPy rule, because no data moves; its lowering says which element goes where, for kernels that read
the view.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import numel, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.symbols.number import is_symbolic

__all__ = ["infer_shape", "normalize_slice", "view_strides"]


def _back_to_input_shape(c: RuleContext, g: Any) -> Any:
    assert c.avals[0] is not None
    return g.reshape(c.avals[0].shape)


# --- view, reshape ---


def infer_shape(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Fill in the -1 of a requested shape; RuntimeError if it cannot hold ``count`` elements."""
    unknown = [d for d, n in enumerate(shape) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(n < -1 for n in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    known = numel(n for n in shape if n != -1)
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {count} elements into shape {list(shape)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        if count % known:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
        return tuple(count // known if n == -1 else n for n in shape)
    if known != count:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return shape


def view_strides(aval: Aval, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of ``aval`` seen as ``shape``, or None if that needs a copy.

    Groups of dimensions that are adjacent in memory may be regrouped freely (PyTorch's ``computeStride``).
    """
    if aval.is_contiguous or aval.numel == 0:
        return make_aval(shape, aval.dtype).stride
    strides = [0] * len(shape)
    at = len(shape) - 1
    group, base = 1, aval.stride[-1] if aval.stride else 1
    for d in reversed(range(aval.ndim)):
        group *= aval.shape[d]
        ends = d == 0 or (aval.shape[d - 1] != 1 and aval.stride[d - 1] != group * base)
        if not ends:
            continue
        taken = 1
        while at >= 0 and (taken < group or shape[at] == 1):
            strides[at] = taken * base
            taken *= shape[at]
            at -= 1
        if taken != group:
            return None
        if d > 0:
            group, base = 1, aval.stride[d - 1]
    return tuple(strides) if at == -1 else None


def _view_aval(x: Aval, shape: tuple[int, ...]) -> Aval:
    shape = infer_shape(shape, x.numel)
    strides = view_strides(x, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            f"contiguous subspaces). Use .reshape(...) instead. (view: {x!r} as {list(shape)})"
        )
    return make_aval(shape, x.dtype, strides, x.offset)


def _lower_view(b: Any, x: Any, shape: tuple[int, ...]) -> Any:
    return b.reshape(x, infer_shape(shape, numel(x.shape)))


define("view", aval=_view_aval, lower=_lower_view, vjps=[Vjp(_back_to_input_shape)], is_view=True)
define(
    "unsafe_view",
    aval=_view_aval,
    lower=_lower_view,
    vjps=[Vjp(_back_to_input_shape)],
    is_view=True,
    is_unseen=True,
    node_name="UnsafeViewBackward0",
)
def _as_it_is(x: Aval) -> Aval:
    """The operand's layout; AttributeError for what is no tensor, before a trace has a value without one."""
    return make_aval(x.shape, x.dtype, x.stride, x.offset)


define("detach", aval=_as_it_is, lower=lambda b, x: x, is_view=True)
define("alias", aval=_as_it_is, lower=lambda b, x: x, vjps=[Vjp(lambda c, g: g)], is_view=True)


# --- transpose, permute ---


def _permuted(x: Aval, dims: tuple[int, ...]) -> Aval:
    return make_aval(tuple(x.shape[d] for d in dims), x.dtype, tuple(x.stride[d] for d in dims), x.offset)


def _swapped(rank: int, dim0: int, dim1: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank:
        i, j = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
        order[i], order[j] = j, i
    return tuple(order)


def _t_aval(x: Aval) -> Aval:
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return _permuted(x, tuple(reversed(range(x.ndim))))


def _wrapped_order(rank: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    if len(dims) != rank:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple(wrap_dim(d, rank) for d in dims)
    if len(set(order)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return order


def _permute_rule(c: RuleContext, g: Any) -> Any:
    order = _wrapped_order(len(c.params[0]), c.params[0])
    return g.permute(tuple(order.index(d) for d in range(len(order))))


define(
    "transpose",
    aval=lambda x, dim0, dim1: _permuted(x, _checked_swap(x, dim0, dim1)),
    lower=lambda b, x, dim0, dim1: b.permute(x, _swapped(len(x.shape), dim0, dim1)),
    vjps=[Vjp(lambda c, g: g.transpose(c.params[0], c.params[1]))],
    is_view=True,
)
define(
    "t",
    aval=_t_aval,
    lower=lambda b, x: b.permute(x, tuple(reversed(range(len(x.shape))))),
    vjps=[Vjp(lambda c, g: g.t())],
    is_view=True,
    node_name="TBackward0",
)
define(
    "permute",
    aval=lambda x, dims: _permuted(x, _wrapped_order(x.ndim, dims)),
    lower=lambda b, x, dims: b.permute(x, _wrapped_order(len(x.shape), dims)),
    vjps=[Vjp(_permute_rule)],
    is_view=True,
)


def _checked_swap(x: Aval, dim0: int, dim1: int) -> tuple[int, ...]:
    wrap_dim(dim0, x.ndim)
    wrap_dim(dim1, x.ndim)
    return _swapped(x.ndim, dim0, dim1)


# --- expand, squeeze, unsqueeze ---


def _expanded_shape(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    lead = len(shape) - len(have)
    if lead < 0:
        raise RuntimeError(
            f"expand(size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(have)})"
        )
    out = []
    for d, want in enumerate(shape):
        own = have[d - lead] if d >= lead else None
        if want < -1:
            raise RuntimeError(f"numel: integer multiplication overflow (expand to {list(shape)})")
        if want == -1 and own is None:
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) isn't allowed in a leading, non-existing dimension {d}"
            )
        if want != -1 and own not in (None, 1, want):
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) must match the existing size ({own}) at non-singleton "
                f"dimension {d}.  Target sizes: {list(shape)}.  Tensor sizes: {list(have)}"
            )
        out.append(own if want == -1 and own is not None else want)
    return tuple(out)


def _expand_aval(x: Aval, shape: tuple[int, ...]) -> Aval:
    out = _expanded_shape(x.shape, shape)
    lead = len(out) - x.ndim
    strides = tuple(x.stride[d - lead] if d >= lead and x.shape[d - lead] == n else 0 for d, n in enumerate(out))
    return make_aval(out, x.dtype, strides, x.offset)


define(
    "expand",
    aval=_expand_aval,
    lower=lambda b, x, shape: b.expand(x, _expanded_shape(x.shape, shape)),
    vjps=[Vjp(lambda c, g: g)],
    is_view=True,
)


def _squeezed(shape: tuple[int, ...], dim: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """The dims that stay."""
    if dim is None:
        return tuple(d for d, n in enumerate(shape) if n != 1)
    gone = [wrap_dim(d, len(shape)) for d in ((dim,) if isinstance(dim, int) else dim)]
    for d in gone:
        if gone.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(d for d, n in enumerate(shape) if n != 1 or d not in gone)


for _name, _node in (("squeeze", 0), ("squeeze_dim", 1), ("squeeze_dims", 2)):
    define(
        _name,
        aval=lambda x, dim=None: _permuted(x, _squeezed(x.shape, dim)),
        lower=lambda b, x, dim=None: b.reshape(x, tuple(x.shape[d] for d in _squeezed(x.shape, dim))),
        vjps=[Vjp(_back_to_input_shape)],
        is_view=True,
        node_name=f"SqueezeBackward{_node}",
    )


def _unsqueeze_aval(x: Aval, dim: int) -> Aval:
    d = wrap_dim(dim, x.ndim + 1)
    step = x.shape[d] * x.stride[d] if d < x.ndim else 1
    return make_aval((*x.shape[:d], 1, *x.shape[d:]), x.dtype, (*x.stride[:d], step, *x.stride[d:]), x.offset)


def _lower_unsqueeze(b: Any, x: Any, dim: int) -> Any:
    d = wrap_dim(dim, len(x.shape) + 1)
    return b.reshape(x, (*x.shape[:d], 1, *x.shape[d:]))


define("unsqueeze", aval=_unsqueeze_aval, lower=_lower_unsqueeze, vjps=[Vjp(_back_to_input_shape)], is_view=True)


# --- select, slice, diagonal, as_strided ---


def _select_aval(x: Aval, dim: int, index: int) -> Aval:
    if not x.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, x.ndim)
    n = x.shape[d]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {d} with size {n}")
    offset = x.offset + (index % n) * x.stride[d]
    return make_aval(x.shape[:d] + x.shape[d + 1 :], x.dtype, x.stride[:d] + x.stride[d + 1 :], offset)


def lower_slice(b: Any, x: Any, dim: int, start: int, stop: int, step: int) -> Any:
    """``x[..., start:stop:step, ...]`` over primitives."""
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[dim], stops[dim], steps[dim] = start, stop, step
    return b.slice(x, starts, stops, steps)


def _lower_select(b: Any, x: Any, dim: int, index: int) -> Any:
    d = wrap_dim(dim, len(x.shape))
    at = index % x.shape[d]
    return b.reshape(lower_slice(b, x, d, at, at + 1, 1), x.shape[:d] + x.shape[d + 1 :])


def _select_rule(c: RuleContext, g: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    d = wrap_dim(c.params[0], aval.ndim)
    at = c.params[1] % aval.shape[d]
    return call("slice_backward", g.unsqueeze(d), aval.shape, d, at, at + 1, 1)


define("select", aval=_select_aval, lower=_lower_select, vjps=[Vjp(_select_rule)], is_view=True)


def normalize_slice(n: int, start: int | None, stop: int | None, step: int) -> tuple[int, int]:
    """Clamp a slice with a positive step to an extent: (start, stop) with start <= stop."""
    if step <= 0:
        raise ValueError("step must be greater than zero")
    if not any(map(is_symbolic, (n, start, stop))):
        first, last, _ = slice(start, stop, step).indices(n)
        return first, max(first, last)
    first, last = [_clamped(n, at) for at in (0 if start is None else start, n if stop is None else stop)]
    return first, max(first, last)


def _clamped(n: int, at: int) -> int:
    """What ``slice.indices`` makes of an end, for symbolic numbers, Note [Symbolic extents]."""
    return max(at + n, 0) if at < 0 else min(at, n)


def _slice_aval(x: Aval, dim: int, start: int | None, stop: int | None, step: int) -> Aval:
    if not x.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, x.ndim)
    first, last = normalize_slice(x.shape[d], start, stop, step)
    shape = (*x.shape[:d], -(-(last - first) // step), *x.shape[d + 1 :])
    strides = (*x.stride[:d], x.stride[d] * step, *x.stride[d + 1 :])
    return make_aval(shape, x.dtype, strides, x.offset + first * x.stride[d])


def _lower_slice(b: Any, x: Any, dim: int, start: int | None, stop: int | None, step: int) -> Any:
    d = wrap_dim(dim, len(x.shape))
    first, last = normalize_slice(x.shape[d], start, stop, step)
    return lower_slice(b, x, d, first, last, step)


def _slice_rule(c: RuleContext, g: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    d = wrap_dim(c.params[0], aval.ndim)
    first, last = normalize_slice(aval.shape[d], *c.params[1:])
    return call("slice_backward", g, aval.shape, d, first, last, c.params[3])


define("slice", aval=_slice_aval, lower=_lower_slice, vjps=[Vjp(_slice_rule)], is_view=True)
