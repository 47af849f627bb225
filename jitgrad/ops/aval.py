"""``Aval``: what is known of a tensor without its data; layouts, and which one a result has."""

from __future__ import annotations

import functools
import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import index, itemgetter
from typing import Any
from weakref import ref

from jitgrad.devices import CPU, Device
from jitgrad.dtypes import DType
from jitgrad.layouts import Size, channels_last, channels_last_3d, format_order, is_laid_out, iteration_order
from jitgrad.locks import process_lock
from jitgrad.symbols.number import ShapeEnv, current_env, is_symbolic, number_key

__all__ = [
    "REPEATS", "Aval", "Strides", "check_allocatable", "check_inside", "contiguous_strides", "dense",
    "devices_in_use", "has_repeats", "in_order", "is_dense", "kept", "last_position", "make_aval", "own_layout",
    "pointwise_strides", "row_major", "suggested_order",
]  # fmt: skip


Strides = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class Aval:
    """Shape, dtype, layout and device of a tensor; interned, so equal avals are identical.

    Shape rules neither read nor set the device: ``make_aval`` makes avals on the CPU, and the caller of the rule puts
    the results where they belong (``on``).

    Attributes:
        shape: extents, a plain tuple.
        size: the same as users see it.
        dtype: element type.
        stride: elements between neighbours, one per dimension.
        offset: elements from the start of the storage.
        numel: number of elements.
        is_contiguous: row-major without gaps (the offset may be anything).
        is_canonical: the same, and the strides of dimensions with one element are those of a new tensor.
        device: where the data are.
        start: what ``at_start`` has returned, or None.
    """

    __slots__ = (
        "__weakref__", "device", "dtype", "is_canonical", "is_contiguous", "numel", "offset", "shape", "size", "start",
        "stride",
    )  # fmt: skip

    shape: tuple[int, ...]
    size: Size
    dtype: DType
    stride: tuple[int, ...]
    offset: int
    numel: int
    is_contiguous: bool
    is_canonical: bool
    device: Device
    start: Aval | None

    def at_start(self) -> Aval:
        """The same tensor at the beginning of a storage."""
        if not self.offset:
            return self
        if self.start is None:
            self.start = make_aval(self.shape, self.dtype, self.stride).on(self.device)
        return self.start

    def on(self, device: Device) -> Aval:
        """The same tensor on another device."""
        return self if device is self.device else _on(self, device)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        layout = "" if self.is_contiguous and not self.offset else f" strides={self.stride} offset={self.offset}"
        where = "" if self.device is CPU else f" on {self.device}"
        return f"{self.dtype.name}[{dims}]{layout}{where}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.shape, self.dtype, self.stride, self.offset, self.device))


_INTERNED: dict[tuple[object, ...], ref[Aval]] = {}
"""Every aval that is alive, and some that were: ``data[i]`` has another one for each ``i``."""
_interning = process_lock()
_recent: deque[Aval] = deque(maxlen=4096)
"""The last ones, so that what comes again and again is not made anew."""
_LEAST = 1 << 16
_sweep_at = _LEAST


def _intern(key: tuple[object, ...], aval: Aval) -> Aval:
    """The aval that has this key from now on: two threads that race here end with one object."""
    with _interning:
        known = _INTERNED.get(key)
        found = None if known is None else known()
        if found is not None:
            return found
        if len(_INTERNED) >= _sweep_at:
            _sweep()
        _INTERNED[key] = ref(aval)
        _recent.append(aval)
    return aval


def _sweep() -> None:
    """Drop the keys of avals that are gone. No finalizer does it: what interrupts one is lost."""
    global _sweep_at
    for key, known in _INTERNED.copy().items():
        if known() is None and _INTERNED.get(key) is known:
            del _INTERNED[key]
    _sweep_at = max(_LEAST, 2 * len(_INTERNED))


_INT = {int}

_UNCOUNTABLE = 1 << 63
"""Bytes, where an extent of 0 counts as 1: NumPy multiplies the others, too."""


def _integers(numbers: tuple[Any, ...]) -> tuple[int, ...]:
    """bools and NumPy's integers as Python's; TypeError for other numbers."""
    return tuple(int(index(n)) for n in numbers)


