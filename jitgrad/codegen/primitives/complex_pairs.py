"""Complex values: as pairs of real numbers, which is how they lie in memory, and as two real values.

Owns: ``Pair``.
Must not know: what operations on complex numbers lower to.

# Note [Complex values]
# ~~~~~~~~~~~~~~~~~~~~~
# Primitives are real. A complex value of shape [*] is a ``Pair``: its *whole*, a real value [*, 2] - the layout of its
# memory, see ``real_layout`` - or its *parts*, two real values [*]; each is made of the other when it is asked for.
# What comes from memory is a whole, and what goes there is one; arithmetic is done with the parts, so that the parts of
# a chain of operations are ordinary pointwise values of one kernel, and nothing is interleaved but what is stored.
# The lowerings are in ``ops/complex/complex_lowerings.py``. An operation on complex numbers that has none there has no
# lowering: it runs by its NumPy rule, as a step of the program (Note [Native pieces]).
# Example: ``(z * w).abs()`` of inputs z, w: complex64[n] is, with z0 = slice(z [n, 2], 0), z1 = slice(z, 1) and so on,
#   re = z0 w0 - z1 w1      im = z0 w1 + z1 w0      hypot(re, im)
# and one kernel, which reads z and w where they lie.
"""

from __future__ import annotations

from typing import Any

from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.dtypes import DType

__all__ = ["Pair"]


class Pair:
    """A complex value.

    Attributes:
        shape: of the complex value.
        real: the dtype of its parts.
    """

    __slots__ = ("_builder", "_parts", "_whole", "real", "shape")

    def __init__(self, b: Builder, whole: Value | None = None, parts: tuple[Value, Value] | None = None) -> None:
        self._builder, self._whole, self._parts = b, whole, parts
        if whole is not None:
            self.shape, self.real = whole.shape[:-1], whole.dtype
        else:
            assert parts is not None
            self.shape, self.real = parts[0].shape, parts[0].dtype

    @property
    def has_whole(self) -> bool:
        """Whether the whole is there without being made."""
        return self._whole is not None

    @property
    def whole(self) -> Value:
        """[*, 2]"""
        if self._whole is None:
            assert self._parts is not None
            b, shape = self._builder, (*self.shape, 1)
            self._whole = b.cat([b.reshape(x, shape) for x in self._parts], len(self.shape))
        return self._whole

    @property
    def parts(self) -> tuple[Value, Value]:
        """(real part, imaginary part), each [*]"""
        if self._parts is None:
            self._parts = (self._part(0), self._part(1))
        return self._parts

    def _part(self, nr: int) -> Value:
        b, whole, rank = self._builder, self._whole, len(self.shape)
        assert whole is not None
        ones = (1,) * (rank + 1)
        column = b.slice(whole, (*(0,) * rank, nr), (*self.shape, nr + 1), ones)
        return b.reshape(column, self.shape)

    def cast(self, real: DType) -> Pair:
        """With parts of another dtype."""
        if self.real is real:
            return self
        b = self._builder
        if self._whole is not None:
            return Pair(b, whole=b.cast(self._whole, real))
        return Pair(b, parts=(b.cast(self.parts[0], real), b.cast(self.parts[1], real)))

    def expand(self, shape: tuple[int, ...]) -> Pair:
        """Broadcast to a shape."""
        if self.shape == shape:
            return self
        b = self._builder
        return Pair(b, parts=(b.expand(self.parts[0], shape), b.expand(self.parts[1], shape)))

    def reshape(self, shape: tuple[int, ...]) -> Pair:
        """The elements in another shape."""
        if self.shape == shape:
            return self
        b = self._builder
        if self._whole is not None:
            return Pair(b, whole=b.reshape(self._whole, (*shape, 2)))
        return Pair(b, parts=(b.reshape(self.parts[0], shape), b.reshape(self.parts[1], shape)))


def is_pair(x: Any) -> bool:
    """Whether an operand of a lowering is complex."""
    return isinstance(x, Pair)
