"""``rows/resnet.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows import data
from benchmarks.rows.resnet import CLASSES, MOMENTUM, NUM_BATCHES, RATE, SIZE, blocks, shapes
from benchmarks.rows_jax.carry import carried
from benchmarks.rows_jax.mlp import cross_entropy

__all__ = ["convolve", "make"]


def convolve(x: Any, weight: Any, stride: int = 1) -> Any:
    """A convolution that keeps the size, or divides it by ``stride``."""
    pad = weight.shape[-1] // 2
    layout = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=layout)


def _normalised(w: Any, running: Any, seen: Any, x: Any, name: str) -> Any:
    """Batch norm; ``seen`` gets the running mean and variance after this batch."""
    mean, count = x.mean((0, 2, 3)), x.shape[0] * x.shape[2] * x.shape[3]
    centred = x - mean[:, None, None]
    variance = (centred * centred).mean((0, 2, 3))
    old_mean, old_variance = running[name]
    seen[name] = (0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * variance * (count / (count - 1)))
    scale = w[f"{name}.weight"] * jax.lax.rsqrt(variance + 1e-5)
    return centred * scale[:, None, None] + w[f"{name}.bias"][:, None, None]


def _loss(w: Any, running: Any, x: Any, y: Any, widths: tuple[int, ...]) -> tuple[Any, Any]:
    seen: dict[str, Any] = {}

    def layer(x: Any, name: str, stride: int = 1) -> Any:
        return _normalised(w, running, seen, convolve(x, w[name], stride), name)

    x = jax.nn.relu(layer(x, "stem"))
    for name, before, width, stride in blocks(widths):
        inner = layer(jax.nn.relu(layer(x, f"{name}.1", stride)), f"{name}.2")
        x = jax.nn.relu(inner + (x if before == width else layer(x, f"{name}.skip", stride)))
    return cross_entropy(x.mean((2, 3)) @ w["head"].T + w["head.bias"], y), seen


def make(seed: int, widths: tuple[int, ...], batch: int) -> Training:
    """``widths``: the channels of each stage."""
    rng = np.random.default_rng(seed)
    w = {name: jnp.asarray(array) for name, array in data.filled(rng, shapes(widths)).items()}
    running = {name: (jnp.zeros(len(p)), jnp.ones(len(p))) for name, p in w.items() if p.ndim == 4}
    arrays = data.classification_batches(rng, NUM_BATCHES, (batch, 3, SIZE, SIZE), CLASSES)
    # JAX sorts a dict's keys, and the comparison needs every subject's order
    names, places = list(w), list(running)

    def update(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        w, momenta, running = state
        grad = jax.value_and_grad(lambda w: _loss(w, running, x, y, widths), has_aux=True)
        (loss, running), gradients = grad(w)
        momenta = jax.tree_util.tree_map(lambda m, g: MOMENTUM * m + g, momenta, gradients)
        return (jax.tree_util.tree_map(lambda p, m: p - RATE * m, w, momenta), momenta, running), loss

    state = (w, jax.tree_util.tree_map(jnp.zeros_like, w), running)
    batches = [(x, y.astype(np.int32)) for x, y in arrays]

    def results(state: Any) -> list[Any]:
        return [*(state[0][name] for name in names), *(part for name in places for part in state[2][name])]

    return carried(update, state, batches, results)
