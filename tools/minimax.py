"""Minimax polynomials for ``jitgrad/codegen/vmath_*.py``: where every coefficient of the vector math comes from.

Owns: a minimax fit by Lawson's iteratively reweighted least squares (C. L. Lawson, 1961; unlike Remez exchange it does
not mind a weight that vanishes inside the interval) and the list of targets: interval, degree, weight.
Out: ``vmath_coefs.py`` on standard output, with the error reached in bits.

Coefficients are rounded to the working precision one at a time, lowest power first, and the others refitted each time,
so that the printed polynomial, not its unrounded ideal, is the good one. Note [Functions by pieces] says what the
pieces are.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.prec = 300
Fn = Callable[[mp.mpf], mp.mpf]
Grid = Any  # a NumPy array of mpf


@dataclass
class Target:
    """Fit ``f(t) ~ sum c_i t^i`` on [lo, hi], minimising ``max |weight (f - p)|``; ``fixed``: first coefficients."""

    f: Fn
    weight: Fn
    lo: float | mp.mpf
    hi: float | mp.mpf
    degree: dict[str, int]
    fixed: tuple[float, ...] = ()


def _solve(powers: Sequence[int], xs: Grid, fs: Grid, ws: Grid) -> Grid:
    """Coefficients of the least-squares fit with weights ``ws`` (normal equations; the precision forgives them)."""
    basis = np.array([xs**p for p in powers])
    weighted = basis * ws**2
    normal = mp.matrix((weighted @ basis.T).tolist())
    return np.array(list(mp.lu_solve(normal, mp.matrix((weighted @ fs).tolist()))))


def lawson(powers: Sequence[int], xs: Grid, fs: Grid, ws: Grid) -> Grid:
    """The least-squares weights under which the fit comes close to minimax in the weight ``ws``."""
    boost = np.array([mp.mpf(1)] * len(xs))
    best = (mp.inf, boost)
    for _ in range(40):
        coefs = _solve(powers, xs, fs, ws * np.sqrt(boost))
        err = np.abs(ws * (fs - sum(c * xs**p for c, p in zip(coefs, powers, strict=True))))
        best = min(best, (max(err), boost), key=lambda pair: pair[0])
        boost = boost * err
        boost = boost / max(boost)
    return ws * np.sqrt(best[1])


def _round(value: mp.mpf, dtype: str) -> float:
    return float(np.float32(float(value))) if dtype == "float32" else float(value)


def fit(target: Target, dtype: str) -> tuple[list[float], float]:
    """Rounded coefficients, and log2 of the largest weighted error of the rounded polynomial."""
    degree = target.degree[dtype]
    mid, half = (mp.mpf(target.lo) + target.hi) / 2, (mp.mpf(target.hi) - target.lo) / 2
    count = 16 * (degree + 2)
    xs = np.array([mid - half * mp.cos(mp.pi * (i + mp.mpf("0.5")) / count) for i in range(count)])
    fs, ws = np.array([target.f(x) for x in xs]), np.array([target.weight(x) for x in xs])
    done = list(target.fixed)
    rest = fs - sum(c * xs**power for power, c in enumerate(done))
    weights = lawson(range(len(done), degree + 1), xs, rest, ws)
    while len(done) <= degree:
        power = len(done)
        done.append(_round(_solve(range(power, degree + 1), xs, rest, weights)[0], dtype))
        rest = rest - done[-1] * xs**power
    return done, float(mp.log(max(np.abs(ws * rest)), 2))


def _even(g: Fn) -> Fn:
    """A function of t = x^2 (t = 0 nudged, as the targets have removable singularities there)."""
    return lambda t: g(mp.sqrt(t if t > mp.mpf(2) ** -60 else mp.mpf(2) ** -60))


def _odd_tail(g: Fn, hi: float | mp.mpf, **degree: int) -> Target:
    """``g(x) = x + x^3 p(x^2)`` for x in [0, sqrt(hi)], in relative error of g."""
    return Target(_even(lambda x: (g(x) - x) / x**3), _even(lambda x: x**3 / g(x)), 0, hi, degree)


def _log_tail(s: mp.mpf) -> mp.mpf:
    return (2 * mp.atanh(s) - 2 * s) / s**3


LN2_HALF = mp.log(2) / 2
PIO4_SQ, PIO2_SQ = (mp.pi / 4) ** 2, (mp.pi / 2) ** 2
LOG_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
TARGETS = {
    "EXP": Target(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r),
                  -LN2_HALF, LN2_HALF, {"float32": 4, "float64": 9}),
    "EXP_STEP": Target(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2, -LN2_HALF / 16, LN2_HALF / 16,
                       {"float64": 4}),
    "EXP2": Target(lambda r: (mp.power(2, r) - 1) / r, lambda r: r, -0.5, 0.5, {"float32": 5, "float64": 10}),
    "LOG": Target(lambda f: (mp.log1p(f) - f) / f**2, lambda f: f**2 / mp.log1p(f),
                  -mp.mpf(1) / 3, mp.mpf(1) / 3, {"float32": 8}, (-0.5,)),
    "ATANH": Target(_even(_log_tail), _even(lambda s: s**2 / 2), 0, LOG_Z, {"float32": 2, "float64": 6}),
    "POW_LOG": Target(_even(lambda s: (_log_tail(s) - mp.mpf(2) / 3) / s**2), _even(lambda s: s**4 / 2), 0, LOG_Z,
                      {"float64": 8}),
    "POW_LOG2": Target(_even(lambda s: _log_tail(s) / mp.log(2)), _even(lambda s: s**2 / 2), 0, LOG_Z, {"float64": 3}),
    "POW_EXP2": Target(lambda r: (mp.power(2, r) - 1) / r, lambda r: r, -0.5, 0.5, {"float64": 6}),
    "ERF_SMALL": Target(_even(lambda x: mp.erf(x) / x - 1), _even(lambda x: x / mp.erf(x)), 0, 1,
                        {"float32": 6, "float64": 12}),
    "ERF_LARGE32": Target(lambda t: -mp.log(mp.erfc(t)), mp.erfc, 1, 4, {"float32": 7}),
    "ERF_LARGE64": Target(lambda t: -mp.log(mp.erfc(t)), mp.erfc, 1, 6, {"float64": 18}),
    "SIN_TURN": _odd_tail(mp.sin, PIO2_SQ, float32=3, float64=7),
    "TAN": _odd_tail(mp.tan, PIO4_SQ, float32=6, float64=13),
    "ASIN": _odd_tail(mp.asin, 0.5625**2, float32=5, float64=12),
    "ATAN": _odd_tail(mp.atan, 1, float32=8, float64=20),
    "SINH": _odd_tail(mp.sinh, 1, float32=3, float64=7),
}  # fmt: skip


@dataclass
class Pieces:
    """An odd function of float32 that is constant from ``last`` on; of x, ``slope`` x is the first term there is."""

    f: Fn
    last: float
    slope: float


PIECES = {"TANH": Pieces(mp.tanh, 9.9, 1.0), "ERF": Pieces(mp.erf, 4.5, 2 / math.sqrt(math.pi))}
_PIECE_DEGREE, _FIRST_EXPONENT = 5, -4


def _center(f: Fn, lo: float, hi: float) -> float:
    """A float32 near the middle of [lo, hi] whose function is a float32 to 2^-32 of itself, or the best there is."""
    middle, best = np.float32((lo + hi) / 2), (mp.inf, 0.0)
    for step in range(20_000):
        for sign in (1, -1):
            x = float(np.float32(middle + sign * step * np.spacing(middle)))
            value = f(mp.mpf(x))
            best = min(best, (abs(value - _round(value, "float32")) / value, x))
        if best[0] < mp.mpf(2) ** -32 or step * np.spacing(middle) > (hi - lo) / 16:
            break
    return best[1]


def fit_pieces(pieces: Pieces) -> tuple[list[list[float]], float]:
    """(center, coefficients) of each piece, and log2 of the largest relative error of all."""
    f, degree = pieces.f, {"float32": _PIECE_DEGREE}
    start = 2.0**_FIRST_EXPONENT
    fixed: tuple[float, ...] = (0.0, _round(mp.mpf(pieces.slope) - 1, "float32"), 0.0)
    coefs, worst = fit(Target(lambda x: f(x) - x, lambda x: 1 / f(x), 0, start, degree, fixed), "float32")
    rows = [[0.0, *coefs]]
    while start < pieces.last:
        end = min(start + 2.0 ** math.floor(math.log2(start)) / 4, pieces.last)
        center = _center(f, start, end)
        fixed = (_round(f(mp.mpf(center)), "float32"),)
        relative = Target(
            lambda d, c=center: f(c + d), lambda d, c=center: 1 / f(c + d), start - center, end - center, degree, fixed
        )
        coefs, bits = fit(relative, "float32")
        rows.append([center, *coefs])
        start, worst = end, max(worst, bits)
    return rows, worst


HEADER = '''"""Polynomial coefficients of the vector math.

