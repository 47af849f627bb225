"""The array API's functions that arrange, find, sort and pick elements.

Owns: their signatures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad import functions
from jitgrad.array_api.dtype_functions import common
from jitgrad.array_api.elementwise import BINARY
from jitgrad.functions.devices import clone
from jitgrad.tensor_base import TensorBase

__all__ = [
    "argsort", "broadcast_arrays", "broadcast_to", "concat", "diff", "expand_dims", "flip", "moveaxis", "nonzero",
    "permute_dims", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "take", "take_along_axis",
    "tile", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "where",
]  # fmt: skip


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays, expanded to one shape."""
    return [*functions.broadcast_tensors(*arrays)]


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """The array, expanded to a shape."""
    return functions.broadcast_to(x, tuple(shape))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays one after the other along an axis; None: all elements in one dimension."""
    parts = common(*arrays)
    return functions.cat([x.reshape(-1) for x in parts]) if axis is None else functions.cat(parts, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays beside each other along a new axis."""
    return functions.stack(common(*arrays), axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts of an array along an axis."""
    return tuple(functions.unbind(x, axis))


def expand_dims(x: Any, /, axis: int = 0) -> Any:
    """The array with a new axis of one element. IndexError if there is no such place."""
    return functions.unsqueeze(x, axis)


def squeeze(x: Any, /, axis: Any) -> Any:
    """The array without some axes. ValueError if one of them has more than one element."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if any(x.shape[at] != 1 for at in axes):
        raise ValueError(f"cannot squeeze axes {axes} of shape {tuple(x.shape)}: they are not all of one element")
    return functions.squeeze(x, axes) if axes else x


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The elements in reverse order along some axes; None: along all."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    return functions.flip(x, axes)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """The array with axes at other places."""
    return functions.moveaxis(x, source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """The array with its axes in another order."""
    return functions.permute(x, tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element several times, along an axis; None: of all elements in one dimension."""
    return functions.repeat_interleave(x, repeats, axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements in another shape. ValueError if ``copy=False`` and they must be copied."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(str(error)) from error
    return functions.reshape(clone(x) if copy else x, tuple(shape))


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """The elements further on along axes; None: in one dimension."""
    return functions.roll(x, shift) if axis is None else functions.roll(x, shift, axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """The array several times along each axis."""
    return functions.tile(x, tuple(repetitions))


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along an axis."""
    return functions.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions of the elements in order along an axis."""
    return functions.argsort(x, dim=axis, descending=descending, stable=stable)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where the elements of ``x2`` belong in ``x1``, which is in order, or is in the order of ``sorter``."""
    x1, x2 = common(x1, x2)
    return functions.searchsorted(x1, x2, side=side, sorter=sorter)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The positions of the elements that are not zero, per axis. ValueError for an array without axes."""
    if not x.ndim:
        raise ValueError("nonzero() does not take arrays without axes")
    return tuple(functions.nonzero(x, as_tuple=True))


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """An element of ``x1`` where the condition holds, else one of ``x2``."""
    x1, x2 = common(x1, x2)
    if not isinstance(x1, TensorBase) or not isinstance(x2, TensorBase):
        array, number = (x1, x2) if isinstance(x1, TensorBase) else (x2, x1)
        beside = BINARY["add"](functions.zeros((), dtype=array.dtype, device=array.device), number)
        x1, x2 = common(*((x1, beside) if array is x1 else (beside, x2)))
    return functions.where(condition, x1, x2)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Parts of an array by their positions along an axis. ValueError if that is left out and there are several."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take() needs an axis for an array of more than one")
        axis = 0
    axis %= x.ndim
    found = functions.index_select(x, axis, indices.reshape(-1))
    return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements by their positions along an axis, for each place beside it."""
    return functions.take_along_dim(x, indices, axis)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, ``n`` times."""
    return functions.diff(x, n=n, dim=axis, prepend=prepend, append=append)


class UniqueAll(NamedTuple):
    """What ``unique_all`` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, where each comes first, which one each element is, and how often each comes."""
    values, inverse, counts = functions.unique(x, return_inverse=True, return_counts=True)
    order = functions.argsort(inverse.reshape(-1), stable=True)
    return UniqueAll(values, order[functions.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements, and how often each comes."""
    return UniqueCounts(*functions.unique(x, return_counts=True))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements, and which one each element is."""
    return UniqueInverse(*functions.unique(x, return_inverse=True))


def unique_values(x: Any, /) -> Any:
    """The different elements."""
    return functions.unique(x)
