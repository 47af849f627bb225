"""Losses about margins, distances and distributions: compositions of operations.

Owns: them and their checks; ``cosine_similarity`` and ``pairwise_distance`` are in ``distances``.
Must not know: modules. Imported late, by ``nn.functional``: few models need one of these.

``size_average`` and ``reduce`` are PyTorch's old names of ``reduction``: given, they decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, HALVES, WHOLE
from jitgrad.functions import pointwise
from jitgrad.functions.activation import logsigmoid, softplus
from jitgrad.functions.devices import in_float32, moved
from jitgrad.functions.distances import pairwise_distance, raised
from jitgrad.functions.windows import kept
from jitgrad.ops.layers.losses import check_no_complex_target, check_reduction, old_reduction
from jitgrad.ops.shapes import refuse
from jitgrad.state import autocasts

__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _reduced(loss: Any, reduction: str) -> Any:
    check_reduction(reduction)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


# --- elementwise ---


def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target * input)); ``target`` is 1 or -1."""
    if autocasts:
        input, target = in_float32(input, target)
    check_no_complex_target(input, target)
    target = target.to(input.dtype)  # of bools and uint8 there is no -target
    # beyond 88 the exponential of a float32 overflows, and its logarithm is the exponent again
    return _reduced(softplus(-target * input, 1.0, 80.0), old_reduction(size_average, reduce, reduction))


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``input`` where ``target`` is 1, max(0, margin - input) where it is -1."""
    if autocasts:
        input, target = in_float32(input, target)
    reduction = old_reduction(size_average, reduce, reduction)
    apart = pointwise.where(target != 1, (margin - input).clamp_min(0.0), 0.0)
    loss = apart + pointwise.where(target != -1, input, 0.0)
    return _reduced(loss if loss.dtype is input.dtype else loss.to(input.dtype), reduction)


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, margin - target * (input1 - input2)); ``target`` 1 ranks the first higher, -1 the second.

    Raises:
        RuntimeError: for operands of different ranks.
    """
    if autocasts:
        input1, input2, target = in_float32(input1, input2, target)
    if input1.ndim != input2.ndim or input1.ndim != target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)} "
        )
    loss = (-target * (input1 - input2) + float(margin)).clamp_min(0)
    return _reduced(loss, old_reduction(size_average, reduce, reduction))


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Negative log-likelihood of counts under Poisson distributions.

    Args:
        input: the logarithm of the expected count, or, without ``log_input``, the count itself.
        target: the counts.
        log_input: see ``input``.
        full: add Stirling's approximation of log(target!) where the target is above 1.
        size_average, reduce: old names.
        eps: added to the count before its logarithm.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """
    if autocasts:
        input, target = in_float32(input, target)
    reduction = old_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if full and target.dtype.category is BOOLEAN:
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported.")
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        # the logarithm of a target that is not above 1 is not used: its derivative must not be NaN
        counts = pointwise.where(target > 1, target, 1.0)
        stirling = counts * counts.log() - counts + 0.5 * (2 * math.pi * counts).log()
        loss = loss + stirling.masked_fill(target <= 1, 0.0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Negative log-likelihood of ``target`` under normal distributions.

    Args:
        input: means.
        target: samples.
        var: variances: a number, or a tensor of the input's shape, without its last dimension or with one of 1.
        full: add the constant.
        eps: the least variance; a variance below counts as this, and is differentiated as if it were not.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for a negative variance, or one of another shape.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * input.detach().new_ones(input.shape)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        var = _one_variance(input, var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if not var.dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {var.dtype.c_name}")
    var = raised(var, eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def _one_variance(input: Any, var: Any) -> Any:
    """``var`` so that it broadcasts over the one dimension that it lacks."""
    if tuple(input.shape[:-1]) == tuple(var.shape):
        return var.unsqueeze(-1)
    if input.ndim == var.ndim:
        different = [n for m, n in zip(input.shape, var.shape, strict=True) if m != n]
        if sum(different) == 1:
            return var
    raise ValueError("var is of incorrect size")


# --- classes ---


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Binary cross entropy of logits (N, C), averaged over classes, which ``weight`` (C) weighs."""
    reduction = old_reduction(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.shape[-1], reduction)


def _class_rows(name: str, input: Any, target: Any) -> tuple[Any, int, int]:
    """A batch (N, C) of the input, with N and C. RuntimeError unless it has at most two dimensions."""
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    return rows, rows.shape[0], rows.shape[1]


@kept
def _classes(count: int) -> Any:
    return np.arange(count)


