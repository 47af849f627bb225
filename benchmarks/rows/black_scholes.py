"""European call prices and their five first-order Greeks, by one backward.

Source: Black and Scholes, "The Pricing of Options and Corporate Liabilities", 1973.
"""

from __future__ import annotations

from typing import Any

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["make"]


def make(xp: Any, seed: int, wrap: Wrap, n: int) -> Training:
    """``n`` options; the loss is the sum of their prices, the state is the gradients."""
    inputs = [xp.from_numpy(array).requires_grad_() for array in data.black_scholes(seed, n)]

    def normal_cdf(z: Any) -> Any:
        return 0.5 * (1.0 + xp.erf(z * 0.5**0.5))

    @wrap.loss
    def total_price(spot: Any, strike: Any, expiry: Any, rate: Any, volatility: Any) -> Any:
        spread = volatility * xp.sqrt(expiry)
        d1 = (xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * expiry) / spread
        price = spot * normal_cdf(d1) - strike * xp.exp(-rate * expiry) * normal_cdf(d1 - spread)
        return price.sum()

    @wrap.step
    def step() -> Any:
        for leaf in inputs:
            leaf.grad = None
        loss = total_price(*inputs)
        loss.backward()
        return loss.detach()

    return Training(step, lambda: [leaf.grad for leaf in inputs])
