"""Indexing by tensors: reads by gather, derivatives by scatter-add, writes.

Owns: index, index_backward, index_put, gather, scatter_add, embedding, masked_fill, tril, triu.
Must not know: Tensor, kernels.

``index<k>`` takes x, k index tensors and the dimensions they belong to. Its result has the indices' common shape in the
place of those dimensions where they are adjacent, and in front where they are not (NumPy's rule). There is one entry
per k, because an entry saves a fixed number of inputs; ``MAX_INDICES`` is the largest.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jitgrad.dtypes import int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["MAX_INDICES", "add_at", "out_of_bounds"]

MAX_INDICES = 6

Dims = tuple[int, ...]


def _index_shape(indices: Any) -> tuple[int, ...]:
    shapes = [tuple(i.shape) for i in indices]
    try:
        return shapes[0] if all([s == shapes[0] for s in shapes]) else np.broadcast_shapes(*shapes)
    except ValueError:
        shown = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shown}"
        ) from None


def _is_adjacent(dims: Dims) -> bool:
    return dims[-1] - dims[0] == len(dims) - 1


def _taken_shape(shape: tuple[int, ...], at: tuple[int, ...], dims: Dims) -> tuple[int, ...]:
    if _is_adjacent(dims):
        return shape[: dims[0]] + at + shape[dims[-1] + 1 :]
    return at + tuple(n for d, n in enumerate(shape) if d not in dims)


def _check_indices(indices: Any) -> None:
    for i in indices:
        if i.dtype not in (int32, int64):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")


def _split(args: tuple[Any, ...]) -> tuple[Any, Any, Dims]:
    """(tensor, indices, dims) of an entry's arguments."""
    return args[0], args[1:-1], args[-1]


def _index_aval(*args: Any) -> Aval:
    x, indices, dims = _split(args)
    _check_indices(indices)
    shape = _taken_shape(x.shape, _index_shape(indices), dims)
    if x.numel == 0 and any(x.shape[d] == 0 for d in dims) and _index_shape(indices) and 0 not in _index_shape(indices):
        empty = next(d for d in dims if x.shape[d] == 0)
        raise IndexError(f"index is out of bounds for dimension {empty} with size 0")
    return make_aval(shape, x.dtype)


def add_at(out: Any, spec: Any, values: Any) -> None:
    """``numpy.add.at(out, spec, values)``: in place, an element that is met several times is added to each time.

    NumPy takes an index of one dimension four times as fast as one of rows. So rows are added by the places of their
    elements: in the same order, thus with the same bits.

    Raises:
        IndexError: NumPy's, before anything is written.
    """
    parts = spec if isinstance(spec, tuple) else (spec,)
    rows: Any = parts[0] if parts else None
    if not (_is_of_rows(parts) and out.ndim > 1 and out.flags.c_contiguous and out.size and rows.size):
        np.add.at(out, spec, values)
        return
    count = len(out)
    if rows.min() < -count or rows.max() >= count:
        np.add.at(out, spec, values)  # raises
        return
    width = out.size // count
    firsts: Any = np.where(rows < 0, rows + count, rows).reshape(-1, 1) * width
    taken = np.broadcast_to(values, (*rows.shape, *out.shape[1:]))
    np.add.at(out.reshape(-1), (firsts + np.arange(width)).reshape(-1), taken.reshape(-1))


def _is_of_rows(parts: tuple[Any, ...]) -> bool:
    """Whether an index is an array of positions in the first dimension, and takes all of the others."""
    is_array = bool(parts) and isinstance(parts[0], np.ndarray) and parts[0].dtype.kind == "i"
    return is_array and all([type(part) is slice and part == slice(None) for part in parts[1:]])


def _spec(rank: int, indices: Any, dims: Dims) -> tuple[Any, ...]:
    spec: list[Any] = [slice(None)] * rank
    for d, i in zip(dims, indices, strict=True):
        spec[d] = i
    return tuple(spec)


def out_of_bounds(error: IndexError) -> IndexError:
    """NumPy's error in PyTorch's words."""
    return IndexError(re.sub(r"for axis (\d+)", r"for dimension \1", str(error)))


def _np_index(*args: Any) -> Any:
    x, indices, dims = _split(args)
    try:
        return x[_spec(x.ndim, indices, dims)]
    except IndexError as error:
        raise out_of_bounds(error) from None


def _lower_indices(b: Any, indices: Any) -> list[Any]:
    return [b.cast(i, int64) for i in indices]


def _front(rank: int, dims: Dims) -> tuple[int, ...]:
    """The order that brings ``dims`` to the front."""
    return (*dims, *(d for d in range(rank) if d not in dims))


def _placement(rank_at: int, rank: int, dims: Dims) -> tuple[int, ...]:
    """The order that moves the index dimensions of [*at, *rest] to where they belong."""
    if not _is_adjacent(dims):
        return tuple(range(rank_at + rank - len(dims)))
    before = dims[0]
    rest = range(rank_at, rank_at + rank - len(dims))
    return (*rest[:before], *range(rank_at), *rest[before:])


def _lower_index(b: Any, *args: Any) -> Any:
    x, indices, dims = _split(args)
    rank, at = len(x.shape), _index_shape(indices)
    taken = b.gather(b.permute(x, _front(rank, dims)), _lower_indices(b, indices))
    return b.permute(taken, _placement(len(at), rank, dims))


