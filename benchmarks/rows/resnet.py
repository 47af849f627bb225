"""A ResNet for small images (3x3 stem, no pooling before the stages), by gradient descent with momentum.

Source: He et al., "Deep Residual Learning for Image Recognition", 2016; the stem is that of its CIFAR experiments.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["CLASSES", "MOMENTUM", "NUM_BATCHES", "RATE", "SIZE", "blocks", "make", "shapes"]

NUM_BATCHES, CLASSES, SIZE = 4, 10, 32
RATE, MOMENTUM = 1e-3, 0.9
Shapes = dict[str, tuple[int, ...]]


def blocks(widths: tuple[int, ...]) -> list[tuple[str, int, int, int]]:
    """(name, channels in, channels out, stride) of each block: two a stage; later stages halve the image."""
    found, before = [], widths[0]
    for stage, width in enumerate(widths):
        for number in range(2):
            found.append((f"{stage}.{number}", before, width, 2 if stage and not number else 1))
            before = width
    return found


def shapes(widths: tuple[int, ...]) -> Shapes:
    """Each parameter's shape; a convolution ``name`` has a norm ``name.weight``, ``name.bias``."""
    convolutions = {"stem": (widths[0], 3, 3, 3)}
    for name, before, width, _ in blocks(widths):
        convolutions |= {f"{name}.1": (width, before, 3, 3), f"{name}.2": (width, width, 3, 3)}
        if before != width:
            convolutions[f"{name}.skip"] = (width, before, 1, 1)
    found: Shapes = {}
    for name, shape in convolutions.items():
        found |= {name: shape, f"{name}.weight": shape[:1], f"{name}.bias": shape[:1]}
    return found | {"head": (CLASSES, widths[-1]), "head.bias": (CLASSES,)}


def make(xp: Any, seed: int, wrap: Wrap, widths: tuple[int, ...], batch: int) -> Training:
    """``widths``: the channels of each stage."""
    rng = np.random.default_rng(seed)
    w = {name: xp.from_numpy(array).requires_grad_() for name, array in data.filled(rng, shapes(widths)).items()}
    running = {name: (xp.zeros(len(p)), xp.ones(len(p))) for name, p in w.items() if p.dim() == 4}
    arrays = data.classification_batches(rng, NUM_BATCHES, (batch, 3, SIZE, SIZE), CLASSES)
    batches = cycle([(xp.from_numpy(x), xp.from_numpy(y)) for x, y in arrays])
    optimizer = xp.optim.SGD(w.values(), lr=RATE, momentum=MOMENTUM, fused=True)
    functional = xp.nn.functional
    relu = functional.relu

    def convolve(x: Any, name: str, stride: int = 1) -> Any:
        x = functional.conv2d(x, w[name], stride=stride, padding=w[name].shape[-1] // 2)
        return functional.batch_norm(x, *running[name], w[f"{name}.weight"], w[f"{name}.bias"], training=True)

    @wrap.loss
    def loss_fn(x: Any, y: Any) -> Any:
        x = relu(convolve(x, "stem"))
        for name, before, width, stride in blocks(widths):
            inner = convolve(relu(convolve(x, f"{name}.1", stride)), f"{name}.2")
            x = relu(inner + (x if before == width else convolve(x, f"{name}.skip", stride)))
        return functional.cross_entropy(functional.linear(x.mean((2, 3)), w["head"], w["head.bias"]), y)

    @wrap.step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    statistics = [part for pair in running.values() for part in pair]
    return Training(lambda: train(*next(batches)), lambda: [*w.values(), *statistics])
