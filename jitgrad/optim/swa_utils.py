"""Averages of a model's weights over training steps, and the learning rate that goes with them.

Sources: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018; Polyak and
Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from jitgrad.functions.from_data import tensor
from jitgrad.grad_mode import no_grad
from jitgrad.nn.module import Module
from jitgrad.nn.normalization import BatchNorm
from jitgrad.optim.lr_base import LRScheduler, per_group
from jitgrad.optim.optimizer import Optimizer
from jitgrad.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """A function that moves averages, in place, to ``decay * average + (1 - decay) * new``.

    Raises:
        ValueError: ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    def move(averages: Sequence[Tensor], new: Sequence[Tensor], count: Tensor) -> None:
        for average, value in zip(averages, new, strict=True):
            if average.dtype.is_floating_point:
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return no_grad()(move)


def get_swa_multi_avg_fn() -> MultiAverage:
    """A function that adds one more value to equally weighted averages, in place."""

    def move(averages: Sequence[Tensor], new: Sequence[Tensor], count: Tensor) -> None:
        for average, value in zip(averages, new, strict=True):
            if average.dtype.is_floating_point:
                average.lerp_(value, (1 / (count + 1)).to(average.dtype))
            else:
                average.copy_(average + (value - average) / (count + 1))

    return no_grad()(move)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A function that returns ``decay * average + (1 - decay) * new``.

    Raises:
        ValueError: ``decay`` is not in [0, 1].
    """
    _check_decay(decay)

    def moved(average: Tensor, new: Tensor, count: Tensor) -> Tensor:
        return decay * average + (1 - decay) * new

    return no_grad()(moved)


def get_swa_avg_fn() -> Average:
    """A function that returns the equally weighted average with one more value."""

    def moved(average: Tensor, new: Tensor, count: Tensor) -> Tensor:
        return average + (new - average) / (count + 1)

    return no_grad()(moved)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: what is copied.
        device: where the averages are.
        avg_fn: (average, new value, number of values so far) -> average; equal weights if None.
        multi_avg_fn: the same for lists, in place.
        use_buffers: average the buffers too; else they are copied.

    Attributes:
        module: the averaged model.
        n_averaged: int64 scalar, the number of values so far.

    Raises:
        AssertionError: both functions are given.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.n_averaged: Tensor
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model returns."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> Iterator[Tensor]:
        return chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    def update_parameters(self, model: Module) -> None:
        """Take the present values of ``model`` into the averages; the first ones are copied."""
        averages = [p.detach() for p in self._averaged(self.module)]
        values = [p.detach().to(a.device) for p, a in zip(self._averaged(model), averages, strict=True)]
        if not int(self.n_averaged):
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        elif self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, values, self.n_averaged)
        else:
            for average, value in zip(averages, values, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged.add_(1)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Measure the statistics of a model's batch normalisations anew, by one pass over ``loader``.

    Args:
        loader: of batches: tensors, or sequences whose first element is the model's input.
        model: it is called in training mode, and left in the mode that it was in.
        device: where inputs go first.
    """
    layers = [module for module in model.modules() if isinstance(module, BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Go to the rate ``swa_lr`` within some epochs, and stay.

    Args:
        optimizer: whose groups are changed.
        swa_lr: the rate to go to, or one for each group.
        anneal_epochs: how many epochs that takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: see ``LRScheduler``.

    Raises:
        ValueError: for another strategy, or a number of epochs that is no integer or negative.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group(optimizer, "swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: float) -> float:
        """How much of the way is done at an epoch."""
        part = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * part)) / 2 if self._anneal_strategy == "cos" else part

    def get_lr(self) -> list[float]:
        """The present rates, with the last epoch's part taken out and this one's put in."""
        epoch = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, now = self._share(epoch - 1), self._share(epoch)
        rates = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            start = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + start * (1 - now))
        return rates
