"""``DenseOptimizer``: rules that update one parameter after the other from dense gradients.

Owns: going through a group, counting steps, refusing sparse gradients; which tensors an update is of.
Must not know: any update rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.tensor import Tensor

__all__ = ["DenseOptimizer", "by_parts", "decayed"]


_COMPLEX = LazyModule("jitgrad.optim.complex_parameters")


def by_parts(update: Callable[..., None], p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
    """``update(p, grad, kept, group)``; of a complex parameter, of its parts."""
    if p.dtype.is_complex:
        _COMPLEX.in_parts(update, p, grad, kept, group)
    else:
        update(p, grad, kept, group)


class DenseOptimizer(Optimizer):
    """Base of rules without a fused update: a subclass says how a state starts and what one update is."""

    def _update_group(self, group: Group) -> None:
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
            kept = self.state.get(p)
            if not kept:
                kept = self.state[p] = {"step": 0, **self._start(p, group)}
            kept["step"] += 1
            by_parts(self._update_parameter, p, -grad if group["maximize"] else grad, kept, group)

    def _start(self, p: Tensor, group: Group) -> dict[str, Any]:
        """A parameter's state before its first step."""
        raise NotImplementedError

    def _update_parameter(self, p: Tensor, grad: Any, kept: dict[str, Any], group: Group) -> None:
        """One update; ``kept["step"]`` counts it already."""
        raise NotImplementedError


def decayed(p: Tensor, grad: Any, group: Group) -> Any:
    """The gradient with the L2 penalty that the group asks for."""
    return grad + group["weight_decay"] * p if group["weight_decay"] else grad
