"""Batching rules: one example's operation, done for the whole batch at once.

Owns: ``RULES``. What has no rule here, or whose rule returns None, is looped over by ``batch.BatchLevel``.
Must not know: levels.
In: whole batches ([batch, *shape]) and tensors that all examples share. Out: whole batches; shapes and dtypes are put
right by the caller where they differ from the examples' by extents of 1 or by promotion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.functions import matmul
from jitgrad.ops.aval import contiguous_strides
from jitgrad.ops.dispatch_hook import apply, call
from jitgrad.ops.indexing.indexing import MAX_INDICES
from jitgrad.ops.pointwise.elementwise import MAX_OPERANDS, op_name
from jitgrad.ops.shapes import numel, wrap_dim, wrap_dims
from jitgrad.ops.table import OPS, Op
from jitgrad.ops.tangents.families import POINTWISE

__all__ = ["RULES", "BatchUse"]


class BatchUse:
    """One use of an operation inside ``vmap``.

    Attributes:
        op, params: what is applied.
        size: of the batch.
        values: the inputs: whole batches, shared tensors, numbers.
        batched: which inputs are whole batches.
        shapes: of the inputs, as one example sees them; None for numbers.
        outs: avals of the results, as one example sees them.
    """

    __slots__ = ("batched", "level", "op", "outs", "params", "shapes", "size", "values")

    def __init__(self, level: Any, op: Op, inputs: Any, params: Any, outs: Any) -> None:
        self.level = level
        self.op = op
        self.params = params
        self.outs = outs
        self.size = level.size
        self.batched = tuple([level.concerns(x) for x in inputs])
        self.shapes: Any = tuple([x._aval.shape if hasattr(x, "_aval") else None for x in inputs])
        self.values = tuple([x._physical if b else x for x, b in zip(inputs, self.batched, strict=True)])

    def apply(self, inputs: Any, params: Any = None) -> Any:
        """The operation on other inputs, or with other parameters."""
        params = self.params if params is None else params
        return apply(self.op, *((list(inputs),) if self.op.num_inputs < 0 else inputs), *params)

    def whole(self, i: int) -> Any:
        """Input ``i`` as a batch, whether it is one or not."""
        return self.values[i] if self.batched[i] else self.level.expanded(self.values[i])

    def rank(self, i: int = 0) -> int:
        return len(self.shapes[i])

    def aligned(self, i: int, rank: int) -> Any:
        """Input ``i`` with the batch in front of ``rank`` dimensions, so that broadcasting lines up."""
        x = self.values[i]
        missing = rank - self.rank(i) if self.batched[i] else 0
        return x.reshape((self.size, *(1,) * missing, *self.shapes[i])) if missing else x


Rule = Callable[[BatchUse], Any]


def _pointwise(use: BatchUse) -> Any:
    rank = len(use.outs[0].shape)
    return use.apply([use.aligned(i, rank) for i in range(len(use.values))])


def _masked_fill(use: BatchUse) -> Any:
    """As ``where``, which takes a value per example."""
    rank = len(use.outs[0].shape)
    return call("where", use.aligned(1, rank), use.aligned(2, rank), use.aligned(0, rank))


def _into_first(use: BatchUse) -> Any:
    """Pointwise, and the first input has the result's shape: it must be a batch."""
    rank = use.rank()
    return use.apply([use.whole(0), *(use.aligned(i, rank) for i in range(1, len(use.values)))])


def _with_dim(*positions: int, extra: int = 0) -> Rule:
    """A movement along dimensions: those parameters count from the first dimension of one example."""

    def rule(use: BatchUse) -> Any:
        params = list(use.params)
        for at in positions:
            dims = params[at]
            rank = use.rank() + extra
            shift = [wrap_dim(d, rank) + 1 for d in ((dims,) if isinstance(dims, int) else dims)]
            params[at] = shift[0] if isinstance(dims, int) else tuple(shift)
        return use.apply([use.whole(i) for i in range(len(use.values))], params)

    return rule


def _needs_dims(rule: Rule) -> Rule:
    """0-d examples take dimension 0 as well, which a batch of them does not have."""
    return lambda use: rule(use) if use.rank() else None


def _same(use: BatchUse) -> Any:
    """Dimensions are counted from the last, or not at all."""
    return use.apply([use.whole(0), *use.values[1:]])


def _last_dims(use: BatchUse) -> Any:
    """All inputs with the same dimensions in front of the last, which are only repeated."""
    return use.apply([use.whole(i) for i in range(len(use.values))])


def _reshape(use: BatchUse) -> Any:
    return use.values[0].reshape((use.size, *use.outs[0].shape))


