"""Calibrate a jump-diffusion to a surface of implied volatilities, by Adam, through the root finder itself.

Merton's model gives the prices of calls by their strike and expiry. What the market quotes is another number: the
volatility at which the formula of Black and Scholes gives the price. Nothing solves that formula for it, so each option
is bracketed by bisection, then finished by Newton's method: a loop per option, written in Python, which
``jitgrad.vectorize`` compiles and differentiates. The quotes are simulated, with an error of 0.1 percentage points.

Sources: Black and Scholes 1973; Merton, "Option pricing when underlying stock returns are discontinuous", 1976. Run
``python examples/implied_volatility.py [--steps 400] [--plot implied_volatility.png] [--json]``; needs Numba
(``pip install 'jitgrad[numba]'``).
"""

from __future__ import annotations

import math
from typing import Any

from common import Run, run_example

import jitgrad
from jitgrad import optim

Tensor = jitgrad.Tensor
NOISE, TERMS = 1e-3, 12
TRUTH = {"volatility": 0.15, "jumps per year": 0.8, "mean jump": -0.12, "width of jumps": 0.10}


@jitgrad.vectorize
def implied_volatility(price: float, strike: float, expiry: float) -> float:
    """The volatility of a call on an asset that costs 1, without interest."""
    low = 0.01
    high = 3.0
    root = math.sqrt(expiry)
    for _ in range(8):
        middle = 0.5 * (low + high)
        d = 0.5 * middle * root - math.log(strike) / (middle * root)
        cdf = 0.5 * math.erfc(-d * 0.5**0.5)
        if cdf - 0.5 * strike * math.erfc((middle * root - d) * 0.5**0.5) > price:
            high = middle
        else:
            low = middle
    found = 0.5 * (low + high)
    for _ in range(30):
        d = 0.5 * found * root - math.log(strike) / (found * root)
        cdf = 0.5 * math.erfc(-d * 0.5**0.5)
        value = cdf - 0.5 * strike * math.erfc((found * root - d) * 0.5**0.5)
        step = (value - price) / (math.exp(-0.5 * d * d) * root / math.sqrt(2 * math.pi))
        found -= step
        if abs(step) < 1e-13:
            break
    return found


def merton(volatility: Tensor, rate: Tensor, mean: Tensor, width: Tensor, strike: Tensor, expiry: Tensor) -> Tensor:
    """Prices of calls: Black and Scholes, averaged over how many jumps there were."""
    growth = (mean + 0.5 * width.square()).exp()
    expected = rate * growth * expiry
    weight, total = (-expected).exp(), 0.0
    for n in range(TERMS):
        drift = rate * (1 - growth) * expiry + n * (mean + 0.5 * width.square())
        spread = (volatility.square() * expiry + n * width.square()).sqrt()
        d = (drift - strike.log()) / spread + 0.5 * spread
        total = total + weight * (normal_cdf(d) - strike * (-drift).exp() * normal_cdf(d - spread))
        weight = weight * expected / (n + 1)
    return total


def normal_cdf(z: Tensor) -> Tensor:
    return 0.5 + 0.5 * (z * 0.5**0.5).erf()


def parameters(free: Tensor) -> tuple[Tensor, ...]:
    """The model's four numbers: all but the mean jump are positive."""
    return free[0].exp(), free[1].exp(), free[2], free[3].exp()


def train(run: Run, options: Any) -> None:
    """Calibrate; the figures are what was found, and the mean error in percentage points."""
    double = jitgrad.float64
    strike = jitgrad.linspace(0.75, 1.3, 23, dtype=double)
    expiry = jitgrad.tensor([0.1, 0.25, 0.5, 1.0, 2.0], dtype=double)[:, None]
    with jitgrad.no_grad():
        truth = [jitgrad.tensor(v, dtype=double) for v in TRUTH.values()]
        exact = implied_volatility(merton(*truth, strike, expiry), strike, expiry)
        market = exact + NOISE * jitgrad.randn(*exact.shape, dtype=double)
    start = [math.log(0.25), 0.0, -0.05, math.log(0.15)]
    free = jitgrad.tensor(start, dtype=double, requires_grad=True)
    optimizer = optim.Adam([free], lr=0.05)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.count)

    @run.step
    def step() -> Tensor:
        optimizer.zero_grad()
        found = implied_volatility(merton(*parameters(free), strike, expiry), strike, expiry)
        loss = (found - market).square().mean() * 1e4
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        run.losses.append(step().item())
        schedule.step()
    with jitgrad.no_grad():
        found = implied_volatility(merton(*parameters(free), strike, expiry), strike, expiry)
    run.figures.update(zip(TRUTH, (p.item() for p in parameters(free)), strict=True))
    run.figures["mean error"] = 100 * (found - exact).abs().mean().item()
    run.drawn = {
        "strike": strike.numpy(),
        "expiry": expiry[:, 0].tolist(),
        "market": market.numpy(),
        "found": found.numpy(),
    }


def draw(figure: Any, runs: list[Run]) -> None:
    """The smile of each expiry, quoted and fitted; the loss."""
    smiles, losses = figure.subplots(1, 2, width_ratios=(3, 2))
    drawn = runs[1].drawn
    for expiry, market, found in zip(drawn["expiry"], drawn["market"], drawn["found"], strict=True):
        (line,) = smiles.plot(drawn["strike"], 100 * found, label=f"{expiry:g} years")
        smiles.plot(drawn["strike"], 100 * market, ".", color=line.get_color())
    smiles.set_xlabel("strike")
    smiles.set_ylabel("implied volatility, %")
    smiles.legend()
    losses.semilogy(runs[1].losses)
    losses.set_xlabel("step")
    losses.set_ylabel("mean squared error, square percentage points")


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="implied_volatility", unit="steps", count=400)
