"""A linear layer with the cross entropy of its outputs, as one module.

Owns: ``LinearCrossEntropyLoss``.
Must not know: how the loss goes through the rows (``linear_cross_entropy.py``).
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.nn.linear import Linear
from jitgrad.nn.linear_cross_entropy import LinearCrossEntropyOptions, linear_cross_entropy
from jitgrad.nn.loss import WeightedLoss
from jitgrad.tensor import Tensor

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(WeightedLoss):
    """A linear layer and ``CrossEntropyLoss`` in one.

    Args:
        in_features: of the inputs.
        num_classes: C.
        out_features: d1, ... of a loss of more dimensions.
        bias: of the layer.
        device, dtype: of its parameters.
        reduction, weight, ignore_index, label_smoothing, options: as of ``linear_cross_entropy``.

    Raises:
        RuntimeError: a weight of another shape, or a smoothing outside [0, 1].
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes, self.out_features, self.options = num_classes, out_features, options
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of (N, in_features)."""
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """What is shown of it."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
