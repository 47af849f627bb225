"""Shapes and layouts as users see them: ``torch.Size``, ``torch.layout``, ``torch.memory_format``.

Owns: these classes and names; the order of dimensions that a layout means; ``plain``.
Must not know: tensors, operations.

Shape rules and keys hold plain tuples: they are compared and hashed at every operation. Each ``Aval`` has one ``Size``
of its shape, which ``Tensor.shape`` returns. Users hand it back to functions; the parser of arguments makes a plain
tuple of it, and so does ``plain`` where jitgrad's own functions hand a shape on as a param.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

__all__ = [
    "Size",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "format_order",
    "is_laid_out",
    "iteration_order",
    "layout",
    "memory_format",
    "plain",
    "preserve_format",
    "sparse_coo",
    "strided",
]


def _extent(at: int, value: Any) -> int:
    if type(value) is int:
        return value
    try:
        return int(index(value))
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {at} is '{kind}')") from None


class Size(tuple[int, ...]):
    """The extents of a tensor, as ``torch.Size``: a tuple whose slices, sums and repetitions are of this class.

    Args:
        size: ints, or what has ``__index__``.

    Raises:
        TypeError: an item is no integer.
    """

    __slots__ = ()

    def __new__(cls, size: Iterable[Any] = ()) -> Size:
        items = tuple(size)
        if not all(type(n) is int for n in items):
            items = tuple(_extent(at, n) for at, n in enumerate(items))
        return tuple.__new__(cls, items)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if index.__class__ is slice else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        found = tuple.__mul__(self, times)
        return found if found is NotImplemented else tuple.__new__(Size, found)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


def plain(params: tuple[Any, ...]) -> tuple[Any, ...]:
    """Params of an operation with plain tuples for the sizes among them: kernels and keys know no other."""
    if Size not in map(type, params):
        return params
    return tuple(tuple(p) if type(p) is Size else p for p in params)


class _Name:
    """One of a few objects that have a name each, as PyTorch prints it; compare with ``is``."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Name):
    """How a tensor's elements are kept: ``jitgrad.strided`` or ``jitgrad.sparse_coo``."""

    __slots__ = ()


class memory_format(_Name):
    """The order of a tensor's elements in memory: ``jitgrad.contiguous_format``, ``jitgrad.channels_last``, ..."""

    __slots__ = ()


strided, sparse_coo = layout("strided"), layout("sparse_coo")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def _order_of(format: Any) -> tuple[int, ...] | None:
    """Dimensions from the slowest to the fastest; None: as they come. TypeError for what is no memory format."""
    if not isinstance(format, memory_format):
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(format).__name__}")
    return _ORDERS.get(format)


def format_order(format: Any, rank: int) -> tuple[int, ...] | None:
    """The dimensions of a tensor in this format, from the slowest to the fastest; None: in order.

    Raises:
        TypeError: it is no memory format.
        RuntimeError: a tensor of this rank cannot have it.
    """
    order = _order_of(format)
    if order is not None and len(order) != rank:
        raise RuntimeError(f"required rank {len(order)} tensor to use {format._name} format")
    return order


def iteration_order(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The order of dimensions in which PyTorch walks through operands, from the slowest to the fastest; None: in order.

    Smaller strides are faster; the first operand that has an opinion decides; of equal strides, the smaller extent is
    faster. A stride of 0 says nothing: such a dimension stays where it is among the others. With one operand it is
    the order that ``clone(memory_format=torch.preserve_format)`` keeps.

    Args:
        shape: of what is computed.
        strides: per operand, in that shape.
    """
    rank = len(shape)
    fastest = list(range(rank - 1, -1, -1))
    for i in range(1, rank):
        at = i
        for before in range(i - 1, -1, -1):
            wanted = _swaps(shape, strides, fastest[before], fastest[at])
            if wanted < 0:
                break
            if wanted:
                fastest[before], fastest[at] = fastest[at], fastest[before]
                at = before
    order = tuple(reversed(fastest))
    return None if order == tuple(range(rank)) else order


def _swaps(shape: Sequence[int], strides: Sequence[Sequence[int]], a: int, b: int) -> int:
    """Whether dimension ``a`` is slower than ``b``: 1; -1 if it is faster, 0 if nobody knows."""
    for stride in strides:
        if not (stride[a] and stride[b]):
            continue
        if stride[a] != stride[b]:
            return 1 if stride[a] > stride[b] else -1
        if shape[a] > shape[b]:
            return 1
    return 0


def is_laid_out(shape: Sequence[int], stride: Sequence[int], format: Any) -> bool:
    """Whether a layout that is not row-major is one of a format; False for a tensor of another rank."""
    order = _order_of(format)
    if order is None or len(order) != len(shape):
        return False
    step = 1
    for d in reversed(order):
        if shape[d] != 1:
            if stride[d] != step:
                return False
            step *= shape[d]
    return True