def make_aval(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...] | None = None, offset: int = 0) -> Aval:
    """The interned aval, on the CPU; ``stride`` None means row-major. RuntimeError for what 64 bits cannot count."""
    key = (shape, dtype, stride, offset)
    known = _INTERNED.get(key)
    if known is not None and (found := known()) is not None:
        return found
    if type(shape) is not tuple:
        return make_aval(tuple(shape), dtype, stride, offset)
    if not _INT.issuperset(map(type, (*shape, *(stride or ()), offset))):  # True equals 1, and would be kept for it
        env = current_env()
        if env is not None and any(map(is_symbolic, (*shape, *(stride or ()), offset))):
            return _symbolic(env, shape, dtype, contiguous_strides(shape) if stride is None else stride, offset)
        return make_aval(_integers(shape), dtype, stride and _integers(stride), int(index(offset)))
    row_major = contiguous_strides(shape)
    if stride is None:
        aval = make_aval(shape, dtype, row_major, offset)
    else:
        aval = Aval()
        aval.shape, aval.dtype, aval.stride, aval.offset = shape, dtype, stride, offset
        aval.device, aval.size, aval.start = CPU, tuple.__new__(Size, shape), None
        aval.numel = math.prod(shape)
        aval.is_canonical = stride == row_major
        aval.is_contiguous = (
            aval.is_canonical
            or aval.numel == 0
            or all(n == 1 or s == c for n, s, c in zip(shape, stride, row_major, strict=True))
        )
        if (aval.numel or math.prod([n or 1 for n in shape])) * dtype.itemsize >= _UNCOUNTABLE:
            if aval.is_canonical:
                raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
            raise RuntimeError(f"numel: integer multiplication overflow with sizes={list(shape)}")
    return _intern(key, aval)


def _symbolic(env: ShapeEnv, shape: Strides, dtype: DType, stride: Strides, offset: int) -> Aval:
    """An aval with symbolic extents, Note [Symbolic extents]: interned among those of its planning."""
    key = (dtype, *map(number_key, (*shape, *stride, offset)))
    known: Aval | None = env.avals.get(key)
    if known is not None:
        return known
    aval = env.avals[key] = Aval()
    aval.shape, aval.dtype, aval.stride, aval.offset = shape, dtype, stride, offset
    aval.device, aval.size, aval.start = CPU, tuple.__new__(Size, shape), None
    aval.numel = math.prod(shape)
    row_major = contiguous_strides(shape)
    aval.is_canonical = stride == row_major
    aval.is_contiguous = aval.is_canonical or all(
        n == 1 or s == c for n, s, c in zip(shape, stride, row_major, strict=True)
    )
    return aval


def with_symbols(aval: Aval, symbols: Mapping[int, Any]) -> Aval:
    """The layout with symbols in the places of the extents that have some; under their ``ShapeEnv``."""

    def of(n: int) -> Any:
        return symbols.get(n, n) if n > 1 else n

    stride = None if aval.is_canonical else tuple(map(of, aval.stride))
    return make_aval(tuple(map(of, aval.shape)), aval.dtype, stride, of(aval.offset))


def last_position(aval: Aval) -> int:
    """The storage position of the last element that a layout without negative strides sees."""
    return aval.offset + sum((n - 1) * s for n, s in zip(aval.shape, aval.stride, strict=True))


def check_inside(aval: Aval, nbytes: int) -> None:
    """RuntimeError, in PyTorch's words, unless a storage of ``nbytes`` holds every element that a layout sees."""
    if aval.offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {aval.offset}")
    if aval.shape and min(aval.shape) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(aval.shape)} and strides={list(aval.stride)}"
        )
    needed = (last_position(aval) + 1) * aval.dtype.itemsize
    if aval.numel and needed > nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(aval.shape)}, strides {list(aval.stride)}, storage offset {aval.offset}, and "
            f"itemsize {aval.dtype.itemsize} requiring a storage size of {needed} are out of bounds for storage of "
            f"size {nbytes}"
        )


_SURELY_THERE = 1 << 32
"""Bytes: what is smaller is asked from the system, without looking how much there is."""


@functools.cache
def _machine_nbytes() -> int:
    """Memory and swap of this machine, a bound for what one allocation may get."""
    try:
        nbytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with open("/proc/meminfo") as file:
            rows = dict(line.split(":") for line in file)
        return max(nbytes, 0) + int(rows["SwapTotal"].split()[0]) * 1024
    except (AttributeError, ValueError, OSError, KeyError, IndexError):
        return 1 << 47  # what addresses of a process reach


def check_allocatable(avals: Iterable[Aval]) -> None:
    """RuntimeError, in PyTorch's words, for results that no memory of this machine can hold.

    An eager operation would hear it from the system; in a compiled step, where most results have no memory, it would
    count to the end. Shape rules are asked once for each kind of operands, so this costs repeated calls nothing.
    """
    for aval in avals:
        nbytes = aval.numel * aval.dtype.itemsize
        if nbytes <= _SURELY_THERE or aval.device.type == "meta":
            continue
        if nbytes >= 1 << 63:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(aval.shape)}")
        if nbytes > _machine_nbytes():
            raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes.")


def row_major(aval: Aval) -> Aval:
    """The row-major aval of the same shape and dtype, on the CPU."""
    return aval if aval.is_contiguous and not aval.offset else make_aval(aval.shape, aval.dtype)


devices_in_use: set[Device] = set()
"""Every device but the CPU that a tensor was ever on: while it is empty, nobody needs to look at devices."""