def _numbers_of(classes: int, input: Any) -> Any:
    """0, 1, 2 ..., where the input is."""
    return moved(_classes(classes), input.device)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Sum over the other classes of max(0, margin - x[target] + x[i])^p, divided by the number of classes.

    Args:
        input: (N, C) or (C) scores.
        target: (N) or () classes.
        p: 1 or 2.
        margin: by how much the target's score should lead.
        weight: (C), per target class; ``p`` does not apply to it.
        size_average, reduce: old names.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for another ``p``, or weights that are no vector.
        RuntimeError: for shapes that do not fit.
        IndexError: for a target that is no class.
    """
    if autocasts:
        input, target, weight = in_float32(input, target, weight)
    reduction = old_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows, count, classes = _class_rows("multi_margin_loss", input, target)
    if target.ndim > 1 or target.numel() != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{count}], but got {list(target.shape)}. "
            f"Input has shape {list(input.shape)}."
        )
    refuse("multi_margin_loss_cpu_kernel", input, (*WHOLE, *HALVES))
    columns = target.reshape(count, 1)
    loss = (margin - rows.gather(1, columns) + rows).clamp_min(0.0)
    if p == 2:
        loss = loss * loss
    if weight is not None:
        loss = loss * weight[columns]
    loss = loss.masked_fill(_numbers_of(classes, input) == columns, 0.0).sum(1) / classes
    return _reduced(loss if target.ndim else loss.reshape(()), reduction)


def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """Sum over labels and other classes of max(0, 1 - x[label] + x[other]), divided by the number of classes.

    Args:
        input: (N, C) or (C) scores.
        target: likewise: class numbers up to the first -1 are labels.
        size_average, reduce: old names.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        RuntimeError: for shapes that differ.
        IndexError: for a label that is no class.
    """
    if autocasts:
        input, target = in_float32(input, target)
    reduction = old_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    rows, _, classes = _class_rows("multilabel_margin_loss", input, target)
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    refuse("multilabel_margin_loss_forward_out_frame", input, (*WHOLE, *HALVES))
    targets = target.reshape(rows.shape)
    is_over = (targets < 0).to(targets.dtype).cumsum(1) > 0
    labels = targets.masked_fill(is_over, -1)
    is_named = (labels.unsqueeze(2) == _numbers_of(classes, input)).any(1)
    margins = (1 - rows.gather(1, labels.clamp_min(0)).unsqueeze(2) + rows.unsqueeze(1)).clamp_min(0.0)
    is_left_out = is_over.unsqueeze(2).logical_or(is_named.unsqueeze(1))
    loss = margins.masked_fill(is_left_out, 0.0).sum((1, 2)) / classes
    return _reduced(loss if input.ndim == 2 else loss.reshape(()), reduction)


# --- distances ---


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 - cos(input1, input2) where ``target`` is 1, max(0, cos - margin) where it is -1.

    Args:
        input1, input2: (N, D), or (D).
        target: (N), or ().
        margin: a cosine that is no loss.
        size_average, reduce: old names.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        RuntimeError: for another rank.
    """
    if autocasts:
        input1, input2, target = in_float32(input1, input2, target)
    reduction = old_reduction(size_average, reduce, reduction)
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    rank = target.ndim + 1
    if input1.ndim != rank or input2.ndim != rank:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {rank}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    tiny = 1e-12
    product = (input1 * input2).sum(-1)
    squares = (input1 * input1).sum(-1) + tiny, (input2 * input2).sum(-1) + tiny
    cosine = product / (squares[0] * squares[1]).sqrt()
    near = pointwise.where(target == 1, 1 - cosine, 0.0)
    return _reduced(near + pointwise.where(target == -1, (cosine - margin).clamp_min(0.0), 0.0), reduction)


def _check_triplet(anchor: Any, positive: Any, negative: Any, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, margin + |anchor - positive| - |anchor - negative|), in the p-norm over the last dimension.

    ``swap`` takes the distance from positive to negative where it is smaller.

    Raises:
        ValueError: ``margin`` is not positive.
        RuntimeError: for operands of different ranks.

    Source: Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses", 2016.
    """
    if autocasts:
        anchor, positive, negative = in_float32(anchor, positive, negative)

    def distance(a: Any, b: Any) -> Any:
        return pairwise_distance(a, b, p, eps)

    reduction = old_reduction(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """``triplet_margin_loss`` with any distance; ``pairwise_distance`` if None."""
    check_reduction(reduction)
    _check_triplet(anchor, positive, negative, margin)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = pointwise.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)
