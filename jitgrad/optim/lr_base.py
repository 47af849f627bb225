"""``LRScheduler``: what every learning-rate schedule is.

Owns: counting steps, setting the groups' rates, state dictionaries. Must not know: any schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "per_group"]


class LRScheduler:
    """Base of the schedules: call ``step()`` after the optimizer's.

    Args:
        optimizer: whose groups are changed.
        last_epoch: -1 to start; the number of steps already done to go on (groups need ``"initial_lr"`` then).

    Attributes:
        base_lrs: the rates of the groups at the start.
        last_epoch: steps done.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.optimizer = optimizer
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``; a schedule changes the groups' present rates, so that schedules chain."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates of the groups now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """One more epoch (or batch)."""
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate

    def _restart(self) -> None:
        """Back to epoch 0 and its rates, whatever other schedules have made of them."""
        self.last_epoch = -1
        for group, rate in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = rate
        self.step()

    def _scaled(self, factor: float) -> list[float]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas", "scale_fn")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.__dict__.update(state_dict)


def per_group(optimizer: Optimizer, name: str, value: float | Sequence[float]) -> list[float]:
    """One number for each group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count  # type: ignore[list-item]
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. expected {count}")
    return list(value)
