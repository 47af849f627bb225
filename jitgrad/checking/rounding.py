"""How much of a difference between two computations is rounding.

Owns: ``Difference``, ``first_difference``, ``operation_noise``, ``noise_between``, ``terms_of``.
Must not know: programs, tensors.
In: what two computations of one value have given. Out: the elements that differ beyond rounding.

# Note [Rounding noise]
# ~~~~~~~~~~~~~~~~~~~~~
# A fixed tolerance is wrong both ways: ``a - b`` of two equal sums is all rounding, and ``exp`` is right to the last
# bits. So the noise of a value is measured: the operation is computed again in double precision, with operands moved by
# about one unit in the last place each, in random directions. What moves the result moves it by what a different order
# or a contraction could. An element differs if two results are further apart than ``_TIMES`` times that, the difference
# between single and double precision included; where a moved operand turns a comparison over, or leaves the domain,
# there is nothing to compare.
# A sum of many numbers has more: each of its partial sums is rounded, by units of their size, not of the terms'. NumPy
# sums in pairs and BLAS in several chains, a kernel in few, so the difference of the two is the noise of the longer
# chain. For ``n`` terms that are a random walk it is ``sqrt(n / 2)`` times what moved terms show, and for terms of one
# sign ``sqrt(n / 3)`` units of the sum (N. Higham, Accuracy and Stability of Numerical Algorithms, chapter 4).
# Example: the gradient of a weight in a product with 200,000 rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import widened

__all__ = ["Difference", "eps_of", "first_difference", "noise_between", "operation_noise", "shaken", "terms_of"]

_TIMES = 16.0
_TRIALS = 4
_FEW_TERMS = 32


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two arrays differ.

    Attributes:
        index: of the element that is furthest beyond its noise.
        expected, found: there.
        allowed: the difference that rounding would explain.
        count: how many elements differ so, of ``size``.
    """

    index: tuple[int, ...]
    expected: complex
    found: complex
    allowed: float
    count: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.count} of {self.size} elements differ; at {self.index}: {self.found!r} instead of "
            f"{self.expected!r}, where rounding explains {self.allowed:.2g}"
        )


def eps_of(array: Any) -> float:
    """The distance from 1 to the next number of a floating dtype; 0 of another dtype."""
    dtype = np.asarray(array).dtype
    if dtype.name == "bfloat16" or dtype.kind == "V":
        return 2.0**-7
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


_PRODUCTS = re.compile("mm|mv|conv|linear|dot|matmul|einsum|attention|lstm|gru|rnn")
"""Names of operations that add up products of two operands."""


def terms_of(name: str, sizes: Sequence[int], size: int) -> float:
    """About how many numbers an operation adds up for one element of a result with ``size`` of them.

    Of ``(m, k) @ (k, n)`` it is ``k``: the root of ``m k * k n / (m n)``. Of a sum, what goes in by what comes out.

    Args:
        name: of the operation.
        sizes: numbers of elements of its operands.
    """
    first, second, *_ = [*sorted(sizes, reverse=True), 0, 0]
    if not first or not size:
        return 1.0
    return math.sqrt(first * second / size) if second and _PRODUCTS.search(name) else first / size


def _walk(terms: float) -> float:
    """How many times the noise of moved terms a sum of so many of them may have; part of it, see ``_TIMES``."""
    return math.sqrt(terms / 2.0) / 4.0 if terms > _FEW_TERMS else 0.0


