"""Making tensors of nothing: filled, ranges.

Owns: their public signatures, and the checks on what is asked for.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.dtypes import (
    INTEGER,
    DType,
    dtype_of_scalar,
    get_default_dtype,
    int64,
)
from jitgrad.functions._bind import ints
from jitgrad.functions.devices import made_like, made_on
from jitgrad.functions.from_data import finish
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import check_fits
from jitgrad.ops.table import OPS
from jitgrad.runtime.devices.device import canonical
from jitgrad.runtime.eager.makings import MAKINGS, making_table
from jitgrad.tensor_base import TensorBase, new_tensor, tensor_class
from jitgrad.tracer.hits.hits import MISSED

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


_known_makings: Any = LazyModule("jitgrad.functions.known_makings")
_FULL, _ZEROS_LIKE, _ONES_LIKE = OPS["full"], OPS["zeros_like"], OPS["ones_like"]
_ARANGE, _LINSPACE, _EYE = (OPS[n] for n in ("arange", "linspace", "eye"))


def _is_there(input: Any, device: Any) -> bool:
    """Whether a result beside ``input`` is where ``device=`` wants it."""
    return device is None or canonical(device) is input._aval.device


# --- filled ---


def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor of one value; its dtype is the value's unless given."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    if dtype is not None:
        check_fits(fill_value, dtype)
    return finish(made_on(device, _FULL, fill_value, shape, dtype or dtype_of_scalar(fill_value)), requires_grad)


def zeros(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of zeros."""
    return finish(made_on(device, _FULL, 0, ints(size), dtype or get_default_dtype()), requires_grad)


