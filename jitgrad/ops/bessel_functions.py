"""Bessel functions, Airy's function and orthogonal polynomials under ``torch.special``'s names.

Owns: their table entries. None has a derivative, as in PyTorch, and none a lowering. Bessel functions are SciPy's,
which is imported when one of them is computed.
Must not know: Tensor, kernels.

Source of the recurrences: Abramowitz and Stegun, "Handbook of Mathematical Functions", table 22.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING
from jitgrad.lazy import LazyModule
from jitgrad.ops.arithmetic import binary_aval
from jitgrad.ops.aval import Aval
from jitgrad.ops.gamma_functions import in_double
from jitgrad.ops.pointwise import float_aval
from jitgrad.ops.shapes import float_dtype
from jitgrad.ops.table import define

__all__ = ["BESSEL", "POLYNOMIALS"]

_SCIPY = LazyModule("scipy.special")

BESSEL = {
    "airy_ai": "airy",
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
    "spherical_bessel_j0": "",
}
"""Name -> SciPy's."""


def _of_scipy(name: str, function: str) -> Callable[[Any], Any]:
    def rule(x: Any) -> Any:
        try:
            compute = getattr(_SCIPY, function)
        except ImportError as error:
            raise ImportError(f"special.{name} needs SciPy: pip install scipy") from error
        found = compute(x)
        return found[0] if function == "airy" else found

    return rule


def _spherical_j0(x: Any) -> Any:
    """sin(x) / x."""
    return np.where(np.isinf(x), 0.0, np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1.0, x)))


for _name, _function in BESSEL.items():
    define(
        f"special_{_name}",
        aval=float_aval,
        numpy=in_double(_of_scipy(_name, _function) if _function else _spherical_j0),
    )

# --- polynomials: p[0] and p[1], then p[k + 1] from p[k] and p[k - 1] ---


def _doubled(k: int, x: Any, p: Any, q: Any) -> Any:
    return 2 * x * p - q


POLYNOMIALS: dict[str, tuple[Callable[[Any], Any], Callable[[int, Any, Any, Any], Any]]] = {
    "chebyshev_polynomial_t": (lambda x: x, _doubled),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _doubled),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _doubled),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _doubled),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * (x * p - k * q)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}
"""Name -> (p[1], the recurrence); p[0] is 1, and 0 for a negative degree."""

_TOO_HIGH = 2.0**63
"""A degree that 64 bits do not hold becomes a negative one, as in PyTorch."""


_MOST_STEPS = 1 << 20
_CHECKED_EVERY = 64
_OVERFLOWS_BEFORE = 1 << 14
"""What has not overflowed after so many steps is taken for bounded."""

_CLOSED: dict[str, Callable[[Any, Any], Any]] = {
    "chebyshev_polynomial_t": lambda n, t: np.cos(n * t),
    "chebyshev_polynomial_u": lambda n, t: np.sin((n + 1) * t) / np.sin(t),
    "chebyshev_polynomial_v": lambda n, t: np.cos((n + 0.5) * t) / np.cos(t / 2),
    "chebyshev_polynomial_w": lambda n, t: np.sin((n + 0.5) * t) / np.sin(t / 2),
}
"""Where a polynomial is a function of t = acos(x), for high degrees inside of [-1, 1]."""
_CLOSED_FROM = 4096


def _polynomial(name: str, first: Any, following: Any, is_shifted: bool) -> Callable[..., Any]:
    closed = _CLOSED.get(name)

    def rule(x: Any, n: Any) -> Any:
        dtype = float_dtype(x, n).np
        with np.errstate(all="ignore"):
            x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(n, np.float64))
            degree = np.trunc(np.where(np.abs(n) < _TOO_HIGH, n, -1))
            z = 2 * x - 1 if is_shifted else np.array(x)
            is_closed = (degree > _CLOSED_FROM) & (np.abs(z) < 1) & (closed is not None)
            out = _by_steps(name, first, following, z, np.where(is_closed, -1, degree))
            if closed is not None and is_closed.any():
                out = np.where(is_closed, closed(degree, np.arccos(z)), out)
            return np.asarray(out).astype(dtype)

    return rule


def _by_steps(name: str, first: Any, following: Any, z: Any, degree: Any) -> Any:
    """The recurrence, up to the highest degree of an element that is still a number.

    Raises:
        RuntimeError: that is more steps than anybody waits for.
    """
    out = np.where(degree == 0, 1.0, 0.0)
    before, now = np.ones_like(z), first(z)
    asked = {int(d) for d in np.unique(degree) if d > 0}
    for k in range(1, max(asked, default=0) + 1):
        if k in asked:
            out = np.where(degree == k, now, out)
        if k % _CHECKED_EVERY == 0:
            left = degree[(degree > k) & ~np.isnan(now)]
            if not left.size:
                return np.where(degree > k, np.nan, out)
            if k >= _OVERFLOWS_BEFORE and left.max() > _MOST_STEPS:
                raise RuntimeError(
                    f"special.{name}: degree {left.max():.0f} takes too long; degrees are computed up to {_MOST_STEPS}"
                )
        before, now = now, following(k, z, now, before)
    return out


def _polynomial_aval(x: Any, n: Any) -> Aval:
    out: Aval = binary_aval("polynomial", float_dtype)(x, n)
    assert out.dtype.category is FLOATING
    return out


for _name, (_first, _following) in POLYNOMIALS.items():
    for _prefix in ("", "shifted_") if _name.startswith("chebyshev") else ("",):
        define(
            f"special_{_prefix}{_name}",
            aval=_polynomial_aval,
            numpy=_polynomial(_name, _first, _following, bool(_prefix)),
            num_inputs=2,
            checks_reals=True,
        )
