"""``rows/saliency.py`` in JAX: the weights are arguments that no derivative is taken of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.saliency import RATE, start
from benchmarks.rows_jax.mlp import loss as mlp_loss

__all__ = ["make"]


def make(seed: int, widths: tuple[int, ...]) -> Training:
    """``widths``: the layers' sizes, inputs first, classes last."""
    arrays, image, label = start(seed, widths)
    weights, y = [jnp.asarray(array) for array in arrays], jnp.asarray(label.astype(np.int32))
    x = jnp.asarray(image)

    @jax.jit
    def update(x: Any, weights: Any, y: Any) -> tuple[Any, Any]:
        found, gradient = jax.value_and_grad(mlp_loss, argnums=1)(weights, x, y)
        return x - RATE * gradient, found

    def step() -> Any:
        nonlocal x
        x, found = update(x, weights, y)
        return found

    return Training(step, lambda: [x])