def _on(aval: Aval, device: Device) -> Aval:
    key = (aval.shape, aval.dtype, aval.stride, aval.offset)
    if device is CPU:
        return make_aval(*key)
    known = _INTERNED.get((*key, device))
    if known is not None and (found := known()) is not None:
        return found
    devices_in_use.add(device)
    moved = Aval()
    moved.shape, moved.dtype, moved.stride, moved.offset = key
    moved.numel, moved.is_contiguous, moved.device = aval.numel, aval.is_contiguous, device
    moved.size, moved.is_canonical, moved.start = aval.size, aval.is_canonical, None
    return _intern((*key, device), moved)


def _rebuild(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...], offset: int, device: Device) -> Aval:
    return make_aval(shape, dtype, stride, offset).on(device)


# --- layouts ---

def in_order(shape: Sequence[int], order: Sequence[int] | None) -> Strides | None:
    """The strides of a tensor without gaps; ``order``: dimensions from the slowest to the fastest. None: row-major."""
    if order is None:
        return None
    stride, step = [0] * len(shape), 1
    for d in reversed(order):
        stride[d] = step
        step *= max(shape[d], 1)
    return tuple(stride)


def is_dense(aval: Aval) -> bool:
    """Whether every element of a stretch of memory is seen once: PyTorch's is_non_overlapping_and_dense."""
    if aval.is_contiguous:
        return True
    step = 1
    real = [(s, n) for s, n in zip(aval.stride, aval.shape, strict=True) if n != 1]
    for stride, extent in sorted(real, key=itemgetter(0)):
        if stride != step:
            return False
        step *= extent
    return True


REPEATS = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)


def has_repeats(aval: Aval) -> bool:
    """Whether elements share places because the tensor was expanded."""
    return not aval.is_contiguous and any(s == 0 and n > 1 for s, n in zip(aval.stride, aval.shape, strict=True))


def dense(aval: Aval) -> Strides | None:
    """Strides without gaps whose memory is in the order in which ``aval`` is counted. None: row-major."""
    return None if aval.is_canonical else in_order(aval.shape, iteration_order(aval.shape, (aval.stride,)))


def kept(aval: Aval) -> Strides | None:
    """Strides of a copy: those of what is copied, if it has no gaps (``preserve_format``). None: row-major."""
    if aval.is_canonical:
        return None
    return aval.stride if is_dense(aval) else dense(aval)


def own_layout(aval: Aval) -> Aval:
    """How a value that was laid out as ``aval`` lies in memory of its own."""
    if not aval.offset and (aval.is_canonical or is_dense(aval)):
        return aval
    return make_aval(aval.shape, aval.dtype, aval.stride if is_dense(aval) else None)


# --- pointwise operations ---


def _aligned(aval: Aval, shape: Strides) -> Strides:
    """Strides of an operand in the shape of the result: 0 where it is repeated."""
    missing = len(shape) - aval.ndim
    own = zip(aval.shape, aval.stride, shape[missing:], strict=True)
    return (*(0,) * missing, *(0 if n == 1 and m != 1 else s for n, s, m in own))


def _common(avals: Sequence[Aval]) -> tuple[bool, Strides | None]:
    """(whether all operands of one shape have one layout, its strides): TensorIterator's fast setup."""
    first = avals[0]
    if all(a.is_contiguous for a in avals):
        return True, None
    for format in (channels_last, channels_last_3d):
        if all(_is_in_format(a, format) for a in avals):
            return True, in_order(first.shape, format_order(format, first.ndim))
    return is_dense(first) and all(a.stride == first.stride for a in avals), first.stride


def _is_in_format(aval: Aval, format: Any) -> bool:
    return is_laid_out(aval.shape, aval.stride, format)


def pointwise_strides(shape: Strides, avals: Sequence[Aval], has_numbers: bool) -> Strides | None:
    """TensorIterator's choice. A number counts as an operand of another shape."""
    if not has_numbers and all(a.shape == shape for a in avals):
        is_common, strides = _common(avals)
        if is_common:
            return strides
    return in_order(shape, iteration_order(shape, [_aligned(a, shape) for a in avals]))


# --- memory formats ---


def suggested_order(aval: Aval) -> Strides | None:
    """The order of dimensions of the memory format that a tensor seems to have. None: row-major.

    PyTorch's suggest_memory_format: also of tensors with gaps, as long as the channels are fastest.
    """
    if aval.is_canonical or aval.ndim not in (4, 5):
        return None
    order = (1, *range(aval.ndim - 1, 1, -1), 0)
    least = 0
    if aval.stride[1] == 0:
        return None
    for d in order:
        if aval.shape[d] == 0 or aval.stride[d] < least or (d == 0 and least == aval.stride[1]):
            return None
        least = aval.stride[d] * max(aval.shape[d], 1)
    return (0, *range(2, aval.ndim), 1)
