"""Networks that solve partial differential equations on the unit square: Poisson's equation, then the heat equation.

The losses hold second derivatives, found by differentiating twice; training differentiates them once more. Both
equations have solutions in sines, which the networks are compared with. Run
``python examples/pinn2d.py [--steps 600] [--plot pinn2d.png] [--json]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from common import Run, run_example

import jitgrad
from jitgrad import nn, optim
from jitgrad.autograd import grad

Tensor = jitgrad.Tensor
DIFFUSION = 0.05


def make_model(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )  # fmt: skip


def bump(p: Tensor) -> Tensor:
    """sin(pi x) sin(pi y): the heat at time 0, and Poisson's solution."""
    return (math.pi * p[:, :1]).sin() * (math.pi * p[:, 1:2]).sin()


def on_square(model: nn.Module, p: Tensor) -> Tensor:
    """The network's value, made zero on the square's border."""
    x, y = p[:, :1], p[:, 1:2]
    return 16 * x * (1 - x) * y * (1 - y) * model(p)


def derivatives(u: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of each value at its point, and the Laplacian in x and y."""
    ones = jitgrad.ones_like(u)
    (first,) = grad(u, p, ones, create_graph=True)
    second = [grad(first[:, i : i + 1], p, ones, create_graph=True)[0][:, i : i + 1] for i in range(2)]
    return first, second[0] + second[1]


def poisson_loss(model: nn.Module, p: Tensor) -> Tensor:
    """Of -(u_xx + u_yy) = 2 pi^2 sin(pi x) sin(pi y), with u = 0 on the border."""
    _, laplacian = derivatives(on_square(model, p), p)
    return ((laplacian + 2 * math.pi**2 * bump(p)) / (2 * math.pi**2)).square().mean()


def heat_loss(model: nn.Module, p: Tensor) -> Tensor:
    """Of u_t = D (u_xx + u_yy), from a bump at time 0; the third coordinate is time."""
    u = bump(p) + p[:, 2:] * on_square(model, p)
    first, laplacian = derivatives(u, p)
    return (first[:, 2:] - DIFFUSION * laplacian).square().mean()


def solve(run: Run, loss_of: Any, inputs: int, options: Any) -> tuple[nn.Module, Any]:
    """A network, and a function of nothing that makes one step with it."""
    model = make_model(inputs)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.998)
    parameters = list(model.parameters())

    @run.step
    def step(p: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, p)
        loss.backward(inputs=parameters)
        optimizer.step()
        return loss.detach()

    def advance() -> float:
        loss = step(jitgrad.rand(options.points, inputs).requires_grad_())
        schedule.step()
        return loss.item()

    return model, advance


def train(run: Run, options: Any) -> None:
    """Train both networks in turn; the largest errors are figures."""
    poisson, advance_poisson = solve(run, poisson_loss, 2, options)
    heat, advance_heat = solve(run, heat_loss, 3, options)
    for _ in run.rounds(options.count):
        run.losses.append(advance_poisson() + advance_heat())
    side = jitgrad.linspace(0, 1, 41)
    grid = jitgrad.stack(jitgrad.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)
    late = jitgrad.cat([grid, jitgrad.ones(len(grid), 1)], 1)
    with jitgrad.no_grad():
        solutions = {"Poisson": on_square(poisson, grid), "heat, at time 1": bump(late) + on_square(heat, late)}
        truth = {"Poisson": bump(grid), "heat, at time 1": bump(grid) * math.exp(-2 * math.pi**2 * DIFFUSION)}
    for name, found in solutions.items():
        run.figures[f"error of {name}"] = (found - truth[name]).abs().max().item()
        run.drawn[name] = found.reshape(41, 41).numpy()


def draw(figure: Any, runs: list[Run]) -> None:
    """Both solutions."""
    for axes, (name, values) in zip(figure.subplots(1, 2), runs[1].drawn.items(), strict=True):
        image = axes.imshow(values, origin="lower", extent=(0, 1, 0, 1), vmin=0, vmax=max(1e-3, float(np.max(values))))
        figure.colorbar(image, ax=axes)
        axes.set_title(name)


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="pinn2d", unit="steps", count=600, points=256)
