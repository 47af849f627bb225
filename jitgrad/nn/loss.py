"""Losses as modules: each holds its arguments and calls the function of the same name.

``reduction`` is "mean" (default), "sum" or "none" everywhere; ``size_average`` and ``reduce`` are its old names.
"""

from __future__ import annotations

from typing import Any

from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.ops.layers.losses import old_reduction
from jitgrad.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
    "WeightedLoss",
]


class Loss(Module):
    """What all losses are.

    Args:
        size_average, reduce: old names.
        reduction: "mean", "sum" or "none".
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = old_reduction(size_average, reduce, reduction)


class WeightedLoss(Loss):
    """A loss with weights, which are a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(Loss):
    """Squared error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """Absolute error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """Squared error below ``beta``, absolute error above, continuously joined."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """``SmoothL1Loss`` times ``delta``."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(WeightedLoss):
    """Minus the log-probability (N, C) of each label (N).

    Args:
        weight: (C), of the classes.
        size_average, reduce: old names.
        ignore_index: a label that counts for nothing.
        reduction: "mean", "sum" or "none".
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N) for reduction "none"."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(WeightedLoss):
    """``NLLLoss`` of the log-softmax of (N, C) logits.

    Args:
        weight: (C), of the classes.
        size_average, reduce: old names.
        ignore_index: a label that counts for nothing.
        reduction: "mean", "sum" or "none".
        label_smoothing: how much of each target is spread evenly over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N) for reduction "none"."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(WeightedLoss):
    """Binary cross entropy of probabilities.

    Args:
        weight: of the elements; it broadcasts.
        size_average, reduce: old names.
        reduction: "mean", "sum" or "none".
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of logits, without overflow.

    Args:
        weight: of the elements; it broadcasts.
        size_average, reduce: old names.
        reduction: "mean", "sum" or "none".
        pos_weight: of the positive examples; it broadcasts.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(Loss):
    """Connectionist temporal classification; see ``functional.ctc_loss``.

    Args:
        blank: the label between labels.
        reduction: "mean" (each loss divided by its target's length, then the mean), "sum" or "none".
        zero_infinity: losses of targets that are too long count as 0, and have no gradient.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """(T, N, C) log-probabilities, targets and lengths to a scalar, or (N) for reduction "none"."""
        found: Tensor = F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
        return found


class KLDivLoss(Loss):
    """Kullback-Leibler divergence of log-probabilities from a target distribution (its logarithm: ``log_target``)."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or the shape of the inputs for reduction "none"."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