def _expand(use: BatchUse) -> Any:
    return call("expand", use.aligned(0, len(use.outs[0].shape)), (use.size, *use.outs[0].shape))


def _permute(use: BatchUse) -> Any:
    return use.apply(use.values, ((0, *(wrap_dim(d, use.rank()) + 1 for d in use.params[0])),))


def _t(use: BatchUse) -> Any:
    return call("transpose", use.values[0], 1, 2) if use.rank() == 2 else use.values[0]


def _as_strided(use: BatchUse) -> Any:
    """A window on each example, if they lie in memory as one example on its own does."""
    (whole,), (size, stride, offset) = use.values, use.params
    if not use.size or whole._aval.stride[1:] != contiguous_strides(use.shapes[0]):
        return None
    return use.apply((whole,), ((use.size, *size), (whole._aval.stride[0], *stride), whole._aval.offset + offset))


def _repeat(use: BatchUse) -> Any:
    return use.apply((use.aligned(0, len(use.params[0])),), ((1, *use.params[0]),))


def _pad(use: BatchUse) -> Any:
    lo, hi, value = use.params
    return use.apply(use.values, ((0, *lo), (0, *hi), value))


def _zeros_around(dim_positions: tuple[int, ...]) -> Rule:
    """The derivative of a view: params[0] is the shape, and some of the others are dimensions."""

    def rule(use: BatchUse) -> Any:
        params = list(use.params)
        rank = len(params[0])
        for at in dim_positions:
            params[at] = wrap_dim(params[at], rank) + 1
        params[0] = (use.size, *params[0])
        return use.apply(use.values, params)

    return rule


def _reduction(position: int) -> Rule:
    """params[position] says which dimensions of one example go; the next one, if any, whether they stay as 1."""

    def rule(use: BatchUse) -> Any:
        params = list(use.params) or [None, False]
        x, rank, dims = use.values[0], use.rank(), params[position]
        everything = dims is None or dims == () or not rank
        if everything:
            x = x.reshape((use.size, numel(use.shapes[0])))
            axes: tuple[int, ...] = (1,)
            if position + 1 < len(params) and isinstance(params[position + 1], bool):
                params[position + 1] = False
        else:
            axes = tuple(d + 1 for d in wrap_dims(dims, rank))
        params[position] = axes if len(axes) > 1 else axes[0]
        return use.apply((x,), params)

    return rule


def _variance(use: BatchUse) -> Any:
    """(dim, correction, keepdim)."""
    dims, correction, keepdim = use.params
    if dims is None or dims == () or not use.rank():
        x = use.values[0].reshape((use.size, numel(use.shapes[0])))
        return use.apply((x,), (1, correction, False))
    return use.apply(use.values, (tuple(d + 1 for d in wrap_dims(dims, use.rank())), correction, keepdim))


def _along(use: BatchUse) -> Any:
    """Along one dimension, which stays: softmax, cumsum."""
    x = use.values[0] if use.rank() else use.values[0].reshape((use.size, 1))
    return use.apply((x,), (wrap_dim(use.params[0], use.rank()) + 1, *use.params[1:]))


def _whole(use: BatchUse) -> Any:
    """Of all elements of an example."""
    count = numel(use.shapes[0])
    return call(f"{use.op.name}_dim", use.values[0].reshape((use.size, count)), 1, False)[0] if count else None


def _isin(use: BatchUse) -> Any:
    """All examples look among the same elements, or each among its own."""
    return None if use.batched[1] else use.apply(use.values)


# --- products ---


def _mm(use: BatchUse) -> Any:
    return matmul(*use.values)


def _bmm(use: BatchUse) -> Any:
    return matmul(use.whole(0), use.whole(1)) if all(use.batched) else matmul(*use.values)


def _mv(use: BatchUse) -> Any:
    return matmul(use.values[0], use.values[1].unsqueeze(-1)).squeeze(-1)


def _dot(use: BatchUse) -> Any:
    return (use.values[0] * use.values[1]).sum(-1)


def _linear(use: BatchUse) -> Any:
    x, weight = use.values[-2:]
    out = matmul(x, weight.transpose(-1, -2))
    return out if len(use.values) == 2 else out + use.aligned(0, 2)


def _addmm(use: BatchUse) -> Any:
    beta, alpha = use.params
    product = matmul(use.values[1], use.values[2])
    bias = use.aligned(0, 2)
    return (bias if beta == 1 else bias * beta) + (product if alpha == 1 else product * alpha)


# --- images: [batch, N, C, H, W] is [batch * N, C, H, W] ---


