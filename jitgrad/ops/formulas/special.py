"""Special functions that NumPy lacks, as vectorised NumPy.

Owns: ``np_erf``, ``np_sigmoid``.
Source of erf: the rational approximations of FreeBSD's ``s_erf.c`` (Sun Microsystems, 1993), below 1 ULP in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["np_erf", "np_sigmoid"]

_ONES = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}
"""A ufunc takes up an array of its operand's dtype at half the cost of a Python number."""
_FEW = 256  # up to so many elements C's erf, called one by one, is faster than a dozen of NumPy's passes
_ERX = 8.45062911510467529297e-01
_PP = (
    1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02, -5.77027029648944159157e-03,
    -2.37630166566501626084e-05,
)  # fmt: skip
_QQ = (
    1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03, 1.32494738004321644526e-04,
    -3.96022827877536812320e-06,
)  # fmt: skip
_PA = (
    -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
    -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03,
)  # fmt: skip
_QA = (
    1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02, 1.26171219808761642112e-01,
    1.36370839120290507362e-02, 1.19844998467991074170e-02,
)  # fmt: skip
_RA = (
    -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01, -6.23753324503260060396e01,
    -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01, -9.81432934416914548592e00,
)  # fmt: skip
_SA = (
    1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02, 6.45387271733267880336e02,
    4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00, -6.04244152148580987438e-02,
)  # fmt: skip
_RB = (
    -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01, -1.60636384855821916062e02,
    -6.37566443368389627722e02, -1.02509513161107724954e03, -4.83519191608651397019e02,
)  # fmt: skip
_SB = (
    1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03, 3.19985821950859553908e03,
    2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01,
)  # fmt: skip


def _poly(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner, lowest coefficient first."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _erf_tail(a: Any, numerator: tuple[float, ...], denominator: tuple[float, ...]) -> Any:
    """erfc(a) for 1.25 <= a < 28: exp(-a^2 - 0.5625 + R/S) / a, with a^2 split to keep the exponent exact."""
    s = 1 / (a * a)
    high = a.view(np.int64) & np.int64(-(1 << 32))
    z = high.view(np.float64)
    return np.exp(-z * z - 0.5625) * np.exp((z - a) * (z + a) + _poly(s, numerator) / _poly(s, denominator)) / a


def _erf_double(x: Any) -> Any:
    a = np.abs(x)
    out = np.ones_like(a)
    small, middle = a < 0.84375, (a >= 0.84375) & (a < 1.25)
    near, far = (a >= 1.25) & (a < 1 / 0.35), (a >= 1 / 0.35) & (a < 6)
    if small.any():
        v = a[small]
        z = v * v
        out[small] = v + v * (_poly(z, _PP) / _poly(z, _QQ))
    if middle.any():
        s = a[middle] - 1
        out[middle] = _ERX + _poly(s, _PA) / _poly(s, _QA)
    if near.any():
        out[near] = 1 - _erf_tail(a[near], _RA, _SA)
    if far.any():
        out[far] = 1 - _erf_tail(a[far], _RB, _SB)
    return np.where(np.isnan(x), x, np.copysign(out, x))


def _each(function: Callable[[float], float], x: Any) -> Any:
    """A function of ``math`` for each element, as float64."""
    return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def np_erf(x: Any) -> Any:
    """The error function of a float32 or float64 array, in its own dtype."""
    if x.size <= _FEW:
        return _each(math.erf, x).astype(x.dtype)
    return _erf_double(np.asarray(x, np.float64)).astype(x.dtype)


def np_sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); overflow of exp gives the right limit, 0."""
    out = np.negative(x)
    if type(out) is not np.ndarray:
        return np.reciprocal(1 + np.exp(out))
    np.exp(out, out)
    np.add(out, _ONES.get(out.dtype, 1), out)
    return np.reciprocal(out, out)
