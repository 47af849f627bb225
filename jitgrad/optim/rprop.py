"""Rprop.

Source: Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm", 1993.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.functions import where
from jitgrad.optim.checks import check_nonnegative, variants
from jitgrad.optim.dense import DenseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["Rprop"]


class Rprop(DenseOptimizer):
    """Steps by the gradient's sign; an element's step grows while its sign stays, and shrinks when it turns.

    Args:
        params: see ``Optimizer``.
        lr: the first step of every element.
        etas: what a step is multiplied by when the sign turns, and when it stays.
        step_sizes: the smallest and the largest step.
        maximize: climb.
        differentiable: gradients flow through the step, into options that are tensors too; parameters
            must not be leaves.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for a negative rate, or etas that are not below and above 1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_nonnegative({"learning rate": lr})
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}
        flags = variants(foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"prev": self._zeros(p), "step_size": self._zeros(p, float(group["lr"]))}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        agreement = grad * kept["prev"]
        turned = agreement < 0
        factor = where(turned, shrink, where(agreement > 0, grow, 1.0))
        size = kept["step_size"]
        size.copy_((size * factor).clamp(smallest, largest))
        used = grad.masked_fill(turned, 0.0)
        p.addcmul_(used.sign(), size, value=-1)
        kept["prev"].copy_(used)
