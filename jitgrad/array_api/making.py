"""The array API's functions that make arrays.

Owns: their signatures.
"""

from __future__ import annotations

from typing import Any

from jitgrad import functions
from jitgrad.dtypes import DType, get_default_dtype, int64
from jitgrad.functions import exchange

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None) -> Any:
    """``obj`` as an array: numbers, nested sequences of them, arrays, what has DLPack or the buffer protocol.

    Raises:
        ValueError: ``copy=False``, and a copy is needed.
    """
    return exchange.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of another library's."""
    return exchange.from_dlpack(x, device=device, copy=copy)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None, device: Any = None
) -> Any:
    """start, start + step, ... before stop; 0, 1, ... before ``start`` if that is all that is given."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (step > 0 and stop <= start) or (step < 0 and stop >= start):
        is_whole = all(isinstance(n, int) for n in (start, stop, step))
        return functions.empty(0, dtype=dtype or (int64 if is_whole else get_default_dtype()), device=device)
    return functions.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None, endpoint: bool = True
) -> Any:
    """``num`` numbers from start to stop, which is one of them if ``endpoint``."""
    kind = dtype or get_default_dtype()
    if endpoint:
        return functions.linspace(start, stop, num, dtype=kind, device=device)
    return functions.linspace(start, stop, num + 1, dtype=kind, device=device)[:num]


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of zeros."""
    return functions.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of ones."""
    return functions.ones(_shape(shape), dtype=dtype, device=device)


def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array whose contents do not matter."""
    return functions.empty(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of one value."""
    return functions.full(_shape(shape), fill_value, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """Zeros in the shape and dtype of an array."""
    return functions.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """Ones in the shape and dtype of an array."""
    return functions.ones_like(x, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array in the shape and dtype of another one, whose contents do not matter."""
    return functions.empty_like(x, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """One value in the shape and dtype of an array."""
    return functions.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Any:
    """Ones on the ``k``-th diagonal."""
    n_cols = n_rows if n_cols is None else n_cols
    made = functions.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        made.diagonal(k).fill_(1)
    return made


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The matrices of an array with zeros above the ``k``-th diagonal."""
    return functions.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The matrices of an array with zeros below the ``k``-th diagonal."""
    return functions.triu(x, k)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Coordinates on a grid. ValueError if ``indexing`` is neither ``"xy"`` nor ``"ij"``."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be 'xy' or 'ij', not {indexing!r}")
    return [*functions.meshgrid(*arrays, indexing=indexing)] if arrays else []
