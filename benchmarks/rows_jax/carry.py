"""What the JAX rows share: the carried state, and Adam (as ``torch.optim.Adam`` computes it).

Source of Adam: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training

__all__ = ["adam", "adam_state", "carried", "sgd"]


def carried(
    update: Callable[..., tuple[Any, Any]],
    state: Any,
    batches: Iterable[tuple[Any, ...]] = ((),),
    parameters: Callable[[Any], Any] = lambda state: state,
) -> Training:
    """A step that calls the jitted ``update(state, *batch) -> (state, loss)`` and keeps the new state."""
    jitted = jax.jit(update, donate_argnums=0)
    source = cycle([tuple(jnp.asarray(part) for part in batch) for batch in batches])

    def step() -> Any:
        nonlocal state
        state, loss = jitted(state, *next(source))
        return loss

    return Training(step, lambda: jax.tree_util.tree_leaves(parameters(state)))


def sgd(loss_fn: Callable[..., Any], lr: float) -> Callable[..., tuple[Any, Any]]:
    """``update(parameters, *batch)`` by plain gradient descent."""

    def update(parameters: Any, *batch: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(loss_fn)(parameters, *batch)
        return jax.tree_util.tree_map(lambda p, g: p - lr * g, parameters, gradients), loss

    return update


def adam_state(parameters: Any) -> Any:
    """(parameters, first moments, second moments, step count)."""
    zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters)
    return parameters, zeros, jax.tree_util.tree_map(jnp.zeros_like, parameters), jnp.zeros((), jnp.int32)


def adam(
    loss_fn: Callable[..., Any], lr: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Callable[..., tuple[Any, Any]]:
    """``update(adam_state, *batch)``."""

    def update(state: Any, *batch: Any) -> tuple[Any, Any]:
        parameters, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_fn)(parameters, *batch)
        count = count + 1
        size = lr / (1 - b1**count)
        root = jnp.sqrt(1 - b2**count)
        tree_map = jax.tree_util.tree_map
        first = tree_map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
        second = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
        parameters = tree_map(
            lambda p, m, v: p - size * m / (jnp.sqrt(v) / root + eps), parameters, first, second
        )
        return (parameters, first, second, count), loss

    return update
