"""Making tensors of data: of Python's numbers, perhaps nested, and of NumPy's arrays.

Owns: their public signatures, and the checks on what is given.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from typing import Any

import numpy as np

from jitgrad.array_storages import STORAGES
from jitgrad.dtypes import (
    INTEGER,
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float32,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    int64,
    known_dtypes,
    promote_types,
)
from jitgrad.functions.devices import cpu, placed, to
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import check_fits, np_cast
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result, new_tensor
from jitgrad.user_line import warn_once, warn_user

__all__ = ["as_tensor", "finish", "from_array_copy", "from_numpy", "new_tensor_method", "own_array", "tensor"]

_NESTED = LazyModule("jitgrad.functions.nested_data")


def finish(out: Any, requires_grad: bool) -> Any:
    """A new tensor, as a leaf of the graph if it is to be one."""
    return out.requires_grad_(True) if requires_grad else out


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
    is_new = ndarray.base is None and id(ndarray) not in STORAGES
    tensor = new_tensor(aval, Storage.from_array(ndarray), ndarray)
    if state.handler is not None:
        state.handler.shares(tensor, tensor, is_new)
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
    if array.dtype.kind not in "biufc" and not (array.dtype.kind == "O" and _REALS.issuperset(map(type, array.flat))):
        _NESTED.refuse_nested(plain)
    return array


_REALS = frozenset({float, int, bool})


def _of_huge(array: Any, dtype: DType) -> Any:
    """Numbers among which are integers of more than 64 bits: no integer dtype holds these."""
    if dtype.category is INTEGER:
        raise ValueError(_TOO_LONG)
    return array.astype(np.bool_ if dtype is bool_ else np.float64)


_TOO_LONG = "Overflow when unpacking long long"


_MAKING = LazyModule("jitgrad.functions.making_options")
_INT64_MAX = (1 << 63) - 1
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
        ValueError: for ragged sequences, and for integers of more than 64 bits where the dtype is one of integers.
        RuntimeError: ``pin_memory=True``; a number that the dtype does not hold.
    """
    if dtype is not None:
        dtype = as_dtype(dtype)
    if type(data) in _FEW_KINDS and device is None and not pin_memory:
        made = _of_few(data, dtype)
        if made is not None:
            return finish(made, requires_grad)
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
            return finish(placed(new_result(make_aval(array.shape, wanted), array), device), requires_grad)
    return finish(placed(from_array_copy(_converted(source, wanted)), device), requires_grad)


_LISTS = frozenset({list, tuple})
_KINDS: dict[type, str] = {float: "f", int: "i", bool: "b"}
_FEW_KINDS = _LISTS.union(_KINDS)
_SIMPLE_FLOATS = frozenset({float32, float64})


def _of_few(data: Any, dtype: DType | None) -> Any:
    """What ``tensor`` makes of a number, of few numbers of one type in a row or in rows; None if that is not so easy.

    Training loops make such a tensor at every step, of a label, an action, an observation.
    """
    if state.handler is not None or state.default_device is not None:
        return None
    kind = type(data)
    shape: tuple[int, ...] = ()
    if kind in _LISTS:
        kinds = {*map(type, data)}
        shape = (len(data),)
        if len(kinds) == 1 and _LISTS.issuperset(kinds):
            kinds = {*map(type, itertools.chain.from_iterable(data))}
            shape = (len(data), len(data[0]))
        if len(kinds) != 1 or math.prod(shape) > _FEW:
            return None
        kind = kinds.pop()
    array = _few_numbers(data, kind, dtype)
    if array is None:
        return None
    return new_result(make_aval(shape, dtype or _dtype_of(kind)), array)


def _dtype_of(kind: type) -> DType:
    """What Python's numbers of a type become."""
    return get_default_dtype() if kind is float else int64 if kind is int else bool_


def _few_numbers(data: Any, kind: type, dtype: DType | None) -> Any:
    """An array of numbers of one type; None of what is not simply converted, or raises."""
    if kind is float:
        wanted = get_default_dtype() if dtype is None else dtype
        try:
            return run_quietly(np.array, data, wanted.np) if wanted in _SIMPLE_FLOATS else None
        except ValueError:
            return None  # ragged
    if kind is not int and kind is not bool:
        return None
    try:
        array = np.array(data)
    except ValueError:
        return None
    if array.dtype is not (int64 if kind is int else bool_).np:  # there are integers that int64 does not hold
        return None
    if dtype is None or array.dtype is dtype.np:
        return array
    return array.astype(dtype.np) if dtype in _SIMPLE_FLOATS else None


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
                    return array, _dtype_of(kind)
    source = _as_array(data)
    wanted_dtype = dtype or (_infer_dtype(data, source) if source.size else get_default_dtype())
    if dtype is None and wanted_dtype is int64 and source.dtype.kind == "f":
        raise ValueError(_TOO_LONG)  # integers of which some are negative, and some too large for int64
    if source.dtype.kind == "O":
        source = _of_huge(source, wanted_dtype)
    _check_numbers(source, wanted_dtype)
    return source, wanted_dtype


def _converted(array: Any, dtype: DType) -> Any:
    if array.dtype == dtype.np or not dtype.is_short:
        return run_quietly(array.astype, dtype.np, "K", "unsafe", True, False)
    return run_quietly(np_cast, array, dtype)


def _check_numbers(numbers: Any, dtype: DType) -> None:
    """RuntimeError for Python numbers that an integer dtype does not hold; negative ones may wrap.

    ValueError for those that int64 does not hold, TypeError for complex numbers that a real dtype does not hold.
    """
    if numbers.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError("must be real number, not complex")
    if dtype.category is INTEGER and numbers.dtype.kind == "u" and numbers.size and numbers.max() > _INT64_MAX:
        raise ValueError(_TOO_LONG)
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


def new_tensor_method(
    self: Any, data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A new leaf from data, with this tensor's dtype, on its device."""
    return tensor(data, dtype or self.dtype, self.device if device is None else device, requires_grad)
