"""Learning-rate schedules: each sets ``group["lr"]`` from the number of ``step()`` calls.

Owns: the schedules; cycles are in ``lr_cycles.py``. Must not know: update rules, traces (a changed rate is a run-time
scalar there, and compiles nothing).
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgrad.optim.lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, per_group
from jitgrad.optim.lr_cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from jitgrad.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        is_due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma if is_due else 1.0)

    def _closed_form(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each of ``milestones`` (twice where it is listed twice)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        if self.last_epoch not in self.milestones:
            return self.get_last_lr()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _closed_form(self) -> list[float]:
        passed = sum(count for milestone, count in self.milestones.items() if milestone <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        return self._scaled(self.gamma if self.last_epoch > 0 else 1.0)

    def _closed_form(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class LambdaLR(LRScheduler):
    """The starting rate times ``lr_lambda(epoch)``; one function for all groups, or a list of one each."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        return [rate * fn(self.last_epoch) for rate, fn in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LambdaLR):
    """Times ``lr_lambda(epoch)``; one function for all groups, or a list of one each."""

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        rates = self.get_last_lr()
        if self.last_epoch == 0:
            return rates
        return [rate * fn(self.last_epoch) for rate, fn in zip(rates, self.lr_lambdas, strict=True)]


class PolynomialLR(LRScheduler):
    """From the starting rate to 0 over ``total_iters`` epochs, along a polynomial of degree ``power``."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self.get_last_lr()
        left = self.total_iters - self.last_epoch
        return self._scaled((left / (left + 1)) ** self.power)

    def _closed_form(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` times the starting rate, over ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0.0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))

    def _closed_form(self) -> list[float]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ConstantLR(LinearLR):
    """``factor`` times the starting rate for ``total_iters`` epochs, then the starting rate."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, factor, 1.0, total_iters, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.start_factor if epoch < self.total_iters else 1.0


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the starting rate to ``eta_min`` over ``T_max`` epochs.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017, equation 5.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``; the chainable form divides out the last epoch's cosine."""
        epoch, half = self.last_epoch, self.T_max
        rates = self.get_last_lr()
        if epoch == 0:
            return rates
        if (epoch - 1 - half) % (2 * half) == 0:
            rise = (1 - math.cos(math.pi / half)) / 2
            return [rate + (base - self.eta_min) * rise for rate, base in zip(rates, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / half)) / (1 + math.cos(math.pi * (epoch - 1) / half))
        return [(rate - self.eta_min) * ratio + self.eta_min for rate in rates]

    def _closed_form(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class SequentialLR(LRScheduler):
    """One schedule after another: ``schedulers[i]`` until step ``milestones[i]``, when the next one starts anew.

    Raises:
        ValueError: the numbers of schedules and milestones do not fit, or a schedule does not.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        _check_parts(type(self).__name__, optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to "
                f"be equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        self._restart()

    def _restart(self) -> None:
        self.last_epoch = 0
        for part in self._schedulers:
            part.last_epoch = -1
        self._schedulers[bisect_right(self._milestones, 0)]._restart()

    def step(self) -> None:  # type: ignore[override]
        """One more step of the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        if turn and self._milestones[turn - 1] == self.last_epoch:
            self._schedulers[turn]._restart()
        else:
            self._schedulers[turn].step()

    def state_dict(self) -> dict[str, Any]:
        """See ``LRScheduler``; the schedules' states under ``"_schedulers"``."""
        return {**super().state_dict(), "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state."""
        for part, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            part.load_state_dict(state)
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})


class ChainedScheduler(SequentialLR):
    """All schedules at every step, each on what the one before made of the rates."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        optimizer = schedulers[0].optimizer if optimizer is None and schedulers else optimizer
        _check_parts(type(self).__name__, optimizer, schedulers)
        self._schedulers = list(schedulers)
        self.optimizer: Any = optimizer

    def _restart(self) -> None:
        for part in self._schedulers:
            part._restart()

    def step(self) -> None:  # type: ignore[override]
        """One more step of all of them."""
        for part in self._schedulers:
            part.step()


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when what is measured has not become better for more than ``patience`` steps.

    Args:
        optimizer: whose groups are changed.
        mode: ``"min"`` or ``"max"``: what better is.
        factor: below 1.
        patience: steps without an improvement that are forgiven.
        threshold, threshold_mode: what counts as better: by that part (``"rel"``), or that much (``"abs"``).
        cooldown: steps after a change in which nothing is counted.
        min_lr: the lowest rate; one for all groups, or a list.
        eps: a change that is not larger is not made.

    Attributes:
        best, num_bad_epochs: so far.

    Raises:
        ValueError: ``factor`` is not below 1, or there is no such mode.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = per_group(optimizer, "min_lr", min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: Any = None, epoch: int | None = None) -> None:  # type: ignore[override]
        """One more epoch, after which ``metrics`` (a number or a tensor of one) was measured.

        ``epoch`` says which one; it is deprecated, and warns.
        """
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(float(metrics)):
            self.best, self.num_bad_epochs = float(metrics), 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, lowest)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold


def _check_parts(name: str, optimizer: Any, schedulers: Sequence[LRScheduler]) -> None:
    if not schedulers:
        raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
    for i, part in enumerate(schedulers):
        if isinstance(part, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
            )
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but the {type(part).__name__} at "
                f"index {i} has another."
            )
