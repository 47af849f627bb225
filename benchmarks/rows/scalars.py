"""Functions that are a loop or ten branches per element: value and all partial derivatives, in float64.

jitgrad compiles them from Python (``SCALARS``); the others run the same arithmetic on whole arrays, with masks
(``MASKED``, over ``Library``).

Sources: Numerical Recipes 6.2 (incomplete gamma function); Milnor, "Dynamics in One Complex Variable", appendix G
(distance to the Mandelbrot set); Black and Scholes 1973; Clift, Grace and Weber, "Bubbles, Drops, and Particles", 1978,
table 5.12 (the drag of a sphere by its Reynolds number).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.row import Training, Wrap

__all__ = ["MASKED", "SCALARS", "Library", "inputs", "make"]


# --- as users of jitgrad write them ---


def kepler(eccentricity, anomaly):
    angle = anomaly
    for _ in range(50):
        step = (angle - eccentricity * math.sin(angle) - anomaly) / (1 - eccentricity * math.cos(angle))
        angle -= step
        if abs(step) < 1e-13:
            break
    return angle


def lower_gamma(a, x):
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    term = 1.0 / a
    total = term
    for n in range(1, 400):
        term *= x / (a + n)
        total += term
        if abs(term) < 1e-17 * total:
            break
    return scale * total


def escape_distance(cx, cy):
    zx = zy = dx = dy = 0.0
    n = 0
    while zx * zx + zy * zy < 1e10 and n < 100:
        dx, dy = 2 * (zx * dx - zy * dy) + 1, 2 * (zx * dy + zy * dx)
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        n += 1
    size = math.sqrt(zx * zx + zy * zy)
    return size * math.log(size) / math.sqrt(dx * dx + dy * dy) if size > 1e5 else 0.0


def call_price(volatility, strike, expiry):
    spread = volatility * math.sqrt(expiry)
    d = -math.log(strike) / spread + 0.5 * spread
    return 0.5 * (1 + math.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + math.erf((d - spread) * 0.5**0.5))


def implied_volatility(price, strike, expiry):
    low = 0.01
    high = 3.0
    for _ in range(10):
        middle = 0.5 * (low + high)
        spread = middle * math.sqrt(expiry)
        d = -math.log(strike) / spread + 0.5 * spread
        value = 0.5 * (1 + math.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + math.erf((d - spread) * 0.5**0.5))
        if value > price:
            high = middle
        else:
            low = middle
    volatility = 0.5 * (low + high)
    for _ in range(20):
        spread = volatility * math.sqrt(expiry)
        d = -math.log(strike) / spread + 0.5 * spread
        value = 0.5 * (1 + math.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + math.erf((d - spread) * 0.5**0.5))
        step = (value - price) / (math.exp(-0.5 * d * d) * math.sqrt(expiry / (2 * math.pi)))
        volatility -= step
        if abs(step) < 1e-12:
            break
    return volatility


def drag(reynolds):
    w = math.log10(reynolds)
    if reynolds < 0.01:
        c = 3 / 16 + 24 / reynolds
    elif reynolds < 20:
        c = 24 / reynolds * (1 + 0.1315 * reynolds ** (0.82 - 0.05 * w))
    elif reynolds < 260:
        c = 24 / reynolds * (1 + 0.1935 * reynolds**0.6305)
    elif reynolds < 1500:
        c = 10 ** (1.6435 - 1.1242 * w + 0.1558 * w * w)
    elif reynolds < 1.2e4:
        c = 10 ** (-2.4571 + 2.5558 * w - 0.9295 * w * w + 0.1049 * w * w * w)
    elif reynolds < 4.4e4:
        c = 10 ** (-1.9181 + 0.6370 * w - 0.0636 * w * w)
    elif reynolds < 3.38e5:
        c = 10 ** (-4.3390 + 1.5809 * w - 0.1546 * w * w)
    elif reynolds < 4e5:
        c = 29.78 - 5.3 * w
    elif reynolds < 1e6:
        c = 0.1 * w - 0.49
    else:
        c = 0.19 - 8e4 / reynolds
    return c


SCALARS: dict[str, Callable[..., Any]] = {
    "kepler": kepler,
    "gamma": lower_gamma,
    "mandelbrot": escape_distance,
    "volatility": implied_volatility,
    "drag": drag,
}


# --- the same on whole arrays ---


class Library(NamedTuple):
    """What the masked forms need of a library.

    Attributes:
        xp: its module of functions of arrays.
        lgamma, erf: which have other names here and there.
        repeat: ``repeat(step, state, limit)``: ``step(*state)`` gives the next state and which elements go on.
    """

    xp: Any
    lgamma: Any
    erf: Any
    repeat: Callable[..., Any]


def _kepler(lib: Library, e: Any, m: Any) -> Any:
    xp = lib.xp

    def step(angle: Any) -> Any:
        change = (angle - e * xp.sin(angle) - m) / (1 - e * xp.cos(angle))
        return (angle - change,), xp.abs(change) >= 1e-13

    return lib.repeat(step, (m,), 50)[0]


def _gamma(lib: Library, a: Any, x: Any) -> Any:
    xp = lib.xp

    def step(term: Any, total: Any, n: Any) -> Any:
        term = term * x / (a + n)
        total = total + term
        return (term, total, n + 1), xp.abs(term) >= 1e-17 * total

    _, total, _ = lib.repeat(step, (1 / a, 1 / a, xp.ones_like(a)), 399)
    return xp.exp(a * xp.log(x) - x - lib.lgamma(a)) * total


def _mandelbrot(lib: Library, cx: Any, cy: Any) -> Any:
    xp = lib.xp

    def step(zx: Any, zy: Any, dx: Any, dy: Any) -> Any:
        dx, dy = 2 * (zx * dx - zy * dy) + 1, 2 * (zx * dy + zy * dx)
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        return (zx, zy, dx, dy), zx * zx + zy * zy < 1e10

    zero = xp.zeros_like(cx)
    zx, zy, dx, dy = lib.repeat(step, (zero, zero, zero, zero), 100)
    square, slope = zx * zx + zy * zy, dx * dx + dy * dy
    outside = square > 1e10
    size = xp.sqrt(xp.where(outside, square, xp.ones_like(cx)))
    return xp.where(outside, size * xp.log(size) / xp.sqrt(xp.where(outside, slope, xp.ones_like(cx))), zero)


def _volatility(lib: Library, price: Any, strike: Any, expiry: Any) -> Any:
    xp = lib.xp

    def value_of(volatility: Any) -> Any:
        spread = volatility * xp.sqrt(expiry)
        d = -xp.log(strike) / spread + 0.5 * spread
        return 0.5 * (1 + lib.erf(d * 0.5**0.5)) - 0.5 * strike * (1 + lib.erf((d - spread) * 0.5**0.5)), d

    low, high = 0.01 * xp.ones_like(price), 3.0 * xp.ones_like(price)
    for _ in range(10):
        middle = 0.5 * (low + high)
        above = value_of(middle)[0] > price
        low, high = xp.where(above, low, middle), xp.where(above, middle, high)

    def step(volatility: Any) -> Any:
        value, d = value_of(volatility)
        change = (value - price) / (xp.exp(-0.5 * d * d) * xp.sqrt(expiry / (2 * math.pi)))
        return (volatility - change,), xp.abs(change) >= 1e-12

    return lib.repeat(step, (0.5 * (low + high),), 20)[0]


def _drag(lib: Library, reynolds: Any) -> Any:
    xp = lib.xp
    w = xp.log10(reynolds)
    found = 0.19 - 8e4 / reynolds
    rows = (
        (1e6, 0.1 * w - 0.49),
        (4e5, 29.78 - 5.3 * w),
        (3.38e5, 10 ** (-4.3390 + 1.5809 * w - 0.1546 * w * w)),
        (4.4e4, 10 ** (-1.9181 + 0.6370 * w - 0.0636 * w * w)),
        (1.2e4, 10 ** (-2.4571 + 2.5558 * w - 0.9295 * w * w + 0.1049 * w * w * w)),
        (1500.0, 10 ** (1.6435 - 1.1242 * w + 0.1558 * w * w)),
        (260.0, 24 / reynolds * (1 + 0.1935 * reynolds**0.6305)),
        (20.0, 24 / reynolds * (1 + 0.1315 * reynolds ** (0.82 - 0.05 * w))),
        (0.01, 3 / 16 + 24 / reynolds),
    )
    for below, law in rows:
        found = xp.where(reynolds < below, law, found)
    return found


MASKED: dict[str, Callable[..., Any]] = {
    "kepler": _kepler,
    "gamma": _gamma,
    "mandelbrot": _mandelbrot,
    "volatility": _volatility,
    "drag": _drag,
}


def inputs(problem: str, seed: int, n: int) -> list[Any]:
    """The operands, float64 arrays of ``n`` elements."""
    rng = np.random.default_rng(seed)
    if problem == "kepler":
        return [rng.uniform(0.0, 0.9, n), rng.uniform(0.0, 2 * math.pi, n)]
    if problem == "gamma":
        a = rng.uniform(0.5, 20.0, n)
        return [a, a * rng.uniform(0.2, 1.0, n)]
    if problem == "mandelbrot":
        return [rng.uniform(-2.0, 0.6, n), rng.uniform(-1.2, 1.2, n)]
    if problem == "drag":
        return [10 ** rng.uniform(-2.5, 6.5, n)]
    volatility, strike, expiry = rng.uniform(0.1, 0.6, n), rng.uniform(0.8, 1.25, n), rng.uniform(0.3, 2.0, n)
    return [np.vectorize(call_price)(volatility, strike, expiry), strike, expiry]


def _repeat_in_python(xp: Any) -> Callable[..., Any]:
    def repeat(step: Any, state: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
        active = None
        for _ in range(limit):
            new, going = step(*state)
            state = new if active is None else tuple(xp.where(active, n, s) for n, s in zip(new, state, strict=True))
            active = going if active is None else active & going
            if not active.any():
                break
        return state

    return repeat


def make(xp: Any, seed: int, wrap: Wrap, problem: str, n: int) -> Training:
    """The loss is the sum of the function over ``n`` elements, the state is the gradients."""
    leaves = [xp.from_numpy(array).requires_grad_() for array in inputs(problem, seed, n)]
    if hasattr(xp, "vectorize"):
        function = xp.vectorize(SCALARS[problem])
    else:
        library = Library(xp, xp.lgamma, xp.erf, _repeat_in_python(xp))
        function = lambda *args: MASKED[problem](library, *args)  # noqa: E731

    @wrap.loss
    def total(*args: Any) -> Any:
        return function(*args).sum()

    @wrap.step
    def step() -> Any:
        for leaf in leaves:
            leaf.grad = None
        loss = total(*leaves)
        loss.backward()
        return loss.detach()

    return Training(step, lambda: [leaf.grad for leaf in leaves])
