"""Learning-rate schedules that go up and down; some take momentum the other way round.

Owns: warm restarts, one cycle, cycles. Must not know: update rules, traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.optim.lr_base import LRScheduler, check_optimizer, per_group
from jitgrad.optim.optimizer import Group, Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines to ``eta_min``, one after another: over ``T_0`` epochs, and each ``T_mult`` times the last.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.

    Raises:
        ValueError: ``T_0`` is no positive integer, or ``T_mult`` none.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """One more epoch, or on to any ``epoch``, which may be a fraction. ValueError for a negative one."""
        epoch = self.last_epoch + 1 if epoch is None else epoch
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self.T_i, self.T_cur = self.T_0, epoch
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr())

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``."""
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up from ``max_lr / div_factor`` to ``max_lr``, then down to almost nothing; momentum the other way round.

    Source: Smith and Topin, "Super-Convergence", 2018.

    Args:
        optimizer: whose groups are changed.
        max_lr: the highest rate; one for all groups, or a list.
        total_steps: how many steps there will be; or ``epochs`` and ``steps_per_epoch``.
        pct_start: the part of them that goes up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether momentum, or the first beta, goes from ``max_momentum`` to ``base_momentum`` and back.
        div_factor, final_div_factor: of ``max_lr`` at the start, of that rate at the end.
        three_phase: come down to the starting rate first, as slowly as it went up.
        last_epoch: see ``LRScheduler``.

    Raises:
        ValueError: for options that make no sense, and at a step beyond the last.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        check_optimizer(optimizer)
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        up = pct_start * total_steps - 1
        ends = [up, 2 * up, total_steps - 1] if three_phase else [up, total_steps - 1]
        rates = ["initial_lr", "max_lr", *(["initial_lr"] if three_phase else []), "min_lr"]
        momenta = ["max_momentum", "base_momentum", "max_momentum", *(["max_momentum"] if three_phase else [])]
        borders: list[Any] = [0.0, *ends]
        self._phases = [(*borders[i : i + 2], *rates[i : i + 2], *momenta[i : i + 2]) for i in range(len(ends))]
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, per_group(optimizer, "max_lr", max_lr), strict=True):
                start = highest / div_factor
                group.update(initial_lr=start, max_lr=highest, min_lr=start / final_div_factor)
        if cycle_momentum:
            _prepare_momentum(optimizer, base_momentum, max_momentum, is_new=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``; sets the momentum as well."""
        epoch = self.last_epoch
        if epoch > self.total_steps:
            raise ValueError(f"Tried to step {epoch} times. The specified number of total steps is {self.total_steps}")
        start, end, *names = next((p for p in self._phases if epoch <= p[1]), self._phases[-1])
        done = (epoch - start) / (end - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                _set_momentum(group, self._anneal(group[names[2]], group[names[3]], done))
        return [self._anneal(group[names[0]], group[names[1]], done) for group in groups]

    def _anneal(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and down in ``step_size_down``, again and again.

    Source: Smith, "Cyclical Learning Rates for Training Neural Networks", 2017.

    Args:
        optimizer: whose groups are changed.
        base_lr, max_lr: one for all groups, or a list.
        step_size_up, step_size_down: None: as long as up.
        mode: ``"triangular"``; ``"triangular2"``, which halves the height every time; ``"exp_range"``, which
            multiplies it by ``gamma`` every step.
        gamma: see there.
        scale_fn: the factor of the height, instead of a mode: of the number of the cycle, or of the step.
        scale_mode: ``"cycle"`` or ``"iterations"``: what ``scale_fn`` gets.
        cycle_momentum, base_momentum, max_momentum: momentum goes the other way round.
        last_epoch: see ``LRScheduler``.

    Raises:
        ValueError: there is no such mode, or the optimizer has no momentum to cycle.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        lowest = per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                group["lr"] = rate
        self.max_lrs = per_group(optimizer, "max_lr", max_lr)
        up = _as_float("step_size_up", step_size_up)
        self.total_size = up + (up if step_size_down is None else _as_float("step_size_down", step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.scale_fn = scale_fn
        if cycle_momentum:
            _prepare_momentum(optimizer, base_momentum, max_momentum, is_new=last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def get_lr(self) -> list[float]:
        """See ``LRScheduler``; sets the momentum as well."""
        done = self.last_epoch / self.total_size
        cycle = math.floor(1 + done)
        x = 1.0 + done - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                low, high = group["base_momentum"], group["max_momentum"]
                _set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def _scale(self, at: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(at)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (at - 1) if self.mode == "triangular2" else self.gamma**at


def _as_float(name: str, x: Any) -> float:
    """A number of steps. ValueError or TypeError for what is none."""
    try:
        return float(x)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be a number, but is {x!r}") from None


def _prepare_momentum(optimizer: Optimizer, low: Any, high: Any, is_new: bool) -> None:
    """Every group knows the ends of its momentum, and starts with the highest."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    lows, highs = per_group(optimizer, "base_momentum", low), per_group(optimizer, "max_momentum", high)
    for group, lowest, highest in zip(optimizer.param_groups, lows, highs, strict=True):
        if is_new:
            _set_momentum(group, highest)
            group.update(base_momentum=lowest, max_momentum=highest)


def _set_momentum(group: Group, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
