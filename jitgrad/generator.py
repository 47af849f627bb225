"""The global random stream, and the tensors drawn from it.

Owns: ``manual_seed``, ``initial_seed``, ``rand``, ``randn``, ``randint``, ``randperm``, ``*_like``.

The stream is Philox, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
Drawing runs in Python at every call, compiled or not, so a seed gives the same numbers in every mode.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import DType, float32, get_default_dtype, int64
from jitgrad.functions.creation import from_array_copy

__all__ = ["initial_seed", "manual_seed", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "stream"]


class _Generator:
    """A seed and the stream it starts; ``lock`` makes each draw whole.

    The stream is made by the first draw: NumPy imports its generators only then, a twentieth of ``import jitgrad``.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seed(int.from_bytes(os.urandom(4), "little"))

    def seed(self, value: int) -> None:
        self.value = value
        self._stream: np.random.Generator | None = None

    @property
    def stream(self) -> np.random.Generator:
        if self._stream is None:
            self._stream = np.random.Generator(np.random.Philox(self.value))
        return self._stream


_generator = _Generator()


def manual_seed(seed: int) -> None:
    """Restart the global random stream."""
    with _generator.lock:
        _generator.seed(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


def initial_seed() -> int:
    """The seed that the global random stream was started with."""
    return _generator.value


def stream(draw: Callable[[np.random.Generator], Any]) -> Any:
    """Draw from the global stream, alone: ``stream(lambda g: g.random(3))``."""
    with _generator.lock:
        return draw(_generator.stream)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in (size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size))


def _drawn(draw: Callable[[np.random.Generator], Any], dtype: DType, requires_grad: bool) -> Any:
    out = from_array_copy(np.asarray(stream(draw)).astype(dtype.np, copy=False))
    return out.requires_grad_() if requires_grad else out


def _native(dtype: DType) -> Any:
    """Philox draws floats in the dtype itself."""
    return np.float32 if dtype is float32 else np.float64


def rand(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Uniform on [0, 1)."""
    dtype = dtype or get_default_dtype()
    return _drawn(lambda g: g.random(_shape(size), dtype=_native(dtype)), dtype, requires_grad)


def randn(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Standard normal."""
    dtype = dtype or get_default_dtype()
    return _drawn(lambda g: g.standard_normal(_shape(size), dtype=_native(dtype)), dtype, requires_grad)


def rand_like(input: Any, *, dtype: DType | None = None, requires_grad: bool = False) -> Any:
    """``rand`` in a tensor's shape and dtype."""
    return rand(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def randn_like(input: Any, *, dtype: DType | None = None, requires_grad: bool = False) -> Any:
    """``randn`` in a tensor's shape and dtype."""
    return randn(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def randint(low: int, high: Any = None, size: Any = None, *, dtype: DType | None = None) -> Any:
    """Integers on [low, high), or [0, low) in the two-argument form ``randint(high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    return _drawn(lambda g: g.integers(low, high, _shape((size,))), dtype or int64, False)


def randperm(n: int, *, dtype: DType | None = None) -> Any:
    """A random permutation of 0 .. n-1."""
    return _drawn(lambda g: g.permutation(n), dtype or int64, False)
