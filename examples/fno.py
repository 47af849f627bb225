"""A Fourier neural operator learns what Burgers' equation makes of a wave.

u_t + u u_x = nu u_xx on a ring; the data are solutions by a pseudo-spectral method. The operator maps the wave at
time 0 to the wave at time 1; its layers multiply low frequencies by complex weights (Li et al. 2021, "Fourier neural
operator for parametric partial differential equations"). It is trained on one grid and tried on one twice as fine. Run
``python examples/fno.py [--epochs 30] [--waves 256] [--plot fno.png] [--json]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from common import Run, run_example

import jitgrad
from jitgrad import fft, nn, optim
from jitgrad.nn import functional as F

Tensor = jitgrad.Tensor
POINTS, MODES, WIDTH, BATCH, VISCOSITY, TESTS = 128, 12, 24, 16, 0.01, 32


def waves(count: int) -> Tensor:
    """Random waves [count, 2 POINTS] of few frequencies."""
    place = jitgrad.arange(2 * POINTS) / (2 * POINTS)
    k = jitgrad.arange(1, 5)[:, None]
    size = jitgrad.randn(count, 4) / jitgrad.arange(1, 5)
    shift = jitgrad.rand(count, 4, 1)
    return 0.5 * (size[..., None] * jitgrad.sin(2 * math.pi * (k * place + shift))).sum(1)


def solve(start: Tensor, steps: int = 400) -> Tensor:
    """The waves at time 1: the viscous term exactly, the other by Heun's method, two thirds of the frequencies."""
    n, dt = start.shape[-1], 1 / steps
    k = 2 * math.pi * fft.rfftfreq(n, 1 / n)
    decay, slope = jitgrad.exp(-VISCOSITY * k**2 * dt), -0.5j * k * (jitgrad.arange(len(k)) < n // 3)

    def change(v: Tensor) -> Tensor:
        return slope * fft.rfft(fft.irfft(v, n).square())

    v = fft.rfft(start)
    for _ in range(steps):
        first = change(v)
        v = decay * (v + 0.5 * dt * first) + 0.5 * dt * change(decay * (v + dt * first))
    return fft.irfft(v, n)


class SpectralLayer(nn.Module):
    """Channels [batch, WIDTH, n] mixed at each of the lowest frequencies, and at each place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(jitgrad.view_as_complex(jitgrad.randn(WIDTH, WIDTH, MODES, 2)) / WIDTH)
        self.here = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        low = jitgrad.einsum("bim,iom->bom", fft.rfft(x)[..., :MODES], self.weight)
        return fft.irfft(F.pad(low, (0, x.shape[-1] // 2 + 1 - MODES)), x.shape[-1]) + self.here(x)


class Operator(nn.Module):
    """From waves [batch, n] to waves [batch, n], on any grid."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Conv1d(1, WIDTH, 1)
        self.layers = nn.ModuleList([SpectralLayer() for _ in range(3)])
        self.project = nn.Sequential(nn.Conv1d(WIDTH, 32, 1), nn.GELU(), nn.Conv1d(32, 1, 1))

    def forward(self, start: Tensor) -> Tensor:
        x = self.lift(start[:, None])
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.project(x)[:, 0]


def relative(found: Tensor, wanted: Tensor) -> Tensor:
    """The mean over waves of the error's size, relative to the wave's."""
    norm = jitgrad.linalg.vector_norm
    return (norm(found - wanted, dim=-1) / norm(wanted, dim=-1)).mean()


def train(run: Run, options: Any) -> None:
    """Train on every second point; figures are errors of waves that were not seen, on that grid and on the fine one."""
    with jitgrad.no_grad():
        start = waves(options.waves + TESTS)
        end = solve(start)
    seen = options.waves
    operator = Operator()
    optimizer = optim.AdamW(operator.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.count)

    @run.step
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = relative(operator(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    coarse_start, coarse_end = start[:, ::2].contiguous(), end[:, ::2].contiguous()
    for _ in run.rounds(options.count):
        order = jitgrad.randperm(seen).split(BATCH)
        run.losses.append(sum(step(coarse_start[rows], coarse_end[rows]).item() for rows in order) / len(order))
        schedule.step()
    with jitgrad.no_grad():
        run.figures["error on unseen waves"] = relative(operator(coarse_start[seen:]), coarse_end[seen:]).item()
        fine = operator(start[seen:])
        run.figures["on a finer grid"] = relative(fine, end[seen:]).item()
    run.drawn = {"start": start[seen:].numpy(), "end": end[seen:].numpy(), "found": fine.numpy()}


def draw(figure: Any, runs: list[Run]) -> None:
    """Three unseen waves, on the fine grid."""
    place, drawn = np.arange(2 * POINTS) / (2 * POINTS), runs[1].drawn
    for at, axes in enumerate(figure.subplots(1, 3, sharey=True)):
        axes.plot(place, drawn["start"][at], ":", label="time 0")
        axes.plot(place, drawn["end"][at], label="time 1")
        axes.plot(place, drawn["found"][at], "--", label="operator")
        axes.set_xlabel("x")
    axes.legend()


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="fno", unit="epochs", count=30, waves=256)
