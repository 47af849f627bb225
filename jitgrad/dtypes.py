"""Element types and PyTorch's promotion lattice.

Owns: the dtypes, their NumPy twins, what computes in their place, their limits, promotion.
Must not know: tensors, operations, LLVM.
Source of the rules: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc

# Note [Compute dtypes]
# ~~~~~~~~~~~~~~~~~~~~~
# Tensors of short dtypes are memory, not arithmetic. ``DType.compute`` is what an operation computes in: float32 for
# float16 and bfloat16, int32 for integers of 8 and 16 bits, the dtype itself for all others. An operation widens its
# operands, computes, and rounds (or wraps) its result once, at its end: PyTorch's CPU kernels do the same. So a sum of
# float16 is a float32 sum that is rounded once, and ``uint8`` wraps because what is stored is the low byte.
# Eager rules: ``runtime/eager/numpy_rule.py`` widens before the NumPy rule; NumPy's own integers wrap as they are.
# Kernels: ``Builder.widened`` and ``Builder.cast``; no other primitive ever sees a short dtype but moves, loads and
# stores.
# bfloat16 lies in NumPy arrays by way of ml_dtypes, which is imported when the first element is touched.
#
# Note [Minus zero]
# ~~~~~~~~~~~~~~~~~
# An operation's params are part of keys, of dictionaries and of hits, and 0.0 == -0.0: after ``F.pad(x, p, value=0.0)``
# a pad with -0.0 would find the first one's plan, and give 0.0. So a function whose floats become params passes them
# through ``float_param``: -0.0 becomes ``MINUS_ZERO``, a float as good as -0.0 for arithmetic, but a key of its own.
# Numbers that are operands (``x * -0.0``) need none: they are arguments of a program, and ``same`` compares their bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.state import state

__all__ = [
    "BOOLEAN",
    "COMPLEX",
    "COMPLEX_DTYPES",
    "FLOATING",
    "HALVES",
    "INTEGER",
    "MINUS_ZERO",
    "PACKAGE",
    "PYTHON_TYPES",
    "WHOLE",
    "Category",
    "DType",
    "as_dtype",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "dtype_of_scalar",
    "finfo",
    "float16",
    "float32",
    "float64",
    "float_param",
    "from_numpy_dtype",
    "get_default_dtype",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "known_dtypes",
    "promote_types",
    "set_default_dtype",
    "uint8",
]


class Category(IntEnum):
    """What promotion looks at first: an operand of a lower category does not widen one of a higher."""

    BOOLEAN = 0
    INTEGER = 1
    FLOATING = 2
    COMPLEX = 3


BOOLEAN, INTEGER, FLOATING, COMPLEX = Category

PACKAGE = ["jitgrad"]
"""What dtypes and types of tensors are printed with, as the only item.

