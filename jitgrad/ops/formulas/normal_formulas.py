"""Kernels of the scaled error function, of the normal distribution and of modified Bessel functions, as formulas.

Owns: ``FORMULAS``; ``i0_near`` and ``i1_near`` for other formulas.
Must not know: derivatives.

All are computed in float64. The scaled error function is erfc without its exponential (``gamma_formulas.py``). The
quantile of the normal distribution is M. J. Wichura's algorithm AS 241 ("The percentage points of the normal
distribution", 1988), PPND16. The modified Bessel functions are two Chebyshev series each, up to 8 and beyond, as in S.
L. Moshier's library Cephes; the coefficients were computed anew with 50 digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import float32, float64
from jitgrad.ops.formulas.expressions import Expression
from jitgrad.ops.formulas.formulas import Formula
from jitgrad.ops.formulas.gamma_formulas import erfc_of, erfc_parts

__all__ = ["FORMULAS", "i0_near", "i1_near"]

_SQRT_HALF = math.sqrt(0.5)
_OVERFLOWS = 28.0
"""The exponential of its square is infinite."""

# --- the normal distribution ---

_CENTRE = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_UNDER_CENTRE = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
    3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)  # fmt: skip
_SIDE = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
    1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_UNDER_SIDE = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
    1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
)  # fmt: skip
_TAIL = (
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
_UNDER_TAIL = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
    1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
)  # fmt: skip


def _erfcx(x: Expression, is_single: bool) -> Expression:
    size = x.abs()
    t, series = erfc_parts(size, is_single)
    out = x.eq(0.0).where(1.0, t * series.exp())
    near = size.min(_OVERFLOWS)
    high = near.cast(float32).cast(float64)
    square = (high * high).exp() * ((near - high) * (near + high)).exp()
    return x.lt(0.0).where(2.0 * square - out, out)


def _log_ndtr(x: Expression, is_single: bool) -> Expression:
    t = x * _SQRT_HALF
    left = (0.5 * _erfcx((-t).max(0.0), is_single)).log() - t * t
    right = (erfc_of(t.max(-1.0), is_single) * -0.5).log1p()
    return x.lt(-1.0).where(left, right)


def _ndtri(p: Expression, is_single: bool) -> Expression:
    q = p - 0.5
    r = 0.180625 - q * q
    centre = q * r.poly(_CENTRE) / r.poly(_UNDER_CENTRE)
    root = (-(p.min(1.0 - p).log())).sqrt()
    side, tail = root - 1.6, root - 5.0
    far = root.le(5.0).where(side.poly(_SIDE) / side.poly(_UNDER_SIDE), tail.poly(_TAIL) / tail.poly(_UNDER_TAIL))
    out = q.abs().le(0.425).where(centre, far.copysign(q))
    return p.eq(0.0).or_(p.eq(1.0)).where((q * 0.0 + math.inf).copysign(q), out)


# --- Bessel functions ---

_I0_NEAR = (
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
_I0_FAR = (
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
_I1_NEAR = (
    0.25258718644363365, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
_I1_FAR = (
    0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18,
)  # fmt: skip

_TERMS_32 = 20
"""So many terms are enough for float32."""
_FROM = 8.0


def _scaled(a: Expression, near: Sequence[float], far: Sequence[float], is_single: bool) -> tuple[Any, Any]:
    """(The series for an argument up to 8, and that beyond over the root), of exp(-a) times a function."""
    count = _TERMS_32 if is_single else None
    beyond = a.max(_FROM)
    late = (16.0 / beyond - 1.0).chebyshev(far[:count]) / beyond.sqrt()
    return (a.min(_FROM) * 0.25 - 1.0).chebyshev(near[:count]), late


def i0_near(x: Expression) -> Expression:
    """I0 of an argument from 0 to 8."""
    return (x * 0.25 - 1.0).chebyshev(_I0_NEAR) * x.exp()


def i1_near(x: Expression) -> Expression:
    """I1 of an argument from 0 to 8."""
    return (x * 0.25 - 1.0).chebyshev(_I1_NEAR) * x * x.exp()


def _i0e(x: Expression, is_single: bool) -> Expression:
    a = x.abs()
    near, far = _scaled(a, _I0_NEAR, _I0_FAR, is_single)
    return a.eq(0.0).where(1.0, a.le(_FROM).where(near, x.eq(x).where(far, x)))


def _i1e(x: Expression, is_single: bool) -> Expression:
    a = x.abs()
    near, far = _scaled(a, _I1_NEAR, _I1_FAR, is_single)
    return a.le(_FROM).where(near * a, x.eq(x).where(far, a)).copysign(x)


def _grown(x: Expression, scaled: Expression) -> Expression:
    """Times exp(|x|), in two steps: alone it overflows first."""
    half = (x.abs() * 0.5).exp()
    return half * scaled * half


def _i0(x: Expression, is_single: bool) -> Expression:
    return x.abs().eq(math.inf).where(math.inf, _grown(x, _i0e(x, is_single)))


def _i1(x: Expression, is_single: bool) -> Expression:
    return x.abs().eq(math.inf).where(x, _grown(x, _i1e(x, is_single)))


FORMULAS = {
    "i0": Formula(_i0),
    "special_i1": Formula(_i1),
    "special_i0e": Formula(_i0e),
    "special_i1e": Formula(_i1e),
    "special_erfcx": Formula(_erfcx),
    "special_log_ndtr": Formula(_log_ndtr),
    "special_ndtri": Formula(_ndtri),
}
"""Name -> its kernel and NumPy rule."""
