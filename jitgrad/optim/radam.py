"""RAdam.

Source: Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_adam_options, variants
from jitgrad.optim.dense import DenseOptimizer, decayed
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["RAdam"]


class RAdam(DenseOptimizer):
    """Adam that waits for a reliable variance: its first steps are plain momentum, later ones are rectified.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        betas: how much of the running mean, and of the running mean square, is kept.
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        decoupled_weight_decay: the penalty shrinks the parameter itself, as in ``AdamW``.
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
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_adam_options(lr, eps, betas, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        flags = variants(foreach=foreach, capturable=capturable, differentiable=differentiable)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"exp_avg": self._zeros(p), "exp_avg_sq": self._zeros(p)}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        lr, (beta1, beta2), step = float(group["lr"]), group["betas"], kept["step"]
        if group["decoupled_weight_decay"]:
            if group["weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decayed(p, grad, group)
        mean, mean_square = kept["exp_avg"], kept["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        mean_square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        rate = lr / (1 - beta1**step)
        rectification = _rectification(beta2, step)
        if rectification is None:
            p.sub_(mean, alpha=rate)
        else:
            root = mean_square.sqrt() + group["eps"]
            p.addcdiv_(mean, root, value=-rate * rectification * (1 - beta2**step) ** 0.5)


def _rectification(beta2: float, step: int) -> float | None:
    """What corrects the variance of the adaptive rate; None while the variance has no estimate."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5.0:
        return None
    ratio: float = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return ratio**0.5
