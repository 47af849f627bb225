"""Bessel functions, Airy's function and orthogonal polynomials under ``torch.special``'s names.

Owns: their table entries. None has a derivative, as in PyTorch. Kernels and NumPy rules are formulas of
``bessel_formulas``, ``airy_formulas`` and ``polynomial_formulas``, which are imported when one is used.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import FLOATING
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval
from jitgrad.ops.pointwise.arithmetic import binary_aval
from jitgrad.ops.pointwise.gamma_functions import late_rules
from jitgrad.ops.pointwise.pointwise import float_aval
from jitgrad.ops.shapes import float_dtype
from jitgrad.ops.table import define

__all__ = ["BESSEL", "POLYNOMIALS"]

_BESSEL = LazyModule("jitgrad.ops.formulas.bessel_formulas")
_AIRY = LazyModule("jitgrad.ops.formulas.airy_formulas")
_POLYNOMIALS = LazyModule("jitgrad.ops.formulas.polynomial_formulas")

BESSEL = tuple(
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0".split()
)
"""Functions of one argument."""
POLYNOMIALS = tuple(
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w".split()
)
"""Functions of an argument and a degree."""

for _name in BESSEL:
    _numpy, _lower = late_rules(_AIRY if _name == "airy_ai" else _BESSEL, _name)
    define(f"special_{_name}", aval=float_aval, numpy=_numpy, lower=_lower)


def _polynomial_aval(x: Any, n: Any) -> Aval:
    out: Aval = binary_aval("polynomial", float_dtype)(x, n)
    assert out.dtype.category is FLOATING
    return out


for _name in POLYNOMIALS:
    _numpy, _lower = late_rules(_POLYNOMIALS, _name)
    define(
        f"special_{_name}", aval=_polynomial_aval, numpy=_numpy, lower=_lower, num_inputs=2, checks_reals=True
    )
