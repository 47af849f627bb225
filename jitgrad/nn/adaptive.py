"""``AdaptiveLogSoftmaxWithLoss``: a softmax over very many classes, of which few are frequent.

Owns: it. Must not know: how a layer computes.

Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.dtypes import DType
from jitgrad.functions import cat
from jitgrad.nn import functional as F
from jitgrad.nn.containers import ModuleList, Sequential
from jitgrad.nn.linear import Linear
from jitgrad.nn.module import Module
from jitgrad.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveOutput(NamedTuple):
    """What the module returns.

    Attributes:
        output: (N), log-probabilities of the targets.
        loss: their negative mean.
    """

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets among classes in clusters of falling frequency.

    The head has the classes below the first cutoff and one entry per cluster; clusters have smaller projections.

    Args:
        in_features: of the input.
        n_classes: how many; sorted by falling frequency.
        cutoffs: where clusters begin, increasing, in 1 .. n_classes - 1.
        div_value: each cluster's projection is narrower than the one before by this factor.
        head_bias: whether the head has a bias.
        device, dtype: of the parameters.

    Raises:
        ValueError: for other cutoffs.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if ends != sorted(set(ends)) or ends[0] <= 0 or ends[-1] > n_classes - 1 or any(int(c) != c for c in ends):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*ends, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width, classes = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            projection = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(projection, Linear(width, classes, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        self.head.reset_parameters()
        for projection, classes in self.tail:
            projection.reset_parameters()
            classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        """(N, in_features) and classes (N), or both without N, to log-probabilities and the loss.

        Raises:
            RuntimeError: for shapes that do not fit, and a target that is no class.
        """
        _check(input_, target_)
        if not target_.ndim:
            output, loss = self.forward(input_.unsqueeze(0), target_.unsqueeze(0))
            return AdaptiveOutput(output.squeeze(0), loss)
        head = F.log_softmax(self.head(input_), 1)
        known = 0
        order, parts = [], []
        for i, (low, high) in enumerate(zip([0, *self.cutoffs[:-1]], self.cutoffs, strict=True)):
            rows = ((target_ >= low) & (target_ < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            known += rows.numel()
            members, within = head.index_select(0, rows), target_.index_select(0, rows) - low
            if i:
                inside = F.log_softmax(self.tail[i - 1](input_.index_select(0, rows)), 1)
                found = members[:, self.shortlist_size + i - 1] + inside.gather(1, within.unsqueeze(1)).squeeze(1)
            else:
                found = members.gather(1, within.unsqueeze(1)).squeeze(1)
            order.append(rows)
            parts.append(found)
        if known != target_.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target_.min().item()}, "
                f"{target_.max().item()}] were found. "
            )
        output = head.new_zeros(target_.shape).index_copy(0, cat(order), cat(parts))
        return AdaptiveOutput(output, (-output).mean())

    def log_prob(self, input: Tensor) -> Any:
        """(N, in_features) to log-probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts: list[Any] = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), 1) + head[:, place : place + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Any:
        """(N, in_features) to the likeliest class of each, (N)."""
        best: Any = self.head(input).argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not rows.numel():
            return best
        return best.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(1))


def _check(input: Tensor, target: Tensor) -> None:
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.ndim and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with size "
            f"{input.shape}"
        )
