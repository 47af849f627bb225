"""``rows/fixed_point.py`` in JAX: a jitted scan of the most turns, since a ``while_loop`` has no backward."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows.fixed_point import RATE, TOLERANCE, TURNS, batches, weights
from benchmarks.rows_jax.carry import sgd

__all__ = ["make"]


def _loss(parameters: Any, x: Any) -> Any:
    inner, outer, bias, out = parameters
    given = x @ outer.T + bias

    def turn(carry: tuple[Any, Any], _: None) -> tuple[Any, None]:
        state, is_still = carry
        new = jax.lax.cond(is_still, lambda: state, lambda: jnp.tanh(state @ inner.T + given))
        return (new, jnp.abs(new - state).max() < TOLERANCE), None

    (state, _), _ = jax.lax.scan(turn, (jnp.tanh(given), jnp.bool_(False)), None, TURNS)
    return ((state @ out.T - 1) ** 2).mean()


def make(seed: int, batch: int, width: int) -> Training:
    """The read-out of the state shall be 1; mean squared error, by gradient descent."""
    parameters = [jnp.asarray(array) for array in weights(seed, width)]
    source = batches(seed, batch, width)
    update = jax.jit(sgd(_loss, RATE), donate_argnums=0)

    def step() -> Any:
        nonlocal parameters
        parameters, loss = update(parameters, next(source))
        return loss

    return Training(step, lambda: parameters)
