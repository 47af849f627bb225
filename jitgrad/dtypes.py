"""Element types and PyTorch's promotion lattice.

Owns: the five dtypes, their NumPy twins, their limits, promotion.
Must not know: tensors, operations, LLVM.
Source of the rules: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from jitgrad.state import state

__all__ = [
    "BOOLEAN",
    "FLOATING",
    "INTEGER",
    "PACKAGE",
    "Category",
    "DType",
    "bool_",
    "dtype_of_scalar",
    "finfo",
    "float32",
    "float64",
    "from_numpy_dtype",
    "get_default_dtype",
    "iinfo",
    "int32",
    "int64",
    "promote_types",
    "set_default_dtype",
]


class Category(IntEnum):
    """What promotion looks at first: an operand of a lower category does not widen one of a higher."""

    BOOLEAN = 0
    INTEGER = 1
    FLOATING = 2


BOOLEAN, INTEGER, FLOATING = Category

PACKAGE = ["jitgrad"]
"""What dtypes and types of tensors are printed with, as the only item.

``as_torch`` makes it ``torch``, so that a script prints what it prints with PyTorch."""


class DType:
    """One element type. Instances are singletons: compare with ``is``.

    Attributes:
        name: PyTorch's name, without the module.
        np: the NumPy dtype of the same layout.
        itemsize: bytes per element.
        category: bool, integer or floating; one of the names above, compare with ``is``.
    """

    __slots__ = ("category", "itemsize", "name", "np")

    def __init__(self, name: str, np_dtype: Any, category: Category) -> None:
        self.name = name
        self.np = np.dtype(np_dtype)
        self.itemsize = self.np.itemsize
        self.category = category

    @property
    def is_floating_point(self) -> bool:
        return self.category is FLOATING

    @property
    def is_complex(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{PACKAGE[0]}.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_by_name, (self.name,))


bool_ = DType("bool", np.bool_, BOOLEAN)
int32 = DType("int32", np.int32, INTEGER)
int64 = DType("int64", np.int64, INTEGER)
float32 = DType("float32", np.float32, FLOATING)
float64 = DType("float64", np.float64, FLOATING)

_ALL = (bool_, int32, int64, float32, float64)
_BY_NAME = {d.name: d for d in _ALL}
_BY_NUMPY = {d.np: d for d in _ALL}
_RANK = {d: i for i, d in enumerate(_ALL)}

DEFAULT_DTYPE = [float32]
"""The floating dtype given to Python floats, as the only item: what reads it at every call reads no function."""


def _by_name(name: str) -> DType:
    return _BY_NAME[name]


def from_numpy_dtype(np_dtype: Any) -> DType:
    """The jitgrad dtype of a NumPy dtype; TypeError where jitgrad has none."""
    found = _BY_NUMPY.get(np.dtype(np_dtype))
    if found is None:
        names = ", ".join(d.name for d in _ALL)
        raise TypeError(f"can't convert np.ndarray of type {np_dtype}. The only supported types are: {names}.")
    return found


on_new_default: list[Callable[[], None]] = []
"""Called when another default dtype is set: what was worked out with the old one may be wrong."""


def get_default_dtype() -> DType:
    """The floating dtype given to Python floats (float32 unless set)."""
    return DEFAULT_DTYPE[0]


def set_default_dtype(dtype: DType) -> None:
    """Make ``dtype`` (float32 or float64) the default; TypeError for any other."""
    if dtype not in (float32, float64):
        raise TypeError("only floating-point types are supported as the default type")
    DEFAULT_DTYPE[0] = dtype
    for forget in on_new_default:
        forget()
    if state.handler is not None:
        state.handler.set_default_dtype(dtype)


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype both operands convert to, as ``torch.promote_types``."""
    return a if _RANK[a] >= _RANK[b] else b


def dtype_of_scalar(value: bool | int | float) -> DType:
    """The dtype a Python number has on its own."""
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else DEFAULT_DTYPE[0]


class finfo:
    """Limits of a floating dtype (the default one unless given), as Python floats.

    Attributes:
        dtype: its name.
        bits: per element.
        eps: the distance from 1 to the next number.
        max, min: the largest number, and minus that.
        tiny, smallest_normal: the smallest positive number of full precision.
        resolution: of its decimal digits.

    Raises:
        TypeError: for a dtype that is not floating.
    """

    def __init__(self, dtype: DType | None = None) -> None:
        dtype = dtype or DEFAULT_DTYPE[0]
        if not dtype.is_floating_point:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype!r}'"
            )
        known = np.finfo(dtype.np)
        self.dtype, self.bits = dtype.name, int(known.bits)
        self.eps, self.resolution = float(known.eps), 10.0**-known.precision
        self.max, self.min = float(known.max), float(known.min)
        self.tiny = self.smallest_normal = float(known.tiny)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype.

    Attributes:
        dtype: its name.
        bits: per element.
        max, min: the largest and the smallest number.

    Raises:
        TypeError: for a dtype that is no integer.
    """

    def __init__(self, dtype: DType) -> None:
        if dtype.category is not INTEGER:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{dtype!r}'")
        known = np.iinfo(dtype.np)
        self.dtype, self.bits, self.max, self.min = dtype.name, known.bits, int(known.max), int(known.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
