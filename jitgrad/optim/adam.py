"""Adam and AdamW.

Sources: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; Loshchilov and Hutter, "Decoupled Weight
Decay Regularization", 2019; Reddi et al., "On the Convergence of Adam and Beyond", 2018 (amsgrad). The formulas are in
``ops/layers/optimizers.py``; see Note [Updates in a trace].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.optim.checks import check_adam_options, variants
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["Adam", "AdamW"]

_ADAM, _ADAM_SCHEDULED = OPS["_adam_update"], OPS["_adam_update_scheduled"]
_AMSGRAD, _AMSGRAD_SCHEDULED = OPS["_adam_amsgrad_update"], OPS["_adam_amsgrad_update_scheduled"]


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
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable, fused: accepted for PyTorch's sake; there is one implementation.

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
        check_adam_options(lr, eps, betas, weight_decay=weight_decay)
        if foreach and not capturable and isinstance(lr, Tensor):
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        flags = variants(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        super().__init__(params, defaults | flags)

    def _update_group(self, group: Group) -> None:
        amsgrad = group["amsgrad"]
        beta1, beta2 = group["betas"]
        decay = (group["weight_decay"], group["decoupled_weight_decay"])
        numbers, params = self._numbers_and_params(group, (beta1, beta2, group["eps"], *decay, group["maximize"]))
        lr = float(group["lr"])
        by_step: dict[int, list[tuple[Tensor, ...]]] = {}
        states = self.state
        for p in group["params"]:
            grad = p._grad
            if grad is None:
                continue
            if grad.is_sparse:
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            kept = states.get(p) or self._start(p, amsgrad)
            step = kept["step"] = kept["step"] + 1
            row = (p, grad, kept["exp_avg"], kept["exp_avg_sq"])
            by_step.setdefault(step, []).append((*row, kept["max_exp_avg_sq"]) if amsgrad else row)
        op, writes = (_AMSGRAD, (0, 2, 3, 4)) if amsgrad else (_ADAM, (0, 2, 3))
        if numbers:
            op = _AMSGRAD_SCHEDULED if amsgrad else _ADAM_SCHEDULED
        for step, rows in by_step.items():
            door.apply_update(op, rows, writes, (lr, 1.0 - beta1**step, 1.0 - beta2**step, *numbers), params)

    def _split_options(
        self, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool
    ) -> tuple[tuple[float, ...], tuple[Any, ...]]:
        return (1 - beta1, beta2, 1 - beta2, weight_decay), (eps, decoupled, maximize)

    def _start(self, p: Tensor, amsgrad: bool) -> dict[str, Any]:
        kept: dict[str, Any] = {"step": 0, "exp_avg": self._zeros(p), "exp_avg_sq": self._zeros(p)}
        if amsgrad:
            kept["max_exp_avg_sq"] = self._zeros(p)
        self.state[p] = kept
        return kept


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself.

    Args:
        params: see ``Optimizer``.
        lr, betas, eps, amsgrad, maximize: see ``Adam``.
        weight_decay: the parameter is multiplied by 1 - lr * weight_decay.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable, fused: accepted for PyTorch's sake; there is one implementation.

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
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip
