"""Adagrad.

Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", 2011.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.dense import by_parts, decayed
from jitgrad.optim.optimizer import Group, Optimizer

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps divided by the root of all squared gradients so far.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        lr_decay: the rate is divided by 1 + (steps done) * lr_decay.
        weight_decay: L2 penalty, added to the gradient.
        initial_accumulator_value: where the sums start.
        eps: added to the root.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, fused: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative option.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_nonnegative(
            {"learning rate": lr, "lr_decay value": lr_decay, "weight_decay value": weight_decay,
             "initial_accumulator_value value": initial_accumulator_value, "epsilon value": eps}
        )  # fmt: skip
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "maximize": maximize,
        }
        flags = variants(foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, defaults | flags)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {"step": 0, "sum": self._zeros(p, group["initial_accumulator_value"])}

    def _update_group(self, group: Group) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse and group["weight_decay"]:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            kept = self.state[p]
            kept["step"] += 1
            grad = -p.grad if group["maximize"] else p.grad
            if grad.is_sparse:
                grad = grad.to_dense()  # zeros move nothing
            by_parts(self._move, p, grad, kept, group)

    def _move(self, p: Any, grad: Any, kept: dict[str, Any], group: Group) -> None:
        total = kept["sum"]
        grad = decayed(p, grad, group)
        total.addcmul_(grad, grad)
        rate = group["lr"] / (1 + (kept["step"] - 1) * group["lr_decay"])
        p.addcdiv_(grad, total.sqrt() + group["eps"], value=-rate)
