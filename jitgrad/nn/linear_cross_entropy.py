"""Cross entropy of a linear layer's outputs, whole or some rows at a time.

Owns: ``linear_cross_entropy``, ``LinearCrossEntropyOptions``.
Must not know: modules (``linear_loss.py`` has the layer).

With options, logits exist for some rows only: each piece is checkpointed, so its backward computes its logits again.
The loss can be differentiated any number of times either way.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.dtypes import DType, bfloat16, float16, float32, float64, int64
from jitgrad.functions import cat, cross_entropy, linear
from jitgrad.tensor import Tensor
from jitgrad.user_line import warn_user
from jitgrad.utils.checkpoint import checkpoint

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_ACCUMULATED = (None, float16, bfloat16, float32, float64)
_IGNORED = -100


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How ``linear_cross_entropy`` goes through the rows.

    Attributes:
        allow_retain_graph: no effect: a graph may always be kept.
        batch_chunk_size: rows at a time; None: as ``chunking_method`` says, else all of them.
        chunking_method: "aspect_ratio": as many rows as make the logits no larger than the input; "aspect_ratio:n":
            n times fewer; "auto": one of these; None: ``batch_chunk_size`` alone says.
        acc_policy: "accurate", "balanced", "compact" or "auto". No effect: sums are kept in float32 at least.
        acc_dtype: of logits and sums; None: the inputs', or float32 for shorter ones.

    Raises:
        ValueError: for anything else.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor))):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in _ACCUMULATED:
            raise ValueError(
                "acc_dtype must be one of {None, jitgrad.float16, jitgrad.bfloat16, jitgrad.float32, jitgrad.float64}, "
                f"got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically."
            )

    def rows_at_once(self, num_rows: int, in_features: int, num_classes: int, dtype: DType) -> int:
        """How many rows one piece has. ValueError if size and method are both given and say different numbers."""
        method = self.chunking_method
        if method == "auto":
            is_half = dtype.itemsize == 2
            method = None if self.batch_chunk_size else "aspect_ratio" if is_half else "aspect_ratio:2"
        if method is None:
            return max(1, min(self.batch_chunk_size or num_rows, num_rows))
        factor = int(method.partition(":")[2] or 1)
        wanted = -(-num_rows // -(-num_classes // in_features))
        size = min((1 << (wanted - 1).bit_length()) // factor, num_rows)
        if self.batch_chunk_size not in (None, size):
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') give different chunk "
                f"sizes ({self.batch_chunk_size} vs {size}); pass only one."
            )
        return max(1, size)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: (N, in_features), or (in_features).
        linear_weight: (C, in_features); (C, d1, ..., in_features) for losses of more dimensions.
        target: classes, (N, d1, ...) of int64, or probabilities, (N, C, d1, ...).
        linear_bias: (C, d1, ...).
        weight, reduction, label_smoothing: as of ``cross_entropy``.
        ignore_index: a class that does not count; None: -100.
        options: go through the rows in pieces, for classes as targets, one dimension and no smoothing.

    Raises:
        RuntimeError: shapes that do not fit, or ``ignore_index`` with probabilities.
    """
    num_classes, *middle, _ = linear_weight.shape if linear_weight.dim() >= 2 else (0, 0)
    _check_shapes(input, linear_weight, linear_bias)
    has_probabilities = tuple(target.shape) == (*input.shape[:-1], num_classes, *middle)
    if has_probabilities and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = _IGNORED if ignore_index is None else ignore_index
    if options is not None:
        if not middle and label_smoothing == 0.0 and target.dtype is int64 and reduction in ("mean", "sum", "none"):
            return _in_pieces(input, linear_weight, target, linear_bias, weight, reduction, ignored, options)
        warn_user(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
            "label_smoothing == 0, target.dtype == int64, out_features == ()."
        )
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, linear_weight.shape[-1]), bias)
    logits = logits.reshape(*input.shape[:-1], num_classes, *middle)
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )  # fmt: skip


def _check_shapes(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    expected = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != expected:
        raise RuntimeError(f"expected linear_bias shape {expected}, got {tuple(linear_bias.shape)}")
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def _in_pieces(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    is_single = input.dim() == 1
    rows, classes = (input.unsqueeze(0), target.unsqueeze(0)) if is_single else (input, target)
    dtype = options.acc_dtype or (float32 if input.dtype.itemsize == 2 else input.dtype)
    # pieces run again in the backward: what is small is copied, so that a write to it until then does no harm
    classes = classes.clone()
    linear_bias, weight = (None if x is None else x.clone() for x in (linear_bias, weight))
    version = linear_weight._version

    def piece(x: Tensor, y: Tensor) -> Tensor:
        if linear_weight._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "linear_weight of linear_cross_entropy, whose pieces are computed again in the backward"
            )
        logits = linear(x, linear_weight, linear_bias).to(dtype)
        scale = None if weight is None else weight.to(dtype)
        return cross_entropy(
            logits, y, scale, ignore_index=ignored, reduction="none" if reduction == "none" else "sum"
        )

    size = options.rows_at_once(rows.shape[0], rows.shape[1], linear_weight.shape[0], input.dtype)
    parts = zip(rows.split(size), classes.split(size), strict=True)
    losses = [checkpoint(piece, x, y, use_reentrant=False) for x, y in parts]
    if reduction == "none":
        found: Tensor = cat(losses).to(input.dtype)
        return found.squeeze(0) if is_single else found
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    if reduction == "mean":
        counted = classes != ignored
        if weight is None:
            total = total / counted.sum().to(dtype)
        else:
            total = total / (weight.to(dtype)[classes.where(counted, 0)] * counted).sum()
    return total.to(input.dtype)
