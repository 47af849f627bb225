"""What the random kernel does, in NumPy: for the first draws of a process, and where no native code exists.

Owns: ``fill``, the twin of ``jitgrad_random``, Note [Random kernel]: same words, roundings and state; ``fma64``.
Must not know: tensors, generators.

NumPy has no fused multiply-add: float32 is done in float64, float64 by Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", 2008.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.abi import (
    RANDOM_BERNOULLI32,
    RANDOM_BERNOULLI64,
    RANDOM_CACHED,
    RANDOM_EXPONENTIAL32,
    RANDOM_EXPONENTIAL64,
    RANDOM_FRESH,
    RANDOM_HAS_CACHED,
    RANDOM_INTEGERS,
    RANDOM_LIBM_NAMES,
    RANDOM_MAP,
    RANDOM_NORMAL32,
    RANDOM_NORMAL64,
    RANDOM_PAIRS32,
    RANDOM_PAIRS64,
    RANDOM_PERMUTE,
    RANDOM_PERMUTE_WIDE,
    RANDOM_POSITION,
    RANDOM_SEED,
    RANDOM_UNIFORM32,
    RANDOM_UNIFORM64,
    RANDOM_WORDS,
)

__all__ = ["fill", "fma64"]

_BLOCK, _MIDDLE = 624, 397
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
_F = np.float32
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


# --- words ---


def _mixed(upper: Any, lower: Any) -> Any:
    word = (upper & _UPPER) | (lower & _LOWER)
    return (word >> np.uint32(1)) ^ (word & np.uint32(1)) * _MATRIX


def _twist(block: Any) -> None:
    """The next block, run by run: a word depends on words 227 places and more behind it."""
    run = _BLOCK - _MIDDLE
    for begin in range(0, _BLOCK - 1, run):
        end = min(begin + run, _BLOCK - 1)
        far = block[begin + _MIDDLE : end + _MIDDLE] if not begin else block[begin - run : end - run]
        block[begin:end] = far ^ _mixed(block[begin:end], block[begin + 1 : end + 1])
    block[-1] = block[_MIDDLE - 1] ^ _mixed(block[-1], block[0])


def _words(state: Any, count: int) -> Any:
    """The next words of the stream, uint32."""
    block, out, taken = state[:RANDOM_POSITION].view(np.uint32), np.empty(count, np.uint32), 0
    position = int(state[RANDOM_POSITION])
    while taken < count:
        if position >= _BLOCK:
            _twist(block)
            position = 0
        length = min(_BLOCK - position, count - taken)
        out[taken : taken + length] = block[position : position + length]
        position, taken = position + length, taken + length
    state[RANDOM_POSITION] = position
    out ^= out >> np.uint32(11)
    out ^= (out << np.uint32(7)) & np.uint32(0x9D2C5680)
    out ^= (out << np.uint32(15)) & np.uint32(0xEFC60000)
    out ^= out >> np.uint32(18)
    return out


def _seed(state: Any, seed: int) -> None:
    block, word = [seed & 0xFFFFFFFF], seed & 0xFFFFFFFF
    for number in range(1, _BLOCK):
        word = (1812433253 * (word ^ (word >> 30)) + number) & 0xFFFFFFFF
        block.append(word)
    state[:RANDOM_POSITION].view(np.uint32)[:] = block
    state[RANDOM_POSITION], state[RANDOM_CACHED], state[RANDOM_HAS_CACHED] = RANDOM_FRESH, 0, 0


# --- fused multiply-adds ---


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _two_product(x: Any, y: Any) -> tuple[Any, Any]:
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _odd_sum(x: Any, y: Any) -> Any:
    """x + y; where that is not exact, the neighbour of the sum whose last bit is 1."""
    total, error = _two_sum(x, y)
    bits = np.ascontiguousarray(total).view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), bits + step, bits).view(np.float64)


def fma64(x: Any, y: float, z: float) -> Any:
    """x * y + z, rounded once."""
    if z == 0.0 or y == 1.0:
        return x * y + z
    high, low = _two_product(x, np.float64(y))
    total, error = _two_sum(np.float64(z), low)
    upper, lower = _two_sum(high, total)
    return upper + _odd_sum(error, lower)


def _fma32(x: Any, y: Any, z: Any) -> Any:
    """Exact in float64, but for one sum, which is rounded to odd so that rounding it again does no harm."""
    product = np.multiply(x, y, dtype=np.float64)
    product, z = np.broadcast_arrays(product, np.asarray(z, np.float64))
    return _odd_sum(product, z).astype(_F)


# --- uniform and normal numbers ---


def _fractions32(state: Any, count: int, low: float, times: float) -> Any:
    fraction = (_words(state, count) & np.uint32(0xFFFFFF)).astype(_F) * _F(2.0**-24)
    return fraction if low == 0.0 and times == 1.0 else _fma32(fraction, _F(times), _F(low))


def _fractions64(state: Any, count: int, low: float, times: float) -> Any:
    pairs = _words(state, 2 * count).astype(np.uint64)
    word = ((pairs[::2] << np.uint64(32)) | pairs[1::2]) & np.uint64(2**53 - 1)
    return fma64(word.astype(np.float64) * 2.0**-53, times, low)


def _horner(x: Any, coefs: tuple[float, ...]) -> Any:
    total: Any = _F(coefs[0])
    for c in coefs[1:]:
        total = _fma32(total, x, _F(c))
    return total


def _log(x: Any) -> Any:
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(_F)
    x = ((bits & 0x007FFFFF) | 0x3F000000).view(_F)
    is_low = x < _F(math.sqrt(0.5))
    exponent = exponent - is_low.astype(_F)
    x = (x - _F(1)) + np.where(is_low, x, _F(0))
    square = x * x
    tail = _fma32(_horner(x, _LOG) * x, square, exponent * _F(-2.12194440e-4))
    return _fma32(exponent, _F(0.693359375), x + (tail - square * _F(0.5)))


def _sin_cos(x: Any) -> tuple[Any, Any]:
    octant = ((x * _F(4 / math.pi)).astype(np.int32) + 1) & -2
    turns = octant.astype(_F)
    for part in _QUARTER_PI:
        x = _fma32(turns, _F(part), x)
    square = x * x
    sine = _fma32(_horner(square, _SIN) * square, x, x)
    cosine = _fma32(_horner(square, _COS) * square, square, -(square * _F(0.5))) + _F(1)
    is_plain = (octant & 2) == 0
    sine, cosine = np.where(is_plain, sine, cosine), np.where(is_plain, cosine, sine)
    return np.where(octant & 4, -sine, sine), np.where((octant - 2) & 4, cosine, -cosine)


def _normal_blocks32(state: Any, count: int, mean: float, std: float) -> Any:
    """Normal floats from uniform ones, in blocks of 16; ``count`` is a multiple of that."""
    blocks = _fractions32(state, count, 0.0, 1.0).reshape(-1, 2, 8)
    radius = np.sqrt(_log(_F(1) - blocks[:, 0]) * _F(-2))
    sine, cosine = _sin_cos(blocks[:, 1] * _F(2 * math.pi))
    return _fma32(np.stack([radius * cosine, radius * sine], 1), _F(std), _F(mean)).ravel()


def _normal_blocks64(state: Any, count: int, mean: float, std: float) -> Any:
    blocks = _fractions64(state, count, 0.0, 1.0).reshape(-1, 2, 8)
    radius = np.sqrt(_each(math.log, 1.0 - blocks[:, 0]) * -2.0)
    angle = blocks[:, 1] * (2 * math.pi)
    return fma64(np.stack([radius * _each(math.cos, angle), radius * _each(math.sin, angle)], 1), std, mean).ravel()


def _each(function: Callable[[float], float], values: Any) -> Any:
    """The C library's function, by way of Python's ``math``."""
    try:
        found = [function(x) for x in values.ravel().tolist()]
    except OverflowError:  # the exponential of a large number
        found = [_or_infinity(function, x) for x in values.ravel().tolist()]
    return np.array(found).reshape(values.shape)


def _or_infinity(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf


def _normals(state: Any, out: Any, mean: float, std: float) -> None:
    """Whole blocks; then, if numbers are left, a draw for each of them, and the last 16 numbers anew."""
    is_float = out.dtype == _F
    blocks = _normal_blocks32 if is_float else _normal_blocks64
    whole = len(out) // 16 * 16
    out[:whole] = blocks(state, whole, mean, std)
    left = len(out) - whole
    if left:
        _words(state, left if is_float else 2 * left)
        out[-16:] = blocks(state, 16, mean, std)


def _pairs(state: Any, count: int, mean: float, std: float) -> Any:
    out = np.empty(count)
    kept = state[RANDOM_CACHED : RANDOM_CACHED + 1].view(np.float64)
    has = int(state[RANDOM_HAS_CACHED])
    begin = min(has, count)
    if begin:
        out[0], kept[0], state[RANDOM_HAS_CACHED] = kept[0], 0.0, 0
    drawn_pairs = (count - begin + 1) // 2
    if drawn_pairs:
        drawn = _fractions64(state, 2 * drawn_pairs, 0.0, 1.0).reshape(-1, 2)
        radius = np.sqrt(_each(math.log1p, -drawn[:, 1]) * -2.0)
        angle = drawn[:, 0] * (2 * math.pi)
        both = np.stack([radius * _each(math.cos, angle), radius * _each(math.sin, angle)], 1).ravel()
        out[begin:] = both[: count - begin]
        if 2 * drawn_pairs > count - begin:
            kept[0], state[RANDOM_HAS_CACHED] = both[-1], 1
    return fma64(out, std, mean)


def _permute(state: Any, count: int) -> list[int]:
    order = list(range(count))
    for place, draw in enumerate(_words(state, count - 1).tolist()):
        other = place + draw % (count - place)
        order[place], order[other] = order[other], order[place]
    return order


def _permute_wide(state: Any, count: int) -> list[int]:
    drawn = _words(state, 2 * count).astype(np.uint64)
    order = list(range(count))
    for place, draw in enumerate(((drawn[::2] << np.uint64(32)) | drawn[1::2]).tolist()):
        other = draw % (place + 1)
        order[place] = order[other]
        order[other] = place
    return order


def _infinite_log(x: float) -> float:
    """``log`` with C's value at 0, where Python's raises."""
    return math.log(x) if x else -math.inf


_LIBM: tuple[Callable[[float], float], ...] = tuple(
    _infinite_log if name == "log" else getattr(math, name) for name in RANDOM_LIBM_NAMES
)
_ELEMENTS = {
    RANDOM_WORDS: np.uint32,
    RANDOM_UNIFORM32: np.float32,
    RANDOM_NORMAL32: np.float32,
    RANDOM_BERNOULLI32: np.float32,
    RANDOM_PAIRS32: np.float32,
    RANDOM_EXPONENTIAL32: np.float32,
    RANDOM_INTEGERS: np.int64,
    RANDOM_PERMUTE: np.int64,
    RANDOM_PERMUTE_WIDE: np.int64,
}


def fill(state: Any, address: int, count: int, kind: int, a: float, b: float) -> None:
    """As ``jitgrad_random``, with the state as an array of uint64."""
    if kind == RANDOM_SEED:
        _seed(state, count)
        return
    if not count:
        return
    dtype: Any = np.dtype(_ELEMENTS.get(kind, np.float64))
    out = np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)
    if kind == RANDOM_WORDS:
        out[:] = _words(state, count)
    elif kind == RANDOM_UNIFORM32:
        out[:] = _fractions32(state, count, a, b)
    elif kind == RANDOM_UNIFORM64:
        out[:] = _fractions64(state, count, a, b)
    elif kind in (RANDOM_BERNOULLI32, RANDOM_BERNOULLI64):
        out[:] = np.where(_fractions64(state, count, 0.0, 1.0) < a, b, 0.0)
    elif kind in (RANDOM_NORMAL32, RANDOM_NORMAL64):
        _normals(state, out, a, b)
    elif kind in (RANDOM_PAIRS32, RANDOM_PAIRS64):
        out[:] = _pairs(state, count, a, b)
    elif kind in (RANDOM_EXPONENTIAL32, RANDOM_EXPONENTIAL64):
        out[:] = _each(math.log1p, -_fractions64(state, count, 0.0, 1.0)) * a
    elif kind == RANDOM_INTEGERS:
        out[:] = (_words(state, count) % np.uint32(b)).astype(np.int64) + int(a)
    elif kind == RANDOM_PERMUTE:
        out[:] = _permute(state, count)
    elif kind == RANDOM_PERMUTE_WIDE:
        out[:] = _permute_wide(state, count)
    else:
        out[:] = _each(_LIBM[kind - RANDOM_MAP], out)
