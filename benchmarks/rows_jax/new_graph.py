"""``rows/new_graph.py`` in JAX: without ``jit``, which would compile every step anew and take 100 ms over it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows.new_graph import RATE, evaluate, leaves, programs

__all__ = ["make"]


def make(seed: int, depth: int) -> Training:
    """Gradient descent, operation by operation."""
    parameters = [jnp.asarray(array) for array in leaves(seed)]
    source = programs(seed, depth)
    unary = (jnp.tanh, jax.nn.sigmoid, jnp.sin)

    def step() -> Any:
        program = next(source)
        loss, gradients = jax.value_and_grad(lambda values: evaluate(program, values, unary))(parameters)
        parameters[:] = [p - RATE * g for p, g in zip(parameters, gradients, strict=True)]
        return loss

    return Training(step, lambda: parameters)