def _size(values: Any) -> float:
    """The root mean square of what is finite."""
    finite = values[np.isfinite(values)]
    return math.sqrt(float(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0


def shaken(array: Any, random: Any, eps: float | None = None, terms: float = 1.0) -> Any:
    """Each element moved by up to one unit in its last place, in double precision.

    Args:
        terms: how many numbers were added up for each element: the more, the further it is moved.
    """
    step = eps_of(array) if eps is None else eps
    values = widened(array)
    if values.dtype.kind == "c":
        return shaken(values.real, random, step, terms) + 1j * shaken(values.imag, random, step, terms)
    if values.dtype.kind != "f" or not step:
        return array
    with np.errstate(all="ignore"):
        moved = values * (1.0 + step * random.choice((-1.0, 1.0), values.shape))
        if _walk(terms):
            moved = moved + step * _walk(terms) * _size(values) * random.choice((-1.0, 1.0), values.shape)
    return moved


def operation_noise(
    run: Callable[[Sequence[Any]], Any], operands: Sequence[Any], narrow: Any, terms: float = 1.0
) -> Any:
    """How far rounding may move each element of ``narrow``, which ``run`` has computed of the operands.

    Args:
        run: computes the value of operands in double precision.
        operands: arrays and Python numbers.
        terms: how many numbers are added up for one element.

    Returns:
        An array of ``narrow``'s shape: NaN where nothing can be said.
    """
    random = np.random.default_rng(0)
    wide = widened(narrow)
    try:
        exact = widened(run([widened(x) if isinstance(x, np.ndarray) else x for x in operands]))
        trials = [widened(run([shaken(x, random) if isinstance(x, np.ndarray) else x for x in operands]))
                  for _ in range(_TRIALS)]  # fmt: skip
    except (TypeError, ValueError, FloatingPointError, ArithmeticError, RuntimeError, IndexError):
        return np.abs(wide) * eps_of(narrow) * 64 + eps_of(narrow) * 64
    noise = noise_between([exact, *trials], exact, narrow)
    if _walk(terms) and wide.dtype.kind in "fc":
        noise = noise * (1.0 + _walk(terms)) + eps_of(narrow) * _walk(terms) * _size(wide)
    return noise


def noise_between(results: Sequence[Any], exact: Any, narrow: Any) -> Any:
    """The noise that is seen in several results for one value."""
    wide = widened(narrow)
    if wide.dtype.kind not in "fc":  # whole numbers and truth values: those that any result has otherwise are undecided
        unstable = np.zeros(wide.shape, bool)
        for other in results:
            unstable |= np.asarray(other != wide)
        return np.where(unstable, np.nan, 0.0)
    noise = np.zeros(wide.shape)
    with np.errstate(all="ignore"):
        for other in results:
            moved = np.abs(other - exact)
            noise = noise + np.where(other == exact, 0.0, moved)
        noise = noise + np.where(exact == wide, 0.0, np.abs(exact - wide)) + eps_of(narrow) * np.abs(wide)
        noise = np.where(np.isnan(wide) & np.isnan(noise), 0.0, noise)
    finite = noise[np.isfinite(noise)]
    if finite.size:
        noise = noise + float(np.sqrt(np.mean(finite * finite))) / 4
    return noise


def first_difference(expected: Any, found: Any, noise: Any) -> Difference | None:
    """The worst element that differs beyond ``noise``, or None."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return Difference((), float(expected.size), float(found.size), 0.0, 1, 1)
    a, b = widened(expected), widened(found)
    with np.errstate(all="ignore"):
        both_nan = (a != a) & (b != b)
        is_same = (a == b) | both_nan
        if is_same.all():
            return None
        tiny = 1e-38 if eps_of(expected) else 0.0
        allowed = np.asarray(_TIMES * np.broadcast_to(noise, a.shape) + tiny, np.float64)
        distance = np.abs(a.astype(np.result_type(a, np.float64)) - b.astype(np.result_type(b, np.float64)))
        is_off = ~is_same & ~np.isnan(allowed) & ~(distance <= allowed)
        if not is_off.any():
            return None
        excess = np.where(is_off, np.where(np.isfinite(distance), distance, np.inf) / (allowed + 1e-300), -1.0)
    at = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    index = tuple(int(i) for i in np.unravel_index(at, a.shape)) if a.shape else ()
    one, other = (x[index].item() if x.dtype.kind == "c" else float(x[index]) for x in (a, b))
    return Difference(index, one, other, float(allowed[index]), int(is_off.sum()), a.size)
