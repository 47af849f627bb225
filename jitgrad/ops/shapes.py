"""Shape and dtype rules that many operations share, and the errors they raise.

Owns: broadcasting, dimension wrapping, PyTorch's dtype promotion over tensors and numbers.
Must not know: what an operation computes.

Inputs of rules are avals, primitives (``codegen.primitives.builder.Value``), arrays or Python numbers; all of the first
three have ``shape`` and ``dtype``, and these rules need no more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from jitgrad.dtypes import (
    COMPLEX,
    FLOATING,
    INTEGER,
    DType,
    bool_,
    finfo,
    from_numpy_dtype,
    get_default_dtype,
    int64,
    promote_types,
    uint8,
)
from jitgrad.symbols.number import lifted

__all__ = [
    "as_dtype",
    "as_real",
    "broadcast",
    "c_type",
    "check_fits",
    "check_same_dtype",
    "check_width",
    "contiguous_dims",
    "dtype_of",
    "exact_operand",
    "float_dtype",
    "is_number",
    "no_such_dim",
    "np_cast",
    "np_exact_operand",
    "np_operand",
    "number_like",
    "numel",
    "of_dim",
    "operand",
    "reduced_shape",
    "refuse",
    "result_dtype",
    "shape_of",
    "torch_dtype_name",
    "wrap_dim",
    "wrap_dims",
]

def torch_dtype_name(dtype: DType) -> str:
    """The name that PyTorch's messages use: ``Float``, ``Long`` ..."""
    return dtype.type_name


def refuse(kernel: str, x: Any, refused: Collection[DType]) -> None:
    """NotImplementedError if the dtype of ``x``, a tensor or an aval, is one that PyTorch's kernel does not take."""
    if x.dtype in refused:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x.dtype.type_name}'")


def check_same_dtype(name: str, *tensors: Any) -> None:
    """RuntimeError unless all tensors have the first one's dtype; None stands for one that was not given."""
    for x in tensors[1:]:
        if x is not None and x.dtype is not tensors[0].dtype:
            raise RuntimeError(
                f"{name}: expected scalar type {tensors[0].dtype.type_name} but found {x.dtype.type_name}"
            )


def is_number(x: Any) -> bool:
    """A Python number, or the primitive of one that became a run-time scalar."""
    return not hasattr(x, "shape") or getattr(x, "op", None) == "scalar"


def shape_of(x: Any) -> tuple[int, ...]:
    """Shape; ``()`` for a number."""
    return getattr(x, "shape", ())


def as_dtype(dtype: Any) -> DType:
    """The jitgrad dtype of a jitgrad or NumPy dtype."""
    return dtype if isinstance(dtype, DType) else from_numpy_dtype(dtype)


def dtype_of(x: Any) -> DType:
    """The dtype of an input on its own; a Python number has int64, bool or the default floating dtype."""
    if isinstance(x, bool):
        return bool_
    if isinstance(x, int):
        if not -(1 << 63) <= x < 1 << 64:
            raise OverflowError(f"int too big to convert: {x} does not fit into 64 bits")
        return int64
    if isinstance(x, float):
        return get_default_dtype()
    if isinstance(x, complex):
        return get_default_dtype().to_complex()
    if is_number(x):
        return get_default_dtype() if x.dtype.category is FLOATING else x.dtype
    return as_dtype(x.dtype)


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """PyTorch's ``combine_categories``: a lower-priority operand matters only if its category is higher.

    Where it is complex, the parts keep the precision of a floating operand of higher priority.
    """
    if higher is None or lower is None:
        return higher if lower is None else lower
    if lower.category <= higher.category:
        return higher
    if lower.category is COMPLEX and higher.category is FLOATING:
        return higher.to_complex()
    return promote_types(higher, lower)


_NUMBERS = frozenset({bool, int, float, complex})


