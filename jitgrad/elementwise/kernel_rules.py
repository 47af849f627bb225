"""What a kernel's rules see and say: shapes and dtypes of its results, units of work.

Owns: ``ArraySpec``, ``result_specs``, ``given_units``.
Must not know: tensors, how kernels are compiled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.dtypes import DType

__all__ = ["ArraySpec", "given_units", "result_specs"]


class ArraySpec(NamedTuple):
    """An array without its elements."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """All extents, or one."""
        return self.shape if dim is None else self.shape[dim]


def result_specs(
    title: str, rule: Callable[..., Any] | None, operands: Sequence[Any], names: Sequence[str]
) -> list[ArraySpec]:
    """The results for these operands: ``ArraySpec``s, and numbers.

    Raises:
        TypeError: the rule says nothing that can be a result, or another number of results than there are.
    """
    arrays = [x for x in operands if isinstance(x, ArraySpec)]
    said = arrays[0] if rule is None else rule(*operands)
    several = said if isinstance(said, list) else [said]
    if len(several) != len(names):
        raise TypeError(
            f"{title}(): results= tells {len(several)} results, but {len(names)} are expected: {', '.join(names)} "
            "(several results are a list)"
        )
    default = next((x.dtype for x in arrays if x.dtype.is_floating_point), arrays[0].dtype)
    return [_spec(title, name, one, default) for name, one in zip(names, several, strict=True)]


def _spec(title: str, name: str, said: Any, default: DType) -> ArraySpec:
    shape, dtype = said, default
    if isinstance(said, ArraySpec):
        return said
    if isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], DType):
        shape, dtype = said
    if isinstance(shape, int) and not isinstance(shape, bool):
        shape = (shape,)
    try:
        extents = tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(
            f"{title}(): results= says {said!r} for {name!r}; an operand, a shape or (shape, dtype) is expected"
        ) from None
    if min(extents, default=0) < 0 or dtype.is_half or dtype.is_complex:
        raise TypeError(f"{title}(): {name!r} cannot be an array of shape {extents} and dtype {dtype.name}")
    return ArraySpec(extents, dtype)


def given_units(title: str, rule: Callable[..., Any], operands: Sequence[Any]) -> int:
    """How many units of work there are.

    Raises:
        TypeError: the rule says no number of them.
    """
    said = rule(*operands)
    try:
        count = operator.index(said)
    except TypeError:
        raise TypeError(f"{title}(): units= says {said!r}; a number of units is expected") from None
    if count < 0:
        raise TypeError(f"{title}(): units= says {count}; a number of units is expected")
    return count
