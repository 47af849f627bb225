"""``Aval``: what is known of a tensor without its data."""

from __future__ import annotations

from jitgrad.dtypes import DType

__all__ = ["Aval", "contiguous_strides", "make_aval"]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class Aval:
    """Shape, dtype and layout of a tensor; interned, so equal avals are identical.

    Attributes:
        shape: extents.
        dtype: element type.
        stride: elements between neighbours, one per dimension.
        offset: elements from the start of the storage.
        numel: number of elements.
        is_contiguous: row-major without gaps (the offset may be anything).
    """

    __slots__ = ("dtype", "is_contiguous", "numel", "offset", "shape", "stride")

    shape: tuple[int, ...]
    dtype: DType
    stride: tuple[int, ...]
    offset: int
    numel: int
    is_contiguous: bool

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        layout = "" if self.is_contiguous and not self.offset else f" strides={self.stride} offset={self.offset}"
        return f"{self.dtype.name}[{dims}]{layout}"

    def __reduce__(self) -> tuple[object, ...]:
        return (make_aval, (self.shape, self.dtype, self.stride, self.offset))


_INTERNED: dict[tuple[object, ...], Aval] = {}


def make_aval(shape: tuple[int, ...], dtype: DType, stride: tuple[int, ...] | None = None, offset: int = 0) -> Aval:
    """The interned aval; ``stride`` None means row-major."""
    key = (shape, dtype, stride, offset)
    found = _INTERNED.get(key)
    if found is not None:
        return found
    row_major = contiguous_strides(shape)
    if stride is None:
        aval = make_aval(shape, dtype, row_major, offset)
    else:
        aval = Aval()
        aval.shape, aval.dtype, aval.stride, aval.offset = shape, dtype, stride, offset
        aval.numel = 1
        for extent in shape:
            aval.numel *= extent
        aval.is_contiguous = aval.numel == 0 or all(
            n == 1 or s == c for n, s, c in zip(shape, stride, row_major, strict=True)
        )
    # setdefault: two threads that race here must end with one object
    return _INTERNED.setdefault(key, aval)
