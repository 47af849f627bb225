"""Kernels of Bessel functions of orders 0 and 1, of the first, the second and the modified second kind, as formulas.

Owns: ``FORMULAS``.
Must not know: derivatives, which none of them has.

All are computed in float64. Source of the rational functions and of the Chebyshev series: S. L. Moshier's library
Cephes, as PyTorch's ``aten/src/ATen/native/Math.h`` quotes it. Cephes leaves the leading 1 of some denominators out of
its tables; here it stands in them. PyTorch evaluates these without the 1, so its J, Y and Airy functions are right to
six or seven digits only. Beyond 5 they are Hankel's forms (Abramowitz and Stegun 9.2.5 and 9.2.6)
``sqrt(2 / pi x) (p cos(x - s) - q sin(x - s))``; the cosine of the difference is taken from sine and cosine of x, so
that a large x is not rounded first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula
from jitgrad.ops.formulas.normal_formulas import FORMULAS as NORMAL
from jitgrad.ops.formulas.normal_formulas import i0_near, i1_near

__all__ = ["FORMULAS"]

# --- the first and the second kind ---


class _BesselTables(NamedTuple):
    """Rational functions of one order: numerator and denominator each.

    Attributes:
        p, q: of the Hankel form, of ``(5 / x)^2``.
        near, second: below 5, of ``x^2``, of J without its zeros and of the part of Y without a logarithm.
        zeros: the squares of the first two zeros of J, but for 0.
    """

    p: tuple[tuple[float, ...], tuple[float, ...]]
    q: tuple[tuple[float, ...], tuple[float, ...]]
    near: tuple[tuple[float, ...], tuple[float, ...]]
    second: tuple[tuple[float, ...], tuple[float, ...]]
    zeros: tuple[float, float]


_PP0 = (
    1.0, 5.303240382353949, 8.74716500199817, 5.447250030587687, 1.239533716464143, 0.08283523921074408,
    0.0007969367292973471,
)  # fmt: skip
_PQ0 = (
    1.0, 5.306052882353947, 8.761908832370695, 5.470977403304171, 1.2535274390105895, 0.08562884743544745,
    0.0009244088105588637,
)  # fmt: skip
_QP0 = (
    -6.050143506007285, -51.41053267665993, -147.07750515495118, -177.68116798048806, -93.20601521237683,
    -19.553954425773597, -1.2825271867050931, -0.011366383889846916,
)  # fmt: skip
_QQ0 = (
    242.0057402402914, 2062.0933166032783, 5930.727011873169, 7240.467741956525, 3882.4018360540163, 856.4300259769806,
    64.3178256118178, 1.0,
)  # fmt: skip
_RP0 = (
    9708622510473064.0, -249248344360967.72, 1956174919465.5657, -4794432209.782018,
)  # fmt: skip
_RQ0 = (
    1.7108629408104315e+18, 3.1812195594320496e+16, 310518229857422.56, 2112775201154.892, 11185553704.535683,
    48440965.83399621, 173785.4016763747, 499.563147152651, 1.0,
)  # fmt: skip
_YP0 = (
    -1.8495080043698668e+16, 4.4273326857256984e+16, -3466283033847297.0, 87590639439536.7, -982136065717.9115,
    5435264770.518765, -14663929.59039716, 15592.436785523574,
)  # fmt: skip
_YQ0 = (
    2.5059625617265306e+17, 3171577528429750.5, 20297961275010.555, 86400248710.3935, 268919633.39381415,
    626107.330137135, 1041.2835366425984, 1.0,
)  # fmt: skip
_ORDER_0 = _BesselTables(
    (_PP0, _PQ0), (_QP0, _QQ0), (_RP0, _RQ0), (_YP0, _YQ0), (5.78318596294678452118, 30.4712623436620863991)
)  # fmt: skip
_PP1 = (
    1.0, 5.214515986823615, 8.424045901417724, 5.112079511468076, 1.1271960812968493, 0.07313970569409176,
    0.0007621256162081731,
)  # fmt: skip
_PQ1 = (
    1.0, 5.209828486823619, 8.399855543276042, 5.073863861286015, 1.105142326340617, 0.06884559087544954,
    0.0005713231280725487,
)  # fmt: skip
_QP1 = (
    25.207020585802372, 211.68875710057213, 597.4896124006136, 710.8563049989261, 366.7796093601508, 75.82382841325453,
    4.982138729512334, 0.05108625947501766,
)  # fmt: skip
_QQ1 = (
    336.0936078106983, 2826.1927851763908, 7997.041604473507, 9562.318924047562, 4986.410583376536, 1056.4488603826283,
    74.23732770356752, 1.0,
)  # fmt: skip
_RP1 = (
    3682957328638529.0, -72749424522181.83, 452228297998.19403, -899971225.7055594,
)  # fmt: skip
_RQ1 = (
    5.322786203326801e+18, 8.952223361846274e+16, 784369607876235.9, 4749141220799.914, 22151159547.97925,
    83514679.14319493, 256987.25675774884, 620.8364781180543, 1.0,
)  # fmt: skip
_YP1 = (
    -7.788771962659501e+17, 2.024394757135949e+17, -8127702555013251.0, 114509511541823.73, -647355876379.1603,
    1263204747.9017804,
)  # fmt: skip
_YQ1 = (
    3.9727060811656064e+18, 6.871410873553005e+16, 620557727146953.8, 3882312774962.3857, 18760131610.870617,
    73481194.44597217, 235564.09294306856, 594.3015923461282, 1.0,
)  # fmt: skip
_ORDER_1 = _BesselTables(
    (_PP1, _PQ1), (_QP1, _QQ1), (_RP1, _RQ1), (_YP1, _YQ1), (14.6819706421238932572, 49.2184563216946036703)
)  # fmt: skip

_FROM = 5.0
_SINE = tuple([(-1) ** k / math.factorial(2 * k + 1) for k in range(7)])
_TWO_OVER_PI = 2 / math.pi


def _ratio(x: Expression, of: tuple[tuple[float, ...], tuple[float, ...]]) -> Expression:
    return x.poly(of[0]) / x.poly(of[1])


def _far(x: Expression, order: int, is_second: bool) -> Expression:
    """From 5 on: with sine and cosine of x - pi / 4, or of x - 3 pi / 4, times the root of two."""
    kind = (_ORDER_0, _ORDER_1)[order]
    w = 5.0 / x
    p, q = _ratio(w * w, kind.p), w * _ratio(w * w, kind.q)
    sine, cosine = x.sin(), x.cos()
    plus, minus = sine + cosine, sine - cosine
    at_cosine, at_sine = (minus, -plus) if order else (plus, minus)
    wave = p * at_sine + q * at_cosine if is_second else p * at_cosine - q * at_sine
    return wave / (x * math.pi).sqrt()


def _near(x: Expression, order: int) -> Expression:
    """J up to 5."""
    kind = (_ORDER_0, _ORDER_1)[order]
    square = x * x
    even = (square - kind.zeros[0]) * (square - kind.zeros[1]) * _ratio(square, kind.near)
    return x * even if order else even


def _j(x: Expression, order: int) -> Expression:
    a = x.abs()
    out = a.le(_FROM).where(_near(a, order), _far(a, order, False))
    return x.lt(0.0).where(-out, out) if order else out


def _y(x: Expression, order: int) -> Expression:
    kind = (_ORDER_0, _ORDER_1)[order]
    second = _ratio(x * x, kind.second)
    late = _near(x, order) * x.log()
    near = x * second + _TWO_OVER_PI * (late - 1.0 / x) if order else second + _TWO_OVER_PI * late
    out = x.le(_FROM).where(near, _far(x, order, True))
    return x.eq(0.0).where(-math.inf, out)


# --- the modified second kind ---

_K0_NEAR = (
    -0.5353273932339028, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633842e-11, 4.25981614279661e-14, 1.374465435613523e-16,
)  # fmt: skip
_K0_FAR = (
    2.4403030820659555, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.69753450938906e-09, 3.577397281400301e-10, -7.957489244477107e-11, 1.8559491149547177e-11,
    -4.514597883373944e-12, 1.140340588208475e-12, -2.9800969231727303e-13, 8.032890775363575e-14,
    -2.2275133269916698e-14, 6.3400764774050706e-15, -1.848593377343779e-15, 5.512055978524319e-16,
    -1.678231096805412e-16, 5.2103915050390274e-17, -1.6475804301524212e-17, 5.300433772686263e-18,
)  # fmt: skip
_K1_NEAR = (
    1.5253002273389478, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864, -0.0001730288957513052,
    -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
    -2.427449850519366e-15, -7.023863479386288e-18,
)  # fmt: skip
_K1_FAR = (
    2.7206261904844427, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162, -1.936197974166083e-05,
    2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
    2.015049755197033e-09, -4.1903547593418965e-10, 9.218315187605006e-11, -2.1299678384275683e-11,
    5.13963967348173e-12, -1.2891739609510289e-12, 3.3484196660784293e-13, -8.976705182324994e-14,
    2.4771544244813043e-14, -7.019837090418314e-15, 2.038703165624334e-15, -6.057047248373319e-16,
    1.838093544366639e-16, -5.689462558442859e-17, 1.7940508731475592e-17, -5.756744483665017e-18,
)  # fmt: skip


def _k(x: Expression, order: int, is_scaled: bool) -> Expression:
    """Up to 2 with the logarithm times I; beyond, a series over the root times exp(-x)."""
    series = (x.min(2.0) * x.min(2.0) * 0.5 - 1.0).chebyshev((_K0_NEAR, _K1_NEAR)[order])
    log = (x * 0.5).log()
    low = x.min(2.0)
    near = log * i1_near(low) + series / x if order else series - log * i0_near(low)
    far = (4.0 / x.max(2.0) - 1.0).chebyshev((_K0_FAR, _K1_FAR)[order]) / x.sqrt()
    near, far = (near * low.exp(), far) if is_scaled else (near, far * (-x).exp())
    return x.eq(0.0).where(math.inf, x.le(2.0).where(near, far))


def _spherical_j0(x: Expression) -> Expression:
    """sin(x) / x."""
    square = x * x
    near = square.poly(_SINE)
    return x.abs().eq(math.inf).where(0.0, x.abs().lt(0.5).where(near, x.sin() / x))


FORMULAS = {
    "modified_bessel_i0": NORMAL["i0"],
    "modified_bessel_i1": NORMAL["special_i1"],
    "bessel_j0": Formula(lambda x, is_single: _j(x, 0)),
    "bessel_j1": Formula(lambda x, is_single: _j(x, 1)),
    "bessel_y0": Formula(lambda x, is_single: _y(x, 0)),
    "bessel_y1": Formula(lambda x, is_single: _y(x, 1)),
    "modified_bessel_k0": Formula(lambda x, is_single: _k(x, 0, False)),
    "modified_bessel_k1": Formula(lambda x, is_single: _k(x, 1, False)),
    "scaled_modified_bessel_k0": Formula(lambda x, is_single: _k(x, 0, True)),
    "scaled_modified_bessel_k1": Formula(lambda x, is_single: _k(x, 1, True)),
    "spherical_bessel_j0": Formula(lambda x, is_single: _spherical_j0(x)),
}
"""Name without ``special_`` -> its kernel and NumPy rule."""
