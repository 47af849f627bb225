"""Gathers and scatters of whole rows that are written element by element.

Owns: ``without_positions``: indices less those that only count along a row.
Must not know: kernels.
In: indices of a gather or scatter, all of one shape. Out: indices of one shape.

# Note [Indexed rows]
# ~~~~~~~~~~~~~~~~~~~
# ``gather`` and ``scatter_add`` have an index for each element, and their lowering one for each dimension: along all
# but one it is the element's own position. Where the index itself is the same along a row, as in
# ``x.scatter_add(0, ends.unsqueeze(1).expand(edges, features), messages)``, which is how messages of a graph are
# usually added up, whole rows are read or added to: then the last dimension needs no index. An index is read and
# checked once for each row, and the elements of a row are neighbours in memory, so they are the lanes of a vector.
# With 8,000 messages of 32 floats that takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.symbols.advice import identical

__all__ = ["without_positions"]

_SAME_SHAPE = frozenset({"cast", "copy", "check"})


def without_positions(b: Any, table: tuple[int, ...], indices: Sequence[Any], pointwise: dict[str, int]) -> list[Any]:
    """The indices of a table's rows, instead of those of their elements: ``Value``s, as all that is indexed here.

    Args:
        b: the ``Builder``.
        table: the shape of what is indexed; indices are for its first dimensions.
        indices: of one shape.
        pointwise: the primitives that compute element by element.
    """
    at, count = indices[0].shape, 0
    while count + 1 < len(indices):
        *others, position = indices[: len(indices) - count]
        dim = len(at) - 1 - count
        is_position = position.op == "iota" and position.params == (dim,)
        if not is_position or any([_varies(index, dim, pointwise) for index in others]):
            break
        if not identical(at[dim], table[len(others)]):  # a part of a row
            break
        count += 1
    return [_first(b, index, len(at) - count) for index in indices[: len(indices) - count]] if count else [*indices]


def _first(b: Any, index: Any, rank: int) -> Any:
    """An index at the first element of each row; ``rank``: dimensions that remain."""
    shape = index.shape[:rank]
    if index.op == "iota":
        return b.iota(shape, index.params[0])
    dims = len(index.shape)
    first = b.slice(index, (0,) * dims, (*shape, *[1] * (dims - rank)), (1,) * dims)
    return b.reshape(first, shape)


def _varies(v: Any, dim: int, pointwise: dict[str, int]) -> bool:
    """Whether elements along a dimension may differ."""
    waiting, seen = [(v, dim)], set()
    while waiting:
        item = waiting.pop()
        if item in seen:
            continue
        seen.add(item)
        x, d = item
        if x.op in ("const", "scalar"):
            continue
        if x.op == "iota" and x.params[0] != d:
            continue
        if x.op == "input" and x.params[1].stride[d] == 0:
            continue
        if x.op == "expand":
            own = d - len(x.shape) + len(x.srcs[0].shape)
            if own >= 0 and not identical(x.srcs[0].shape[own], 1):
                waiting.append((x.srcs[0], own))
        elif x.op in pointwise or x.op in _SAME_SHAPE:
            waiting += [(src, d) for src in x.srcs]
        else:
            return True
    return False