def _index_rule(c: RuleContext, g: Any, *indices: Any) -> Any:
    assert c.avals[0] is not None
    return call(f"index_backward{len(indices)}", g, *indices, c.avals[0].shape, c.params[0])


def _np_index_backward(g: Any, *args: Any) -> Any:
    *indices, shape, dims = args
    out = np.zeros(shape, g.dtype)
    add_at(out, _spec(len(shape), indices, dims), g)
    return out


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(d) for d in range(len(order)))


def lower_scatter(b: Any, kind: str, base: Any, src: Any, indices: Any, dims: Dims) -> Any:
    """``base`` with ``src`` combined where ``index`` would have read, see ``Builder.scatter``."""
    rank, at = len(base.shape), _index_shape(indices)
    values = b.permute(src, _inverse(_placement(len(at), rank, dims)))
    front = _front(rank, dims)
    combined = b.scatter(kind, b.permute(base, front), _lower_indices(b, indices), values)
    return b.permute(combined, _inverse(front))


def _lower_index_backward(b: Any, g: Any, *args: Any) -> Any:
    *indices, shape, dims = args
    return lower_scatter(b, "add", b.const(0, g.dtype, shape), g, indices, dims)


def _index_again(c: RuleContext, g: Any, *indices: Any) -> Any:
    return call(f"index{len(indices)}", g, *indices, c.params[1])


def _define_index(k: int) -> None:
    indices = tuple(range(1, k + 1))
    define(
        f"index{k}",
        checks_values=True,
        aval=_index_aval,
        numpy=_np_index,
        lower=_lower_index,
        vjps=[Vjp(_index_rule, indices), *[None] * k],
        num_inputs=k + 1,
        node_name="IndexBackward0",
    )
    define(
        f"index_backward{k}",
        aval=lambda g, *args: make_aval(args[-2], g.dtype),
        numpy=_np_index_backward,
        lower=_lower_index_backward,
        vjps=[Vjp(_index_again, indices), *[None] * k],
        num_inputs=k + 1,
        node_name="IndexBackwardBackward0",
    )


# --- writes: index_put<k>(x, values, indices..., dims) ---


def _index_put_aval(x: Aval, values: Aval, *args: Any) -> Aval:
    *indices, dims = args
    _check_indices(indices)
    want = _taken_shape(x.shape, _index_shape(indices), dims)
    padded = (1,) * (len(want) - values.ndim) + values.shape
    if len(padded) != len(want) or any(n not in (1, m) for n, m in zip(padded, want, strict=True)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(want)}"
        )
    if values.dtype is not x.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{torch_dtype_name(x.dtype)} for the destination and {torch_dtype_name(values.dtype)} for the source."
        )
    return make_aval(x.shape, x.dtype)


def _np_index_write(write: Any) -> tuple[Any, Any]:
    """(The NumPy rule, the same in the target's own memory.)"""

    def write_into(x: Any, values: Any, *args: Any) -> None:
        *indices, dims = args
        try:
            write(x, _spec(x.ndim, indices, dims), values)
        except IndexError as error:
            raise out_of_bounds(error) from None

    def rule(x: Any, values: Any, *args: Any) -> Any:
        out = x.copy()
        write_into(out, values, *args)
        return out

    return rule, write_into


def _assign(out: Any, spec: tuple[Any, ...], values: Any) -> None:
    out[spec] = values


_np_put, _np_put_into = _np_index_write(_assign)
_np_add, _np_add_into = _np_index_write(add_at)


def _lower_index_write(kind: str) -> Any:
    def lower(b: Any, x: Any, values: Any, *args: Any) -> Any:
        *indices, dims = args
        want = _taken_shape(x.shape, _index_shape(indices), dims)
        return lower_scatter(b, kind, x, b.expand(values, want), indices, dims)

    return lower


def _overwritten_rule(c: RuleContext, g: Any, *indices: Any) -> Any:
    """What was overwritten gets no gradient."""
    return call(f"index_put{len(indices)}", g, filled(0, c.out_avals[0], ()), *indices, c.params[0])


def _written_rule(c: RuleContext, g: Any, *indices: Any) -> Any:
    """Where an element was written twice, every value gets its gradient, as in PyTorch."""
    return call(f"index{len(indices)}", g, *indices, c.params[0])


def _define_index_put(k: int) -> None:
    indices = tuple(range(2, k + 2))
    define(
        f"index_put{k}",
        checks_values=True,
        aval=_index_put_aval,
        numpy=_np_put,
        write=_np_put_into,
        lower=_lower_index_write("set"),
        vjps=[Vjp(_overwritten_rule, indices), Vjp(_written_rule, indices), *[None] * k],
        num_inputs=k + 2,
        node_name="IndexPutBackward0",
    )
    define(
        f"index_put_accumulate{k}",
        checks_values=True,
        aval=_index_put_aval,
        numpy=_np_add,
        write=_np_add_into,
        lower=_lower_index_write("add"),
        vjps=[Vjp(lambda c, g: g), Vjp(_written_rule, indices), *[None] * k],
        num_inputs=k + 2,
        node_name="IndexPutBackward0",
        runs_once=True,
    )


for _k in range(1, MAX_INDICES + 1):
    _define_index(_k)
    _define_index_put(_k)
