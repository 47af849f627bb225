"""Adam and AdamW.

Sources: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; Loshchilov and Hutter, "Decoupled Weight
Decay Regularization", 2019; Reddi et al., "On the Convergence of Adam and Beyond", 2018 (amsgrad).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jitgrad.functions import maximum
from jitgrad.optim.checks import check_betas, check_nonnegative
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Steps along the mean gradient, divided by the root mean square gradient; both means running and unbiased.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        betas: how much of the running mean, and of the running mean square, is kept.
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient (``AdamW``: applied to the parameter).
        amsgrad: divide by the largest mean square so far.
        maximize: climb.
        decoupled_weight_decay: as ``AdamW``.
        foreach, capturable, differentiable, fused: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative option, or betas outside [0, 1).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_nonnegative({"learning rate": lr, "epsilon value": eps, "weight_decay value": weight_decay})
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _state_of(self, p: Tensor, amsgrad: bool) -> dict[str, Any]:
        kept = self.state.get(p)
        if kept is None:
            kept = self.state[p] = {"step": 0, "exp_avg": self._zeros(p), "exp_avg_sq": self._zeros(p)}
            if amsgrad:
                kept["max_exp_avg_sq"] = self._zeros(p)
        return kept

    def _update_group(self, group: Group) -> None:
        beta1, beta2 = group["betas"]
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            kept = self._state_of(p, group["amsgrad"])
            step = kept["step"] = kept["step"] + 1
            size = group["lr"] / (1.0 - beta1**step)
            self._update_composed(p, grad, kept, group, size, math.sqrt(1.0 - beta2**step))

    def _update_composed(
        self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group, size: float, root_correction: float
    ) -> None:
        beta1, beta2 = group["betas"]
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                p.mul_(1.0 - group["lr"] * group["weight_decay"])
            else:
                grad = grad + group["weight_decay"] * p
        mean, mean_square = kept["exp_avg"], kept["exp_avg_sq"]
        mean.lerp_(grad, 1.0 - beta1)
        mean_square.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
        if group["amsgrad"]:
            largest = kept["max_exp_avg_sq"]
            largest.copy_(maximum(largest, mean_square))
            mean_square = largest
        p.addcdiv_(mean, mean_square.sqrt() / root_correction + group["eps"], value=-size)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself.

    Args:
        params: see ``Optimizer``.
        lr, betas, eps, amsgrad, maximize: see ``Adam``.
        weight_decay: the parameter is multiplied by 1 - lr * weight_decay.
        foreach, capturable, differentiable, fused: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: see ``Adam``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True
        )
