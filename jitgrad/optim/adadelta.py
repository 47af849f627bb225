"""Adadelta.

Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.dense import DenseOptimizer, decayed
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["Adadelta"]


class Adadelta(DenseOptimizer):
    """The gradient times the ratio of two running root mean squares: of the steps, and of the gradients.

    Args:
        params: see ``Optimizer``.
        lr: what each step is multiplied by.
        rho: how much of the running means is kept.
        eps: added to both means.
        weight_decay: L2 penalty, added to the gradient.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for an option out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_nonnegative({"learning rate": lr})
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_nonnegative({"epsilon value": eps, "weight_decay value": weight_decay})
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        flags = variants(capturable=capturable, foreach=foreach, differentiable=differentiable)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"square_avg": self._zeros(p), "acc_delta": self._zeros(p)}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        rho, eps = group["rho"], group["eps"]
        grad = decayed(p, grad, group)
        mean_square, steps = kept["square_avg"], kept["acc_delta"]
        mean_square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = (steps + eps).sqrt() / (mean_square + eps).sqrt() * grad
        steps.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.sub_(delta, alpha=float(group["lr"]))
