"""One image that is changed until a classifier is sure of a class: inference of batch 1 with the input's gradient.

Source: Simonyan et al., "Deep Inside Convolutional Networks", 2014, section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data
from benchmarks.rows.descent import descend
from benchmarks.rows.mlp import model_with

__all__ = ["RATE", "make", "start"]

RATE = 1.0


def start(seed: int, widths: tuple[int, ...]) -> tuple[list[Any], Any, Any]:
    """Weights and biases of the layers, the image (1, inputs), the class (1)."""
    rng = np.random.default_rng(seed)
    ((image, label),) = data.classification_batches(rng, 1, (1, widths[0]), widths[-1])
    return data.layers(rng, widths), image, label


def make(xp: Any, seed: int, wrap: Wrap, widths: tuple[int, ...]) -> Training:
    """``widths``: the layers' sizes, inputs first, classes last; the parameters have no gradient."""
    arrays, image, label = start(seed, widths)
    model = model_with(xp, arrays, xp.nn.ReLU).requires_grad_(False).eval()
    x, y = xp.from_numpy(image).requires_grad_(), xp.from_numpy(label)
    cross_entropy = xp.nn.functional.cross_entropy

    @wrap.loss
    def loss_fn(x: Any) -> Any:
        return cross_entropy(model(x), y)

    @wrap.step
    def step() -> Any:
        loss = loss_fn(x)
        loss.backward()
        descend(xp, [x], RATE)
        return loss.detach()

    return Training(step, lambda: [x])
