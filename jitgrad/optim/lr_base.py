"""``LRScheduler``: what every learning-rate schedule is.

Owns: counting steps, setting the groups' rates, state dictionaries. Must not know: any schedule.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.optim.optimizer import Optimizer

__all__ = ["EPOCH_DEPRECATION_WARNING", "LRScheduler", "check_optimizer", "per_group"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


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
        check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.optimizer = optimizer
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``; a schedule changes the groups' present rates, so that schedules chain."""
        raise NotImplementedError

    def _closed_form(self) -> list[float]:
        """The rates for ``last_epoch``, whatever the present ones are."""
        return self.get_lr()

    def get_last_lr(self) -> list[float]:
        """The rates of the groups now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """One more epoch (or batch); on to ``epoch`` if it is given, which is deprecated, and warns."""
        self._count_step()
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
            self.last_epoch = epoch
            rates = self._closed_form()
        self._set_rates(rates)

    def _set_rates(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _count_step(self) -> None:
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule. See more "
                "details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=3,
            )
        self._step_count += 1

    def _restart(self) -> None:
        """Back to epoch 0 and its rates, whatever other schedules have made of them."""
        self.last_epoch = -1
        self._set_rates(self.base_lrs)
        self.last_epoch = 0
        self._set_rates(self.get_lr())

    def _scaled(self, factor: float) -> list[float]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas", "scale_fn")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.__dict__.update(state_dict)


def check_optimizer(optimizer: Any) -> None:
    """TypeError for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def per_group(optimizer: Optimizer, name: str, value: float | Sequence[float]) -> list[float]:
    """One number for each group. TypeError for what is no optimizer."""
    check_optimizer(optimizer)
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count  # type: ignore[list-item]
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. expected {count}")
    return list(value)
