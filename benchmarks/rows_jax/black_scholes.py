"""``rows/black_scholes.py`` in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Training
from benchmarks.rows import data

__all__ = ["make"]


def _normal_cdf(z: Any) -> Any:
    return 0.5 * (1.0 + jax.lax.erf(z * 0.5**0.5))


def _total_price(spot: Any, strike: Any, expiry: Any, rate: Any, volatility: Any) -> Any:
    spread = volatility * jnp.sqrt(expiry)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * expiry) / spread
    price = spot * _normal_cdf(d1) - strike * jnp.exp(-rate * expiry) * _normal_cdf(d1 - spread)
    return price.sum()


def make(seed: int, n: int) -> Training:
    """``n`` options; the state is the gradients."""
    inputs = [jnp.asarray(array) for array in data.black_scholes(seed, n)]
    jitted = jax.jit(jax.value_and_grad(_total_price, argnums=tuple(range(5))))
    gradients: list[Any] = []

    def step() -> Any:
        loss, gradients[:] = jitted(*inputs)
        return loss

    return Training(step, lambda: gradients)
