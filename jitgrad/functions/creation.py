"""Making tensors: from data, from NumPy, filled, ranges.

Owns: their public signatures, and the checks on what is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import (
    INTEGER,
    DType,
    as_dtype,
    bfloat16,
    bool_,
    dtype_of_scalar,
    from_numpy_dtype,
    get_default_dtype,
    int64,
    known_dtypes,
    promote_types,
)
from jitgrad.functions._bind import ints
from jitgrad.functions.devices import cpu, made_like, made_on, placed, to
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import check_fits, np_cast
from jitgrad.ops.table import OPS
from jitgrad.runtime.devices.device import canonical
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result, new_tensor, tensor_class
from jitgrad.user_line import warn_once, warn_user

__all__ = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_array_copy",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor_method",
    "new_zeros",
    "ones",
    "ones_like",
    "own_array",
    "tensor",
    "zeros",
    "zeros_like",
]


_NESTED = LazyModule("jitgrad.functions.nested_data")
_FULL, _ZEROS_LIKE, _ONES_LIKE = OPS["full"], OPS["zeros_like"], OPS["ones_like"]
_ARANGE, _LINSPACE, _EYE = (OPS[n] for n in ("arange", "linspace", "eye"))


def _is_there(input: Any, device: Any) -> bool:
    """Whether a result beside ``input`` is where ``device=`` wants it."""
    return device is None or canonical(device) is input._aval.device


def _finish(out: Any, requires_grad: bool) -> Any:
    return out.requires_grad_(True) if requires_grad else out


# --- from data ---


def from_array_copy(array: Any, stride: tuple[int, ...] | None = None) -> Any:
    """A tensor with a copy of a NumPy array's values (in 64-byte aligned memory).

    Args:
        stride: how it is laid out, without gaps; None = row-major.
    """
    source = np.asarray(array)
    aval = make_aval(source.shape, from_numpy_dtype(source.dtype), stride)
    storage = Storage(aval.nbytes)
    view = storage.array(aval)
    np.copyto(view, source)
    return new_tensor(aval, storage, view)


def own_array(array: Any) -> Any:
    """A tensor of an array that nobody else has: its memory, where nothing is recorded."""
    if state.handler is None and array.base is None and array.flags.carray:
        return new_result(make_aval(array.shape, from_numpy_dtype(array.dtype)), array)
    return from_array_copy(array)


def from_numpy(ndarray: Any) -> Any:
    """A tensor that shares memory with a NumPy array.

    Raises:
        TypeError: for anything but an array of a supported dtype.
        ValueError: for negative strides or read-only memory.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = from_numpy_dtype(ndarray.dtype)
    if ndarray.base is None and ndarray.flags.carray and state.handler is None:  # as results of operations are
        return new_result(make_aval(ndarray.shape, dtype), ndarray)
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if any(s % dtype.itemsize for s in ndarray.strides):
        raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the array first.")
    if not ndarray.flags.writeable:
        raise ValueError("the given NumPy array is not writable; share a writable one, or copy it with tensor()")
    aval = make_aval(ndarray.shape, dtype, tuple(s // dtype.itemsize for s in ndarray.strides))
    tensor = new_tensor(aval, Storage.from_array(ndarray), ndarray)
    if state.handler is not None:
        state.handler.shares(tensor, tensor)
    return tensor


def _infer_dtype(data: Any, array: Any) -> DType:
    """What nested sequences become: the smallest dtype that every number in them converts to.

    A Python float counts as the default dtype, a tensor or a NumPy scalar as its own.
    """
    found: set[DType] = set()
    _gather_dtypes(data if isinstance(data, list | tuple) else [data], array, found)
    return functools.reduce(promote_types, found)


def _gather_dtypes(data: Any, array: Any, found: set[DType]) -> None:
    for kind in set(map(type, data)):
        if kind in (float, int, bool):
            found.add(get_default_dtype() if kind is float else int64 if kind is int else bool_)
        elif issubclass(kind, list | tuple):
            for x in data:
                if type(x) is kind:
                    _gather_dtypes(x, array, found)
        elif issubclass(kind, TensorBase):
            found.update(x.dtype for x in data if type(x) is kind)
        elif issubclass(kind, np.generic | np.ndarray):
            found.update(_dtype_like(x.dtype) for x in data if type(x) is kind)
        else:
            found.add(_python_dtype(array.dtype))


def _dtype_like(dtype: Any) -> DType:
    """The dtype of a NumPy scalar; of one that jitgrad has no dtype for, that of the Python number."""
    return from_numpy_dtype(dtype) if dtype in _KNOWN or dtype.name == "bfloat16" else _python_dtype(dtype)


def _python_dtype(dtype: Any) -> DType:
    if dtype.kind == "c":
        return get_default_dtype().to_complex()
    return get_default_dtype() if dtype.kind == "f" else bool_ if dtype.kind == "b" else int64


_KNOWN = frozenset(d.np for d in known_dtypes() if d is not bfloat16)


def _has_tensor(data: Any) -> bool:
    return isinstance(data, list | tuple) and any(isinstance(x, TensorBase) or _has_tensor(x) for x in data)


def _plain(data: Any) -> Any:
    """Nested sequences with the tensors in them turned into Python numbers."""
    if isinstance(data, TensorBase):
        return _only_element(data)
    return [_plain(x) for x in data] if isinstance(data, list | tuple) else data


def _only_element(tensor: Any) -> Any:
    """A tensor among numbers is one of them, whatever its dimensions, as in PyTorch."""
    if tensor.numel() == 1:
        return tensor.item()
    if tensor.dtype.is_inexact:
        raise ValueError("only one element tensors can be converted to Python scalars")
    raise TypeError("only integer tensors of a single element can be converted to an index")


def _as_array(data: Any) -> Any:
    if isinstance(data, list | tuple) and len(data) > 1 and isinstance(data[0], np.ndarray) and data[0].ndim:
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is slow in PyTorch. Please consider converting the list "
            "to a single numpy.ndarray with numpy.array() before converting to a tensor."
        )
    plain = _plain(data) if _has_tensor(data) else data
    try:
        array = np.array(plain)
    except ValueError:
        _NESTED.refuse_nested(plain)
    if array.dtype.kind not in "biufc":
        _NESTED.refuse_nested(plain)
    return array


_MAKING = LazyModule("jitgrad.functions.making_options")
_FEW = 64
"""Numbers that are not worth memory of their own, aligned for vectors."""


def tensor(
    data: Any,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    *,
    pin_memory: bool = False,
) -> Any:
    """A new leaf with a copy of ``data``: numbers, nested sequences, NumPy arrays or tensors.

    Args:
        dtype: None infers it: the default dtype for Python floats, int64 for integers, an array's own dtype.
        device: where; None = the CPU, or the device of ``data`` if it is a tensor.
        requires_grad: whether the new leaf is part of the graph.
        pin_memory: must be False.

    Raises:
        TypeError: for data that are not numbers.
        ValueError: for ragged sequences.
        RuntimeError: ``pin_memory=True``.
    """
    dtype = as_dtype(dtype)
    if pin_memory:
        _MAKING.check_options("tensor", None, pin_memory)
    if isinstance(data, TensorBase):
        warn_user(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor(sourceTensor)."
        )
        source = cpu(data.detach())._ndarray()
        wanted = dtype or data.dtype
        device = data.device if device is None else device
    elif isinstance(data, np.ndarray | np.generic):
        source = np.asarray(data)
        wanted = dtype or from_numpy_dtype(source.dtype)
    else:
        source, wanted = _numbers(data, dtype)
        if source.size <= _FEW and state.handler is None:  # the array is nobody else's: no copy in aligned memory
            array = _converted(source, wanted)
            return _finish(placed(new_result(make_aval(array.shape, wanted), array), device), requires_grad)
    return _finish(placed(from_array_copy(_converted(source, wanted)), device), requires_grad)


_LISTS = frozenset({list, tuple})
_KINDS: dict[type, str] = {float: "f", int: "i", bool: "b"}


def _numbers(data: Any, dtype: DType | None) -> tuple[Any, DType]:
    """(An array of Python's numbers, perhaps nested; the dtype that it is to have)."""
    kinds = set(map(type, data)) if type(data) in _LISTS else {type(data)}
    if kinds and _LISTS.issuperset(kinds):
        kinds = set(map(type, itertools.chain.from_iterable(data)))
    if dtype is None and len(kinds) == 1:  # as most are: a number, or a list or a table of numbers of one type
        (kind,) = kinds
        wanted = _KINDS.get(kind)
        if wanted is not None:
            with contextlib.suppress(ValueError):  # ragged: refused below
                array = np.array(data)
                if array.dtype.kind == wanted:  # else there are integers that int64 does not hold
                    return array, get_default_dtype() if kind is float else int64 if kind is int else bool_
    source = _as_array(data)
    wanted_dtype = dtype or (_infer_dtype(data, source) if source.size else get_default_dtype())
    _check_numbers(source, wanted_dtype)
    return source, wanted_dtype


def _converted(array: Any, dtype: DType) -> Any:
    if array.dtype == dtype.np or not dtype.is_short:
        return run_quietly(array.astype, dtype.np, "K", "unsafe", True, False)
    return run_quietly(np_cast, array, dtype)


def _check_numbers(numbers: Any, dtype: DType) -> None:
    """RuntimeError for Python numbers that an integer dtype does not hold; negative ones may wrap.

    TypeError for complex numbers that a real dtype does not hold.
    """
    if numbers.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError("must be real number, not complex")
    if dtype.category is INTEGER and numbers.size and numbers.dtype.kind in "iuf":
        for extreme in (numbers.min(), numbers.max()):
            try:
                check_fits(extreme.item(), dtype)
            except RuntimeError:
                raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow") from None


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Any:
    """``data`` itself if it is a tensor of that dtype, sharing memory with an array if it can, else a copy."""
    if isinstance(data, TensorBase):
        return to(data, dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and data.flags.writeable and all(s >= 0 for s in data.strides):
        return to(from_numpy(data), dtype=dtype, device=device)
    return tensor(data, dtype, device)


# --- filled ---


def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor of one value; its dtype is the value's unless given."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    if dtype is not None:
        check_fits(fill_value, dtype)
    return _finish(made_on(device, _FULL, fill_value, shape, dtype or dtype_of_scalar(fill_value)), requires_grad)


def zeros(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of zeros."""
    return _finish(made_on(device, _FULL, 0, ints(size), dtype or get_default_dtype()), requires_grad)


def ones(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ones."""
    return _finish(made_on(device, _FULL, 1, ints(size), dtype or get_default_dtype()), requires_grad)


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
    return _finish(made_like(lambda x: door.apply(_ZEROS_LIKE, x, dtype), input, memory_format), requires_grad)


def ones_like(
    input: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """Ones of a tensor's shape and dtype; ``memory_format`` as in ``zeros_like``."""
    if not _is_there(input, device):
        return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
    return _finish(made_like(lambda x: door.apply(_ONES_LIKE, x, dtype), input, memory_format), requires_grad)


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

    return _finish(made_like(make, input, memory_format), requires_grad)


empty_like = zeros_like


def new_tensor_method(
    self: Any, data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A new leaf from data, with this tensor's dtype, on its device."""
    return tensor(data, dtype or self.dtype, self.device if device is None else device, requires_grad)


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
    return _finish(level.wrap(whole), requires_grad)


def _full_beside(self: Any, value: Any, size: tuple[int, ...], dtype: Any) -> Any:
    made = _for_each_example(self, value, size, dtype, False)
    return made_on(self.device, _FULL, value, size, dtype) if made is None else made


def new_zeros(
    self: Any, *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Zeros with this tensor's dtype, on its device."""
    made = _for_each_example(self, 0, ints(size), dtype or self.dtype, requires_grad)
    if made is not None:
        return made
    device = self.device if device is None else device
    return zeros(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_ones(
    self: Any, *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Ones with this tensor's dtype, on its device."""
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
    return _finish(new_tensor(aval, row._storage), requires_grad)


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
        return _finish(made_on(device, _ARANGE, start, end, step, int64), requires_grad)
    if any(isinstance(v, complex) for v in (start, end, step)):
        raise RuntimeError("arange: value cannot be converted to type double without overflow: it is complex")
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if dtype is None:
        dtype = int64 if all(isinstance(v, int) for v in (start, end, step)) else get_default_dtype()
    if dtype.category is INTEGER:
        start, end, step = _whole_range(start, end, step, dtype)
    return _finish(made_on(device, _ARANGE, start, end, step, dtype), requires_grad)


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
    return _finish(made_on(device, _LINSPACE, start, end, steps, dtype), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """Ones on the diagonal."""
    return _finish(made_on(device, _EYE, n, n if m is None else m, dtype or get_default_dtype()), requires_grad)
