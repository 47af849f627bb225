"""Forward-mode derivatives: what an operation does to tangents, made from its derivative rules.

Owns: ``JVPS``, one ``Jvp`` per operation that has one of the few shapes below; they cover the table.
Must not know: Tensor, levels (``transforms.dual`` says whose tangents these are).
In: an operation's inputs, outputs and tangents. Out: the outputs' tangents.

A linear operation applies itself to tangents. A symmetric Jacobian - every pointwise operation has one - is its own
transpose, so the rule for gradients is the rule for tangents. A reduction has as gradient, for a gradient of ones, the
weights of the sum that is its tangent. These are ``auto_linear`` and ``auto_element_wise`` of PyTorch's
``derivatives.yaml``, and one more. For operations without a row ``transforms.dual`` uses the double backward trick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ops.dispatch_hook import apply, call
from jitgrad.ops.indexing.indexing import MAX_INDICES
from jitgrad.ops.layers.normalization import batch_dims, channel_shape, group_shape
from jitgrad.ops.pointwise.elementwise import MAX_OPERANDS, op_name
from jitgrad.ops.shapes import broadcast
from jitgrad.ops.table import OPS, Op, RuleContext
from jitgrad.ops.tangents.families import POINTWISE

__all__ = ["JVPS", "Jvp", "Use", "add", "fitted"]


class Use:
    """One use of an operation, as a tangent rule sees it.

    Attributes:
        op, params: the operation and its params.
        inputs: Tensors and numbers, as they were before the operation.
        outs: all outputs.
        tangents: one per input; None = the input does not move.
    """

    __slots__ = ("inputs", "op", "outs", "params", "tangents")

    def __init__(
        self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], outs: tuple[Any, ...], tangents: tuple[Any, ...]
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        self.outs = outs
        self.tangents = tangents

    def context(self) -> RuleContext:
        """The ``RuleContext`` that gradient rules take as their first argument."""
        return RuleContext(
            tuple(getattr(x, "_aval", None) for x in self.inputs),
            tuple(y._aval for y in self.outs),
            self.params,
            tuple(t is not None for t in self.tangents),
        )

    def vjp(self, position: int) -> Any:
        """The gradient rule of an input, as a function of the gradient; None if there is none."""
        vjp = self.op.vjps[position]
        if vjp is None:
            return None
        saved = [self.inputs[key] if isinstance(key, int) else self.outs[int(key[3:] or 0)] for key in vjp.saves]
        context = self.context()
        return lambda g: vjp.rule(context, g, *saved)

    def apply(self, inputs: Any, op: Op | None = None) -> Any:
        """The operation (or another of the same arguments) on other inputs."""
        op = op or self.op
        return apply(op, *((list(inputs),) if op.num_inputs < 0 else inputs), *self.params)


Jvp = Callable[[Use], tuple[Any, ...]]
"""From a use to one tangent per output; None where an output does not move."""


def add(total: Any, term: Any) -> Any:
    """A sum whose terms may be None, for zero."""
    return term if total is None else total if term is None else total + term


def fitted(t: Any, aval: Any) -> Any:
    """A tangent in an output's dtype and shape."""
    if t._aval.dtype is not aval.dtype:
        t = t.to(aval.dtype)
    return t if t._aval.shape == aval.shape else t.expand(aval.shape)


def _zeros(x: Any) -> Any:
    """The tangent of an input that does not move: zeros, or the number zero."""
    return call("zeros_like", x) if hasattr(x, "_aval") else 0.0


def linear(*positions: int) -> Jvp:
    """Linear in the inputs at these positions together (in all, if none is given); the other inputs are kept."""

    def rule(use: Use) -> tuple[Any, ...]:
        moving = positions or range(len(use.inputs))
        inputs = list(use.inputs)
        for i in moving:
            t = use.tangents[i]
            inputs[i] = t if t is not None else _zeros(inputs[i])
        result = use.apply(inputs)
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    return rule


def multilinear(use: Use) -> tuple[Any, ...]:
    """Linear in each input: the product rule."""
    total = None
    for i, t in enumerate(use.tangents):
        if t is not None:
            total = add(total, use.apply((*use.inputs[:i], t, *use.inputs[i + 1 :])))
    return (total,)


