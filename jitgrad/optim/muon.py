"""Muon: momentum whose steps are made orthogonal.

Sources: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is Scalable
for LLM Training", 2025 (the rate "match_rms_adamw"). PyTorch iterates in bfloat16; here it is the parameter's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jitgrad.functions import matmul
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps along the nearest orthogonal matrix to the momentum, for matrices.

    Args:
        params: see ``Optimizer``; matrices only.
        lr: learning rate.
        weight_decay: the parameter is multiplied by 1 - lr * weight_decay.
        momentum: how much of the running mean gradient is kept.
        nesterov: look ahead by one momentum step.
        ns_coefficients: of the polynomial that drives singular values to 1.
        eps: the least norm that the momentum is divided by.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: how the rate depends on the shape: "original" (None) or "match_rms_adamw".

    Raises:
        ValueError: for a negative option, another ``adjust_lr_fn``, and parameters that are no matrices.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                    )

    def _update_group(self, group: Group) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                raise RuntimeError("Muon does not support sparse gradients")
            kept = self.state[p]
            if not kept:
                kept["momentum_buffer"] = self._zeros(p)
            mean = kept["momentum_buffer"]
            mean.lerp_(grad, 1 - momentum)
            ahead = grad.lerp(mean, momentum) if group["nesterov"] else mean
            step = _orthogonal(ahead, group)
            p.mul_(1 - lr * group["weight_decay"])
            p.add_(step, alpha=-lr * _rate_of(p, group["adjust_lr_fn"]))


def _orthogonal(x: Any, group: Group) -> Any:
    """The matrix with its singular values near 1: Newton-Schulz iterations of a polynomial of degree five."""
    steps, coefficients = group["ns_steps"], group["ns_coefficients"]
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_tall = x.shape[0] > x.shape[1]
    x = x.t() if is_tall else x
    x = x / x.norm().clamp(min=group["eps"])
    for _ in range(steps):
        gram = matmul(x, x.t())
        x = a * x + matmul(b * gram + c * matmul(gram, gram), x)
    return x.t() if is_tall else x


def _rate_of(p: Tensor, how: str | None) -> float:
    rows, columns = p.shape
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
