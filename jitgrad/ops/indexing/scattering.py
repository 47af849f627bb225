"""Writes by position: rows, elements and masked elements replaced in a copy, or added to.

Owns: index_add, index_copy, index_fill, scatter, masked_scatter, put, take.
Must not know: Tensor, kernels.

Where two positions are equal, the later write wins, in kernels as in NumPy: a scatter goes through its index in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call, filled, laid_out_as
from jitgrad.ops.indexing.gathering import lower_scatter_along, no_wrap, scatter_src_rule
from jitgrad.ops.indexing.indexing import add_at, lower_scatter, out_of_bounds
from jitgrad.ops.shapes import broadcast, check_fits, dtype_of, np_operand, numel, operand, torch_dtype_name, wrap_dim
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


def _check_index(name: str, index: Aval) -> None:
    if index.dtype not in (int32, int64):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


def _rows(x: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """The NumPy index of rows of ``dim``."""
    d = wrap_dim(dim, x.ndim)
    return (slice(None),) * d + (index.reshape(-1),)


def _without(shape: tuple[int, ...], d: int) -> tuple[int, ...]:
    return shape[:d] + shape[d + 1 :]


def _bare(shape: tuple[int, ...]) -> str:
    return " ".join(map(str, shape))


# --- index_add(x, index, source | dim) ---


def _index_add_aval(x: Aval, index: Aval, source: Aval, dim: int) -> Aval:
    d = wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if index.dtype not in (int32, int64):
        raise RuntimeError("index_add_(): Expected dtype int32/int64 for index")
    if x.dtype is not source.dtype:
        raise RuntimeError(
            f"index_add_(): self ({torch_dtype_name(x.dtype)}) and source ({torch_dtype_name(source.dtype)}) must have "
            "the same scalar type"
        )
    count, rows = index.numel, source.shape[d] if d < source.ndim else 1
    if d and d >= source.ndim:
        raise RuntimeError(
            f"index_add_(): Indexing dim {d} is out of bounds of the source tensor with dim {source.ndim}"
        )
    if count != rows:
        raise RuntimeError(
            f"index_add_(): Number of indices ({count}) should be equal to source.size(dim): ({rows}), for dim: {d}"
        )
    if _without(x.shape, d) != _without(source.shape, d) or (x.ndim and not source.ndim):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    return make_aval(x.shape, x.dtype)


def _np_index_add(x: Any, index: Any, source: Any, dim: int) -> Any:
    extent = x.shape[dim] if x.ndim else 1
    wrong = (index < 0) | (index >= extent)
    if wrong.any():
        if x.ndim < 2:
            raise IndexError("index out of range in self")
        at = int(index[wrong].flat[0])
        raise RuntimeError(f"index {at} is out of bounds for dimension {wrap_dim(dim, x.ndim)} with size {extent}")
    if not x.ndim:
        return x + source.reshape(())
    out = x.copy()
    add_at(out, _rows(x, index, dim), source)
    return out


def _lower_rows(b: Any, kind: str, x: Any, index: Any, source: Any, dim: int) -> Any:
    """Rows of ``x`` along ``dim`` combined with those of ``source``."""
    whole, values = (b.reshape(v, v.shape or (1,)) for v in (x, source))
    d = wrap_dim(dim, len(whole.shape))
    rows = no_wrap(b, b.reshape(index, values.shape[d : d + 1]), whole.shape[d])
    return b.reshape(lower_scatter(b, kind, whole, values, [rows], (d,)), x.shape)


def _added_rule(c: RuleContext, g: Any, index: Any) -> Any:
    return call("index_select", g, index, c.params[0])


define(
    "index_add",
    checks_values=True,
    aval=_index_add_aval,
    numpy=_np_index_add,
    lower=lambda b, x, index, source, dim: _lower_rows(b, "add", x, index, source, dim),
    vjps=[Vjp(lambda c, g: g), None, Vjp(_added_rule, (1,))],
    num_inputs=3,
)


# --- index_copy(x, index, source | dim), index_fill(x, index, value | dim) ---


def _index_copy_aval(x: Aval, index: Aval, source: Aval, dim: int) -> Aval:
    d, count = wrap_dim(dim, x.ndim), index.numel
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if not source.ndim and count != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
    if source.ndim and x.ndim and source.ndim != x.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({x.ndim})"
        )
    if index.dtype is not int64:
        raise IndexError(f"index_copy_(): Expected a long tensor for index, but got {torch_dtype_name(index.dtype)}")
    if x.dtype is not source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{torch_dtype_name(x.dtype)} and (source) {torch_dtype_name(source.dtype)}"
        )
    rest = _without(x.shape, d)
    if _without(source.shape, d) != rest:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{_bare(rest)} at dimension {d} and source slice shape: {_bare(_without(source.shape, d))} at dimension 0."
        )
    if source.ndim and count != source.shape[d]:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) ({source.shape[d]})"
        )
    return make_aval(x.shape, x.dtype)


def _np_index_copy(x: Any, index: Any, source: Any, dim: int) -> Any:
    if not x.ndim:
        return source.reshape(()).copy()
    extent = x.shape[dim]
    wrong = (index < 0) | (index >= extent)
    if wrong.any():
        at = int(index[wrong].flat[0])
        raise IndexError(
            f"index_copy_(): index {at} is out of bounds for dimension {wrap_dim(dim, x.ndim)} with size {extent}"
        )
    out = x.copy()
    out[_rows(x, index, dim)] = source
    return out


def _lower_index_copy(b: Any, x: Any, index: Any, source: Any, dim: int) -> Any:
    if not x.shape:
        return b.reshape(source, ())
    d = wrap_dim(dim, len(x.shape))
    rows = source if source.shape else b.expand(source, (*x.shape[:d], 1, *x.shape[d + 1 :]))
    return _lower_rows(b, "set", x, index, rows, dim)


define(
    "index_copy",
    checks_values=True,
    aval=_index_copy_aval,
    numpy=_np_index_copy,
    lower=_lower_index_copy,
    vjps=[
        Vjp(lambda c, g, index: call("index_fill", g, index, 0.0, c.params[0]), (1,)),
        None,
        Vjp(lambda c, g, index: call("index_select", g, index, c.params[0]), (1,)),
    ],
    num_inputs=3,
)


def _index_fill_aval(x: Aval, index: Aval, value: Any, dim: int) -> Aval:
    if getattr(value, "shape", ()):
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value.shape)} dimension(s)."
        )
    if index.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    check_fits(value, x.dtype)
    return make_aval(x.shape, x.dtype)


def _np_index_fill(x: Any, index: Any, value: Any, dim: int) -> Any:
    out = x.copy()
    _np_index_fill_into(out, index, value, dim)
    return out


def _np_index_fill_into(x: Any, index: Any, value: Any, dim: int) -> None:
    number = np.asarray(np_operand(value, dtype_of(x)))
    whole = x if x.ndim else x.reshape(1)  # a view
    try:
        whole[_rows(whole, index, dim)] = number
    except IndexError as error:
        raise out_of_bounds(error) from None


def _lower_index_fill(b: Any, x: Any, index: Any, value: Any, dim: int) -> Any:
    if not x.shape:
        return b.reshape(_lower_index_fill(b, b.reshape(x, (1,)), index, value, 0), ())
    number = operand(b, value, x.dtype)
    d, rows = wrap_dim(dim, len(x.shape)), b.reshape(index, (numel(index.shape),))
    return lower_scatter(b, "set", x, b.expand(number, (*x.shape[:d], *rows.shape, *x.shape[d + 1 :])), [rows], (d,))


def _filled_rule(c: RuleContext, g: Any, index: Any) -> Any:
    """A row that is named twice is filled once."""
    rows = call("index_fill", call("zeros_like", g), index, 1.0, c.params[0])
    return call("where", call("ne", rows, 0), g, 0.0).sum()


define(
    "index_fill",
    checks_values=True,
    aval=_index_fill_aval,
    numpy=_np_index_fill,
    write=_np_index_fill_into,
    lower=_lower_index_fill,
    vjps=[
        Vjp(lambda c, g, index: call("index_fill", g, index, 0.0, c.params[0]), (1,)),
        None,
        Vjp(_filled_rule, (1,)),
    ],
    num_inputs=3,
    node_name="IndexFillBackward1",
    node_names={2: "IndexFillBackward0"},
)


# --- scatter(x, index, src | dim) ---


def _scatter_aval(x: Aval, index: Aval, src: Any, dim: int) -> Aval:
    d = wrap_dim(dim, x.ndim)
    if index.numel:
        _check_index("scatter", index)
    of_src = getattr(src, "shape", None)
    if of_src is not None and x.dtype is not src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    check_fits(src, x.dtype)
    if not index.numel:
        return make_aval(x.shape, x.dtype)
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    fits = all(n <= m for k, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if k != d)
    if of_src is None and not fits:
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {d}"
        )
    if of_src is not None:
        if max(len(of_src), 1) != max(index.ndim, 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        if not fits or any(n > m for n, m in zip(index.shape or (1,), of_src or (1,), strict=True)):
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension "
                f"{d} and to be no larger size than src {list(of_src)}"
            )
    return make_aval(x.shape, x.dtype)


def _np_scatter(x: Any, index: Any, src: Any, dim: int) -> Any:
    values = np.asarray(np_operand(src, dtype_of(x)))
    if not index.size:
        return x.copy()
    if not x.ndim:
        return _np_scatter(x.reshape(1), index.reshape(-1), values.reshape(-1)[:1], 0).reshape(())
    if index.ndim != x.ndim or values.ndim not in (0, x.ndim):
        index, values = np.atleast_1d(index), np.atleast_1d(values)
    d = wrap_dim(dim, x.ndim)
    wrong = (index < 0) | (index >= x.shape[d])
    if wrong.any():
        raise RuntimeError(
            f"index {int(index[wrong].flat[0])} is out of bounds for dimension {d} with size {x.shape[d]}"
        )
    grid = list(np.indices(index.shape, sparse=True))
    grid[d] = index
    out = x.copy()
    out[tuple(grid)] = values[tuple(slice(n) for n in index.shape)] if values.ndim else values
    return out


def _lower_scatter(b: Any, x: Any, index: Any, src: Any, dim: int) -> Any:
    values = operand(b, src, x.dtype)
    is_number = not values.shape and index.shape
    return lower_scatter_along(b, "set", x, index, b.expand(values, index.shape) if is_number else values, dim)


define(
    "scatter",
    checks_values=True,
    aval=_scatter_aval,
    numpy=_np_scatter,
    lower=_lower_scatter,
    vjps=[
        Vjp(lambda c, g, index: call("scatter", g, index, 0.0, c.params[0]), (1,)),
        None,
        Vjp(scatter_src_rule, (1,)),
    ],
    num_inputs=3,
    node_names={2: "ScatterBackward1"},
)


# --- masked_scatter(x, mask, source): its masked elements are the source's, in order ---


def _masked_scatter_aval(x: Aval, mask: Aval, source: Aval) -> Aval:
    if mask.dtype.category is not BOOLEAN:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {torch_dtype_name(mask.dtype)}"
        )
    if x.dtype is not source.dtype:
        raise RuntimeError(
            "masked_scatter_: expected self and source to have same dtypes but got "
            f"{torch_dtype_name(x.dtype)} and {torch_dtype_name(source.dtype)}"
        )
    return make_aval(broadcast("masked_scatter", x.shape, mask.shape), x.dtype)


def _np_masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    if x.shape == mask.shape:
        out, where = x.copy(), mask
    else:
        shape = np.broadcast_shapes(x.shape, mask.shape)
        out, where = np.broadcast_to(x, shape).copy(), np.broadcast_to(mask, shape)
    count = np.count_nonzero(where)
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    out[where] = source.reshape(-1)[:count]
    return out


def _masked_source_rule(c: RuleContext, g: Any, mask: Any) -> Any:
    assert c.avals[2] is not None
    return call("masked_scatter_backward", g, mask, c.avals[2].shape)


def _np_masked_scatter_backward(g: Any, mask: Any, shape: tuple[int, ...]) -> Any:
    taken = g[np.broadcast_to(mask, g.shape)]
    out = np.zeros(int(np.prod(shape)), g.dtype)
    out[: taken.size] = taken
    return out.reshape(shape)


def _masked_again(c: RuleContext, g: Any, mask: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    return call("masked_scatter", filled(0.0, aval), mask, g)


define(
    "masked_scatter",
    checks_values=True,
    aval=_masked_scatter_aval,
    numpy=_np_masked_scatter,
    vjps=[
        Vjp(lambda c, g, mask: call("masked_fill", g, mask, 0.0), (1,)),
        None,
        Vjp(_masked_source_rule, (1,)),
    ],
    num_inputs=3,
)
define(
    "masked_scatter_backward",
    aval=lambda g, mask, shape: make_aval(shape, g.dtype),
    numpy=_np_masked_scatter_backward,
    vjps=[Vjp(_masked_again, (1,)), None],
    num_inputs=2,
    node_name="MaskedScatterBackwardBackward0",
)


# --- take(x, index), put(x, index, source | accumulate): over the flattened x ---


def _check_flat(index: Any, size: int) -> None:
    wrong = (index < -size) | (index >= size)
    if wrong.any():
        at = int(index[wrong].flat[0])
        raise IndexError(f"out of range: tried to access index {at} on a tensor of {size} elements.")


def _check_long(name: str, index: Aval) -> None:
    if index.dtype is not int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {torch_dtype_name(index.dtype)}")


def _take_aval(x: Aval, index: Aval) -> Aval:
    _check_long("take", index)
    if not x.numel and index.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    return make_aval(index.shape, x.dtype)


def _np_take(x: Any, index: Any) -> Any:
    _check_flat(index, x.size)
    return x.reshape(-1)[index]


def _take_rule(c: RuleContext, g: Any, index: Any) -> Any:
    assert c.avals[0] is not None
    return laid_out_as(call("put", filled(0.0, c.avals[0]), index, g, True), c.avals[0])


def _put_aval(x: Aval, index: Aval, source: Aval, accumulate: bool) -> Aval:
    _check_long("put_", index)
    if x.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{torch_dtype_name(x.dtype)} and source.dtype = {torch_dtype_name(source.dtype)}"
        )
    if index.numel != source.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel}, index.numel() = {index.numel}"
        )
    return make_aval(x.shape, x.dtype)


def _np_put(x: Any, index: Any, source: Any, accumulate: bool) -> Any:
    _check_flat(index, x.size)
    out = x.copy(order="C")
    flat, at = out.reshape(-1), index.reshape(-1)
    if accumulate:
        np.add.at(flat, at, source.reshape(-1))
    else:
        flat[at] = source.reshape(-1)
    return out


def _put_self_rule(c: RuleContext, g: Any, index: Any) -> Any:
    if c.params[0]:
        return g
    at, source = c.avals[1], c.out_avals[0]
    assert at is not None
    return call("put", g, index, filled(0.0, make_aval(at.shape, source.dtype).on(source.device)), False)


def _put_source_rule(c: RuleContext, g: Any, index: Any) -> Any:
    source = c.avals[2]
    assert source is not None
    return call("take", g, index).reshape(source.shape)


def _flattened(b: Any, x: Any) -> Any:
    return b.reshape(x, (numel(x.shape),))


def _lower_put(b: Any, x: Any, index: Any, source: Any, accumulate: bool) -> Any:
    kind, places = "add" if accumulate else "set", _flattened(b, index)
    return b.reshape(b.scatter(kind, _flattened(b, x), [b.cast(places, int64)], _flattened(b, source)), x.shape)


define(
    "take",
    checks_values=True,
    aval=_take_aval,
    numpy=_np_take,
    lower=lambda b, x, index: b.gather(_flattened(b, x), [index]),
    vjps=[Vjp(_take_rule, (1,)), None],
    num_inputs=2,
)
define(
    "put",
    checks_values=True,
    aval=_put_aval,
    numpy=_np_put,
    lower=_lower_put,
    vjps=[Vjp(_put_self_rule, (1,)), None, Vjp(_put_source_rule, (1,))],
    num_inputs=3,
)
