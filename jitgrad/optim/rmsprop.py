"""RMSprop.

Source: Tieleman and Hinton, "Lecture 6.5 - rmsprop", COURSERA, 2012; options as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.dense import by_parts
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps divided by the running root mean square of the gradient.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        alpha: how much of the running mean is kept.
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        momentum: of the steps.
        centered: subtract the squared running mean of the gradient: a variance.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative option.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_nonnegative(
            {"learning rate": lr, "epsilon value": eps, "momentum value": momentum,
             "weight_decay value": weight_decay, "alpha value": alpha}
        )  # fmt: skip
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        flags = variants(capturable=capturable, foreach=foreach, differentiable=differentiable)
        super().__init__(params, defaults | flags)

    def _update_group(self, group: Group) -> None:
        for p in group["params"]:
            if p.grad is not None:
                if p.grad.is_sparse:
                    raise RuntimeError("RMSprop does not support sparse gradients")
                self._update_parameter(p, p.grad, group)

    def _update_parameter(self, p: Tensor, grad: Any, group: Group) -> None:
        kept = self.state.setdefault(p, {})
        if not kept:
            kept.update(step=0, square_avg=self._zeros(p))
            if group["momentum"] > 0:
                kept["momentum_buffer"] = self._zeros(p)
            if group["centered"]:
                kept["grad_avg"] = self._zeros(p)
        kept["step"] += 1
        by_parts(self._move, p, -grad if group["maximize"] else grad, kept, group)

    def _move(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        alpha = group["alpha"]
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * p
        mean_square = kept["square_avg"]
        mean_square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        variance = mean_square
        if group["centered"]:
            mean = kept["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            variance = mean_square - mean * mean
        step = grad / (variance.sqrt() + group["eps"])
        if group["momentum"] > 0:
            buffer = kept["momentum_buffer"]
            buffer.mul_(group["momentum"]).add_(step)
            step = buffer
        p.sub_(step, alpha=group["lr"])