def ones(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ones."""
    return finish(made_on(device, _FULL, 1, ints(size), dtype or get_default_dtype()), requires_grad)


def empty(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor whose contents do not matter (zeros here: compiled code that overwrites them drops the fill)."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(
    input: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """Zeros of a tensor's shape and dtype.

    Args:
        memory_format: how they lie in memory; None = ``preserve_format``: as the tensor, without gaps.
    """
    if not _is_there(input, device):
        return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
    return finish(made_like(lambda x: door.apply(_ZEROS_LIKE, x, dtype), input, memory_format), requires_grad)


def ones_like(
    input: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """Ones of a tensor's shape and dtype; ``memory_format`` as in ``zeros_like``."""
    if not _is_there(input, device):
        return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
    return finish(made_like(lambda x: door.apply(_ONES_LIKE, x, dtype), input, memory_format), requires_grad)


def full_like(
    input: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """One value in a tensor's shape, dtype and device; ``memory_format`` as in ``zeros_like``."""
    made = _for_each_example(input, fill_value, tuple(input._aval.shape), dtype or input._aval.dtype, requires_grad)
    if made is not None:
        return made
    place, kind = input._aval.device if device is None else device, dtype or input._aval.dtype

    def make(like: Any) -> Any:
        return made_on(place, _FULL, fill_value, like._aval.shape, kind)

    return finish(made_like(make, input, memory_format), requires_grad)


empty_like = zeros_like


def _for_each_example(self: Any, value: Any, size: tuple[int, ...], dtype: Any, requires_grad: bool) -> Any:
    """What ``full`` makes beside one example of a ``vmap``: such a tensor for each; None outside of ``vmap``.

    Without a batch of them nothing that differs from example to example could be written to the new tensor.
    """
    if type(self) is tensor_class():
        return None
    level = getattr(self, "_level", None)
    if level is None:
        return None
    whole = level.beneath(_full_beside, self._physical, value, (level.size, *size), dtype)
    return finish(level.wrap(whole), requires_grad)


def _full_beside(self: Any, value: Any, size: tuple[int, ...], dtype: Any) -> Any:
    made = _for_each_example(self, value, size, dtype, False)
    return made_on(self.device, _FULL, value, size, dtype) if made is None else made


_NEW_ZEROS, _NEW_ONES = making_table(), making_table()


def _like_before(function: Any, table: dict[Any, Any], dtype: DType, size: tuple[Any, ...]) -> Any:
    """``function(*size, dtype=dtype)`` on the CPU; a small tensor is made as it was before, Note [Known makings]."""
    args = (dtype, *size)
    made = MAKINGS.make_again(table, args, {})
    if made is not MISSED:
        return made
    return _known_makings.keep("", table, args, {}, function(*size, dtype=dtype, device=CPU))


def new_zeros(
    self: Any, *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Zeros with this tensor's dtype, on its device."""
    if type(self) is tensor_class() and device is None and not requires_grad and self._aval.device is CPU:
        return _like_before(zeros, _NEW_ZEROS, dtype or self._aval.dtype, size)
    made = _for_each_example(self, 0, ints(size), dtype or self.dtype, requires_grad)
    if made is not None:
        return made
    device = self.device if device is None else device
    return zeros(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_ones(
    self: Any, *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Ones with this tensor's dtype, on its device."""
    if type(self) is tensor_class() and device is None and not requires_grad and self._aval.device is CPU:
        return _like_before(ones, _NEW_ONES, dtype or self._aval.dtype, size)
    made = _for_each_example(self, 1, ints(size), dtype or self.dtype, requires_grad)
    if made is not None:
        return made
    device = self.device if device is None else device
    return ones(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_full(
    self: Any,
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """One value with this tensor's dtype, on its device."""
    made = _for_each_example(self, fill_value, ints((size,)), dtype or self.dtype, requires_grad)
    if made is not None:
        return made
    device = self.device if device is None else device
    return full(size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


new_empty = new_zeros


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of any contents (zeros here) in a layout that is given by its strides.

    Args:
        size: extents.
        stride: elements between neighbours, per dimension; 0 repeats an element.

    Raises:
        RuntimeError: the lengths differ, or a number is negative.
    """
    shape, steps = tuple(size), tuple(stride)
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if any(s < 0 for s in steps):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}"
        )
    extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    row = made_on(device, _FULL, 0, (extent,), dtype or get_default_dtype())
    row._sync()
    aval = make_aval(shape, row._aval.dtype, steps).on(row._aval.device)
    return finish(new_tensor(aval, row._storage), requires_grad)


def new_empty_strided(
    self: Any,
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """``empty_strided`` with this tensor's dtype, on its device."""
    place = self.device if device is None else device
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=place, requires_grad=requires_grad)


# --- ranges ---

_WHOLE, _LARGE = (None, int64), 1 << 53
"""What ``arange`` of integers is asked for, and where they may not be numbers that C has."""


def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... below end. int64 for integer arguments, else the default dtype."""
    if start is None or end is None:
        start, end = 0, start if end is None else end
    if type(start) is type(end) is type(step) is int and dtype in _WHOLE and -_LARGE < start <= end < _LARGE:
        return finish(made_on(device, _ARANGE, start, end, step, int64), requires_grad)
    if any(isinstance(v, complex) for v in (start, end, step)):
        raise RuntimeError("arange: value cannot be converted to type double without overflow: it is complex")
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if dtype is None:
        dtype = int64 if all(isinstance(v, int) for v in (start, end, step)) else get_default_dtype()
    if dtype.category is INTEGER:
        start, end, step = _whole_range(start, end, step, dtype)
    return finish(made_on(device, _ARANGE, start, end, step, dtype), requires_grad)


def _whole_range(start: Any, end: Any, step: Any, dtype: DType) -> tuple[Any, Any, Any]:
    """What PyTorch counts with for integers: whole numbers, but how many they are is found before, unless for int64."""
    first, width = int(start), int(step)
    if dtype is int64:
        if step and not width:
            raise ValueError("step must be nonzero")
        return first, int(end), width
    if not step or (end - start) * step < 0:  # errors, which the operation raises
        return start, end, step
    count = math.ceil((end - start) / step)
    # a step of 0 repeats the first number: the step is so small that none of them gets to the next
    return (first, first + width * count, width) if width else (first, first + 0.5 * min(count, 1), 0.5 / max(count, 1))


def linspace(
    start: float, end: float, steps: int, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``steps`` numbers from start to end, both included."""
    for name, bound in (("start", start), ("end", end)):
        if isinstance(bound, TensorBase) and bound.ndim:
            raise RuntimeError(
                f"linspace only supports 0-dimensional start and end tensors, but got {name} with {bound.ndim} "
                "dimension(s)."
            )
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = (x.item() if isinstance(x, TensorBase) else x for x in (start, end))
    if dtype is None:
        is_complex = isinstance(start, complex) or isinstance(end, complex)
        dtype = get_default_dtype().to_complex() if is_complex else get_default_dtype()
    return finish(made_on(device, _LINSPACE, start, end, steps, dtype), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Ones on the diagonal."""
    return finish(made_on(device, _EYE, n, n if m is None else m, dtype or get_default_dtype()), requires_grad)
