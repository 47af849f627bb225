"""Stochastic gradient descent.

Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013; PyTorch's form of
momentum, in which the learning rate multiplies the whole step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_nonnegative
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["SGD"]


class SGD(Optimizer):
    """``p -= lr * step``; ``step = momentum * step + (1 - dampening) * grad`` where there is momentum.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        momentum: how much of the last step is kept.
        dampening: of the gradient, from the second step on.
        weight_decay: L2 penalty, added to the gradient.
        nesterov: look ahead by one momentum step.
        maximize: climb.
        foreach, differentiable, fused: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative option, or nesterov without momentum or with dampening.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_nonnegative({"learning rate": lr, "momentum value": momentum, "weight_decay value": weight_decay})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr = -group["lr"] if group["maximize"] else group["lr"]
        plain = not (group["momentum"] or group["weight_decay"])
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if plain:
                p.sub_(grad, alpha=lr)
            else:
                p.sub_(self._direction(p, grad, group), alpha=group["lr"])

    def _direction(self, p: Tensor, grad: Any, group: Group) -> Tensor:
        """The step before the learning rate: decay and momentum."""
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * p
        if not group["momentum"]:
            return grad  # type: ignore[no-any-return]
        kept = self.state.setdefault(p, {})
        is_first = "momentum_buffer" not in kept
        if is_first:
            kept["momentum_buffer"] = self._zeros(p)
        buffer = kept["momentum_buffer"]
        # PyTorch's first step is the gradient itself, undampened
        buffer.mul_(group["momentum"]).add_(grad, alpha=1.0 - (0.0 if is_first else group["dampening"]))
        return grad + group["momentum"] * buffer if group["nesterov"] else buffer  # type: ignore[no-any-return]
