"""Schedules that cycle, follow each other or look at a metric: rates and momenta are torch's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad import events

torch = pytest.importorskip("torch", reason="compares with torch")
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler:UserWarning")

Make = Callable[[Any, Any], Any]


def _sequential(s: Any, o: Any) -> Any:
    parts = [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5), s.ExponentialLR(o, 0.5)]
    return s.SequentialLR(o, parts, milestones=[3, 8])


SCHEDULES: dict[str, Make] = {
    "warm-restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "growing-restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.01),
    "one-cycle": lambda s, o: s.OneCycleLR(o, max_lr=1.0, total_steps=14),
    "one-cycle-linear": lambda s, o: s.OneCycleLR(o, [1.0, 2.0], epochs=7, steps_per_epoch=2, anneal_strategy="linear"),
    "one-cycle-three": lambda s, o: s.OneCycleLR(o, 1.0, 20, three_phase=True, pct_start=0.4, div_factor=5.0),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.1, 1.0, step_size_up=3, step_size_down=2),
    "cyclic-halved": lambda s, o: s.CyclicLR(o, [0.1, 0.2], 1.0, step_size_up=3, mode="triangular2"),
    "cyclic-decaying": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 2, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "cyclic-by-hand": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 2, scale_fn=lambda n: 1 / (1 + n), scale_mode="iterations"),
    "sequential": _sequential,
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]),
}
OPTIMIZERS = {"sgd": ("SGD", {"lr": 0.3, "momentum": 0.5}), "adam": ("Adam", {"lr": 0.3})}


def _optimizer(lib: Any, kind: str) -> Any:
    name, options = OPTIMIZERS[kind]
    groups = [{"params": [lib.ones(2, requires_grad=True)]}, {"params": [lib.ones(3, requires_grad=True)], "lr": 0.2}]
    return getattr(lib.optim, name)(groups, **options)


def _seen(optimizer: Any) -> list[float]:
    groups = optimizer.param_groups
    return [x for g in groups for x in (g["lr"], g["momentum"] if "momentum" in g else g["betas"][0])]


def _follow(lib: Any, make: Make, kind: str) -> list[Any]:
    optimizer = _optimizer(lib, kind)
    schedule = make(lib.optim.lr_scheduler, optimizer)
    seen = [_seen(optimizer)]
    for _ in range(12):
        optimizer.step()
        schedule.step()
        seen.append([*_seen(optimizer), *schedule.get_last_lr()])
    return seen


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_rates_and_momenta(make: Make, kind: str) -> None:
    for got, want in zip(_follow(jitgrad, make, kind), _follow(torch, make, kind), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_a_saved_schedule_goes_on(make: Make) -> None:
    optimizer, other = _optimizer(jitgrad, "sgd"), _optimizer(jitgrad, "sgd")
    schedule, resumed = make(jitgrad.optim.lr_scheduler, optimizer), make(jitgrad.optim.lr_scheduler, other)
    for _ in range(5):
        schedule.step()
    resumed.load_state_dict(copy.deepcopy(schedule.state_dict()))
    other.load_state_dict(optimizer.state_dict())
    for _ in range(5):
        schedule.step()
        resumed.step()
        assert _seen(other) == _seen(optimizer)


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"mode": "max", "factor": 0.5, "patience": 0, "cooldown": 2},
        {"patience": 0, "threshold": 0.3, "threshold_mode": "abs", "min_lr": [0.05, 0.1]},
        {"mode": "max", "patience": 0, "threshold": 0.3, "threshold_mode": "abs"},
        {"patience": 0, "eps": 0.25},
    ],
)
def test_plateau(options: dict[str, Any]) -> None:
    metrics = [3.0, 2.5, 2.6, 2.4, 2.4, 2.4, 2.5, 1.0, 1.1, 1.2, 1.3, 1.0, 0.5]

    def follow(lib: Any) -> list[Any]:
        optimizer = _optimizer(lib, "sgd")
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        seen = []
        for value in metrics:
            schedule.step(lib.tensor(value))
            seen.append([*_seen(optimizer), schedule.best, schedule.num_bad_epochs])
        return seen

    np.testing.assert_allclose(follow(jitgrad), follow(torch), rtol=1e-9)


def test_restarts_take_fractions_of_epochs() -> None:
    def follow(lib: Any) -> list[Any]:
        optimizer = _optimizer(lib, "sgd")
        schedule = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, T_mult=3)
        seen = []
        for epoch in (0.25, 0.5, 1.75, 2.0, 5.5, 7.9, 8.5, 30.0, None):
            schedule.step(epoch)
            seen.append([*_seen(optimizer), schedule.last_epoch])
        return seen

    np.testing.assert_allclose(follow(jitgrad), follow(torch), rtol=1e-9, atol=1e-12)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "mode": lambda s, o: s.ReduceLROnPlateau(o, mode="low"),
    "min_lr": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "no steps": lambda s, o: s.OneCycleLR(o, 1.0),
    "strategy": lambda s, o: s.OneCycleLR(o, 1.0, 5, anneal_strategy="sin"),
    "part": lambda s, o: s.OneCycleLR(o, 1.0, 5, pct_start=1.5),
    "cycle mode": lambda s, o: s.CyclicLR(o, 0.1, 1.0, mode="square"),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
    "no parts": lambda s, o: s.ChainedScheduler([]),
    "plateau inside": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "negative epoch": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2).step(-1),
    "past the end": lambda s, o: [schedule.step() for schedule in [s.OneCycleLR(o, 1.0, 2)] for _ in range(9)],
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_refusals(make: Make) -> None:
    def error(lib: Any) -> type[BaseException]:
        with pytest.raises(Exception) as caught:
            make(lib.optim.lr_scheduler, _optimizer(lib, "sgd"))
        return caught.type

    assert error(jitgrad) is error(torch)


CHANGES: dict[str, tuple[str, dict[str, Any], Callable[[dict[str, Any], int], Any]]] = {
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, lambda g, i: g.update(momentum=0.8 + i / 100)),
    "dampening": ("SGD", {"lr": 0.1, "momentum": 0.9}, lambda g, i: g.update(dampening=i / 100)),
    "decay": ("SGD", {"lr": 0.1}, lambda g, i: g.update(weight_decay=i / 100)),
    "adamw": ("AdamW", {"lr": 0.1}, lambda g, i: g.update(weight_decay=i / 100)),
    "betas": ("Adam", {"lr": 0.1}, lambda g, i: g.update(betas=(0.8 + i / 100, 0.99 - i / 100))),
    "amsgrad": ("Adam", {"lr": 0.1, "amsgrad": True}, lambda g, i: g.update(betas=(0.8 + i / 100, 0.99))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_options_on_a_schedule_compile_once(change: Any, mode: Mode) -> None:
    kind, options, vary = change

    def train(lib: Any, wrap: Any) -> Iterator[Any]:
        x = lib.tensor([1.0, -2.0], dtype=lib.float64, requires_grad=True)
        optimizer = getattr(lib.optim, kind)([x], **options)

        @wrap
        def step() -> None:
            optimizer.zero_grad()
            (x**2).sum().backward()
            optimizer.step()

        for i in range(6):
            vary(optimizer.param_groups[0], i)
            yield step() or x.tolist()

    want = list(train(torch, lambda f: f))
    steps = train(jitgrad, mode.wrap)
    np.testing.assert_allclose([next(steps) for _ in range(3)], want[:3], rtol=1e-12)
    with events.count("misses") as misses:
        np.testing.assert_allclose(list(steps), want[3:], rtol=1e-12)
    assert misses() == 0
