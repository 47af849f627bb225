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


def _polynomial(first: Any, following: Any, is_shifted: bool) -> Callable[..., Any]:
    def rule(x: Any, n: Any) -> Any:
        dtype = float_dtype(x, n).np
        with np.errstate(all="ignore"):
            x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(n, np.float64))
            degree = np.trunc(np.where(np.abs(n) < _TOO_HIGH, n, -1))
            z = 2 * x - 1 if is_shifted else np.array(x)
            out = np.where(degree == 0, 1.0, 0.0)
            before, now = np.ones_like(z), first(z)
            for k in range(1, int(degree.max(initial=0)) + 1):
                out = np.where(degree == k, now, out)
                if np.isnan(now).all():
                    out = np.where(degree > k, np.nan, out)
                    break
                before, now = now, following(k, z, now, before)
            return np.asarray(out).astype(dtype)

    return rule


def _polynomial_aval(x: Any, n: Any) -> Aval:
    out: Aval = binary_aval("polynomial", float_dtype)(x, n)
    assert out.dtype.category is FLOATING
    return out


for _name, (_first, _following) in POLYNOMIALS.items():
    for _prefix in ("", "shifted_") if _name.startswith("chebyshev") else ("",):
        define(
            f"special_{_prefix}{_name}",
            aval=_polynomial_aval,
            numpy=_polynomial(_first, _following, bool(_prefix)),
            num_inputs=2,
        )
