"""Tensors made from a few numbers: progressions, triangles of indices, powers, scalars.

Owns: logspace, range, scalar_tensor, tril_indices, triu_indices, unravel_index, vander.
Must not know: how the operations they are made of are computed. Imported late.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, COMPLEX, FLOATING, as_dtype, complex128, float64, get_default_dtype, int64
from jitgrad.functions.creation import arange, full, linspace
from jitgrad.functions.from_data import tensor
from jitgrad.functions.joining import cat
from jitgrad.functions.known_makings import made_again
from jitgrad.functions.outputs import write_out
from jitgrad.functions.pointwise import float_power
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.tensor_base import TensorBase

__all__ = ["logspace", "powers", "range", "scalar_tensor", "tril_indices", "triu_indices", "unravel_index", "vander"]


def _number(name: str, argument: str, value: Any) -> Any:
    if not isinstance(value, TensorBase):
        return value
    if value.ndim:
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got {argument} with {value.ndim} "
            "dimension(s)."
        )
    return value.item()


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """``base`` to the powers of ``linspace(start, end, steps)``.

    Raises:
        RuntimeError: ``start`` or ``end`` is a tensor with dimensions; a negative number of steps.
    """
    start, end = _number("logspace", "start", start), _number("logspace", "end", end)
    if not isinstance(steps, int):
        raise TypeError(f"logspace(): argument 'steps' (position 3) must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    made = _logspace(start, end, steps, base, as_dtype(dtype), None if out is None else out.dtype, device)
    if out is not None:
        return write_out(made, out, is_factory=True)
    return made.requires_grad_() if requires_grad else made


@made_again
def _logspace(start: Any, end: Any, steps: int, base: float, dtype: Any, dtype_of_out: Any, device: Any) -> Any:
    """``logspace`` of numbers."""
    found = dtype or dtype_of_out or get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        if dtype is not None and found.category is not COMPLEX:
            raise RuntimeError(f"logspace(): complex bounds can't be safely cast to {found}")
        found = found.to_complex()
    if found.category is FLOATING or found.category is COMPLEX:
        powers = linspace(start, end, steps, dtype=float64 if found.category is FLOATING else complex128, device=device)
        return float_power(base, powers).to(found)
    # the exponents are whole numbers, and what is rounded down must be exact
    half = max(steps // 2, 1)  # a single number is the start
    step = (int(end) - int(start)) / (steps - 1) if steps > 1 else 0.0
    exact = [int(start) + step * i if i < half else int(end) - step * (steps - i - 1) for i in _indices(steps)]
    return tensor(np.power(float(base), exact), device=device).to(found)


def _indices(steps: int) -> Any:
    return iter(np.arange(steps).tolist())


def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... up to and including ``end``. Deprecated, as in PyTorch: use ``arange``."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if any(isinstance(x, complex) for x in (start, end, step)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if step == 0 or step != step:
        raise RuntimeError(f"step must be nonzero, but is {step}")
    if not math.isfinite((end - start) / step):
        raise RuntimeError(f"range: unsupported range: {start} -> {end} by {step}")
    count = math.floor((end - start) / step) + 1
    if count < 0 or (end - start) / step < 0:
        raise RuntimeError("upper bound and larger bound inconsistent with step sign")
    made = (arange(count, dtype=float64, device=device) * step + start).to(dtype or get_default_dtype())
    if out is not None:
        return write_out(made, out, is_factory=True)
    return made.requires_grad_() if requires_grad else made


@made_again
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """A tensor without dimensions, of the default dtype unless another is given."""
    value = s.item() if isinstance(s, TensorBase) else s
    return full((), value, dtype=as_dtype(dtype) or get_default_dtype(), device=device, requires_grad=requires_grad)


def _check_triangle(name: str, row: int, col: int) -> None:
    for position, (kind, value) in enumerate((("row", row), ("col", col)), 1):
        if not isinstance(value, int):
            kind_of = type(value).__name__
            raise TypeError(f"{name}(): argument '{kind}' (position {position}) must be int, not {kind_of}")
        if value < 0:
            raise RuntimeError(f"{kind} must be non-negative, got{value}")


def _positions(found: Any, dtype: Any, device: Any) -> Any:
    return tensor(np.stack(found), dtype=dtype or int64, device=device)


@made_again
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The positions on and below a diagonal of a matrix: [2, count], rows and columns."""
    _check_triangle("tril_indices", row, col)
    return _positions(run_quietly(np.tril_indices, row, offset, col), dtype, device)


@made_again
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The positions on and above a diagonal of a matrix: [2, count], rows and columns."""
    _check_triangle("triu_indices", row, col)
    return _positions(run_quietly(np.triu_indices, row, offset, col), dtype, device)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in a flattened tensor of ``shape`` as a tensor of coordinates per dimension.

    Raises:
        TypeError: for anything but a tensor and a shape.
        ValueError: indices that are no integers, or negative extents.
    """
    if not isinstance(indices, TensorBase):
        raise TypeError(f"unravel_index(): argument 'indices' must be Tensor, not {type(indices).__name__}")
    if indices.dtype.category in (FLOATING, BOOLEAN):
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    extents = (shape,) if isinstance(shape, int) else shape
    if not isinstance(extents, tuple | list):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}")
    for extent in extents:
        if not isinstance(extent, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(extent).__name__}")
        if extent < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {tuple(extents)}")
    found, rest = [], indices.to(int64)
    for extent in reversed(extents):
        found.append(rest % extent)
        rest = rest // extent
    return tuple(reversed(found))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The Vandermonde matrix [n, N] of a vector: its powers N - 1, ..., 0, or 0, ..., N - 1.

    Raises:
        RuntimeError: ``x`` is no vector, or ``N`` is negative.
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    found = powers(x, count)
    return found if increasing else found.flip(-1)


def powers(x: Any, count: int) -> Any:
    """[*, count] of the powers 0, ..., count - 1 of [*]; integers as int64."""
    base = x if x.dtype.is_inexact else x.to(int64)
    if count < 1:
        return base.new_zeros((*x.shape, 0))
    wide = base.unsqueeze(-1)
    return cat([wide.new_ones(wide.shape), wide.expand((*x.shape, count - 1)).cumprod(-1)], -1)
