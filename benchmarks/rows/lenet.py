"""LeNet-5 on 28x28 images, with ReLU and max pooling, trained by Adam on eight batches in turn.

Source: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["NUM_BATCHES", "make", "weights"]

NUM_BATCHES = 8
_SHAPES = ((6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84))


def weights(rng: np.random.Generator) -> list[Any]:
    """Weight and bias of each layer, uniform in +-1/sqrt(fan in)."""
    arrays = []
    for shape in _SHAPES:
        bound = float(np.prod(shape[1:])) ** -0.5
        arrays += [rng.uniform(-bound, bound, size).astype(np.float32) for size in (shape, shape[:1])]
    return arrays


def make(xp: Any, seed: int, wrap: Wrap, batch: int) -> Training:
    """Padding 2 in the first convolution, as the original's 32x32 input."""
    rng = np.random.default_rng(seed)
    parameters = [xp.from_numpy(array).requires_grad_() for array in weights(rng)]
    arrays = data.classification_batches(rng, NUM_BATCHES, (batch, 1, 28, 28), 10)
    batches = cycle([(xp.from_numpy(x), xp.from_numpy(y)) for x, y in arrays])
    optimizer = xp.optim.Adam(parameters, lr=1e-3, fused=True)
    functional = xp.nn.functional
    conv2d, linear, relu, pool = functional.conv2d, functional.linear, functional.relu, functional.max_pool2d

    @wrap.loss
    def loss_fn(x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = parameters
        x = pool(relu(conv2d(x, w1, b1, padding=2)), 2)
        x = pool(relu(conv2d(x, w2, b2)), 2).flatten(1)
        x = relu(linear(relu(linear(x, w3, b3)), w4, b4))
        return functional.cross_entropy(linear(x, w5, b5), y)

    @wrap.step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(lambda: train(*next(batches)), lambda: parameters)
