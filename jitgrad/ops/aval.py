"""``Aval``: what is known of a tensor without its data."""

from __future__ import annotations

from jitgrad.devices import CPU, Device
from jitgrad.dtypes import DType
from jitgrad.layouts import Size

__all__ = ["Aval", "contiguous_strides", "devices_in_use", "make_aval", "row_major"]


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

    Shape rules neither read nor set the device: ``make_aval`` makes avals on the CPU, and whoever runs the rule puts
    the results where they belong (``on``).

    Attributes:
        shape: extents, a plain tuple.
        size: the same as users see it.
        dtype: element type.
        stride: elements between neighbours, one per dimension.
        offset: elements from the start of the storage.
        numel: number of elements.
        is_contiguous: row-major without gaps (the offset may be anything).
        device: where the data are.
    """

    __slots__ = ("device", "dtype", "is_contiguous", "numel", "offset", "shape", "size", "stride")

    shape: tuple[int, ...]
    size: Size
    dtype: DType
    stride: tuple[int, ...]
    offset: int
    numel: int
    is_contiguous: bool
    device: Device

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


_INTERNED: dict[tuple[object, ...], Aval] = {}


def make_aval(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...] | None = None, offset: int = 0) -> Aval:
    """The interned aval, on the CPU; ``stride`` None means row-major."""
    key = (shape, dtype, stride, offset)
    found = _INTERNED.get(key)
    if found is not None:
        return found
    if type(shape) is not tuple:
        return make_aval(tuple(shape), dtype, stride, offset)
    row_major = contiguous_strides(shape)
    if stride is None:
        aval = make_aval(shape, dtype, row_major, offset)
    else:
        aval = Aval()
        aval.shape, aval.dtype, aval.stride, aval.offset = shape, dtype, stride, offset
        aval.device, aval.size = CPU, Size(shape)
        aval.numel = 1
        for extent in shape:
            aval.numel *= extent
        aval.is_contiguous = aval.numel == 0 or all(
            n == 1 or s == c for n, s, c in zip(shape, stride, row_major, strict=True)
        )
    # setdefault: two threads that race here must end with one object
    return _INTERNED.setdefault(key, aval)


def row_major(aval: Aval) -> Aval:
    """The row-major aval of the same shape and dtype, on the CPU."""
    return aval if aval.is_contiguous and not aval.offset else make_aval(aval.shape, aval.dtype)


devices_in_use: set[Device] = set()
"""Every device but the CPU that a tensor was ever on: while it is empty, nobody needs to look at devices."""


def _on(aval: Aval, device: Device) -> Aval:
    key = (aval.shape, aval.dtype, aval.stride, aval.offset)
    if device is CPU:
        return make_aval(*key)
    found = _INTERNED.get((*key, device))
    if found is not None:
        return found
    devices_in_use.add(device)
    moved = Aval()
    moved.shape, moved.dtype, moved.stride, moved.offset = key
    moved.numel, moved.is_contiguous, moved.device = aval.numel, aval.is_contiguous, device
    moved.size = aval.size
    return _INTERNED.setdefault((*key, device), moved)


def _rebuild(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...], offset: int, device: Device) -> Aval:
    return make_aval(shape, dtype, stride, offset).on(device)
