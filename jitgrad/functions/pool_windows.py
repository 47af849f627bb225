"""Pools whose windows are told by a kernel's size, a stride, a padding and a dilation.

Owns: what these arguments mean, which is remembered per extents (Note [Ranges]); ``max_pool_over``, ``avg_pool_over``.
Must not know: which public functions there are.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, bool_
from jitgrad.lazy import LazyModule
from jitgrad.ops.shapes import refuse
from jitgrad.ops.table import OPS
from jitgrad.ops.windows.window_ranges import Ranges, sliding

__all__ = ["avg_pool_over", "max_pool_over"]

Ints = tuple[int, ...]

_tables = LazyModule("jitgrad.functions.windows")

_MAX, _AVG = ({dims: OPS[f"{kind}_pool{dims}d"] for dims in (1, 2, 3)} for kind in ("max", "avg"))


def _windows_of(
    name: str, shape: Ints, dims: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Ranges, ...]:
    """Where the windows of a pool lie; what is wrong with them is raised."""
    if 0 in shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )
    extents = shape[-dims:]
    if min(kernel) <= 0:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{name}: dilation should be greater than zero, but got {list(dilation)}")
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    if min(stride) < 0:
        raise RuntimeError(f"stride should be greater than zero, but got {list(stride)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if 2 * p > d * (k - 1) + 1:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    rows = list(zip(extents, kernel, stride, padding, dilation, strict=True))
    counts = tuple(_count(*row, ceil_mode) for row in rows)
    if min(counts) <= 0:
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, shape[-dims - 1 :]))}). Calculated output size: "
            f"({'x'.join(map(str, (shape[-dims - 1], *counts)))}). Output size is too small"
        )
    return tuple(sliding(extent, count, *row) for count, (extent, *row) in zip(counts, rows, strict=True))


_known_windows = lru_cache(maxsize=1024)(_windows_of)


def _count(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows there are; with ``ceil_mode`` a last one may lie partly outside, but must begin inside."""
    room = extent + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    found = -(-room // stride) + 1
    return found - 1 if (found - 1) * stride >= extent + padding else found


def _numbers(name: str, value: Any, dims: int) -> Ints:
    """One number, or one for each dimension."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return (value,) * dims
    if type(value) is tuple and len(value) == dims and all([type(n) is int for n in value]):
        return value
    found: Ints = _tables.each(name, value, dims)
    return found


def _is_unset(stride: Any) -> bool:
    """Whether a pool's stride is that of its kernel: left out, or an empty list."""
    return stride is None or (isinstance(stride, tuple | list) and not stride)


def _windows(
    name: str, x: Any, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
) -> tuple[Ranges, ...]:
    """``_windows_of`` of arguments as users give them."""
    shape = x._aval.shape
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}: non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input, but got "
            f"{list(shape)}"
        )
    size = _numbers(f"{name}: kernel_size", kernel, dims)
    step = size if _is_unset(stride) else _numbers(f"{name}: stride", stride, dims)
    around = _numbers(f"{name}: padding", padding, dims)
    spread = (1,) * dims if type(dilation) is int and dilation == 1 else _numbers(f"{name}: dilation", dilation, dims)
    return _known_windows(name, shape, dims, size, step, around, spread, bool(ceil_mode))


def max_pool_over(
    name: str,
    x: Any,
    dims: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """The largest element of each window of the last dimensions, and its position in them, flattened."""
    windows = _windows(name, x, dims, kernel_size, stride, padding, dilation, ceil_mode)
    if not x.dtype.is_floating_point:
        refuse(f"max_pool{max(dims, 2)}d", x, (bool_, *COMPLEX_DTYPES))
    return door.apply(_MAX[dims], x, windows)


def avg_pool_over(
    name: str,
    x: Any,
    dims: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of the last dimensions."""
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    windows = _windows(name, x, dims, kernel_size, stride, padding, 1, ceil_mode)
    if not x.dtype.is_floating_point:
        refuse("avg_pool3d_out_frame" if dims == 3 else "avg_pool2d", x, COMPLEX_DTYPES)
    counted = int(divisor_override) if divisor_override is not None else _counted(windows, bool(count_include_pad))
    return door.apply(_AVG[dims], x, windows, counted)


@lru_cache(maxsize=1024)
def _counted(windows: tuple[Ranges, ...], count_include_pad: bool) -> Any:
    """What sums are divided by, see ``ops.windows.pooling``: one number where all windows have as many elements."""
    bounds = tuple((w.low, w.extent - w.low) if count_include_pad else (0, w.extent) for w in windows)
    are_full = [
        first <= w.low and (w.out - 1) * w.num + w.high <= end
        for w, (first, end) in zip(windows, bounds, strict=True)
    ]
    return math.prod(w.taps for w in windows) if all(are_full) else bounds
