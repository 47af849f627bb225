"""Train a small network on real images of handwritten digits, eagerly and compiled, from the same start.

The training step is ordinary Python: loss, backward, Adam. ``jitgrad.compile`` is one decorator around it. The learning
rate changes every epoch, and the last batch is shorter than the others: neither costs a compile. Run::

    python examples/digits.py [--epochs 30] [--plot digits.png] [--json]

The images are the 1797 digits (8x8 pixels) that ship with scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Run:
    """What one training run did.

    Attributes:
        losses: mean training loss per epoch.
        seconds: per epoch; the first of a compiled run holds the compiling.
        accuracy: on the test images, at the end.
    """

    mode: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accuracy: float = 0.0

    @property
    def seconds_per_epoch(self) -> float:
        """The median."""
        return float(np.median(self.seconds))


def load() -> tuple[Array, Array, Array, Array]:
    """Training images (n, 64) and labels (n,), then the same for testing; pixels are scaled to 0..1."""
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return train_x, train_y, test_x, test_y


def make_model(seed: int) -> nn.Sequential:
    """64 pixels -> 128 -> 64 -> 10 digits."""
    jitgrad.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(),
        nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def train(mode: str, epochs: int, batch: int, seed: int, report: Callable[[str], None]) -> Run:
    """Train from ``seed``; ``mode`` is "eager" or "compiled" and changes nothing but the speed."""
    train_x, train_y, test_x, test_y = load()
    model = make_model(seed)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    def step(x: jitgrad.Tensor, y: jitgrad.Tensor) -> jitgrad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if mode == "compiled":
        step = jitgrad.compile(step)

    order = np.random.default_rng(seed)
    run = Run(mode)
    for epoch in range(epochs):
        shuffled = order.permutation(len(train_x))
        batches = [shuffled[i : i + batch] for i in range(0, len(shuffled), batch)]
        start = time.perf_counter()
        losses = [step(jitgrad.from_numpy(train_x[b]), jitgrad.from_numpy(train_y[b])) for b in batches]
        sizes = [len(b) for b in batches]
        run.losses.append(float(np.average([loss.item() for loss in losses], weights=sizes)))
        run.seconds.append(time.perf_counter() - start)
        schedule.step()
        report(f"{mode:>8}  epoch {epoch + 1:3d}  loss {run.losses[-1]:.6f}  {1e3 * run.seconds[-1]:8.2f} ms")

    with jitgrad.no_grad():
        predicted = model(jitgrad.from_numpy(test_x)).argmax(1).numpy()
    run.accuracy = float((predicted == test_y).mean())
    return run


def save_plot(runs: list[Run], path: Path) -> None:
    """Both loss curves, one over the other, and the time of an epoch."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), width_ratios=(3, 1), layout="constrained")
    for run, style in zip(runs, ("-", "--"), strict=True):
        left.semilogy(range(1, len(run.losses) + 1), run.losses, style, label=run.mode)
    left.set_xlabel("epoch")
    left.set_ylabel("training loss")
    left.legend()
    right.bar([run.mode for run in runs], [1e3 * run.seconds_per_epoch for run in runs])
    right.set_ylabel("ms per epoch")
    figure.savefig(path, dpi=150)


def summarise(eager: Run, compiled: Run) -> dict[str, Any]:
    """The figures that matter, for people and machines."""
    pairs = zip(eager.losses, compiled.losses, strict=True)
    return {
        "eager": {**asdict(eager), "seconds_per_epoch": eager.seconds_per_epoch},
        "compiled": {**asdict(compiled), "seconds_per_epoch": compiled.seconds_per_epoch},
        "max_relative_loss_difference": max(abs(a - b) / abs(a) for a, b in pairs),
        "speed_up": eager.seconds_per_epoch / compiled.seconds_per_epoch,
        "stats": jitgrad.stats(),
    }


def main() -> None:
    """Train twice, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=None, help="where the loss curves go (default: digits.png)")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    arguments = parser.parse_args()

    def report(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    eager, compiled = (
        train(mode, arguments.epochs, arguments.batch, arguments.seed, report) for mode in ("eager", "compiled")
    )
    summary = summarise(eager, compiled)
    if arguments.plot is not None or not arguments.json:
        path = arguments.plot or Path("digits.png")
        save_plot([eager, compiled], path)
        report(f"\nloss curves: {path}")
    for run in (eager, compiled):
        report(f"{run.mode:>8}: test accuracy {run.accuracy:.4f}, {1e3 * run.seconds_per_epoch:.2f} ms per epoch")
    difference, speed_up = summary["max_relative_loss_difference"], summary["speed_up"]
    report(f"losses agree within {difference:.1e} relative; a compiled epoch is {speed_up:.1f}x faster")
    if arguments.json:
        print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
