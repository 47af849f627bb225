"""erf as inline vector code.

Owns: erf.
Must not know: kernels.

Method: x + x p(x^2) below 1; above, 1 - exp(-q(x)) with q a polynomial for -log(erfc(x)), which is smooth and whose
error counts only in proportion to erfc (the idea is N. Juffa's, for CUDA's erff).
"""

from __future__ import annotations

from jitgrad.codegen.vmath.coefs import COEFS
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.exp import exp_unscaled, power_of_two

__all__ = ["erf"]

LARGE = {"float": ("ERF_LARGE32", 4.0), "double": ("ERF_LARGE64", 6.0)}  # beyond the number erf is 1


def erf(x: Lanes) -> Lanes:
    name, last = LARGE[x.scalar]
    size = x.abs()
    z = x * x
    small = x.mad(z.poly(COEFS["ERF_SMALL", x.scalar]), x)
    p, n_bits = exp_unscaled(-size.at_most(last).poly(COEFS[name, x.scalar]))
    large = (1.0 - p * power_of_two(n_bits)).copysign(x)
    return select(size < 1.0, small, large)
