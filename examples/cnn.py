"""A convolutional network on the digits: batch norm, dropout, and images that are shifted anew in every epoch.

The images are the 1797 digits (8x8 pixels) that ship with scikit-learn; a fifth is kept for the test. Run
``python examples/cnn.py [--epochs 12] [--plot cnn.png] [--json]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Run, run_example
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from jitgrad.utils.data import DataLoader, TensorDataset


def load() -> list[jitgrad.Tensor]:
    """Images (n, 1, 8, 8) for training and testing, scaled to 0..1, then the labels of both."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    parts = train_test_split(images, digits.target.astype(np.int64), test_size=0.2, random_state=0)
    return [jitgrad.from_numpy(np.ascontiguousarray(part)) for part in parts]


def make_model() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 16, 10),
    )  # fmt: skip


def shifted(images: jitgrad.Tensor) -> jitgrad.Tensor:
    """Each image moved by up to one pixel either way, and a little noise."""
    n = images.shape[0]
    padded = F.pad(images, (1, 1, 1, 1)).squeeze(1)
    rows = jitgrad.arange(8) + jitgrad.randint(0, 3, (n, 1))
    columns = jitgrad.arange(8) + jitgrad.randint(0, 3, (n, 1))
    moved = padded[jitgrad.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved.unsqueeze(1) + 0.05 * jitgrad.randn(n, 1, 8, 8)


def train(run: Run, options: Any) -> None:
    """Train; the accuracy on the test images is a figure."""
    images, test_images, labels, test_labels = load()
    model = make_model()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, epochs=options.count, steps_per_epoch=-(-len(images) // options.batch)
    )
    loader = DataLoader(TensorDataset(images, labels), batch_size=options.batch, shuffle=True)

    @run.step
    def step(x: jitgrad.Tensor, y: jitgrad.Tensor) -> jitgrad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(shifted(x)), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        losses = []
        for x, y in loader:
            losses.append(step(x, y))
            schedule.step()
        run.losses.append(float(np.mean([loss.item() for loss in losses])))
    model.eval()
    with jitgrad.no_grad():
        scores = model(test_images)
    run.figures["accuracy"] = (scores.argmax(1) == test_labels).float().mean().item()
    wrong = (scores.argmax(1) != test_labels).nonzero().flatten()[:10]
    run.drawn = {"images": test_images[wrong].numpy(), "guesses": scores[wrong].argmax(1).tolist()}


def draw(figure: Any, runs: list[Run]) -> None:
    """Test images that were not recognised, and what was seen in them."""
    drawn = runs[1].drawn
    axes = figure.subplots(2, 5).ravel()
    figure.suptitle("mistakes")
    for axis in axes:
        axis.axis("off")
    for axis, image, guess in zip(axes, drawn["images"], drawn["guesses"], strict=False):
        axis.imshow(image[0], cmap="gray_r")
        axis.set_title(str(guess))


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="cnn", unit="epochs", count=12, batch=64)
