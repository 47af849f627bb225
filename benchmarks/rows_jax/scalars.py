"""``rows/scalars.py`` in JAX: a masked ``while_loop``, which only forward mode differentiates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows.scalars import MASKED, Library, inputs

__all__ = ["make"]


def _repeat(step: Any, state: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
    def go_on(carry: Any) -> Any:
        _, active, n = carry
        return (n < limit) & active.any()

    def body(carry: Any) -> Any:
        state, active, n = carry
        new, going = step(*state)
        state = tuple(jnp.where(active, a, b) for a, b in zip(new, state, strict=True))
        return state, active & going, n + 1

    return jax.lax.while_loop(go_on, body, (state, jnp.ones(state[0].shape, bool), 0))[0]


def make(seed: int, problem: str, n: int) -> Training:
    """The state is the gradients."""
    jax.config.update("jax_enable_x64", True)
    leaves = tuple(jnp.asarray(array) for array in inputs(problem, seed, n))
    library = Library(jnp, jax.lax.lgamma, jax.lax.erf, _repeat)

    def function(*args: Any) -> Any:
        return MASKED[problem](library, *args)

    @jax.jit
    def value_and_gradients(*args: Any) -> Any:
        # elementwise: one tangent per input, all in one pass of the loop
        def along(*tangents: Any) -> Any:
            return jax.jvp(function, args, tangents)

        basis = [jnp.stack([jnp.full_like(x, k == i) for k in range(len(args))]) for i, x in enumerate(args)]
        values, gradients = jax.vmap(along, out_axes=(None, 0))(*basis)
        return values.sum(), list(gradients)

    gradients: list[Any] = []

    def step() -> Any:
        loss, gradients[:] = value_and_gradients(*leaves)
        return loss

    return Training(step, lambda: gradients)
