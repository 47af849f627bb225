"""Stochastic gradient descent.

Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013; PyTorch's form of
momentum, in which the learning rate multiplies the whole step.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.sparse import add_entries
from jitgrad.tensor import Tensor

__all__ = ["SGD"]

_OPTIONS = itemgetter("momentum", "dampening", "weight_decay", "nesterov", "maximize")
_SGD, _SGD_SCHEDULED = OPS["_sgd_update"], OPS["_sgd_update_scheduled"]
_MOMENTUM, _MOMENTUM_SCHEDULED = OPS["_sgd_momentum_update"], OPS["_sgd_momentum_update_scheduled"]


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
        (A sparse gradient moves only the rows it has; with momentum or weight decay it is made dense first.)
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, fused: accepted for PyTorch's sake; there is one implementation.

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
        flags = variants(foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, defaults | flags)

    def _update_group(self, group: Group) -> None:
        given = _OPTIONS(group)
        momentum, dampening, weight_decay, _, maximize = given
        lr = float(group["lr"])
        entries: list[tuple[Tensor, Any]] = []
        plain: list[tuple[Tensor, ...]] = []
        special: list[tuple[Tensor, ...]] = []
        moving: list[tuple[Tensor, ...]] = []
        for p in group["params"]:
            grad = p._grad
            if grad is None:
                continue
            if grad.is_sparse:
                if not momentum and not weight_decay:
                    entries.append((p, grad))
                    continue
                grad = grad.to_dense()
            if not momentum:
                plain.append((p, grad))
                continue
            kept = self.state.get(p)
            # PyTorch's first step is not dampened. Without dampening it is like any other, from a buffer of zeros:
            # the first call of a compiled step then records what every later call records
            is_special = kept is None and dampening != 0
            if kept is None:
                kept = self.state[p] = {"momentum_buffer": self._zeros(p)}
            buffer = kept["momentum_buffer"]
            (special if is_special else moving).append((p, grad, buffer))
        for p, grad in entries:
            add_entries(p, grad, lr if maximize else -lr)
        numbers, params = self._numbers_and_params(group, given)
        if plain:
            if numbers:
                door.apply_update(_SGD_SCHEDULED, plain, (0,), (lr, numbers[2]), (maximize,))
            else:
                door.apply_update(_SGD, plain, (0,), (lr,), (weight_decay, maximize))
        for rows, is_first in (special, True), (moving, False):
            if rows:
                op = _MOMENTUM_SCHEDULED if numbers else _MOMENTUM
                door.apply_update(op, rows, (0, 2), (lr, *numbers), (*params, is_first))

    def _split_options(
        self, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool
    ) -> tuple[tuple[float, ...], tuple[Any, ...]]:
        return (momentum, 1 - dampening, weight_decay), (nesterov, maximize)
