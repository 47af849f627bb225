"""The likelihood of a mixture of Gaussians with diagonal covariances, raised by Adam.

Source: Bishop, "Pattern Recognition and Machine Learning", 2006, section 9.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap

__all__ = ["RATE", "make", "start"]

RATE = 1e-2


def start(seed: int, points: int, features: int, parts: int) -> tuple[Any, list[Any]]:
    """Points (n, d); means (k, d), logarithms of the deviations (k, d), logits of the weights (k)."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((parts, features))
    values = centres[rng.integers(0, parts, points)] + rng.standard_normal((points, features))
    parameters = [rng.standard_normal((parts, features)), np.zeros((parts, features)), np.zeros(parts)]
    return values.astype(np.float32), [array.astype(np.float32) for array in parameters]


def make(xp: Any, seed: int, wrap: Wrap, points: int, features: int, parts: int) -> Training:
    """The mean negative log-likelihood of ``points`` points."""
    xp.set_flush_denormal(True)  # as JAX always does: densities far from a part fall below 1e-38
    values, arrays = start(seed, points, features, parts)
    x = xp.from_numpy(values).unsqueeze(1)
    parameters = [xp.from_numpy(array).requires_grad_() for array in arrays]
    optimizer = xp.optim.Adam(parameters, lr=RATE, fused=True)

    @wrap.loss
    def loss_fn() -> Any:
        means, log_deviations, logits = parameters
        scaled = (x - means) * xp.exp(-log_deviations)
        densities = -0.5 * (scaled * scaled).sum(-1) - log_deviations.sum(-1) - 0.5 * features * math.log(2 * math.pi)
        return -xp.logsumexp(xp.log_softmax(logits, 0) + densities, 1).mean()

    @wrap.step
    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_fn()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, lambda: parameters)