def pointwise(use: Use) -> tuple[Any, ...]:
    """A symmetric Jacobian: the gradient rule, applied to tangents."""
    total, aval = None, use.outs[0]._aval
    for i, t in enumerate(use.tangents):
        rule = use.vjp(i) if t is not None else None
        if rule is not None:
            total = add(total, rule(fitted(t, aval)))
    return (total if total is None else fitted(total, aval),)


def reduction(position: int) -> Jvp:
    """Every input element belongs to one output element: a weighted sum over params[position], the dimensions."""

    def rule(use: Use) -> tuple[Any, ...]:
        out, gradient = use.outs[0], use.vjp(0)
        if use.tangents[0] is None or gradient is None:
            return (None,)
        weights = gradient(call("ones_like", out))
        if weights is None:
            return (None,)
        dims = use.params[position] if len(use.params) > position else None
        moved = call("sum_dim", weights * fitted(use.tangents[0], weights._aval), dims, False, None)
        return (moved.reshape(out._aval.shape),)

    return rule


def _loss(use: Use) -> tuple[Any, ...]:
    """Pointwise in (input, target), then perhaps summed or averaged."""
    if use.params[0] == "none":
        return pointwise(use)
    shape = broadcast("loss", *(x._aval.shape for x in use.inputs))
    total, one = None, call("ones_like", use.outs[0])
    for i, t in enumerate(use.tangents):
        rule = use.vjp(i) if t is not None else None
        if rule is not None:
            total = add(total, (rule(one) * t.expand(shape)).sum())
    return (total,)


def _log_softmax(use: Use) -> tuple[Any, ...]:
    t, (out,) = use.tangents[0], use.outs
    return (t - (out.exp() * t).sum(use.params[0], True),)


def _at_indices(use: Use) -> tuple[Any, ...]:
    """``max(dim)``, ``sort``: the tangents of the elements that were taken."""
    t, indices, dim = use.tangents[0], use.outs[1], use.params[0]
    if not t._aval.shape:
        return t, None
    kept = indices if indices._aval.ndim == t._aval.ndim else indices.unsqueeze(dim)
    return call("gather", t, kept, dim).reshape(indices._aval.shape), None


def _max_pool(use: Use) -> tuple[Any, ...]:
    return call("max_pool_read", use.tangents[0], use.outs[1], *use.params), None


def _nll(use: Use) -> tuple[Any, ...]:
    loss, _ = use.apply((use.tangents[0], *use.inputs[1:]))
    return loss, None


def _pad(use: Use) -> tuple[Any, ...]:
    """The number that pads has no tangent."""
    lo, hi, _ = use.params
    return (call("constant_pad", use.tangents[0], lo, hi, 0.0),)


def _addmm(use: Use) -> tuple[Any, ...]:
    (_, x, y), (t, tx, ty), (beta, alpha) = use.inputs, use.tangents, use.params
    product = None
    if tx is not None:
        product = call("mm", tx, y)
    if ty is not None:
        product = add(product, call("mm", x, ty))
    if product is not None and alpha != 1:
        product = product * alpha
    if t is not None:
        product = add(product, fitted(t if beta == 1 else t * beta, use.outs[0]._aval))
    return (product,)


def _linear_layer(use: Use) -> tuple[Any, ...]:
    (_, x, weight), (tb, tx, tw) = use.inputs, use.tangents
    total = None
    if tx is not None:
        total = call("linear_nobias", tx, weight)
    if tw is not None:
        total = add(total, call("linear_nobias", x, tw))
    if tb is not None:
        total = add(total, fitted(tb, use.outs[0]._aval))
    return (total,)


def _layer_norm(use: Use) -> tuple[Any, ...]:
    """Of centred * rstd * weight + bias, with the tangents of mean and rstd, which are outputs too."""
    (x, *affine), (tx, *affine_tangents) = use.inputs, use.tangents
    _, mean, rstd = use.outs
    dims = tuple(range(-len(use.params[0]), 0))
    centred = x - mean
    moved = moved_mean = moved_rstd = None
    if tx is not None:
        moved_mean = tx.mean(dims, True)
        moved_rstd = -(rstd * rstd * rstd) * (centred * tx).mean(dims, True)
        moved = (tx - moved_mean) * rstd + centred * moved_rstd
        if affine:
            moved = moved * affine[0]
    if affine and affine_tangents[0] is not None:
        moved = add(moved, centred * rstd * affine_tangents[0])
    if affine and affine_tangents[1] is not None:
        moved = add(moved, fitted(affine_tangents[1], use.outs[0]._aval))
    return moved, moved_mean, moved_rstd


