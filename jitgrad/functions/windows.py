"""Reading tensors through tables of positions, and tables that are remembered; arguments with a number per dimension.

Owns: tables that are tensors, kept per argument; reading along a dimension; ``each``.
Must not know: which function reads what.

# Note [Tables of positions]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~
# Padding by reflection reads a dimension at positions that depend on extents only. Such a table is computed by NumPy
# once and kept as a tensor: a compiled step meets the same tensor at every call, so its values are looked at once (Note
# [Early checks]) and no operation computes them. ``index_select``
# and ``index_add`` are each other's derivatives, so whatever is made of them can be differentiated any number of times.
# Of many elements, positions that are a few runs are read run by run instead: to look a position up takes several times
# as long as to copy an element. A reflection is three runs, [2, 1 | 0, 1, 2, 3 | 2, 1]; a copy of each element twice is
# an expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jitgrad.dtypes import INTEGER
from jitgrad.functions.devices import moved
from jitgrad.functions.from_data import from_array_copy
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase

__all__ = ["each", "each_number", "is_whole", "kept", "read"]


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """``make``, a function that returns an array, as one that returns a tensor and remembers the last ones."""
    return lru_cache(maxsize=256)(lambda *args: from_array_copy(np.ascontiguousarray(make(*args))))


@kept
def _positions(values: tuple[int, ...]) -> Any:
    return np.asarray(values, np.int64)


_MANY = 4096
"""From so many elements on runs are read one by one."""
_MAX_RUNS = 4


@lru_cache(maxsize=256)
def _repeats(positions: tuple[int, ...], extent: int) -> int:
    """How often each element stands in a row, if all of them do, in order, and equally often; else 0."""
    times = len(positions) // extent if extent else 0
    wanted = [at for at in range(extent) for _ in range(times)]
    return times if times > 1 and [*positions] == wanted else 0


@lru_cache(maxsize=256)
def _runs(positions: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """(first position, step, count) of each run that counts up, down or stays; nothing where there are too many."""
    runs: list[tuple[int, int, int]] = []
    for at in positions:
        if runs:
            first, step, count = runs[-1]
            if count == 1 and abs(at - first) <= 1:
                step = at - first
            if (count == 1 and abs(at - first) <= 1) or (count > 1 and at == first + step * count):
                runs[-1] = first, step, count + 1
                continue
        if len(runs) == _MAX_RUNS:
            return ()
        runs.append((at, 1, 1))
    return tuple(runs)


def _read_run(x: Any, dim: int, first: int, step: int, count: int) -> Any:
    if step == 0:
        return x.narrow(dim, first, 1).expand(*x.shape[:dim], count, *x.shape[dim + 1 :])
    if step < 0:
        return x.narrow(dim, first - count + 1, count).flip(dim)
    return x.narrow(dim, first, count)


def read(x: Any, dim: int, positions: Sequence[int]) -> Any:
    """``x`` at the positions, in this order, along a dimension."""
    places = tuple(positions)
    if x.numel() >= _MANY:
        extent = x.shape[dim]
        times = _repeats(places, extent)
        if times:
            wide = x.unsqueeze(dim + 1).expand(*x.shape[: dim + 1], times, *x.shape[dim + 1 :])
            return wide.reshape(*x.shape[:dim], extent * times, *x.shape[dim + 1 :])
        runs = _runs(places)
        if runs:
            return call("cat", [_read_run(x, dim, *run) for run in runs], dim)
    return x.index_select(dim, moved(_positions(places), x.device))


def each(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """One number, or one for each of ``count`` dimensions.

    Raises:
        TypeError: a number is no integer.
        RuntimeError: another number of them.
    """
    for one in value if isinstance(value, list | tuple) else (value,):
        if not is_whole(one):
            raise TypeError(f"{name} must be tuple of ints, but found element of type {type(one).__name__}")
    return tuple(map(int, each_number(name, value, count)))


def is_whole(x: Any) -> bool:
    """Whether something may stand for an int: a tensor does that has no dimensions and holds an integer."""
    if isinstance(x, TensorBase):
        return not x.ndim and x.dtype.category is INTEGER
    return isinstance(x, int | np.integer)


_WORDS = {1: "one", 2: "two", 3: "three"}


def each_number(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """``each`` of numbers of any kind."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(one, int | float | np.number | TensorBase):
            raise TypeError(f"{name} must be of numbers, but found element of type {type(one).__name__}")
        if isinstance(one, int) and not -(1 << 63) <= one < 1 << 63:
            error = TypeError if isinstance(value, list | tuple) else ValueError
            raise error(f"Overflow when unpacking long long: 64 bits do not hold {name} {one}")
    if not isinstance(value, list | tuple):
        return (value,) * count
    if len(value) == 1:
        return (value[0],) * count
    if len(value) != count:
        raise RuntimeError(f"{name} must either be a single int, or a tuple of {_WORDS[count]} ints")
    return tuple(value)