``as_torch`` makes it ``torch``, so that a script prints what it prints with PyTorch."""


class DType:
    """One element type. Instances are singletons: compare with ``is``.

    Attributes:
        name: PyTorch's name, without the module.
        np: the NumPy dtype of the same layout. ImportError for bfloat16 where ml_dtypes is not installed.
        itemsize: bytes per element.
        category: bool, integer, floating or complex; one of the names above, compare with ``is``.
        compute: what operations compute in, see Note [Compute dtypes].
        is_half: float16 or bfloat16.
        is_inexact: floating or complex: its tensors have gradients.
        type_name: in PyTorch's messages: ``Float``, ``Long``, ``Byte``.
        c_name: in other messages: ``float``, ``long``, ``unsigned char``.
    """

    __slots__ = ("c_name", "category", "compute", "is_half", "is_inexact", "itemsize", "name", "np", "type_name")

    np: Any
    compute: DType

    def __init__(self, name: str, itemsize: int, category: Category, type_name: str, c_name: str) -> None:
        self.name, self.itemsize, self.category = name, itemsize, category
        self.type_name, self.c_name = type_name, c_name
        self.compute = self
        self.is_half = category is FLOATING and itemsize == 2
        self.is_inexact = category >= FLOATING
        if name != "bfloat16":
            self.np = np.dtype(name)

    def __getattr__(self, name: str) -> Any:
        """``np`` of bfloat16, when it is first asked for."""
        if name != "np":
            raise AttributeError(f"'dtype' object has no attribute {name!r}")
        self.np = found = _bfloat16_of_numpy()
        _BY_NUMPY[found] = self
        return found

    @property
    def is_floating_point(self) -> bool:
        return self.category is FLOATING

    @property
    def is_complex(self) -> bool:
        return self.category is COMPLEX

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return self.category is not BOOLEAN and self is not uint8

    @property
    def is_short(self) -> bool:
        """Whether operations compute in another dtype, see Note [Compute dtypes]."""
        return self.compute is not self

    def to_complex(self) -> DType:
        """The complex dtype whose parts hold numbers of this one; itself if it is complex.

        RuntimeError: for integers and bools. Halves have no complex twin of their own: theirs is complex64.
        """
        if self.category < FLOATING:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.type_name}")
        return complex128 if self in (float64, complex128) else complex64

    def to_real(self) -> DType:
        """The dtype of the parts of a complex dtype; itself if it is real."""
        return self if self.category is not COMPLEX else float64 if self is complex128 else float32

    def number(self, value: Any) -> Any:
        """The Python number that an element holds after ``value``, a number, was assigned to it.

        Integers wrap; floats that an integer cannot hold become what the processor makes of them.
        """
        if type(value) is float and self.category is FLOATING and not self.is_half:
            if self.itemsize == 8:
                return value
            if abs(value) < _SAFE:
                return _SINGLE.unpack(_SINGLE.pack(value))[0]
        if self.category is BOOLEAN:
            return bool(value)
        if self.category is INTEGER:
            bits = 8 * self.itemsize
            with np.errstate(all="ignore"):
                whole = int(value) if isinstance(value, int) else int(np.float64(value).astype(np.int64))
            whole &= (1 << bits) - 1
            return whole - (1 << bits) if self.is_signed and whole >> (bits - 1) else whole
        if self.category is COMPLEX:
            return complex(self.np.type(value))
        with np.errstate(all="ignore"):
            return float(np.asarray(_as_float(value)).astype(self.compute.np).astype(self.np))

    def __repr__(self) -> str:
        return f"{PACKAGE[0]}.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_by_name, (self.name,))


_SINGLE = Struct("f")
_SAFE = 3.4e38  # what is below does not overflow in single precision


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of more than 1024 bits
        return math.copysign(math.inf, value)


_ml_dtypes = LazyModule("ml_dtypes")


def _bfloat16_of_numpy() -> Any:
    try:
        return np.dtype(_ml_dtypes.bfloat16)
    except ImportError:
        raise ImportError(
            "values of bfloat16 need the package ml_dtypes: pip install 'jitgrad[bfloat16]', or pip install ml_dtypes"
        ) from None


bool_ = DType("bool", 1, BOOLEAN, "Bool", "bool")
uint8 = DType("uint8", 1, INTEGER, "Byte", "unsigned char")
int8 = DType("int8", 1, INTEGER, "Char", "signed char")
int16 = DType("int16", 2, INTEGER, "Short", "short")
int32 = DType("int32", 4, INTEGER, "Int", "int")
int64 = DType("int64", 8, INTEGER, "Long", "long")
float16 = DType("float16", 2, FLOATING, "Half", "c10::Half")
bfloat16 = DType("bfloat16", 2, FLOATING, "BFloat16", "c10::BFloat16")
float32 = DType("float32", 4, FLOATING, "Float", "float")
float64 = DType("float64", 8, FLOATING, "Double", "double")
complex64 = DType("complex64", 8, COMPLEX, "ComplexFloat", "c10::complex<float>")
complex128 = DType("complex128", 16, COMPLEX, "ComplexDouble", "c10::complex<double>")

uint8.compute = int8.compute = int16.compute = int32
float16.compute = bfloat16.compute = float32

HALVES = (float16, bfloat16)
COMPLEX_DTYPES = (complex64, complex128)
WHOLE = (bool_, uint8, int8, int16, int32, int64)
"""Bool and the integers."""
_ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)
_BY_NAME = {d.name: d for d in _ALL}
_BY_NUMPY = {d.np: d for d in _ALL if d is not bfloat16}
_RANK = {d: i for i, d in enumerate(_ALL)}


def _promoted(a: DType, b: DType) -> DType:
    """The wider of the two; of uint8 and int8, and of float16 and bfloat16, what holds both."""
    if {a, b} == {uint8, int8}:
        return int16
    if {a, b} == {float16, bfloat16}:
        return float32
    if {a, b} == {float64, complex64}:
        return complex128
    return a if _RANK[a] >= _RANK[b] else b


PYTHON_TYPES: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}
"""Python's types as arguments that name a dtype: ``zeros(3, dtype=int)``."""