def result_dtype(*inputs: Any) -> DType:
    """``torch.result_type``: tensors with dimensions outrank 0-d tensors, which outrank Python numbers."""
    first: Any = inputs[0]
    if len(inputs) == 2 and type(first) not in _NUMBERS and first.shape:
        second: Any = inputs[1]
        dtype = first.dtype
        if type(second) is float:  # the usual kinds of two operands
            if type(dtype) is DType and dtype.category is FLOATING:
                return dtype
        elif type(second) is type(first) and second.dtype is dtype and second.shape and type(dtype) is DType:
            return dtype
    ranks: list[DType | None] = [None, None, None]
    for x in inputs:
        rank = 2 if is_number(x) else (0 if x.shape else 1)
        own, so_far = dtype_of(x), ranks[rank]
        ranks[rank] = own if so_far is None else promote_types(so_far, own)
    found = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    assert found is not None, "an operation needs at least one input"
    return found


def float_dtype(*inputs: Any) -> DType:
    """``result_dtype``, integers and bools becoming the default floating dtype."""
    found = result_dtype(*inputs)
    return found if found.is_inexact else get_default_dtype()


def operand(b: Any, x: Any, dtype: DType) -> Any:
    """An input of a lowering in ``dtype``: a primitive of what is computed in, Note [Compute dtypes]."""
    return b.cast(b.cast(x, dtype) if hasattr(x, "shape") else b.const(lifted(dtype.number)(x), dtype), dtype.compute)


def exact_operand(b: Any, x: Any, dtype: DType) -> Any:
    """``operand``, but that a number or a 0-d tensor is not rounded to a half dtype first."""
    if not dtype.is_half or shape_of(x):
        return operand(b, x, dtype)
    return b.cast(x, dtype.compute) if hasattr(x, "shape") else b.const(lifted(dtype.compute.number)(x), dtype.compute)


def np_exact_operand(x: Any, dtype: DType) -> Any:
    """``np_operand``, but that a number or a 0-d array is not rounded to a half dtype first."""
    return np_operand(x, dtype.compute if dtype.is_half and not shape_of(x) else dtype)


def as_real(number: complex, c_name: str) -> float:
    """A complex number as a real one; RuntimeError unless it is. ``c_name``: the type that it is to be."""
    if number.imag:
        raise RuntimeError(f"value cannot be converted to type {c_name} without overflow")
    return number.real


def check_fits(value: Any, dtype: DType, is_strict: bool = False) -> None:
    """RuntimeError for a number that a dtype does not hold.

    Negative integers may wrap in uint8, unless ``is_strict``.
    """
    if hasattr(value, "shape"):
        return
    check_width(value)
    if isinstance(value, complex) and not dtype.is_complex:
        value = as_real(value, c_type(dtype))
    if dtype.category is FLOATING and _largest(dtype) < abs(value) < math.inf:
        raise RuntimeError(f"value cannot be converted to type {dtype.c_name} without overflow")
    if dtype.category is not INTEGER:
        return
    bits = 8 * dtype.itemsize
    if dtype.is_signed:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    else:
        low, high = 0 if is_strict or isinstance(value, float) else 1 - (1 << bits), (1 << bits) - 1
    if not low - 1 < value < high + 1:  # a float may be a little outside: its fraction is cut off
        raise RuntimeError(f"value cannot be converted to type {c_type(dtype)} without overflow")


@functools.cache
def _largest(dtype: DType) -> float:
    return finfo(dtype).max


def check_width(number: Any) -> None:
    """OverflowError for an int of more than 64 bits: PyTorch refuses it wherever it takes a number."""
    if type(number) is int and not -(1 << 63) <= number < 1 << 64:
        raise OverflowError("int too big to convert" if number > 0 else "can't convert negative int to unsigned")


def c_type(dtype: DType) -> str:
    """The dtype in the words of PyTorch's conversions of numbers."""
    if dtype.category is not INTEGER:
        return dtype.c_name
    return {4: "int", 8: "int64_t"}.get(dtype.itemsize, f"{dtype.name}_t")


