"""The kernel of Airy's function Ai, as a formula.

Owns: ``FORMULAS``.
Must not know: derivatives, which it has not.

Computed in float64. Source of the rational functions: S. L. Moshier's library Cephes, as PyTorch's
``aten/src/ATen/native/Math.h`` quotes it; between them the Maclaurin series (Abramowitz and Stegun 10.4.2).
"""

from __future__ import annotations

import math

from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula

__all__ = ["FORMULAS"]


_FAR = (
    1.0, 14.026469116338967, 70.53609068404442, 159.75639135016442, 168.08922493463058, 76.27960536152345,
    12.007595273964581, 0.346538101525629,
)  # fmt: skip
_UNDER_FAR = (
    1.0, 14.095913560783403, 71.47784008255756, 164.2346928715297, 177.31808814540045, 84.51389701414746,
    14.75625625848472, 0.5675945326387702,
)  # fmt: skip
_WAVE_F = (
    -1.6778769848911465e-08, -2.776491081552329e-06, -0.0001592764962392621, -0.004062659235948854,
    -0.04919001326095003, -0.2797799815451191, -0.6931580360369335, -0.6264565444319123, -0.1316963234183318,
)  # fmt: skip
_UNDER_WAVE_F = (
    4.5185009297058035e-07, 7.547203482874142e-05, 0.004402916416152112, 0.11568717379518804, 1.4752914677166642,
    9.187074029072596, 26.736704094149957, 32.682503279522464, 13.356042070655324, 1.0,
)  # fmt: skip
_WAVE_G = (
    3.415517847659236e-10, 8.117892395543892e-08, 6.98793669997261e-06, 0.000282851600836737, 0.005858041130483885,
    0.06338889196289255, 0.35146565610554764, 0.9391692298166502, 1.0657989759959559, 0.39110302961568827,
    0.01973399320916857,
)  # fmt: skip
_UNDER_WAVE_G = (
    4.9183457006293e-09, 1.1716673321441352e-06, 0.00010125908511650914, 0.004126565238242226, 0.08645808263523921,
    0.9542936116189619, 5.476860694229755, 15.564662893286462, 19.835292871831214, 9.30892908077442, 1.0,
)  # fmt: skip
_BORDER = 2.09
"""The series is used up to so far from zero."""
_VANISHES = 103.892
_AT_ZERO, _SLOPE_AT_ZERO = 0.355028053887817239260, 0.258819403792806798405
_TERMS = 20


def _series(shift: int) -> tuple[float, ...]:
    """The coefficients of z = x^3 in f(x), or with shift 1 in g(x) / x."""
    found = [1.0]
    for k in range(1, _TERMS):
        found.append(found[-1] / ((3 * k - 1 + shift) * (3 * k + shift)))
    return tuple(found)


_F, _G = _series(0), _series(1)


def _airy_ai(x: Expression, is_single: bool) -> Expression:
    a = x.abs()
    root = a.sqrt()
    zeta = a * root * (2 / 3)
    z = 1.0 / zeta
    decaying = z.poly(_FAR) / z.poly(_UNDER_FAR) * (-zeta).exp() * 0.5
    square = z * z
    sine, cosine = zeta.sin(), zeta.cos()
    f = 1.0 + square * square.poly(_WAVE_F) / square.poly(_UNDER_WAVE_F)
    g = z * square.poly(_WAVE_G) / square.poly(_UNDER_WAVE_G)
    waving = ((sine + cosine) * f - (cosine - sine) * g) * math.sqrt(0.5)
    far = x.gt(0.0).where(decaying, waving) / (root.sqrt() * math.sqrt(math.pi))
    low = x.max(-_BORDER).min(_BORDER)
    cube = low * low * low
    near = cube.poly(_F) * _AT_ZERO - low * cube.poly(_G) * _SLOPE_AT_ZERO
    out = a.lt(_BORDER).or_(x.eq(-_BORDER)).where(near, x.gt(_VANISHES).where(0.0, far))
    return a.eq(math.inf).where(math.nan, out)


FORMULAS = {"airy_ai": Formula(_airy_ai)}
"""Name without ``special_`` -> its kernel and NumPy rule."""