Generated: ``python tools/minimax.py > jitgrad/codegen/vmath/coefs.py``.

Each row of ``COEFS`` is (name, LLVM scalar type): coefficients from the lowest power up, with the largest weighted
error. ``PIECES``: from where on the function is constant, and (center, coefficients) of each piece, see Note [Functions
by pieces].
"""

# fmt: off
COEFS: dict[tuple[str, str], tuple[float, ...]] = {'''


def main() -> None:
    print(HEADER)
    for name, target in TARGETS.items():
        for dtype, scalar in ("float32", "float"), ("float64", "double"):
            if dtype in target.degree:
                coefs, bits = fit(target, dtype)
                print(f'    ("{name}", "{scalar}"): (  # 2^{bits:.1f}')
                lines = textwrap.wrap(", ".join(map(repr, coefs)) + ",", 108)
                print(textwrap.indent("\n".join(lines), " " * 8))
                print("    ),", flush=True)
    print("}")
    print("\nPIECES: dict[str, tuple[float, tuple[tuple[float, ...], ...]]] = {")
    for name, pieces in PIECES.items():
        rows, bits = fit_pieces(pieces)
        print(f'    "{name}": ({pieces.last}, (  # 2^{bits:.1f}')
        for row in rows:
            print(f"        ({', '.join(str(np.float32(x)) for x in row)}),", flush=True)
        print("    )),")
    print("}")


if __name__ == "__main__":
    main()
