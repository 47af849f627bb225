"""Distributions over a ``Twister``, element by element in PyTorch's order and rounded as PyTorch rounds.

Owns: ``RandomStream``, a method per distribution: it writes ``count`` elements of a NumPy dtype to an address.
Must not know: tensors, layouts, checks of parameters, what the kernel draws in one call (``direct_draws.py``).

Floating dtypes other than float64 are drawn as float32 and cast.

Sources: Hormann, "The transformed rejection method for generating Poisson random variables", 1993 (rates from 10 on);
Knuth, TAOCP 2, 3.4.1 (below); Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.abi import RANDOM_NORMAL32, RANDOM_PAIRS64, RANDOM_UNIFORM32, RANDOM_UNIFORM64
from jitgrad.runtime.random.binomial import successes
from jitgrad.runtime.random.direct_draws import (
    BLOCK,
    WIDE_FROM,
    kernel_call,
    permutation_kind,
    steps_of,
)
from jitgrad.runtime.random.twister import Twister

__all__ = ["RandomStream"]

_NEW_RATE = 10.0


def _at(address: int, count: int, dtype: Any) -> Any:
    """Memory as an array."""
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


def _put(address: int, values: Any, dtype: Any) -> None:
    """Write an array to memory, cast to a dtype."""
    if values.size:
        _at(address, values.size, dtype)[:] = values


def _exclude(address: int, count: int, dtype: Any, low: Any, high: Any) -> None:
    """As in PyTorch, what was rounded up to the upper bound becomes the lower one."""
    if count:
        values = _at(address, count, dtype)
        values[values == high] = low


class RandomStream(Twister):
    """A stream and its distributions."""

    __slots__ = ()

    def draw(self, distribution: str, address: int, count: int, dtype: Any, *params: Any) -> None:
        """Write ``count`` numbers of a distribution, one of the methods below, to an address."""
        call = kernel_call(distribution, count, dtype, params)
        if call is None:
            getattr(self, distribution)(address, count, dtype, *params)
        elif count:
            self.fill(address, count, *call)

    def _doubles(self, count: int) -> Any:
        return self.array(count, RANDOM_UNIFORM64, np.float64)

    def fractions(self, count: int, is_double: bool) -> Any:
        """Uniform numbers in [0, 1) as an array: of float64 or float32."""
        if is_double:
            return self._doubles(count)
        return self.array(count, RANDOM_UNIFORM32, np.float32)

    def uniform(self, address: int, count: int, dtype: Any, low: float, high: float) -> None:
        """In [low, high)."""
        if dtype.char == "d":
            self.fill(address, count, RANDOM_UNIFORM64, low, high - low)
            _exclude(address, count, dtype, low, high)
            return
        if dtype.char == "f":
            first, times = steps_of(low, high)
            self.fill(address, count, RANDOM_UNIFORM32, float(first), times)
            _exclude(address, count, dtype, first, np.float32(high))
            return
        a, b = np.asarray(low, dtype), np.asarray(high, dtype)
        times = float(np.subtract(b, a, dtype=np.float32))
        _put(address, self.array(count, RANDOM_UNIFORM32, np.float32, float(a), times), dtype)
        _exclude(address, count, dtype, a, b)

    def normal(self, address: int, count: int, dtype: Any, mean: float, std: float) -> None:
        """For contiguous memory: in blocks from 16 numbers on. Of short dtypes."""
        if count < BLOCK:
            self.normal_pairs(address, count, dtype, mean, std)
            return
        values = self.array(count // BLOCK * BLOCK, RANDOM_NORMAL32, np.float32, mean, std)
        if count % BLOCK:  # the last block begins earlier; unlike float32, nothing is drawn for what it replaces
            last = self.array(BLOCK, RANDOM_NORMAL32, np.float32, mean, std)
            values = np.concatenate([values[: count - BLOCK], last])
        _put(address, values, dtype)

    def normal_pairs(self, address: int, count: int, dtype: Any, mean: float, std: float) -> None:
        """For any other memory: two by two, in float64."""
        _put(address, self.array(count, RANDOM_PAIRS64, np.float64, mean, std), dtype)

    def log_normal(self, address: int, count: int, dtype: Any, mean: float, std: float) -> None:
        """exp of a normal number."""
        _put(address, self.map("exp", self.array(count, RANDOM_PAIRS64, np.float64, mean, std)), dtype)

    def bernoulli(self, address: int, count: int, dtype: Any, p: float) -> None:
        """1 with probability ``p``, else 0."""
        _put(address, self._doubles(count) < p, dtype)

    def exponential(self, address: int, count: int, dtype: Any, rate: float) -> None:
        """-log(1 - u) / rate."""
        _put(address, (-1.0 / rate) * self.map("log1p", -self._doubles(count)), dtype)

    def geometric(self, address: int, count: int, dtype: Any, p: float) -> None:
        """How many trials until one succeeds."""
        logs = self.map("log", self._doubles(count))
        with np.errstate(invalid="ignore", over="ignore"):
            _put(address, np.ceil(logs / math.log(1.0 - p)), dtype)

    def cauchy(self, address: int, count: int, dtype: Any, median: float, sigma: float) -> None:
        """median + sigma * tan(pi * (u - 1/2))."""
        tangents = self.map("tan", math.pi * (self._doubles(count) - 0.5))
        _put(address, self.fma(tangents, sigma, median), dtype)

    def words_modulo(self, address: int, count: int, dtype: Any, modulus: int, is_wide: bool) -> None:
        """Draws of 64 or 32 bits, modulo a number: the whole range of a dtype."""
        words = self.wide_words(count) if is_wide else self.words(count)
        _put(address, words % words.dtype.type(modulus), dtype)

    def whole_range(self, address: int, count: int, dtype: Any) -> None:
        """64-bit draws as signed integers."""
        _put(address, self.wide_words(count).view(np.int64), dtype)

    def integers(self, address: int, count: int, dtype: Any, low: int, extent: int) -> None:
        """``low`` plus a draw modulo ``extent``."""
        words = self.wide_words(count) if extent >= WIDE_FROM else self.words(count)
        rest = words % words.dtype.type(extent)
        _put(address, rest.astype(np.int64) + low if low else rest, dtype)

    def permutation(self, address: int, count: int, dtype: Any) -> None:
        """0 .. count - 1 in some order."""
        _put(address, self.array(count, permutation_kind(count), np.int64), dtype)

    def poisson(self, address: int, count: int, dtype: Any, rates: Any) -> None:
        """A number of events for each of ``count`` rates, float64, in order."""
        before = self.state()
        draws = _Draws(self)
        found = [_events(rate, draws) for rate in rates.tolist()]
        # draws were taken in advance: go back, and take as many as were used
        self.set_state(before)
        self._doubles(draws.used)
        _put(address, np.array(found, np.float64), dtype)

    def gamma(self, address: int, count: int, dtype: Any, concentrations: Any) -> None:
        """Of rate 1, one for each of ``count`` concentrations, float64, in order."""
        before = self.state()
        draws = _Draws(self, self.kept())
        found = [_gamma(a, draws) for a in concentrations.tolist()]
        self.set_state(before)
        self._doubles(draws.used)
        self.keep(draws.kept)
        _put(address, np.array(found, np.float64), dtype)

    def binomial(self, address: int, count: int, dtype: Any, counts: Any, probs: Any) -> None:
        """A number of successes for each of ``count`` numbers of trials and probabilities, float64, in order."""
        before = self.state()
        draws = _Draws(self)
        found = [successes(n, p, draws.next) for n, p in zip(counts.tolist(), probs.tolist(), strict=True)]
        self.set_state(before)
        self._doubles(draws.used)
        _put(address, np.array(found, np.float64), dtype)

    def dropout(self, address: int, count: int, dtype: Any, p: float) -> None:
        """1 / (1 - p) with probability 1 - p, else 0, divided in the dtype."""
        compute = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        _put(address, (self._doubles(count) < 1.0 - p).astype(compute) / compute.type(1.0 - p), dtype)

    def given(self, address: int, count: int, dtype: Any, values: Any) -> None:
        """Numbers that are known already."""
        _put(address, values.ravel(), dtype)


class _Draws:
    """Uniform and normal numbers one by one, which are drawn many at a time.

    Attributes:
        used: how many uniform numbers were taken.
        kept: the second of the last pair of normal numbers, if it was not taken.
    """

    _AT_FIRST, _AT_MOST = 32, 4096

    def __init__(self, stream: RandomStream, kept: float | None = None) -> None:
        self._stream, self.kept = stream, kept
        self.used, self._at_once = 0, self._AT_FIRST
        self._numbers: Iterator[float] = iter(())

    def next(self) -> float:
        self.used += 1
        for number in self._numbers:
            return number
        self._numbers = iter(self._stream.fractions(self._at_once, True).tolist())
        self._at_once = min(4 * self._at_once, self._AT_MOST)
        return next(self._numbers)

    def next_normal(self) -> float:
        """As ``RandomStream.normal_pairs`` draws them."""
        if self.kept is not None:
            normal, self.kept = self.kept, None
            return normal
        angle, radius = 2 * math.pi * self.next(), math.sqrt(-2.0 * math.log1p(-self.next()))
        self.kept = radius * math.sin(angle)
        return radius * math.cos(angle)


def _events(rate: float, draws: _Draws) -> float:
    if rate == math.inf:
        return rate
    if rate >= _NEW_RATE:
        return _events_by_rejection(rate, draws)
    if rate == 0.0:
        return 0.0
    limit, product, events = math.exp(-rate), draws.next(), 0
    while product > limit:
        events += 1
        product *= draws.next()
    return events


def _events_by_rejection(rate: float, draws: _Draws) -> float:
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = draws.next() - 0.5, draws.next()
        edge = 0.5 - abs(u)
        if not edge:  # C's infinity is negative as an integer
            continue
        events = math.floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= quick:
            return events
        if events < 0 or (edge < 0.013 and v > edge):
            continue
        if not v:  # its logarithm is below everything
            return events
        height = math.log(v) + math.log(inverse_alpha) - math.log(a / (edge * edge) + b)
        if height <= -rate + events * log_rate - math.lgamma(events + 1):
            return events


# --- gamma ---


_THIRD, _SQUEEZE = float(np.float32(1.0) / np.float32(3.0)), float(np.float32(0.0331))  # PyTorch has floats there


def _gamma(concentration: float, draws: _Draws) -> float:
    if not concentration > 0.0:
        return 0.0 if concentration == 0.0 else math.nan
    scale = 1.0
    if concentration < 1.0:
        scale, concentration = math.pow(1.0 - draws.next(), 1.0 / concentration), concentration + 1.0
    d = concentration - _THIRD
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draws.next_normal()
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v, u, square = root * root * root, 1.0 - draws.next(), x * x
        if u < 1.0 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v
