"""Adamax.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.functions import maximum
from jitgrad.optim.checks import check_adam_options, variants
from jitgrad.optim.dense import DenseOptimizer, decayed
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["Adamax"]


class Adamax(DenseOptimizer):
    """Adam with the largest recent gradient in place of the root mean square.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        betas: how much of the running mean, and of the running maximum, is kept.
        eps: added to the gradient's absolute value.
        weight_decay: L2 penalty, added to the gradient.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative option, or betas outside [0, 1).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_adam_options(lr, eps, betas, weight_decay=weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        flags = variants(foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"exp_avg": self._zeros(p), "exp_inf": self._zeros(p)}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        beta1, beta2 = group["betas"]
        grad = decayed(p, grad, group)
        mean, largest = kept["exp_avg"], kept["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(maximum(largest * beta2, grad.abs() + group["eps"]))
        p.addcdiv_(mean, largest, value=-float(group["lr"]) / (1 - beta1 ** kept["step"]))