def _batch_norm(use: Use) -> tuple[Any, ...]:
    """Of centred * rstd * weight + bias, with the tangents of the statistics, which are outputs too."""
    (x, *affine), (tx, *affine_tangents) = use.inputs, use.tangents
    _, mean, rstd, _ = use.outs
    wide, dims = channel_shape(x._aval.ndim), batch_dims(x._aval.ndim)
    centred = x - mean.reshape(wide)
    moved_mean = moved_rstd = moved_variance = None
    if tx is not None:
        moved_mean = tx.mean(dims)
        moved_variance = (centred * tx).mean(dims) * 2.0
        moved_rstd = rstd * rstd * rstd * moved_variance * -0.5
    moved = _moved_norm(use, (centred, rstd, affine), (tx, moved_mean, moved_rstd, affine_tangents))
    return moved, moved_mean, moved_rstd, moved_variance


def _batch_norm_by(use: Use) -> tuple[Any, ...]:
    (x, mean, variance, *affine), (tx, moved_mean, moved_variance, *affine_tangents) = use.inputs, use.tangents
    rstd = (variance + use.params[-1]).rsqrt()
    moved_rstd = None if moved_variance is None else rstd * rstd * rstd * moved_variance * -0.5
    centred = x - mean.reshape(channel_shape(x._aval.ndim))
    return (_moved_norm(use, (centred, rstd, affine), (tx, moved_mean, moved_rstd, affine_tangents)),)


def _moved_norm(use: Use, values: tuple[Any, Any, Any], tangents: tuple[Any, Any, Any, Any]) -> Any:
    """The tangent of (x - mean) * rstd * weight + bias, whose last four are per channel."""
    (centred, rstd, affine), (tx, moved_mean, moved_rstd, affine_tangents) = values, tangents
    wide = channel_shape(centred._aval.ndim)
    difference = tx if moved_mean is None else add(tx, -moved_mean.reshape(wide))
    moved = None if difference is None else difference * rstd.reshape(wide)
    if moved_rstd is not None:
        moved = add(moved, centred * moved_rstd.reshape(wide))
    if affine:
        moved = None if moved is None else moved * affine[0].reshape(wide)
        if affine_tangents[0] is not None:
            moved = add(moved, centred * (rstd * affine_tangents[0]).reshape(wide))
        if affine_tangents[1] is not None:
            moved = add(moved, affine_tangents[1].reshape(wide))
    return None if moved is None else fitted(moved, use.outs[0]._aval)


def _group_norm(use: Use) -> tuple[Any, ...]:
    """As ``_layer_norm``, over the groups of channels."""
    (x, *affine), (tx, *affine_tangents) = use.inputs, use.tangents
    _, mean, rstd = use.outs
    shape, wide = tuple(x._aval.shape), channel_shape(x._aval.ndim)
    rows = group_shape(shape, use.params[0])
    centred = x.reshape(rows) - mean.unsqueeze(2)
    moved = moved_mean = moved_rstd = None
    if tx is not None:
        tx = tx.reshape(rows)
        moved_mean = tx.mean(2)
        moved_rstd = -(rstd * rstd * rstd) * (centred * tx).mean(2)
        moved = (tx - moved_mean.unsqueeze(2)) * rstd.unsqueeze(2) + centred * moved_rstd.unsqueeze(2)
        moved = moved.reshape(shape)
        if affine:
            moved = moved * affine[0].reshape(wide)
    if affine and affine_tangents[0] is not None:
        moved = add(moved, (centred * rstd.unsqueeze(2)).reshape(shape) * affine_tangents[0].reshape(wide))
    if affine and affine_tangents[1] is not None:
        moved = add(moved, fitted(affine_tangents[1].reshape(wide), use.outs[0]._aval))
    return moved, moved_mean, moved_rstd


