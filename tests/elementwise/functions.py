"""Functions of scalars that several tests use, as plain Python: each test compiles what it needs."""

from __future__ import annotations

import math


def kepler(eccentricity, anomaly):
    """The eccentric anomaly E with E - e sin E = M, by Newton until it converges."""
    angle = anomaly
    for _ in range(50):
        step = (angle - eccentricity * math.sin(angle) - anomaly) / (1 - eccentricity * math.cos(angle))
        angle -= step
        if abs(step) < 1e-13:
            break
    return angle


def pieces(x, n: int, is_cut: bool):
    """Branches, both kinds of loops, an int and a bool, two results."""
    total = 0.0
    for i in range(n):
        if i == 4:
            break
        total += x**i / (i + 1)
    y = x
    while abs(y) > 0.5:
        y = 0.5 * y - 0.1
    if is_cut and total > 1.0:
        total = math.sqrt(total)
    return total, y * total


def upper_gamma(a, x):
    """The regularized upper incomplete gamma function, by its series or its continued fraction.

    Numerical Recipes, 6.2: the series below a + 1, Lentz's method above.
    """
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = 1.0 / a
        total = term
        n = 0
        while abs(term) > abs(total) * 1e-17:
            n += 1
            term *= x / (a + n)
            total += term
        return 1.0 - scale * total
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    h = d
    for i in range(1, 1000):
        an = -i * (i - a)
        b += 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        change = d * c
        h *= change
        if abs(change - 1.0) < 1e-16 and i > a + 40.0:  # for whole a the value is exact at i = a, its slope is not
            break
    return scale * h


def escape_distance(cx, cy):
    """The distance of a point to the Mandelbrot set, estimated from the orbit and its derivative; 0 inside.

    Milnor, "Dynamics in One Complex Variable", appendix G: |z| log |z| / |z'| (times 2), once |z| is large.
    """
    zx = zy = 0.0
    dx = dy = 0.0
    n = 0
    while zx * zx + zy * zy < 1e10 and n < 200:
        dx, dy = 2 * (zx * dx - zy * dy) + 1, 2 * (zx * dy + zy * dx)
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        n += 1
    size = math.sqrt(zx * zx + zy * zy)
    if n == 200:
        return 0.0
    return 2 * size * math.log(size) / math.sqrt(dx * dx + dy * dy)