def _folded(x: Any) -> Any:
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _conv2d(use: BatchUse) -> Any:
    if use.batched[1]:
        return None
    out = use.apply((_folded(use.values[0]), use.values[1]))
    return out.reshape((use.size, *use.outs[0].shape))


def _pool(use: BatchUse) -> Any:
    """All dimensions before those that are pooled are kept, however many there are."""
    return use.apply([use.whole(i) for i in range(len(use.values))])


def _grid_sampler(use: BatchUse) -> Any:
    """Examples are images of one batch more."""
    out = use.apply([_folded(use.whole(i)) for i in range(2)])
    return out.reshape((use.size, *use.outs[0].shape))


# --- gathering ---


def _gather(use: BatchUse) -> Any:
    if not use.rank():
        return None
    inputs = [use.whole(i) for i in range(len(use.values))]
    return use.apply(inputs, (wrap_dim(use.params[0], use.rank()) + 1, *use.params[1:]))


def _index_select(use: BatchUse) -> Any:
    if use.batched[1] or not use.rank():
        return None
    return use.apply(use.values, (wrap_dim(use.params[0], use.rank()) + 1,))


def _embedding(use: BatchUse) -> Any:
    return None if use.batched[0] else use.apply(use.values)


def _index(use: BatchUse) -> Any:
    """One more index counts the examples; the dimensions of the indices come out in front and are put in place."""
    (x, *_), dims = use.values, use.params[0]
    count = len(dims)
    if count == MAX_INDICES or not use.batched[0]:
        return None
    at = max(use.rank(i) for i in range(1, count + 1))
    rows = call("arange", 0, use.size, 1, int64).reshape((use.size, *(1,) * at))
    indices = [use.aligned(i, at) for i in range(1, count + 1)]
    out = call(f"index{count + 1}", x, rows, *indices, (0, *(d + 1 for d in dims)))
    if dims[-1] - dims[0] != count - 1 or not dims[0]:
        return out
    # one example has the dims before the indices' first
    before, rank = dims[0], len(out.shape)
    return out.permute((0, *range(at + 1, at + 1 + before), *range(1, at + 1), *range(at + 1 + before, rank)))


# --- losses, normalisation ---


