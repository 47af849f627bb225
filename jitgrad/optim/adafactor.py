"""Adafactor.

Source: Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018; options as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.dtypes import finfo
from jitgrad.functions import zeros
from jitgrad.optim.checks import variants
from jitgrad.optim.dense import DenseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.tensor import Tensor

__all__ = ["Adafactor"]


class Adafactor(DenseOptimizer):
    """Steps divided by a root mean square that is kept as a row and a column of each matrix.

    Args:
        params: see ``Optimizer``.
        lr: the largest relative step.
        beta2_decay: power of the step number that gives the weight of a new square.
        eps: below which a squared gradient counts as this (None: the dtype's epsilon), and the least scale of a step.
        d: the largest root mean square of an update.
        weight_decay: the parameter is multiplied by 1 - lr * weight_decay.
        maximize: climb.
        foreach: accepted for PyTorch's sake; there is one implementation.

    Raises:
        ValueError: for an option out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if not isinstance(eps, list | tuple) or len(eps) != 2:
            raise TypeError(f"eps should be two numbers but is: {eps}")
        for is_right, text in (
            (lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ):
            if not is_right:
                raise ValueError(text)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        flags = variants(foreach=foreach)
        super().__init__(params, defaults | flags)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        if p.ndim < 2:
            return {"variance": self._zeros(p)}
        shapes = {"row_var": (*p.shape[:-1], 1), "col_var": (*p.shape[:-2], 1, p.shape[-1])}
        return {name: zeros(*shape, dtype=p.dtype, device=p.device) for name, shape in shapes.items()}

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        lr, step = float(group["lr"]), kept["step"]
        floor, least = group["eps"]
        floor = finfo(p.dtype).eps if floor is None else floor
        # tensors, not numbers: reading a norm would end a compiled step's segment
        scale = _root_mean_square(p).clamp_min(least) * min(lr, step**-0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        mean_square = _mean_square(grad, kept, step ** group["beta2_decay"], floor)
        update = mean_square.clamp_min(floor * floor).rsqrt() * grad
        excess = (_root_mean_square(update) / group["d"]).clamp_min(1.0)
        p.sub_(update * (scale / excess))


def _root_mean_square(x: Any) -> Any:
    return (x * x).sum().sqrt() / max(x.numel(), 1) ** 0.5


def _mean_square(grad: Any, kept: dict[str, Any], weight: float, floor: float) -> Any:
    """Move the running mean squares, and multiply a row by a column where they are factored."""
    squared = grad * grad
    if grad.ndim < 2:
        kept["variance"].lerp_(squared, weight)
        return kept["variance"]
    rows, columns = kept["row_var"], kept["col_var"]
    rows.lerp_(squared.mean(-1, True), weight)
    columns.lerp_(squared.mean(-2, True), weight)
    return rows * columns / rows.mean(-2, True).clamp_min(floor)
