"""Gathering along one dimension, embeddings, masks.

Owns: gather, scatter_add, index_select, embedding, one_hot, masked_fill, tril, triu.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, int32, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call, filled, laid_out_as, sparse_gradient
from jitgrad.ops.indexing.indexing import out_of_bounds
from jitgrad.ops.shapes import (
    broadcast,
    c_type,
    check_fits,
    numel,
    operand,
    torch_dtype_name,
    wrap_dim,
)
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["lower_scatter_along", "no_wrap", "scatter_src_rule"]


# --- gather(x, index | dim, whether the gradient is sparse), scatter_add(x, index, src | dim) ---


def _check_gather(name: str, x: Aval, index: Aval, dim: int) -> int:
    """The dimension. An index without elements may have any shape and dtype."""
    d = wrap_dim(dim, x.ndim)
    if not index.numel:
        return d
    if index.dtype not in (int32, int64):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)):
        if k != d and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger than self "
                f"{list(x.shape)} apart from dimension {d}"
            )
    return d


def _gather_aval(x: Aval, index: Aval, dim: int, *sparse: bool) -> Aval:
    _check_gather("gather", x, index, dim)
    return make_aval(index.shape, x.dtype)


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """Positions of ``x.gather(dim, index)`` as one index per dimension."""
    grid = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    return tuple(grid)


def _check_positions(index: Any, extent: int, dim: int) -> None:
    """torch.gather, unlike indexing, takes no negative positions."""
    wrong = (index < 0) | (index >= extent)
    if wrong.any():
        raise RuntimeError(f"index {int(index[wrong].flat[0])} is out of bounds for dimension {dim} with size {extent}")


def _np_gather(x: Any, index: Any, dim: int, *sparse: bool) -> Any:
    if not index.size:
        return np.empty(index.shape, x.dtype)
    x, at = np.atleast_1d(x), np.atleast_1d(index)
    d = wrap_dim(dim, x.ndim)
    _check_positions(at, x.shape[d], d)
    return x[_grid(at, d)].reshape(index.shape)


def no_wrap(b: Any, index: Any, extent: int) -> Any:
    """Positions with the negative ones made too large: the primitive would count them from the end, and torch.gather
    refuses them."""
    wide = b.cast(index, int64)
    return b.where(b.lt(wide, b.const(0, int64)), b.const(extent, int64), wide)


def _lower_grid(b: Any, index: Any, dim: int, extent: int) -> list[Any]:
    shape = index.shape
    return [no_wrap(b, index, extent) if d == dim else b.iota(shape, d) for d in range(len(shape))]


def _lower_gather(b: Any, x: Any, index: Any, dim: int, *sparse: bool) -> Any:
    if not numel(index.shape):
        return b.const(x.dtype.np.type(0).item(), x.dtype, index.shape)
    whole, at = (b.reshape(v, v.shape or (1,)) for v in (x, index))
    d = wrap_dim(dim, len(whole.shape))
    return b.reshape(b.gather(whole, _lower_grid(b, at, d, whole.shape[d])), index.shape)


def _gather_rule(c: RuleContext, g: Any, index: Any) -> Any:
    assert c.avals[0] is not None
    if len(c.params) > 1 and c.avals[0].ndim:
        return _sparse_rows(c.avals[0], g, index, c.params[0])
    zeros = filled(0, c.avals[0])
    return call("scatter_add", zeros, index, g, c.params[0])


def _sparse_rows(aval: Aval, g: Any, index: Any, dim: int) -> Any:
    """The gradient of ``gather`` with ``sparse_grad``: an entry for each element that was read, its place in front."""
    shape, d = index._aval.shape, wrap_dim(dim, aval.ndim)
    places = []
    for k, extent in enumerate(shape):
        along = tuple(extent if j == k else 1 for j in range(aval.ndim))
        own = call("arange", 0, extent, 1, int64, *beside(aval)).reshape(along)
        places.append(index.to(int64) if k == d else own.expand(shape))
    return sparse_gradient(call("stack", tuple(p.reshape((-1,)) for p in places), 0), g.reshape((-1,)), aval.shape)


define(
    "gather",
    checks_values=True,
    aval=_gather_aval,
    numpy=_np_gather,
    lower=_lower_gather,
    vjps=[Vjp(_gather_rule, (1,)), None],
    num_inputs=2,
)


def _scatter_aval(x: Aval, index: Aval, src: Aval, dim: int) -> Aval:
    d = _check_gather("scatter_add", x, index, dim)
    if x.dtype is not src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.numel:
        return make_aval(x.shape, x.dtype)
    if max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if any(n > m for n, m in zip(index.shape or (1,), src.shape or (1,), strict=True)):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {d} "
            f"and to be no larger than src {list(src.shape)}"
        )
    return make_aval(x.shape, x.dtype)


def _np_scatter_add(x: Any, index: Any, src: Any, dim: int) -> Any:
    if not index.size:
        return x.copy()
    out, at, src = np.atleast_1d(x).copy(), np.atleast_1d(index), np.atleast_1d(src)
    d = wrap_dim(dim, out.ndim)
    _check_positions(at, out.shape[d], d)
    np.add.at(out, _grid(at, d), src[tuple(slice(n) for n in at.shape)])
    return out.reshape(x.shape)


def lower_scatter_along(b: Any, kind: str, x: Any, index: Any, src: Any, dim: int) -> Any:
    """``x`` with ``src`` combined at ``index`` along ``dim``, see ``Builder.scatter``; ``src`` may be larger."""
    if not numel(index.shape):
        return x
    base, at, whole = (b.reshape(v, v.shape or (1,)) for v in (x, index, src))
    used = b.slice(whole, [0] * len(whole.shape), at.shape, [1] * len(whole.shape))
    d = wrap_dim(dim, len(base.shape))
    return b.reshape(b.scatter(kind, base, _lower_grid(b, at, d, base.shape[d]), used), x.shape)


def scatter_src_rule(c: RuleContext, g: Any, index: Any) -> Any:
    """The gradient of what was scattered: ``g`` at the index; elements that the index does not reach get nothing."""
    src, at = c.avals[2], c.avals[1]
    assert src is not None and at is not None
    if not at.numel:
        return filled(0.0, src)
    taken = call("gather", g, index, c.params[0])
    if src.ndim != at.ndim:
        return taken.reshape((1,)).expand(src.shape or (1,)).reshape(src.shape)
    if src.shape == at.shape:
        return taken
    widths = tuple(n - m for n, m in zip(src.shape, at.shape, strict=True))
    return call("constant_pad", taken, (0,) * src.ndim, widths, 0.0)


define(
    "scatter_add",
    checks_values=True,
    aval=_scatter_aval,
    numpy=_np_scatter_add,
    lower=lambda b, x, index, src, dim: lower_scatter_along(b, "add", x, index, src, dim),
    vjps=[Vjp(lambda c, g: g), None, Vjp(scatter_src_rule, (1,))],
    num_inputs=3,
)


# --- index_select(x, index | dim), embedding(weight, index | padding_idx, sparse gradient, mean gradient) ---


def _select_aval(x: Aval, index: Aval, dim: int) -> Aval:
    d = wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (int32, int64):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    count = index.shape[0] if index.ndim else 1
    if not x.ndim and count != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {count} value(s)")
    if x.ndim > 1 and not x.shape[d] and count:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    return make_aval((*x.shape[:d], count, *x.shape[d + 1 :]) if x.ndim else (), x.dtype)


def _np_index_select(x: Any, index: Any, dim: int) -> Any:
    flat = index.reshape(-1)
    extent = x.shape[dim] if x.ndim else 1
    wrong = (flat < 0) | (flat >= extent)
    if wrong.any():
        if x.ndim > 1 and not x.size:
            found = int(flat[wrong][0])
            raise RuntimeError(f"INDICES element is out of DATA bounds, id={found} axis_dim={extent}")
        raise IndexError("index out of range in self")
    return np.take(x, flat, axis=dim) if x.ndim else x.copy()


def _lower_index_select(b: Any, x: Any, index: Any, dim: int) -> Any:
    rank = len(x.shape)
    if not rank:
        return x
    d = wrap_dim(dim, rank)
    flat = b.reshape(no_wrap(b, index, x.shape[d]), (index.shape[0] if index.shape else 1,))
    taken = b.gather(b.permute(x, (d, *(k for k in range(rank) if k != d))), [flat])
    return b.permute(taken, (*range(1, d + 1), 0, *range(d + 1, rank)))


def _index_select_rule(c: RuleContext, g: Any, index: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    if not aval.ndim:
        return g
    return call("index_backward1", g, index.reshape((-1,)), aval.shape, (wrap_dim(c.params[0], aval.ndim),))


define(
    "index_select",
    checks_values=True,
    aval=_select_aval,
    numpy=_np_index_select,
    lower=_lower_index_select,
    vjps=[Vjp(_index_select_rule, (1,)), None],
    num_inputs=2,
)


def _embedding_aval(weight: Aval, index: Aval, padding_idx: int, *flags: bool) -> Aval:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if index.dtype not in (int32, int64):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{torch_dtype_name(index.dtype)} instead (while checking arguments for embedding)"
        )
    return make_aval((*index.shape, weight.shape[1]), weight.dtype)


def _np_embedding(weight: Any, index: Any, padding_idx: int, *flags: bool) -> Any:
    if ((index < 0) | (index >= weight.shape[0])).any():
        raise IndexError("index out of range in self")
    try:
        return weight[index]
    except IndexError as error:
        raise out_of_bounds(error) from None


def _embedding_rule(c: RuleContext, g: Any, index: Any) -> Any:
    """Rows add up; the padding row stays as it is. Flags: the result is sparse; rows are means instead of sums."""
    assert c.avals[0] is not None
    padding, is_sparse, is_mean = (*c.params, False, False)[:3]
    if is_mean:
        if is_sparse:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        flat = index.reshape((-1,)).to(int64)
        counts = call("scatter_add", g.new_zeros((c.avals[0].shape[0],)), flat, g.new_ones(flat.shape), 0)
        g = g / call("index_select", counts, flat, 0).reshape((*index.shape, 1))
    if padding >= 0:
        g = call("where", call("eq", index, padding).unsqueeze(-1), 0.0, g)
    if is_sparse:
        shape = c.avals[0].shape
        return sparse_gradient(index.reshape(1, -1).to(int64), g.reshape(-1, shape[1]), shape)
    return call("index_backward1", g, index, c.avals[0].shape, (0,))


define(
    "embedding",
    checks_values=True,
    aval=_embedding_aval,
    numpy=_np_embedding,
    lower=lambda b, weight, index, *params: b.gather(weight, [no_wrap(b, index, weight.shape[0])]),
    vjps=[Vjp(_embedding_rule, (1,)), None],
    num_inputs=2,
)


# --- masked_select(x, flat | shape): the elements of x, broadcast to shape, at positions of the flattened whole ---


def _masked_select_rule(c: RuleContext, g: Any, flat: Any) -> Any:
    aval = c.avals[0]
    assert aval is not None
    zeros = filled(0.0, aval, (numel(c.params[0]),))
    return laid_out_as(call("scatter_add", zeros, flat, g, 0).reshape(c.params[0]), aval)


define(
    "masked_select",
    aval=lambda x, flat, shape: make_aval(flat.shape, x.dtype),
    numpy=lambda x, flat, shape: np.broadcast_to(x, shape).reshape(-1)[flat],
    lower=lambda b, x, flat, shape: b.gather(b.reshape(b.expand(x, shape), (numel(shape),)), [flat]),
    vjps=[Vjp(_masked_select_rule, (1,)), None],
    num_inputs=2,
)


# --- one_hot(index | num_classes) ---


def _one_hot_aval(index: Aval, num_classes: int) -> Aval:
    if index.dtype not in (int32, int64):
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    return make_aval((*index.shape, num_classes), int64)


def _np_one_hot(index: Any, num_classes: int) -> Any:
    if index.size and index.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if index.size and index.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (index[..., None] == np.arange(num_classes)).astype(np.int64)


def _lower_one_hot(b: Any, index: Any, num_classes: int) -> Any:
    shape = (*index.shape, num_classes)
    checked = b.check(no_wrap(b, index, num_classes), num_classes)
    at = b.expand(b.reshape(checked, (*index.shape, 1)), shape)
    return b.cast(b.eq(at, b.iota(shape, len(index.shape))), int64)


define("one_hot", aval=_one_hot_aval, numpy=_np_one_hot, lower=_lower_one_hot, checks_values=True)


# --- masks ---


def _masked_fill_aval(x: Aval, mask: Aval, value: Any) -> Aval:
    if mask.dtype.category is not BOOLEAN:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.c_name}")
    if getattr(value, "shape", ()):
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if isinstance(value, Aval) and value.dtype.is_complex and not x.dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {c_type(x.dtype)} without overflow")
    check_fits(value, x.dtype)
    return make_aval(broadcast("masked_fill", x.shape, mask.shape), x.dtype)


def _np_masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def _np_masked_fill_into(x: Any, mask: Any, value: Any) -> None:
    np.copyto(x, np.asarray(value).astype(x.dtype), where=mask)


define(
    "masked_fill",
    aval=_masked_fill_aval,
    numpy=_np_masked_fill,
    write=_np_masked_fill_into,
    lower=lambda b, x, mask, value: b.where(mask, operand(b, value, x.dtype), x),
    vjps=[
        Vjp(lambda c, g, mask: call("masked_fill", g, mask, 0.0), (1,)),
        None,
        Vjp(lambda c, g, mask: call("where", mask, g, 0.0), (1,)),
    ],
    num_inputs=3,
    node_name="MaskedFillBackward1",
    node_names={2: "MaskedFillBackward0"},
)


def _define_triangle(name: str, np_function: Any, comparison: str) -> None:
    def aval(x: Aval, diagonal: int) -> Aval:
        if x.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        if not -(1 << 63) <= diagonal < 1 << 63:
            raise RuntimeError(f"{name}: 64 bits do not hold the diagonal {diagonal}")
        return make_aval(x.shape, x.dtype)

    def near(shape: tuple[int, ...], diagonal: int) -> int:
        """The nearest diagonal that is beside the matrix, or in it: no sum with it wraps."""
        return max(-shape[-2] - 1, min(shape[-1] + 1, diagonal))

    def lower(b: Any, x: Any, diagonal: int) -> Any:
        rank = len(x.shape)
        rows, columns = b.iota(x.shape, rank - 2), b.iota(x.shape, rank - 1)
        keep = b.pointwise(comparison, columns, b.add(rows, near(x.shape, diagonal)))
        return b.where(keep, x, operand(b, 0, x.dtype))

    define(
        name,
        aval=aval,
        numpy=lambda x, diagonal: np_function(x, near(x.shape, diagonal)),
        lower=lower,
        vjps=[Vjp(lambda c, g: call(name, g, c.params[0]))],
    )


_define_triangle("tril", np.tril, "le")
_define_triangle("triu", np.triu, "ge")