def as_dtype(value: Any) -> Any:
    """A dtype that an argument names, itself or by Python's type of numbers; None for None.

    Raises:
        TypeError: it names none.
    """
    if value is None or isinstance(value, DType):
        return value
    if isinstance(value, type) and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    given = f"{value!r}" if isinstance(value, str) else type(value).__name__
    raise TypeError(f"argument 'dtype' must be {PACKAGE[0]}.dtype, not {given}")


_PROMOTED = {(a, b): _promoted(a, b) for a in _ALL for b in _ALL}

DEFAULT_DTYPE = [float32]
"""The floating dtype given to Python floats, as the only item: what reads it at every call reads no function."""


def _by_name(name: str) -> DType:
    return _BY_NAME[name]


def known_dtypes() -> tuple[DType, ...]:
    """All dtypes, by category and size."""
    return _ALL


def from_numpy_dtype(np_dtype: Any) -> DType:
    """The jitgrad dtype of a NumPy dtype; TypeError where jitgrad has none."""
    found = _BY_NUMPY.get(np_dtype) or _BY_NUMPY.get(np.dtype(np_dtype))
    if found is None:
        np_dtype = np.dtype(np_dtype)
        if np_dtype.name == "bfloat16" and bfloat16.np == np_dtype:
            return bfloat16
        names = ", ".join(d.name for d in _ALL)
        raise TypeError(f"can't convert np.ndarray of type {np_dtype}. The only supported types are: {names}.")
    return found


on_new_default: list[Callable[[], None]] = []
"""Called when another default dtype is set: what was worked out with the old one may be wrong."""


def get_default_dtype() -> DType:
    """The floating dtype given to Python floats (float32 unless set)."""
    return DEFAULT_DTYPE[0]


def set_default_dtype(d: DType) -> None:
    """Make a floating dtype the default; TypeError for any other."""
    if not isinstance(d, DType) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    DEFAULT_DTYPE[0] = d
    for forget in on_new_default:
        forget()
    if state.handler is not None:
        state.handler.set_default_dtype(d)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype both operands convert to, as ``torch.promote_types``."""
    try:
        return _PROMOTED[as_dtype(type1), as_dtype(type2)]
    except KeyError:
        raise TypeError(f"promote_types(): arguments must be dtypes, not {type1} and {type2}") from None


def dtype_of_scalar(value: bool | int | float | complex) -> DType:
    """The dtype a Python number has on its own."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, complex):
        return DEFAULT_DTYPE[0].to_complex()
    return int64 if isinstance(value, int) else DEFAULT_DTYPE[0]


_FORMATS = {
    float16: (11, -14, 15),
    bfloat16: (8, -126, 127),
    float32: (24, -126, 127),
    float64: (53, -1022, 1023),
}
"""Of floating dtypes: significant bits, the exponents of the smallest normal number and of the largest number."""


class finfo:
    """Limits of a floating dtype (the default one unless given), as Python floats; of a complex one's parts.

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
        dtype = (as_dtype(dtype) or DEFAULT_DTYPE[0]).to_real()
        if not dtype.is_floating_point:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype!r}'"
            )
        digits, least, most = _FORMATS[dtype]
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        self.eps = 2.0 ** (1 - digits)
        self.resolution = 10.0 ** -math.floor((digits - 1) * math.log10(2.0))
        self.max = (2.0 - self.eps) * 2.0**most
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**least

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
        dtype = as_dtype(dtype)
        if dtype is None or dtype.category is not INTEGER:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{dtype!r}'")
        known = np.iinfo(dtype.np)
        self.dtype, self.bits, self.max, self.min = dtype.name, known.bits, int(known.max), int(known.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class _MinusZero(float):
    """The class of ``MINUS_ZERO``, which equals nothing but itself."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __reduce__(self) -> str:
        return "MINUS_ZERO"


MINUS_ZERO = _MinusZero("-0.0")
"""-0.0 as a param of an operation, see Note [Minus zero]."""


def float_param(x: Any) -> Any:
    """A number that becomes a param: itself, or ``MINUS_ZERO``, see Note [Minus zero]."""
    return MINUS_ZERO if isinstance(x, float) and not x and math.copysign(1.0, x) < 0.0 else x
