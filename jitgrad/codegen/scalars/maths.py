"""The derivatives of the logarithm of the gamma function, for all lanes at once.

Owns: ``digamma``, ``trigamma``.
Must not know: functions of scalars.

Sources: Abramowitz and Stegun, "Handbook of Mathematical Routines": 6.3.5 and 6.4.6 (recurrences), 6.3.7 and 6.4.7
(reflection), 6.3.18 and 6.4.12 (asymptotic series). Relative errors are below 1e-13 away from the zeros.
"""

from __future__ import annotations

import math

from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.pointwise import EMIT

__all__ = ["digamma", "trigamma"]

_FROM = 10.0
"""Where the series are used; smaller arguments are moved there."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _one(x: Lanes) -> Lanes:
    return x.const(1.0)


def _times_pi(x: Lanes) -> Lanes:
    """pi (x - the nearest integer): exact near the poles."""
    return (x - EMIT["round"](x)) * math.pi


def digamma(x: Lanes) -> Lanes:
    """Of each lane, in its format; NaN at the poles -1, -2 ..., an infinity of the other sign at zero."""
    reflected = x <= 0.0
    y = select(reflected, _one(x) - x, x)
    total = x.const(0.0)
    for _ in range(int(_FROM)):
        small = y < _FROM
        total = total - select(small, _one(y) / y, 0.0)
        y = select(small, y + 1.0, y)
    inverse = _one(y) / y
    z = inverse * inverse
    total = total + (EMIT["log"](y) - inverse * 0.5 - z * z.poly(_DIGAMMA))
    other = total - x.const(math.pi) / EMIT["tan"](_times_pi(x))
    at_pole = select(x.eq(0.0), x.const(math.inf).copysign(-x), math.nan)
    return select(reflected, select(EMIT["floor"](x).eq(x), at_pole, other), total)


def trigamma(x: Lanes) -> Lanes:
    """Of each lane, in its format; infinite at the poles."""
    reflected = x <= 0.0
    y = select(reflected, _one(x) - x, x)
    total = x.const(0.0)
    for _ in range(int(_FROM)):
        small = y < _FROM
        total = total + select(small, _one(y) / (y * y), 0.0)
        y = select(small, y + 1.0, y)
    inverse = _one(y) / y
    z = inverse * inverse
    total = total + inverse + z * 0.5 + inverse * z * z.poly(_TRIGAMMA)
    sine = EMIT["sin"](_times_pi(x))
    return select(reflected, x.const(math.pi**2) / (sine * sine) - total, total)