def np_operand(x: Any, dtype: DType) -> Any:
    """An input of a NumPy rule in ``dtype``; of a half dtype in float32, Note [Compute dtypes]."""
    if isinstance(x, np.ndarray | np.generic):
        stored = x if x.dtype == dtype.np else np_cast(x, dtype)
        return stored.astype(np.float32) if dtype.is_half else stored
    if dtype.is_short:
        return (np.float32 if dtype.is_half else dtype.np.type)(dtype.number(x))
    try:
        return dtype.np.type(x)
    except OverflowError:  # an integer that wraps
        return dtype.np.type(dtype.number(x))


def number_like(x: Any, other: Any) -> Any:
    """A Python number in the dtype of an array beside it, for what is computed of the number alone."""
    return x if isinstance(x, np.ndarray | np.generic) else other.dtype.type(x)


def np_cast(x: Any, dtype: DType) -> Any:
    """An array, or NumPy scalar, in another dtype, converted as PyTorch does on a CPU.

    Numbers become halves by way of float32, and floats become short integers by way of int32 (uint8: int64), of whose
    lowest number, which NaN and what does not fit become, the low bytes are kept. Of complex numbers the real part is
    kept.
    """
    if dtype is bool_:
        return x != 0
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = x.real
    if dtype.is_half or x.dtype.kind == "V":  # bfloat16, which NumPy cannot turn into everything
        x = x.astype(np.float32)
    if dtype.is_short and not dtype.is_half and x.dtype.kind == "f":
        x = x.astype(np.int64 if dtype is uint8 else np.int32)
    return x.astype(dtype.np)


def broadcast(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape; RuntimeError with PyTorch's message where sizes disagree."""
    first = shapes[0]
    for other in shapes[1:]:
        if other != first:
            first = _broadcast_pair(name, first, other)
    return first


def _broadcast_pair(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for dim in reversed(range(rank)):
        m, n = left[dim], right[dim]
        if m != n and m != 1 and n != 1:
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {dim}"
                f" ({name}: shapes {list(a)} and {list(b)})"
            )
    return tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))


def wrap_dim(dim: int, rank: int) -> int:
    """A non-negative dimension; IndexError outside the range. A 0-d tensor accepts 0 and -1."""
    extent = max(rank, 1)
    if not isinstance(dim, int):
        raise TypeError(f"dim must be an int, not {type(dim).__name__}")
    if not -extent <= dim < extent:
        if not -(1 << 63) <= dim < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: 64 bits do not hold dimension {dim}")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got {dim})"
        )
    return dim + extent if dim < 0 else dim


def no_such_dim(dim: int, rank: int) -> Exception:
    """What is raised for a dimension that a tensor does not have, also where it has none at all."""
    try:
        wrap_dim(dim, rank)
    except (IndexError, ValueError) as error:
        return error
    return IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


def of_dim(numbers: tuple[int, ...], dim: int) -> int:
    """The number of a dimension; IndexError if there is no such."""
    if not -len(numbers) <= dim < len(numbers):
        raise no_such_dim(dim, len(numbers))
    return numbers[dim]


def wrap_dims(dim: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Sorted non-negative dimensions; None and () mean all."""
    if dim is None or dim == ():
        return tuple(range(rank))
    dims = [wrap_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(sorted(d for d in dims if rank))


def reduced_shape(shape: tuple[int, ...], dims: Iterable[int], keepdim: bool) -> tuple[int, ...]:
    """The shape after reducing ``dims``."""
    gone = frozenset(dims)
    if keepdim:
        return tuple(1 if d in gone else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in gone)


def numel(shape: Iterable[int]) -> int:
    """Number of elements."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def contiguous_dims(shape: tuple[int, ...], dims: Iterable[int]) -> int:
    """Number of elements that reducing ``dims`` folds into one."""
    return numel(shape[d] for d in dims)
