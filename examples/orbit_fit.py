"""Fit a planet's orbit, and its star's mass, to noisy observations: a gradient through 120 steps of an integrator.

The observations are simulated: positions in astronomical units, with an error of 0.02, over 1.2 years. What is fitted
is where the planet was at the beginning, its velocity, and the mass. Run
``python examples/orbit_fit.py [--steps 400] [--plot orbit_fit.png] [--json]``.
"""

from __future__ import annotations

import math
from typing import Any

from common import Run, run_example

import jitgrad
from jitgrad import optim

Tensor = jitgrad.Tensor
STEPS, YEARS, NOISE = 120, 1.2, 0.02
G = 4 * math.pi**2
"""In astronomical units, years and masses of the sun."""


def track(place: Tensor, velocity: Tensor, mass: Tensor) -> Tensor:
    """Positions (steps, 2) after each step of the leapfrog, which keeps the energy."""
    dt = YEARS / STEPS

    def pull(x: Tensor) -> Tensor:
        return -G * mass * x / x.square().sum().pow(1.5)

    places = []
    force = pull(place)
    for _ in range(STEPS):
        velocity = velocity + 0.5 * dt * force
        place = place + dt * velocity
        force = pull(place)
        velocity = velocity + 0.5 * dt * force
        places.append(place)
    return jitgrad.stack(places)


def train(run: Run, options: Any) -> None:
    """Fit; what was found, and how far it is from the truth, are figures."""
    double = jitgrad.float64
    truth = [jitgrad.tensor(v, dtype=double) for v in ([1.0, 0.1], [-0.8, 5.6], 1.1)]
    with jitgrad.no_grad():
        path = track(*truth)
        seen = path + NOISE * jitgrad.randn(STEPS, 2, dtype=double)
    guess = [jitgrad.tensor(v, dtype=double, requires_grad=True) for v in ([0.95, 0.0], [-0.4, 6.0], 1.0)]
    optimizer = optim.Adam([{"params": guess[:1], "lr": 3e-2}, {"params": guess[1:], "lr": 1e-1}])
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.count)

    @run.step
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (track(*guess) - seen).square().mean() / NOISE**2
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        run.losses.append(step().item())
        schedule.step()
    run.figures["mass"] = guess[2].item()
    run.figures["error of the start"] = (guess[0] - truth[0]).norm().item()
    with jitgrad.no_grad():
        run.drawn = {"seen": seen.numpy(), "path": path.numpy(), "found": track(*guess).numpy()}


def draw(figure: Any, runs: list[Run]) -> None:
    """The observations, the true orbit and the one that was found."""
    axes, drawn = figure.subplots(), runs[1].drawn
    axes.plot(*drawn["seen"].T, ".", color="0.7", label="observed")
    axes.plot(*drawn["path"].T, label="true")
    axes.plot(*drawn["found"].T, "--", label="found")
    axes.plot(0, 0, "y*", markersize=12)
    axes.set_aspect("equal")
    axes.legend()


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="orbit_fit", unit="steps", count=400)
