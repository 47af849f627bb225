"""The array API's functions of dtypes, and what promotion it asks for.

Owns: ``result_type`` and its like; ``common``, which brings operands to one dtype.
Must not know: other functions.

The standard promotes arrays whatever their number of dimensions, PyTorch lets one without dimensions give way. So
operands of two dtypes are converted first.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from jitgrad import dtypes
from jitgrad.devices import Device
from jitgrad.dtypes import DType, get_default_dtype, promote_types
from jitgrad.functions import devices
from jitgrad.tensor_base import TensorBase

__all__ = ["astype", "can_cast", "common", "finfo", "iinfo", "isdtype", "result_type"]

_UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})


def common(*arrays: Any) -> list[Any]:
    """The arrays converted to one dtype; Python numbers as they are."""
    kinds = {x.dtype for x in arrays if isinstance(x, TensorBase)}
    if len(kinds) < 2:
        return [*arrays]
    dtype = functools.reduce(promote_types, kinds)
    return [x.to(dtype) if isinstance(x, TensorBase) else x for x in arrays]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of an operation on these arrays, dtypes and Python numbers.

    Raises:
        ValueError: no array and no dtype.
    """
    kinds = [x if isinstance(x, DType) else x.dtype for x in arrays_and_dtypes if isinstance(x, DType | TensorBase)]
    if not kinds:
        raise ValueError("at least one array or dtype is required")
    found = functools.reduce(promote_types, kinds)
    for number in arrays_and_dtypes:
        if type(number) is float and not found.is_floating_point:
            found = get_default_dtype()
        elif type(number) is int and found is dtypes.bool_:
            found = dtypes.int64
    return found


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether every value of a dtype, or of an array's, has its like in ``to``."""
    source = from_ if isinstance(from_, DType) else from_.dtype
    return promote_types(source, to) is to


def _is_kind(dtype: DType, kind: Any) -> bool:
    if isinstance(kind, DType):
        return dtype is kind
    is_integer = dtype.category is dtypes.INTEGER
    answers = {
        "bool": dtype is dtypes.bool_,
        "signed integer": is_integer and dtype.name not in _UNSIGNED,
        "unsigned integer": dtype.name in _UNSIGNED,
        "integral": is_integer,
        "real floating": dtype.is_floating_point,
        "complex floating": dtype.is_complex,
        "numeric": is_integer or dtype.is_floating_point or dtype.is_complex,
    }
    if kind not in answers:
        raise ValueError(f"unknown kind of dtypes: {kind!r}")
    return answers[kind]


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name such as ``"real floating"``, or a tuple of such."""
    return any(_is_kind(dtype, one) for one in (kind if isinstance(kind, tuple) else (kind,)))


class FloatLimits(NamedTuple):
    """What ``finfo`` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """What ``iinfo`` returns."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a floating dtype, or of an array's. TypeError for any other."""
    dtype = type if isinstance(type, DType) else type.dtype
    found = dtypes.finfo(dtype)
    return FloatLimits(found.bits, found.eps, found.max, found.min, found.smallest_normal, dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """Limits of an integer dtype, or of an array's. TypeError for any other."""
    dtype = type if isinstance(type, DType) else type.dtype
    found = dtypes.iinfo(dtype)
    return IntegerLimits(found.bits, found.max, found.min, dtype)


def astype(x: Any, dtype: DType, /, *, copy: bool = True, device: Device | str | None = None) -> Any:
    """The array in another dtype; itself where nothing changes and ``copy`` is False."""
    return devices.to(x, dtype=dtype, device=device, copy=copy)