def _loss(use: BatchUse) -> Any:
    reduction, *rest = use.params
    rank = max(use.rank(0), use.rank(1))
    each = use.apply([use.aligned(i, rank) for i in range(2)], ("none", *rest))
    if reduction == "none":
        return each
    rows = each.reshape((use.size, each._aval.numel // use.size if use.size else 0))
    return rows.sum(1) if reduction == "sum" else rows.mean(1)


def _nll(use: BatchUse) -> Any:
    """[batch, N, C] is [batch * N, C]; what is averaged over is counted for each example."""
    reduction, ignore_index = use.params
    x, target = use.whole(0), use.whole(1)
    each, _ = use.apply((_folded(x), target.reshape((-1,))), ("none", ignore_index))
    each = each.reshape(target._aval.shape)
    total = call("ne", target, ignore_index).to(x._aval.dtype).sum(1)
    if reduction == "none":
        return each, call("zeros_like", total)
    return (each.sum(1) if reduction == "sum" else each.sum(1) / total), total


def _layer_norm(use: BatchUse) -> Any:
    outs = call("native_layer_norm_plain", use.whole(0), *use.params)
    if len(use.values) == 1:
        return outs
    rank = use.rank()
    return (outs[0] * use.aligned(1, rank) + use.aligned(2, rank), *outs[1:])


def _batch_norm(use: BatchUse) -> Any:
    """[batch, N, C, ...] is [N, batch * C, ...]: each example's channels have statistics of their own."""
    n, channels, *rest = use.shapes[0]
    x = use.whole(0).transpose(0, 1).reshape((n, use.size * channels, *rest))
    others = [use.whole(i).reshape((use.size * channels,)) for i in range(1, len(use.values))]
    outs = use.apply((x, *others))
    out, *statistics = outs if isinstance(outs, tuple) else (outs,)
    out = out.reshape((n, use.size, channels, *rest)).transpose(0, 1)
    each = [s.reshape((use.size, channels)) for s in statistics]
    return (out, *each) if each else out


def _group_norm(use: BatchUse) -> Any:
    """[batch, N, C, ...] is [batch * N, C, ...]; a weight may be each example's own."""
    shape = use.shapes[0]
    out, *statistics = call("native_group_norm_plain", _folded(use.whole(0)), *use.params)
    out = out.reshape((use.size, *shape))
    if len(use.values) > 1:
        weight, bias = (use.values[i].reshape((-1, 1, shape[1], *[1] * (len(shape) - 2))) for i in (1, 2))
        out = out * weight + bias
    return (out, *[s.reshape((use.size, shape[0], -1)) for s in statistics])


_WITHOUT_DERIVATIVES = """
eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not isnan
isinf isfinite isposinf isneginf isreal signbit gcd lcm bitwise_left_shift bitwise_right_shift clone _to_copy
zeros_like ones_like alias detach
"""

_MATRICES = """
_linalg_eigh _linalg_svd _linalg_det _linalg_slogdet linalg_cofactors linalg_cholesky_info linalg_cholesky_ex
linalg_inv_ex linalg_matrix_exp linalg_pinv linalg_lu_factor_ex lu_permutation lu_exchanges lu_unpack geqrf
linalg_ldl_factor_ex cholesky_inverse linalg_pinv_rank
"""

_KINDS: tuple[tuple[str, Rule], ...] = (
    (POINTWISE + _WITHOUT_DERIVATIVES, _pointwise),
    (" ".join(map(op_name, range(1, MAX_OPERANDS + 1))), _pointwise),
    ("copy", _into_first),
    ("masked_fill", _masked_fill),
    ("view unsafe_view squeeze squeeze_dim squeeze_dims unsqueeze", _reshape),
    ("expand", _expand),
    ("permute", _permute),
    ("as_strided", _as_strided),
    ("t", _t),
    ("transpose", _needs_dims(_with_dim(0, 1))),
    ("select slice unbind unfold flip cat", _needs_dims(_with_dim(0))),
    ("split split_with_sizes unsafe_split", _needs_dims(_with_dim(1))),
    ("_fft_c2c _fft_r2c _fft_c2r fft_r2c_backward fft_c2r_backward", _with_dim(0)),
    ("roll", lambda use: _needs_dims(_with_dim(1))(use) if use.params[1] else None),
    ("stack", _with_dim(0, extra=1)),
    ("diagonal", _with_dim(1, 2)),
    ("tril triu one_hot", _same),
    (
        "_gru_cell _lstm_cell linalg_solve_ex linalg_lu_solve linalg_ldl_solve cholesky_solve "
        "linalg_householder_product ormqr",
        _last_dims,
    ),
    ("repeat", _repeat),
    ("constant_pad", _pad),
    ("slice_backward unfold_backward", _zeros_around((1,))),
    ("diagonal_backward", _zeros_around((2, 3))),
    ("sum sum_dim mean mean_dim prod prod_dim amax amin max min logsumexp any all count_nonzero", _reduction(0)),
    ("argmax argmin max_dim min_dim kthvalue median_dim nanmedian_dim mode", _reduction(0)),
    ("median nanmedian", _whole),
    (_MATRICES, _same),
    ("linalg_solve_triangular", _with_dim()),
    ("linalg_cross", _with_dim(0)),
    ("linalg_qr", lambda use: None if use.params[0] == "r" else _same(use)),
    ("isin", _isin),
    ("linalg_vector_norm", _reduction(1)),
    ("var std", _variance),
    ("_softmax _log_softmax cumsum glu sort topk cumprod cummax cummin logcumsumexp", _along),
    ("mm", _mm),
    ("bmm", _bmm),
    ("mv", _mv),
    ("dot", _dot),
    ("linear linear_nobias", _linear),
    ("addmm", _addmm),
    ("conv2d", _conv2d),
    ("max_pool_backward max_pool_read max_unpool2d max_unpool3d avg_pool_backward im2col col2im", _pool),
    ("upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_trilinear3d upsample_backward", _pool),
    (" ".join(f"upsample_{kind}{n}d" for kind in ("nearest", "nearest_exact") for n in (1, 2, 3)), _pool),
    (" ".join(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_max") for n in (1, 2, 3)), _pool),
    ("adaptive_avg_pool2d adaptive_avg_pool3d", _pool),
    ("grid_sampler_2d grid_sampler_3d grid_sampler_spread", _grid_sampler),
    ("gather scatter_add scatter_reduce", _gather),
    ("index_select", _index_select),
    ("embedding", _embedding),
    (" ".join(f"index{k}" for k in range(1, MAX_INDICES + 1)), _index),
    ("mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits", _loss),
    ("nll_loss", _nll),
    ("native_layer_norm native_layer_norm_plain", _layer_norm),
    ("native_group_norm native_group_norm_plain", _group_norm),
    ("native_batch_norm native_batch_norm_plain batch_norm_by batch_norm_by_plain", _batch_norm),
)

RULES: dict[Op, Rule] = {OPS[name]: rule for names, rule in _KINDS for name in names.split()}
