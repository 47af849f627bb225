"""A Python function of each element.

Owns: ``apply_``, ``map_``, ``map2_``. Imported late.
Must not know: how tensors are stored. In a compiled step the values are read, which ends a segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.functions.devices import cpu, placed
from jitgrad.functions.from_data import from_array_copy
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = ["apply_", "map2_", "map_"]

_COPY = OPS["copy"]
_PLACES = ("first", "second")


def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element x by ``callable(x)``, in the order of the elements.

    Raises:
        RuntimeError: the tensor requires grad.
        TypeError: what is returned is no number.
    """
    return _mapped(self, "apply_", callable)


def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element x by ``callable(x, y)``, with y from ``tensor``, which broadcasts to this one's shape.

    Raises:
        RuntimeError: a tensor requires grad, or shapes do not fit.
        TypeError: dtypes differ, or what is returned is no number.
    """
    return _mapped(self, "map_", callable, tensor)


def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """As ``map_``, with a function of three numbers."""
    return _mapped(self, "map2_", callable, x, y)


def _mapped(self: Any, name: str, function: Callable[..., Any], *others: Any) -> Any:
    for place, other in enumerate(others, 1):
        if not isinstance(other, TensorBase):
            raise TypeError(f"{name}(): argument 'other' (position {place}) must be Tensor, not {type(other).__name__}")
    if any(x.requires_grad for x in (self, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    for other in others:
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.dtype} for 'other' (got {other.dtype})")
    if not callable(function):
        raise TypeError(f"'{type(function).__name__}' object is not callable")
    columns = [cpu(x.detach().expand(self.shape)).reshape(-1).tolist() for x in (self, *others)]
    found = [_number(function(*numbers)) for numbers in zip(*columns, strict=True)]
    array = np.array(found, object).astype(self.dtype.np, casting="unsafe").reshape(tuple(self.shape))
    door.apply_inplace(_COPY, (self,), self, placed(from_array_copy(array), self.device))
    return self


def _number(value: Any) -> Any:
    if isinstance(value, TensorBase):
        value = value.item()
    if not isinstance(value, int | float | np.number):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value
