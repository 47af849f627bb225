"""A variational autoencoder of the digits with two latent numbers, and a map of what each point of the plane means.

The images are the 1797 digits (8x8 pixels) that ship with scikit-learn. Run
``python examples/vae.py [--epochs 60] [--plot vae.png] [--json]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Run, run_example
from sklearn.datasets import load_digits

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F


class VAE(nn.Module):
    """64 pixels -> mean and logarithm of the variance of two numbers -> 64 logits."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.mean, self.log_variance = nn.Linear(hidden, 2), nn.Linear(hidden, 2)
        self.decoder = nn.Sequential(
            nn.Linear(2, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 64)
        )

    def forward(self, x: jitgrad.Tensor) -> tuple[jitgrad.Tensor, jitgrad.Tensor, jitgrad.Tensor]:
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + (0.5 * log_variance).exp() * jitgrad.randn_like(mean)
        return self.decoder(z), mean, log_variance


def train(run: Run, options: Any) -> None:
    """Train on the evidence lower bound; the parts of the loss are figures."""
    digits = load_digits()
    images = jitgrad.from_numpy((digits.data / 16.0).astype(np.float32))
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    @run.step
    def step(x: jitgrad.Tensor) -> tuple[jitgrad.Tensor, jitgrad.Tensor]:
        optimizer.zero_grad()
        logits, mean, log_variance = model(x)
        misfit = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum() / len(x)
        (misfit + divergence).backward()
        optimizer.step()
        return misfit.detach(), divergence.detach()

    for _ in run.rounds(options.count):
        parts = [step(images[rows]) for rows in jitgrad.randperm(len(images)).split(options.batch)]
        misfit, divergence = (float(np.mean([part[i].item() for part in parts])) for i in range(2))
        run.losses.append(misfit + divergence)
    run.figures.update(misfit=misfit, divergence=divergence)
    with jitgrad.no_grad():
        side = jitgrad.linspace(-2.5, 2.5, 15)
        grid = jitgrad.stack(jitgrad.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)
        tiles = model.decoder(grid).sigmoid().view(15, 15, 8, 8).flip(0).permute(0, 2, 1, 3).reshape(120, 120)
        run.drawn = {"tiles": tiles.numpy(), "means": model(images)[1].numpy(), "labels": digits.target}


def draw(figure: Any, runs: list[Run]) -> None:
    """Where each digit lies in the plane, and what the decoder makes of its points."""
    drawn = runs[1].drawn
    left, right = figure.subplots(1, 2)
    points = left.scatter(*drawn["means"].T, c=drawn["labels"], cmap="tab10", s=3)
    figure.colorbar(points, ax=left, ticks=range(10))
    left.set_title("digits in the plane")
    right.imshow(drawn["tiles"], cmap="gray_r", extent=(-2.5, 2.5, -2.5, 2.5))
    right.set_title("what the plane decodes to")


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="vae", unit="epochs", count=60, batch=64)