def _as_strided(use: Use) -> tuple[Any, ...]:
    """A view of the tangent, if its memory has the input's layout; else a copy of those elements."""
    x, t = use.inputs[0], use.tangents[0]
    if t._aval is x._aval:
        return (use.apply((t,)),)
    return (call("strided_select", t, x._aval, use.outs[0]._aval),)


def _elementwise(use: Use) -> tuple[Any, ...]:
    """The function's own derivatives: one operation for all inputs that move and all outputs."""
    program = use.params[0]
    every = tuple(range(program.count))
    totals: list[Any] = [None] * program.count
    moving = tuple(i for i, t in enumerate(use.tangents) if t is not None)
    found = apply(use.op, *use.inputs, program.derivatives(moving, every))
    slopes = iter(found if isinstance(found, tuple) else (found,))
    for i in moving:
        moved = [fitted(use.tangents[i] * next(slopes), use.outs[0]._aval) for _ in every]
        totals = [add(total, term) for total, term in zip(totals, moved, strict=True)]
    return tuple(totals)


_LINEAR = """
trace squeeze_dim squeeze_dims
alias view unsafe_view transpose t permute expand squeeze unsqueeze select slice split split_with_sizes unbind diagonal
unfold clone contiguous _to_copy sum sum_dim mean mean_dim cumsum tril triu cat stack flip roll repeat avg_pool1d
avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool_backward im2col col2im
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_nearest_exact1d upsample_nearest_exact2d upsample_nearest_exact3d upsample_trilinear3d upsample_backward
slice_backward diagonal_backward unfold_backward strided_select strided_scatter strided_add
as_strided_backward as_strided_again unsafe_split select_scatter slice_scatter diagonal_scatter
_fft_c2c _fft_r2c _fft_c2r fft_r2c_backward fft_c2r_backward
"""
_FIRST_IS_LINEAR = (
    "gather take masked_select index_select embedding max_pool_backward max_pool_read max_unpool2d max_unpool3d "
    "masked_scatter_backward "
    + " ".join(f"index{k} index_backward{k}" for k in range(1, MAX_INDICES + 1))
)
_FIRST_TWO_ARE_LINEAR = " ".join(f"index_put{k} index_put_accumulate{k}" for k in range(1, MAX_INDICES + 1))
_MULTILINEAR = "mm bmm mv dot linear_nobias conv2d conv2d_input conv2d_weight"
_REDUCTIONS = "prod prod_dim var std amax amin max min median nanmedian logsumexp"
_LOSSES = "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"

_KINDS: tuple[tuple[str, Jvp], ...] = (
    (POINTWISE + "copy masked_fill _softmax", pointwise),
    (_LINEAR, linear()),
    (_FIRST_IS_LINEAR, linear(0)),
    (_FIRST_TWO_ARE_LINEAR, linear(0, 1)),
    ("scatter scatter_add index_add index_copy index_fill put masked_scatter", linear(0, 2)),
    (_MULTILINEAR, multilinear),
    (_REDUCTIONS, reduction(0)),
    ("linalg_vector_norm", reduction(1)),
    (_LOSSES, _loss),
    ("_log_softmax", _log_softmax),
    ("max_dim min_dim sort topk kthvalue median_dim nanmedian_dim mode cummax cummin", _at_indices),
    (" ".join(f"{form}max_pool{n}d" for form in ("", "adaptive_") for n in (1, 2, 3)), _max_pool),
    ("nll_loss nll_loss_weighted", _nll),
    ("constant_pad", _pad),
    ("addmm", _addmm),
    ("linear", _linear_layer),
    ("native_layer_norm native_layer_norm_plain", _layer_norm),
    ("native_group_norm native_group_norm_plain", _group_norm),
    ("native_batch_norm native_batch_norm_plain", _batch_norm),
    ("batch_norm_by batch_norm_by_plain", _batch_norm_by),
    ("as_strided", _as_strided),
    (" ".join(map(op_name, range(1, MAX_OPERANDS + 1))), _elementwise),
)

JVPS: dict[Op, Jvp] = {OPS[name]: rule for names, rule in _KINDS for name in names.split()}
