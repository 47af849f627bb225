"""Functions per element against Numba by hand: ``jitgrad.vectorize`` and loops with derivatives that somebody derived.

``python -m benchmarks.by_hand [--seconds 1] [--json]``. Both compute a sum and all partial derivatives, in float64, on
the same number of threads, in turn; the figures are lower quartiles. Before each turn comes a pause: OpenMP's threads,
which run Numba's loops, look for more work for some milliseconds after each, and would keep a core from the other side.
The functions and their sources are those of ``rows/scalars.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import jitgrad
from benchmarks.row import Wrap
from benchmarks.rows import ROWS, scalars

__all__ = ["BY_HAND", "main"]

_PAUSE = 0.01  # seconds

_scalar = numba.njit(error_model="numpy")
_loop = numba.njit(parallel=True, error_model="numpy")


@_scalar
def _kepler(e, m):
    angle = m
    for _ in range(50):
        step = (angle - e * math.sin(angle) - m) / (1 - e * math.cos(angle))
        angle -= step
        if abs(step) < 1e-13:
            break
    slope = 1 / (1 - e * math.cos(angle))
    return angle, math.sin(angle) * slope, slope


@_scalar
def _digamma(x):
    total = 0.0
    while x < 10.0:
        total -= 1 / x
        x += 1
    z = 1 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return total + math.log(x) - 0.5 / x - series


@_scalar
def _gamma(a, x):
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    term = total = 1.0 / a
    sums = 1.0 / a  # minus the logarithmic derivative of the term
    slope = -term * sums
    for n in range(1, 400):
        term *= x / (a + n)
        sums += 1 / (a + n)
        total += term
        slope -= term * sums
        if term < 1e-17 * total:
            break
    value = scale * total
    return value, value * (math.log(x) - _digamma(a)) + scale * slope, scale / x


@_scalar
def _mandelbrot(cx, cy):
    c, z, first, second = complex(cx, cy), complex(0.0, 0.0), complex(0.0, 0.0), complex(0.0, 0.0)
    n = 0
    while z.real * z.real + z.imag * z.imag < 1e10 and n < 100:
        second = 2 * (first * first + z * second)
        first = 2 * z * first + 1
        z = z * z + c
        n += 1
    size = math.sqrt(z.real * z.real + z.imag * z.imag)
    if size <= 1e5:
        return 0.0, 0.0, 0.0
    value = size * math.log(size) / math.sqrt(first.real * first.real + first.imag * first.imag)
    slope = value * (first / z * (1 + 1 / math.log(size)) - second / first)
    return value, slope.real, -slope.imag


@_scalar
def _volatility(price, strike, expiry):
    low, high, root = 0.01, 3.0, math.sqrt(expiry)
    for _ in range(10):
        middle = 0.5 * (low + high)
        d = -math.log(strike) / (middle * root) + 0.5 * middle * root
        value = 0.5 * (1 + math.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + math.erf((d - middle * root) * 0.5**0.5))
        if value > price:
            high = middle
        else:
            low = middle
    found = 0.5 * (low + high)
    for _ in range(20):
        d = -math.log(strike) / (found * root) + 0.5 * found * root
        value = 0.5 * (1 + math.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + math.erf((d - found * root) * 0.5**0.5))
        density = math.exp(-0.5 * d * d) / math.sqrt(2 * math.pi)
        step = (value - price) / (density * root)
        found -= step
        if abs(step) < 1e-12:
            break
    by_strike = -0.5 * (1 + math.erf((d - found * root) * 0.5**0.5))
    slope = 1 / (density * root)
    return found, slope, -by_strike * slope, -0.5 * found / expiry


@_scalar
def _drag(r):
    w, dw = math.log10(r), 1 / (r * math.log(10.0))
    if r < 0.01:
        return 3 / 16 + 24 / r, -24 / (r * r)
    if r < 20:
        power = r ** (0.82 - 0.05 * w)
        by_r = power * ((0.82 - 0.05 * w) / r - 0.05 * dw * math.log(r))
        return 24 / r * (1 + 0.1315 * power), -24 / (r * r) * (1 + 0.1315 * power) + 24 / r * 0.1315 * by_r
    if r < 260:
        power = r**0.6305
        return 24 / r * (1 + 0.1935 * power), -24 / (r * r) * (1 + 0.1935 * power * (1 - 0.6305))
    if r < 1500:
        c, by_w = 10 ** (1.6435 - 1.1242 * w + 0.1558 * w * w), -1.1242 + 0.3116 * w
    elif r < 1.2e4:
        c = 10 ** (-2.4571 + 2.5558 * w - 0.9295 * w * w + 0.1049 * w * w * w)
        by_w = 2.5558 - 1.859 * w + 0.3147 * w * w
    elif r < 4.4e4:
        c, by_w = 10 ** (-1.9181 + 0.6370 * w - 0.0636 * w * w), 0.6370 - 0.1272 * w
    elif r < 3.38e5:
        c, by_w = 10 ** (-4.3390 + 1.5809 * w - 0.1546 * w * w), 1.5809 - 0.3092 * w
    elif r < 4e5:
        return 29.78 - 5.3 * w, -5.3 * dw
    elif r < 1e6:
        return 0.1 * w - 0.49, 0.1 * dw
    else:
        return 0.19 - 8e4 / r, 8e4 / (r * r)
    return c, c * by_w / r


@_loop
def _run_kepler(x, y, dx, dy):
    total = 0.0
    for i in numba.prange(x.size):
        value, dx[i], dy[i] = _kepler(x[i], y[i])
        total += value
    return total


@_loop
def _run_gamma(x, y, dx, dy):
    total = 0.0
    for i in numba.prange(x.size):
        value, dx[i], dy[i] = _gamma(x[i], y[i])
        total += value
    return total


@_loop
def _run_mandelbrot(x, y, dx, dy):
    total = 0.0
    for i in numba.prange(x.size):
        value, dx[i], dy[i] = _mandelbrot(x[i], y[i])
        total += value
    return total


@_loop
def _run_volatility(x, y, z, dx, dy, dz):
    total = 0.0
    for i in numba.prange(x.size):
        value, dx[i], dy[i], dz[i] = _volatility(x[i], y[i], z[i])
        total += value
    return total


@_loop
def _run_drag(x, dx):
    total = 0.0
    for i in numba.prange(x.size):
        value, dx[i] = _drag(x[i])
        total += value
    return total


BY_HAND: dict[str, Callable[..., float]] = {
    "kepler": _run_kepler,
    "gamma": _run_gamma,
    "mandelbrot": _run_mandelbrot,
    "volatility": _run_volatility,
    "drag": _run_drag,
}


def _compare(name: str, n: int, seconds: float) -> dict[str, Any]:
    ours = scalars.make(jitgrad, 0, Wrap(step=jitgrad.compile), name, n)
    arrays = scalars.inputs(name, 0, n)
    slopes = [np.empty(n) for _ in arrays]

    def by_hand() -> float:
        return BY_HAND[name](*arrays, *slopes)

    for _ in range(3):
        value, other = float(ours.step()), by_hand()
    errors = [float(np.abs(g.numpy() - s).max() / np.abs(s).max()) for g, s in zip(ours.state(), slopes, strict=True)]
    times: dict[str, list[float]] = {"jitgrad": [], "by hand": []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["jitgrad"]) < 5:
        for who, run in (("jitgrad", lambda: float(ours.step())), ("by hand", by_hand)):
            time.sleep(_PAUSE)
            start = time.perf_counter()
            run()
            times[who].append(time.perf_counter() - start)
    quartiles = {who: 1e3 * sorted(found)[len(found) // 4] for who, found in times.items()}
    return {"row": name, "n": n, **quartiles, "loss": abs(value / other - 1), "gradients": max(errors)}


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(min(numba.config.NUMBA_NUM_THREADS, jitgrad.get_num_threads()))
    rows = [_compare(name, ROWS[name].sizes["n"], options.seconds) for name in BY_HAND]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        ratio = row["by hand"] / row["jitgrad"]
        print(
            f"{row['row']:>12} {row['n']:>9,}: jitgrad {row['jitgrad']:8.2f} ms, by hand {row['by hand']:8.2f} ms, "
            f"{ratio:.2f}x; losses differ by {row['loss']:.0e}, gradients by {row['gradients']:.0e}"
        )


if __name__ == "__main__":
    main()
