"""Adam for sparse gradients.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; as in PyTorch's ``SparseAdam``, moments move
only where the gradient has entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.functions.creation import arange, zeros
from jitgrad.optim.checks import check_betas
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam, of those rows of a parameter that its sparse gradient has.

    Args:
        params: see ``Optimizer``.
        lr: learning rate.
        betas: decay of the first and the second moment.
        eps: added to the denominator.
        maximize: climb.

    Raises:
        ValueError: for an option out of range.
        RuntimeError: from ``step``, for a dense gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _update_group(self, group: Group) -> None:
        members = [p for p in group["params"] if p.grad is not None]
        if not all(p.grad.is_sparse for p in members):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        for p in members:
            kept = self.state.setdefault(p, {})
            if not kept:
                kept.update(step=0, exp_avg=self._zeros(p), exp_avg_sq=self._zeros(p))
            kept["step"] += 1
            _update(p, -p.grad if group["maximize"] else p.grad, kept, group)


def _update(p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
    """Move the rows that the gradient has. A row that it has several times is computed, and written, as often: so the
    extents depend on the number of entries alone, and a compiled step is the same for every batch."""
    beta1, beta2 = group["betas"]
    where, values = tuple([grad._indices().select(0, n) for n in range(grad.sparse_dim())]), grad._values()
    if not values.numel():
        return
    if not grad.is_coalesced():
        values = _summed(where, values, p.shape[: len(where)])
    mean = beta1 * kept["exp_avg"][where] + (1 - beta1) * values
    square = beta2 * kept["exp_avg_sq"][where] + (1 - beta2) * values * values
    kept["exp_avg"].index_put_(where, mean)
    kept["exp_avg_sq"].index_put_(where, square)
    corrections = 1.0 - beta1 ** kept["step"], 1.0 - beta2 ** kept["step"]
    rate = group["lr"] * corrections[1] ** 0.5 / corrections[0]
    p.index_put_(where, p[where] + -rate * (mean / (square.sqrt() + group["eps"])))


def _summed(where: tuple[Tensor, ...], values: Tensor, extents: tuple[int, ...]) -> Tensor:
    """For each entry the sum of all that have its place, in their order.

    Args:
        where: per sparse dimension (nnz,) places.
        values: (nnz, *dense dimensions).
        extents: of the sparse dimensions.
    """
    count, device = values.shape[0], values.device
    numbers = arange(count, device=device)
    last = zeros(extents, dtype=int64, device=device).index_put(where, numbers)[where]  # entry of the same place
    return zeros(values.shape, dtype=values.dtype, device=device).index_add(0, last, values)[last]
