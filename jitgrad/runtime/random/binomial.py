"""Binomially distributed numbers, one by one, from uniform numbers in PyTorch's order.

Owns: ``successes``.
Must not know: streams, tensors.

Sources: Hormann, "The generation of binomial random variates", 1993 (BTRS, where ten successes and more are expected);
Kachitvichyanukul and Schmeiser, "Binomial random variate generation", 1988 (sums of geometric waits, elsewhere).
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["successes"]

_REJECTION_FROM = 10.0
_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip
"""What Stirling's formula lacks of log(k!), for k = 0 .. 9."""


def successes(count: float, p: float, draw: Callable[[], float]) -> float:
    """How many of ``count`` trials succeed with probability ``p``; ``draw`` gives uniform numbers in [0, 1)."""
    if count <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return count
    if p <= 0.5:
        return _of_the_rarer(count, p, draw)
    return count - _of_the_rarer(count, 1.0 - p, draw) if p > 0.5 else math.nan


def _of_the_rarer(count: float, p: float, draw: Callable[[], float]) -> float:
    return (_by_rejection if count * p >= _REJECTION_FROM else _by_waits)(count, p, draw)


def _by_waits(count: float, p: float, draw: Callable[[], float]) -> float:
    """Each success takes a geometric number of trials."""
    trials, found, log_failure = 0.0, 0.0, math.log1p(-p)
    while True:
        number = draw()
        if not number:  # its logarithm is below everything
            return found
        trials += math.ceil(math.log(number) / log_failure)
        if trials > count:
            return found
        found += 1.0


def _tail(k: float) -> float:
    if k <= 9:
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


def _by_rejection(count: float, p: float, draw: Callable[[], float]) -> float:
    deviation = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    quick, odds = 0.92 - 4.2 / b, p / (1 - p)
    alpha, mode = (2.83 + 5.1 / b) * deviation, math.floor((count + 1) * p)
    at_mode = (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
    while True:
        u, v = draw() - 0.5, draw()
        edge = 0.5 - abs(u)
        if not edge:  # the number would be infinite
            continue
        k = float(math.floor((2 * a / edge + b) * u + (count * p + 0.5)))
        if k < 0 or k > count:
            continue
        if (edge >= 0.07 and v <= quick) or not v:
            return k
        height = math.log(v * alpha / (a / (edge * edge) + b))
        bound = (
            at_mode
            + (count + 1) * math.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _tail(mode)
            + _tail(count - mode)
            - _tail(k)
            - _tail(count - k)
        )
        if height <= bound:
            return k
