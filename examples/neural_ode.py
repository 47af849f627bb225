"""A neural ordinary differential equation for hares and lynxes, whose numbers are known from 1900 to 1920.

The data are the Hudson's Bay Company's pelts, in thousands (MacLulich 1937, Elton and Nicholson 1942): numbers of two
animals in 21 years. The network gives the rates at which the logarithms change; Runge-Kutta steps integrate them, and
the gradient goes through all of them. Run
``python examples/neural_ode.py [--steps 600] [--plot neural_ode.png] [--json]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Run, run_example

import jitgrad
from jitgrad import nn, optim

Tensor = jitgrad.Tensor
HARES = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6,
         16.2, 24.7]  # fmt: skip
LYNXES = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]
PER_YEAR, AHEAD = 4, 4


def integrate(field: nn.Module, start: Tensor, years: int) -> Tensor:
    """States (years + 1, n, 2) from states (n, 2): the classical method of fourth order, ``PER_YEAR`` steps a year."""
    dt, state, states = 1 / PER_YEAR, start, [start]
    for _ in range(years):
        for _ in range(PER_YEAR):
            a = field(state)
            b = field(state + 0.5 * dt * a)
            c = field(state + 0.5 * dt * b)
            d = field(state + dt * c)
            state = state + dt / 6 * (a + 2 * b + 2 * c + d)
        states.append(state)
    return jitgrad.stack(states)


def train(run: Run, options: Any) -> None:
    """Train on the ``AHEAD`` years after each year; a figure is the error over all years from the first one."""
    logs = np.log(np.stack([HARES, LYNXES], 1))
    middle, spread = logs.mean(0), logs.std(0)
    seen = jitgrad.tensor((logs - middle) / spread, dtype=jitgrad.float32)
    field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.AdamW(field.parameters(), lr=1e-2, weight_decay=1e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.count)
    starts = seen[: len(seen) - AHEAD]
    wanted = jitgrad.stack([seen[k : k + len(starts)] for k in range(AHEAD + 1)])

    @run.step
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (integrate(field, starts, AHEAD) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        run.losses.append(step().item())
        schedule.step()
    with jitgrad.no_grad():
        path = integrate(field, seen[:1], len(seen) - 1)[:, 0]
    run.figures["error over twenty years"] = (path - seen).square().mean().sqrt().item()
    run.drawn = {"path": np.exp(path.numpy() * spread + middle)}


def draw(figure: Any, runs: list[Run]) -> None:
    """The years, and what the network makes of the first one."""
    axes, years = figure.subplots(), np.arange(1900, 1921)
    for name, values, found in zip(("hares", "lynxes"), (HARES, LYNXES), runs[1].drawn["path"].T, strict=True):
        (line,) = axes.plot(years, found, label=name)
        axes.plot(years, values, "o", color=line.get_color())
    axes.set_ylabel("pelts, thousands")
    axes.legend()


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="neural_ode", unit="steps", count=600)
