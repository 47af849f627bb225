"""Fit an orbit by Newton's method: a custom function, differentiated twice, inside a compiled step.

Kepler's equation, M = E - e sin E, has no closed solution E(M, e). ``Kepler`` solves it by iteration, which no graph
needs to see: its derivatives follow from the equation itself, and are written over the solution, so that they can be
differentiated again. The gradient and the Hessian of the misfit are one compiled step. Run
``python examples/orbit.py``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import jitgrad
from jitgrad.autograd import Function, grad


class Kepler(Function):
    """The eccentric anomaly E of a mean anomaly M at an eccentricity e."""

    @staticmethod
    def forward(mean: jitgrad.Tensor, e: jitgrad.Tensor) -> jitgrad.Tensor:
        """Newton's iteration, from a start that converges for every e < 1."""
        anomaly = mean + e * mean.sin()
        for _ in range(8):
            anomaly = anomaly - (anomaly - e * anomaly.sin() - mean) / (1 - e * anomaly.cos())
        return anomaly

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[jitgrad.Tensor, ...], output: jitgrad.Tensor) -> None:
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx: Any, g: jitgrad.Tensor) -> tuple[jitgrad.Tensor, jitgrad.Tensor]:
        """Differentiating M = E - e sin E: dE = (dM + sin E de) / (1 - e cos E)."""
        e, anomaly = ctx.saved_tensors
        g = g / (1 - e * anomaly.cos())
        return g, g * anomaly.sin()


def positions(orbit: jitgrad.Tensor, times: jitgrad.Tensor) -> jitgrad.Tensor:
    """Where the planet is: orbit = (semi-major axis, eccentricity, mean motion, mean anomaly at time 0)."""
    a, e, n, start = orbit.unbind()
    anomaly = Kepler.apply(n * times + start, e)
    return jitgrad.stack([a * (anomaly.cos() - e), a * (1 - e * e).sqrt() * anomaly.sin()])


def derivatives(
    orbit: jitgrad.Tensor, times: jitgrad.Tensor, seen: jitgrad.Tensor
) -> tuple[jitgrad.Tensor, jitgrad.Tensor, jitgrad.Tensor]:
    """The mean squared misfit, its gradient and its Hessian."""
    loss = ((positions(orbit, times) - seen) ** 2).mean()
    (gradient,) = grad(loss, orbit, create_graph=True)
    rows = [grad(g, orbit, retain_graph=True)[0] for g in gradient.unbind()]
    return loss.detach(), gradient.detach(), jitgrad.stack(rows)


def microseconds(function: Any, *args: Any, calls: int = 50) -> float:
    """Time per call, after one that does not count."""
    function(*args)
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    return 1e6 * (time.perf_counter() - start) / calls


def main() -> None:
    """Print the fit."""
    jitgrad.manual_seed(0)
    truth = jitgrad.tensor([1.0, 0.6, 0.9, 0.3], dtype=jitgrad.float64)
    times = jitgrad.linspace(0, 15, 200, dtype=jitgrad.float64)
    seen = positions(truth, times) + 0.01 * jitgrad.randn(2, 200, dtype=jitgrad.float64)

    orbit = jitgrad.tensor([0.9, 0.5, 0.88, 0.4], dtype=jitgrad.float64, requires_grad=True)
    compiled = jitgrad.compile(derivatives)
    for i in range(12):
        loss, gradient, hessian = (x.numpy() for x in compiled(orbit, times, seen))
        print(f"step {i:2d}  misfit {loss:.3e}  orbit {np.array(orbit.tolist()).round(4)}")
        if np.abs(gradient).max() < 1e-9:
            break
        # far from the minimum the Hessian may point uphill: take its eigenvalues positive
        values, vectors = np.linalg.eigh(hessian)
        change = vectors @ (vectors.T @ gradient / np.abs(values))
        with jitgrad.no_grad():
            orbit -= jitgrad.from_numpy(change)
    error = np.abs(orbit.detach().numpy() - truth.numpy()).max()
    print(f"largest error {error:.1e}, of noise 1e-2 in {seen.numel()} coordinates")
    eager, fast = (microseconds(f, orbit, times, seen) for f in (derivatives, compiled))
    print(f"gradient and Hessian: {eager:.0f} us eagerly, {fast:.0f} us compiled")


if __name__ == "__main__":
    main()
