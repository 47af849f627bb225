"""Losses that are one graph node in PyTorch.

Owns: mse_loss, smooth_l1_loss, huber_loss, nll_loss, binary_cross_entropy (plain and with logits).
Must not know: Tensor, kernels. ``cross_entropy``, ``l1_loss`` and ``kl_div`` are compositions in ``functions``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call
from jitgrad.ops.shapes import broadcast, np_operand, numel, operand, result_dtype, torch_dtype_name
from jitgrad.ops.table import RuleContext, Vjp, define
from jitgrad.user_line import warn_user

__all__ = ["REDUCTIONS", "check_no_complex_target", "check_reduction", "old_reduction"]

REDUCTIONS = ("none", "mean", "sum")


def check_no_complex_target(input: Any, target: Any) -> None:
    """RuntimeError for a complex target of real predictions: its imaginary part would be lost."""
    if target.dtype.is_complex and not input.dtype.is_complex:
        found, wanted = torch_dtype_name(target.dtype), torch_dtype_name(input.dtype)
        raise RuntimeError(f"result type {found} can't be cast to the desired output type {wanted}")


def old_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """``reduction``, unless PyTorch's old arguments say another one; they warn."""
    if size_average is None and reduce is None:
        return reduction
    found = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn_user(f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.")
    return found


def check_reduction(reduction: str) -> None:
    """ValueError for an unknown reduction."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


# --- elementwise losses of (input, target | reduction, *parameters) ---


def _reduced_aval(name: str) -> Any:
    def rule(x: Aval, y: Aval, reduction: str, *params: Any) -> Aval:
        check_reduction(reduction)
        shape = broadcast(name, x.shape, y.shape)
        dtype = result_dtype(x, y)
        if dtype.category < FLOATING:
            raise NotImplementedError(f"\"{name}\" not implemented for '{torch_dtype_name(dtype)}'")
        return make_aval(shape if reduction == "none" else (), dtype)

    return rule


def _np_reduce(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    total = np.sum(loss)
    return total / loss.dtype.type(loss.size) if reduction == "mean" else total


def _lower_reduce(b: Any, loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    total = b.sum(loss, tuple(range(len(loss.shape))))
    return b.div(total, b.const(numel(loss.shape), loss.dtype)) if reduction == "mean" else total


def _spread_loss_grad(c: RuleContext, g: Any) -> Any:
    """The gradient of each element's loss; 0-d for reductions, it broadcasts."""
    if c.params[0] != "mean":
        return g
    x, y = c.avals[0], c.avals[1]
    assert x is not None and y is not None
    count = numel(broadcast("loss", x.shape, y.shape))
    return g / count if count else g


_ROW_MAJOR = ("mse_loss", "smooth_l1_loss", "huber_loss")
"""Their gradients are row-major, whatever order their operands are stored in."""


def _define_loss(
    name: str,
    np_formula: Any,
    lower_formula: Any,
    slope: Any,
    target_vjp: Any = "negative",
    checks_reals: bool = False,
) -> None:
    """``slope(x, y, *params)`` is the derivative with respect to x; that for y is its negative unless given."""

    def numpy(x: Any, y: Any, reduction: str, *params: Any) -> Any:
        dtype = result_dtype(x, y)
        return _np_reduce(np_formula(np_operand(x, dtype), np_operand(y, dtype), *params), reduction)

    def lower(b: Any, x: Any, y: Any, reduction: str, *params: Any) -> Any:
        dtype = result_dtype(x, y)
        return _lower_reduce(b, lower_formula(b, operand(b, x, dtype), operand(b, y, dtype), *params), reduction)

    def rule_x(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
        grad = slope(x, y, *c.params[1:]) * _spread_loss_grad(c, g)
        return grad.contiguous() if name in _ROW_MAJOR else grad

    def rule_y(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
        return -rule_x(c, g, x, y)

    define(
        name,
        aval=_reduced_aval(name),
        numpy=numpy,
        lower=lower,
        vjps=[Vjp(rule_x, (0, 1)), Vjp(rule_y, (0, 1)) if target_vjp == "negative" else target_vjp],
        num_inputs=2,
        checks_reals=checks_reals,
    )


def _np_square(x: Any, y: Any) -> Any:
    d = x - y
    return d * d


def _lower_square(b: Any, x: Any, y: Any) -> Any:
    d = b.sub(x, y)
    return b.mul(d, d)


_define_loss("mse_loss", _np_square, _lower_square, lambda x, y: 2 * (x - y))


def _np_smooth_l1(x: Any, y: Any, beta: float) -> Any:
    d, number = np.abs(x - y), x.dtype.type
    return np.where(d < beta, number(0.5) * d * d / number(beta), d - number(0.5 * beta))


def _lower_smooth_l1(b: Any, x: Any, y: Any, beta: float) -> Any:
    d = b.abs(b.sub(x, y))
    near = b.div(b.mul(b.mul(d, 0.5), d), b.const(float(beta), x.dtype))
    return b.where(b.lt(d, float(beta)), near, b.sub(d, 0.5 * beta))


def _sign(d: Any) -> Any:
    """The sign; NaN of NaN, so that a loss of NaN has a gradient that shows it."""
    return call("where", call("isnan", d), math.nan, d.sign())


def _smooth_l1_slope(x: Any, y: Any, beta: float) -> Any:
    d = x - y
    return call("where", call("lt", d.abs(), beta), d / beta, _sign(d))


def _np_huber(x: Any, y: Any, delta: float) -> Any:
    d, number = np.abs(x - y), x.dtype.type
    return np.where(d <= delta, number(0.5) * d * d, number(delta) * (d - number(0.5 * delta)))


def _lower_huber(b: Any, x: Any, y: Any, delta: float) -> Any:
    d = b.abs(b.sub(x, y))
    return b.where(b.le(d, float(delta)), b.mul(b.mul(d, 0.5), d), b.mul(b.sub(d, 0.5 * delta), float(delta)))


def _huber_slope(x: Any, y: Any, delta: float) -> Any:
    d = x - y
    return call("where", call("lt", d.abs(), delta), d, _sign(d) * delta)


_define_loss("smooth_l1_loss", _np_smooth_l1, _lower_smooth_l1, _smooth_l1_slope)
_define_loss("huber_loss", _np_huber, _lower_huber, _huber_slope)


# --- binary cross entropy ---


def _np_bce(x: Any, y: Any) -> Any:
    if not ((x >= 0) & (x <= 1)).all():  # NaN is refused, too
        raise RuntimeError("all elements of input should be between 0 and 1")
    floor = x.dtype.type(-100)
    return (y - 1) * np.maximum(np.log1p(-x), floor) - y * np.maximum(np.log(x), floor)


def _lower_bce(b: Any, x: Any, y: Any) -> Any:
    """Logarithms are clamped at -100, as in PyTorch, so that no loss is infinite."""
    outside = b.or_(b.or_(b.lt(x, 0.0), b.gt(x, 1.0)), b.ne(x, x))
    # the check adds 0 and reports inputs outside of [0, 1], and NaN
    x = b.add(x, b.cast(b.check(b.cast(outside, int64), 1), x.dtype))
    right = b.mul(y, b.max(b.log(x), b.const(-100.0, x.dtype)))
    wrong = b.mul(b.sub(y, 1.0), b.max(b.log1p(b.neg(x)), b.const(-100.0, x.dtype)))
    return b.sub(wrong, right)


def _bce_slope(x: Any, y: Any) -> Any:
    return (x - y) / call("clamp_min", (1 - x) * x, 1e-12)


def _bce_target_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return (call("log1p", -x) - x.log()) * _spread_loss_grad(c, g)  # without the loss's bound, as PyTorch's


_define_loss("binary_cross_entropy", _np_bce, _lower_bce, _bce_slope, Vjp(_bce_target_rule, (0,)), checks_reals=True)


def _np_bce_logits(x: Any, y: Any) -> Any:
    return (1 - y) * x - (np.minimum(x, x.dtype.type(0)) - np.log1p(np.exp(-np.abs(x))))


def _lower_bce_logits(b: Any, x: Any, y: Any) -> Any:
    zero = b.const(0.0, x.dtype)
    log_sigmoid = b.sub(b.min(x, zero), b.log1p(b.exp(b.neg(b.abs(x)))))
    return b.sub(b.mul(b.sub(b.const(1.0, x.dtype), y), x), log_sigmoid)


def _bce_logits_target_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return -x * _spread_loss_grad(c, g)


_define_loss(
    "binary_cross_entropy_with_logits",
    _np_bce_logits,
    _lower_bce_logits,
    lambda x, y: x.sigmoid() - y,
    Vjp(_bce_logits_target_rule, (0,)),
)


# --- nll_loss(log_probs [N, C], target [N] (, weight [C]) | reduction, ignore_index) -> loss, total weight ---


def _nll_aval(x: Aval, target: Aval, *rest: Any) -> tuple[Aval, Aval]:
    reduction = rest[-2]
    check_reduction(reduction)
    if x.shape[0] != target.shape[0]:
        raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({target.shape[0]}).")
    if target.dtype is not int64:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {torch_dtype_name(target.dtype)}")
    if x.dtype.category < FLOATING:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{torch_dtype_name(x.dtype)}'")
    if len(rest) == 3 and rest[0].shape != (x.shape[1],):
        raise RuntimeError(
            f"weight tensor should be defined either for all {x.shape[1]} classes or no classes but got weight tensor "
            f"of shape: {list(rest[0].shape)}"
        )
    return make_aval((x.shape[0],) if reduction == "none" else (), x.dtype), make_aval((), x.dtype)


def _np_nll(x: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    reduction, ignore_index = rest[-2:]
    if len(rest) == 2 and _all_count(target, x.shape[1], ignore_index):
        loss, total = -x[np.arange(len(target)), target], x.dtype.type(len(target))
    else:
        loss, total = _np_nll_by_weights(x, target, *rest)
    if reduction == "none":
        return loss, x.dtype.type(0)
    return (np.add.reduce(loss) / total if reduction == "mean" else np.add.reduce(loss)), total


_FEW = 1 << 16
"""Targets whose number every floating dtype of the rules holds, also as a sum of ones."""


def _all_count(target: Any, classes: int, ignore_index: int) -> bool:
    """Whether each of the targets is a class, and none is to be ignored."""
    if 0 <= ignore_index < classes or not 0 < target.size < _FEW:
        return False
    return bool(np.minimum.reduce(target) >= 0 and np.maximum.reduce(target) < classes)


def _np_nll_by_weights(x: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    """The losses, and the sum of their weights, which are 0 where a target is to be ignored."""
    valid = target != rest[-1]
    wrong = valid & ((target < 0) | (target >= x.shape[1]))
    if wrong.any():
        raise IndexError(f"Target {int(target[wrong][0])} is out of bounds.")
    if not x.shape[1]:  # all are ignored, and there is nothing to look up
        return np.zeros(len(target), x.dtype), x.dtype.type(0)
    at = np.where(valid, target, 0)
    weight = valid.astype(x.dtype) if len(rest) == 2 else np.where(valid, rest[0][at], x.dtype.type(0))
    loss = np.where(valid, -x[np.arange(len(at)), at] * weight, x.dtype.type(0))
    return loss, np.sum(weight)


def _lower_nll(b: Any, x: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    reduction, ignore_index = rest[-2:]
    count, classes = x.shape
    target = b.cast(target, int64)
    valid = b.ne(target, b.const(ignore_index, int64))
    # a gather would count a negative target from the end: replace it by a number that the gather refuses
    safe = b.where(b.lt(target, b.const(0, int64)), b.const(classes, int64), target)
    at = b.where(valid, safe, b.const(0, int64))
    zero = b.const(0.0, x.dtype)
    weights = b.const(1.0, x.dtype, (count,))
    if classes:
        picked = b.gather(x, [b.iota((count,), 0), at])
        weights = weights if len(rest) == 2 else b.gather(rest[0], [at])
    else:  # a table of one number has what is ignored, and refuses what is not
        at = b.where(valid, b.const(1, int64), b.const(0, int64))
        picked = b.gather(b.const(0.0, x.dtype, (1,)), [at])
    weight = b.where(valid, weights, zero)
    loss = b.where(valid, b.neg(b.mul(picked, weight)), zero)
    if reduction == "none":
        return loss, zero
    total, summed = b.sum(weight, (0,)), b.sum(loss, (0,))
    return (b.div(summed, total) if reduction == "mean" else summed), total


def _nll_rule(c: RuleContext, g: tuple[Any, Any], target: Any, total: Any, weight: Any = None) -> Any:
    """-weight of the target's class at the target's place; pointwise, so it fuses with softmax's derivative."""
    aval = c.avals[0]
    assert aval is not None
    reduction, ignore_index = c.params
    if g[0] is None:  # the total weight, which does not depend on x
        return None
    scale = -g[0]
    if reduction == "mean":
        scale = scale / call("detach", total)
    elif reduction == "none":
        scale = scale.unsqueeze(1)
    if weight is not None:
        scale = scale * weight
    column = target.unsqueeze(1)
    hit = call("eq", call("arange", 0, aval.shape[1], 1, int64, *beside(aval)), column)
    if 0 <= ignore_index < aval.shape[1]:
        hit = call("logical_and", hit, call("ne", column, ignore_index))
    return call("where", hit, scale, 0.0)


define(
    "nll_loss",
    checks_values=True,
    aval=_nll_aval,
    numpy=_np_nll,
    lower=_lower_nll,
    vjps=[Vjp(_nll_rule, (1, "out1")), None],
    num_inputs=2,
    node_name="NllLossBackward0",
)
define(
    "nll_loss_weighted",
    checks_values=True,
    aval=_nll_aval,
    numpy=_np_nll,
    lower=_lower_nll,
    vjps=[Vjp(_nll_rule, (1, "out1", 2)), None, None],
    num_inputs=3,
    node_name="NllLossBackward0",
)
