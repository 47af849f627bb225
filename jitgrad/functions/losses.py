"""Loss functions.

Owns: their public signatures, and those that are compositions in PyTorch too.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; ValueError for anything else.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import FLOATING, WHOLE, int64, uint8
from jitgrad.functions import pointwise
from jitgrad.functions.devices import in_float32, to
from jitgrad.functions.views import reshape, reshape_result
from jitgrad.ops.layers.losses import check_no_complex_target, check_reduction, old_reduction
from jitgrad.ops.shapes import broadcast, numel, refuse, torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.state import autocasts
from jitgrad.user_line import warn_user

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]

_MSE, _SMOOTH_L1, _HUBER = OPS["mse_loss"], OPS["smooth_l1_loss"], OPS["huber_loss"]
_NLL, _NLL_WEIGHTED, _LOG_SOFTMAX = OPS["nll_loss"], OPS["nll_loss_weighted"], OPS["_log_softmax"]
_BCE, _BCE_LOGITS = OPS["binary_cross_entropy"], OPS["binary_cross_entropy_with_logits"]
_MOVE = OPS["permute"]


def _reduced(loss: Any, reduction: str) -> Any:
    check_reduction(reduction)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _same_sizes(input: Any, target: Any) -> tuple[Any, Any]:
    """Both, broadcast to one shape: from there on neither is a tensor without dimensions."""
    if input.shape == target.shape:
        return input, target
    warn_user(
        f"Using a target size (torch.Size({list(target.shape)})) that is different to the input size "
        f"(torch.Size({list(input.shape)})). This will likely lead to incorrect results due to broadcasting. Please "
        "ensure they have the same size."
    )
    shape = broadcast("loss", input.shape, target.shape)
    return tuple(x if x.shape == shape else x.expand(shape) for x in (input, target))


def _weighted(loss: Any, weight: Any, input: Any, reduction: str, divisor: Any) -> Any:
    """A weighted loss, of elements; ``"mean"`` divides by ``divisor``, or by the number of elements if it is None."""
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "mean" and divisor is not None:
        return loss.sum() / divisor.sum()
    return _reduced(loss, reduction)


def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """(input - target)^2, times ``weight``; ``"mean"`` divides by the sum of the weights."""
    if autocasts:
        input, target = in_float32(input, target)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    expanded, target = _same_sizes(input, target)
    if weight is not None:
        return _weighted((expanded - target) ** 2, weight, input, reduction, weight)
    return door.apply(_MSE, expanded, target, reduction)


def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """|input - target|, times ``weight``; ``"mean"`` divides by the sum of the weights."""
    if autocasts:
        input, target = in_float32(input, target)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    expanded, target = _same_sizes(input, target)
    loss = (expanded - target).abs()
    return _reduced(loss, reduction) if weight is None else _weighted(loss, weight, input, reduction, weight)


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Squared error below ``beta``, absolute error above, continuously joined."""
    if autocasts:
        input, target = in_float32(input, target)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    input, target = _same_sizes(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return door.apply(_SMOOTH_L1, input, target, reduction, float(beta))


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """Half the squared error up to ``delta``, linear above, times ``weight``."""
    if autocasts:
        input, target = in_float32(input, target)
    check_no_complex_target(input, target)
    expanded, target = _same_sizes(input, to(target, input.dtype))
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        loss = door.apply(_HUBER, expanded, target, "none", float(delta))
        return _weighted(loss, weight, input, reduction, None)
    return door.apply(_HUBER, expanded, target, reduction, float(delta))


def _same_shape(name: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        raise ValueError(
            f"{name}: Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(input.shape)}) is not supported. Please ensure they have the same size."
        )


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-(target * log(input) + (1 - target) * log(1 - input)), times ``weight``; logarithms stop at -100."""
    if autocasts:
        input, target, weight = in_float32(input, target, weight)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    _same_shape("binary_cross_entropy", input, target)
    if target.dtype is not input.dtype:
        raise RuntimeError(
            f"binary_cross_entropy: Found dtype {torch_dtype_name(target.dtype)} but expected "
            f"{torch_dtype_name(input.dtype)}: convert the target by target.to(input.dtype)"
        )
    if weight is None:
        return door.apply(_BCE, input, target, reduction)
    return _reduced(door.apply(_BCE, input, target, "none") * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """Binary cross entropy of sigmoid(input), without overflow; ``pos_weight`` weighs the positive examples."""
    if autocasts:
        input, target, weight = in_float32(input, target, weight)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})")
    is_mixed = target.dtype is not input.dtype or input.dtype.category is not FLOATING
    if is_mixed:
        _check_logits(input, target)
    elif weight is None and pos_weight is None:
        return door.apply(_BCE_LOGITS, input, target, reduction)
    if pos_weight is None:
        loss = door.apply(_BCE_LOGITS, input, target, "none")
    else:
        log_sigmoid = door.apply(OPS["log_sigmoid"], input)
        loss = (1 - target) * input - ((pos_weight - 1) * target + 1) * log_sigmoid
    if is_mixed:
        loss = loss.to(target.dtype)
    return _reduced(loss if weight is None else loss * weight, reduction)


def _check_logits(input: Any, target: Any) -> None:
    """PyTorch subtracts and multiplies in the target's memory, which is to be floating.

    Raises:
        NotImplementedError: integer logits.
        RuntimeError: bool or integer targets.
    """
    refuse("log_sigmoid_cpu", input, WHOLE)
    if target.dtype in WHOLE:
        raise RuntimeError(
            f"binary_cross_entropy_with_logits: result type {torch_dtype_name(input.dtype)} can't be cast to the "
            f"desired output type {torch_dtype_name(target.dtype)}: convert the target by target.to(input.dtype)"
        )


def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target * (log(target) - input), input being log-probabilities; ``"batchmean"`` divides the sum by the batch."""
    if autocasts:
        input, target = in_float32(input, target)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    elif reduction == "mean":
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release."
        )
    if reduction != "batchmean":
        check_reduction(reduction)
    if input.dtype.category is not FLOATING or target.dtype.category is not FLOATING:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    xlogy = OPS["xlogy"]
    loss = target.exp() * (target - input) if log_target else door.apply(xlogy, target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return _reduced(loss, reduction)


# --- classification ---


def _rows(input: Any) -> Any:
    """[N, C, ...] as [rows, C]."""
    if input.ndim == 1:
        return reshape(input, (1, -1))
    order = (0, *range(2, input.ndim), 1)
    return reshape(door.apply(_MOVE, input, order), (-1, input.shape[1]))


def _check_target(input: Any, target: Any) -> None:
    if input.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim == 1 and target.shape == (1,):
        return
    if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if input.ndim < 3 and target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.ndim != max(input.ndim - 1, 0):
        raise ValueError(
            f"input and target shapes do not match: input {list(input.shape)}, target {list(target.shape)}"
        )
    if input.shape[2:] != target.shape[1:]:
        raise RuntimeError(f"size mismatch (got input: {list(input.shape)}, target: {list(target.shape)})")


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-input at the target's class; input [N, C, ...] are log-probabilities, target [N, ...] class numbers.

    ``weight`` [C] weighs classes, and ``"mean"`` divides by the weights used. Targets equal to ``ignore_index`` count
    for nothing.

    Raises:
        IndexError: for a target that is no class.
        ValueError: if shapes do not match.
    """
    if autocasts:
        input, target, weight = in_float32(input, target, weight)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if input.ndim != 2 or target.ndim != 1:
        _check_target(input, target)
        if input.ndim != 2:
            loss = nll_loss(
                _rows(input), reshape(target, (-1,)), weight, ignore_index=ignore_index, reduction=reduction
            )
            if reduction != "none":
                return loss
            # where PyTorch's kernel takes the shape as it is, the result is no view
            return (reshape_result if input.ndim in (1, 4) else reshape)(loss, target.shape)
    if target.dtype is uint8:
        target = to(target, int64)
    if weight is None:
        return door.apply(_NLL, input, target, reduction, ignore_index)[0]
    return door.apply(_NLL_WEIGHTED, input, target, weight, reduction, ignore_index)[0]


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The negative log-likelihood of softmax(input) over dimension 1 (0 for a vector).

    Args:
        input: logits, [C] or [N, C, ...].
        target: class numbers, [] or [N, ...]; or probabilities, of input's shape.
        weight: per class, [C].
        ignore_index: a class number that counts for nothing.
        size_average, reduce: PyTorch's old names of ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: how much of each target is spread evenly over all classes.

    Raises:
        IndexError: for a target that is no class.
        RuntimeError: for a target of the input's shape that is not floating, or is while a class is ignored.
        ValueError: if shapes do not match.
    """
    if autocasts:
        input, target, weight = in_float32(input, target, weight)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce, reduction)
    if target.shape == input.shape and target.dtype.category is not FLOATING:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {torch_dtype_name(target.dtype)}"
        )
    if input.ndim == 1 and target.ndim == 1 and target.shape != input.shape:
        if target.dtype.category is FLOATING:
            raise RuntimeError(f"expected target dtype to be Long or Byte, but got {torch_dtype_name(target.dtype)}")
        if target.shape != (1,):
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")
        target = reshape(target, ())
    log_probs = door.apply(_LOG_SOFTMAX, input, 0 if input.ndim == 1 else 1)
    if target.shape == input.shape and input.ndim:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(log_probs, target, weight, reduction, label_smoothing)
    loss = nll_loss(log_probs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    smooth = _smoothing_loss(log_probs, target, weight, ignore_index, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[0 if input.ndim == 1 else 1])


def _per_class(weight: Any, rank: int) -> Any:
    return reshape(weight, (-1,) if rank == 1 else (1, -1, *[1] * (rank - 2)))


def _soft_cross_entropy(log_probs: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    check_reduction(reduction)
    dim = 0 if log_probs.ndim == 1 else 1
    if smoothing:
        target = target * (1 - smoothing) + smoothing / log_probs.shape[dim]
    terms = log_probs * target
    loss = -(terms if weight is None else terms * _per_class(weight, log_probs.ndim)).sum(dim)
    if reduction == "mean":
        return loss.sum() / (numel(log_probs.shape) // log_probs.shape[dim])
    return loss.sum() if reduction == "sum" else loss


def _smoothing_loss(log_probs: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """The loss against the even distribution, times the number of classes."""
    dim = 0 if log_probs.ndim == 1 else 1
    terms = log_probs if weight is None else log_probs * _per_class(weight, log_probs.ndim)
    ignored = target == ignore_index
    loss = pointwise.where(ignored, 0.0, -terms.sum(dim))
    if reduction != "mean":
        return loss.sum() if reduction == "sum" else loss
    kept = ignored.logical_not()
    if weight is None:
        return loss.sum() / kept.sum()
    used = weight[pointwise.where(ignored, 0, target)]
    return loss.sum() / pointwise.where(ignored, 0.0, used).sum()
