"""``torch.quasirandom``: Sobol sequences.

Owns: ``SobolEngine``.
Must not know: who draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import get_default_dtype
from jitgrad.functions import randint, tensor
from jitgrad.functions.outputs import write_out
from jitgrad.generator import Generator
from jitgrad.lazy import LazyModule

__all__ = ["SobolEngine"]

_QMC = LazyModule("scipy.stats.qmc")
_BITS = 30


class SobolEngine:
    """Points of a Sobol sequence in the unit cube, those of PyTorch's engine.

    Point i is the exclusive or of direction numbers, one for each bit of Gray's code of i, as I. Antonov and
    V. Saleev (1979) order the sequence. The direction numbers are S. Joe's and F. Kuo's (2008, new-joe-kuo-6), as SciPy
    has them. Scrambling is A. Owen's (1998), by a random lower triangular matrix and a shift.

    Args:
        dimension: of the cube, 1 to 21201.
        scramble: scramble the sequence.
        seed: of the scrambling; None = the default generator.

    Attributes:
        num_generated: points that were drawn.

    Raises:
        ValueError: the dimension is out of range.
        ImportError: SciPy is not installed.
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._directions = np.zeros((0, dimension), np.int64)
        self._rows: Any = None
        shift = np.zeros(dimension, np.int64)
        if scramble:
            source = None if seed is None else Generator().manual_seed(seed)
            bits = randint(2, (dimension, _BITS), generator=source).numpy()
            shift = bits @ (1 << np.arange(_BITS))
            lower = np.tril(randint(2, (dimension, _BITS, _BITS), generator=source).numpy())
            lower[:, range(_BITS), range(_BITS)] = 1
            self._rows = lower @ (1 << np.arange(_BITS - 1, -1, -1))
        self.shift = tensor(shift)
        self._first_point = self.shift / 2**_BITS

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next points.

        Args:
            n: how many.
            out: a tensor to be given the points, and their shape.
            dtype: of the points, floating; None = the default dtype.

        Returns:
            [n, dimension], in [0, 1).
        """
        dtype = dtype or get_default_dtype()
        made = tensor(self._points(self.num_generated, n)).to(dtype) * 2.0**-_BITS
        if self.num_generated == 0 and n:  # this point is rounded to the dtype that was the default one at the start
            made[0] = self._first_point.to(dtype)
        self.num_generated += n
        return made if out is None else write_out(made, out)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next ``2 ** m`` points. ValueError if there would not be a power of two of them in all."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()' "
                "instead."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip ``n`` points."""
        self.num_generated += n
        return self

    def _points(self, start: int, count: int) -> Any:
        """Points from ``start`` on, times 2 ** 30: int64, [count, dimension]."""
        index = np.arange(start, start + count)
        gray = index ^ (index >> 1)
        points = np.tile(self.shift.numpy(), (count, 1))
        needed = int(gray.max(initial=0)).bit_length()
        if needed > len(self._directions):
            self._directions = self._scrambled(_direction_numbers(self.dimension, needed))
        for bit, direction in enumerate(self._directions[:needed]):
            points[(gray >> bit & 1).astype(bool)] ^= direction
        return points

    def _scrambled(self, directions: Any) -> Any:
        """Each direction number as a column of bits, multiplied by the matrices over the field of two elements."""
        if self._rows is None:
            return directions
        found = np.zeros_like(directions)
        for bit in range(_BITS):
            common = directions & self._rows[:, _BITS - 1 - bit]
            found |= _parity(common) << bit
        return found

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"SobolEngine(dimension={self.dimension}{', scramble=True' if self.scramble else ''}{seed})"


def _parity(values: Any) -> Any:
    """Whether the number of ones among 32 bits is odd: 0 or 1."""
    for half in (16, 8, 4, 2, 1):
        values = values ^ (values >> half)
    return values & 1


def _direction_numbers(dimension: int, count: int) -> Any:
    """The first direction numbers, times 2 ** 30: [count, dimension].

    Number k is point 2 ** (k + 1) - 1, for bit k is the only one in Gray's code of that.
    """
    try:
        sequence = _QMC.Sobol
    except ModuleNotFoundError as error:
        raise ImportError("SobolEngine needs SciPy: pip install scipy") from error
    points = sequence(dimension, scramble=False, bits=_BITS).random_base2(count)
    return (points[(1 << np.arange(1, count + 1)) - 1] * 2.0**_BITS).astype(np.int64)
