"""Averaged stochastic gradient descent.

Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992; the decay of the rate is
Bottou's, "Stochastic Gradient Descent Tricks", 2012.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.dense import DenseOptimizer, decayed
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["ASGD"]


class ASGD(DenseOptimizer):
    """Gradient descent; the state ``"ax"`` is the mean of the parameter's values since step ``t0``.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        lambd: how fast the rate and the parameter decay.
        alpha: power of the rate's decay.
        t0: the step at which averaging begins.
        weight_decay: L2 penalty, added to the gradient.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative rate or weight decay.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_nonnegative({"learning rate": lr, "weight_decay value": weight_decay})
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        flags = variants(foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"eta": float(group["lr"]), "mu": 1.0, "ax": self._zeros(p)}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        lr, lambd, eta, mean = float(group["lr"]), group["lambd"], kept["eta"], kept["ax"]
        grad = decayed(p, grad, group)
        p.mul_(1 - lambd * eta).sub_(grad, alpha=eta)
        if kept["mu"] == 1:
            mean.copy_(p)
        else:
            mean.add_((p - mean) * kept["mu"])
        kept["eta"] = lr / (1 + lambd * lr * kept["step"]) ** group["alpha"]
        kept["mu"] = 1 / max(1, kept["step"] - group["t0"])
