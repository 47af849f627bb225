"""``x[index] = value`` at once, where that is one assignment of NumPy's.

Owns: when it is. Must not know: what an index means (``functions/indexing.py``, which does all other assignments).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.cpython.primitives import eager_apart
from jitgrad.devices import CPU
from jitgrad.dtypes import bool_, float32, float64, int64
from jitgrad.runtime.eager.overlap import own_memory
from jitgrad.runtime.engine.graph.overwrites import caught, note_write
from jitgrad.state import modes_in_use, state, write_checks
from jitgrad.tensor_base import TensorBase, tensor_class
from jitgrad.tracer.recording.recorder_state import RUNNING
from jitgrad.version_counter import VERSION, inference_tensors, is_inference

__all__ = ["assign"]

_MOST = 9e18
"""Numbers below this fit into float32, and ints into 64 bits; others are checked."""
_INDICES = frozenset({bool_, int64})
"""Of masks, and of positions."""
_FEW = 4096
"""Elements of an index; a kernel writes by a larger one."""


def _is_basic(item: Any) -> bool:
    """An int, or a slice of ints that goes forward: NumPy and PyTorch agree on these."""
    kind = type(item)
    if kind is int:
        return True
    if kind is not slice or item.step is not None:
        return False
    return (item.start is None or type(item.start) is int) and (item.stop is None or type(item.stop) is int)


@eager_apart
def may_need_graph(x: TensorBase) -> bool:
    """Whether a tensor, or the base that it is a view of, requires grad."""
    if x._requires_grad:
        return True
    base: TensorBase = x._base
    return base is not None and base._requires_grad


def _with_arrays(items: tuple[Any, ...], own: Any) -> tuple[Any, ...] | None:
    """An index with NumPy's arrays in place of tensors; None: it may mean another thing to NumPy, or is a large one.

    Beside positions and masks there may be slices. An int would count as a position for NumPy, and is none in PyTorch:
    ``x[0, :, i]`` puts the dimension of ``i`` elsewhere.

    Args:
        own: the memory that is written.
    """
    found: list[Any] = []
    for item in items:
        if type(item) is slice and _is_basic(item):
            found.append(item)
            continue
        if type(item) is not tensor_class() or own_memory(item) is own:
            return None
        aval = item._aval
        if not aval.shape or aval.numel > _FEW or aval.device is not CPU or aval.dtype not in _INDICES:
            return None
        found.append(item._ndarray())
    return tuple(found)


def _is_written(x: Any, index: Any, given: Any) -> bool:
    """Whether the part has the value already, as in ``x[index] += 1``: the last thing that this does is assign it."""
    try:
        part = x._ndarray()[index]
    except IndexError:
        return False
    if type(part) is not np.ndarray or part.shape != given.shape or part.strides != given.strides:
        return False
    if part.__array_interface__["data"] != given.__array_interface__["data"]:
        return False
    _count(x)
    return True


def _count(x: Any) -> None:
    x._vc[VERSION] += 1
    if caught.left:
        note_write(x._vc, "copy")


def assign(x: Any, index: Any, value: Any) -> bool:
    """Assign to a part of a dense tensor on the CPU if no graph has to know of it and nothing can be refused.

    Returns:
        Whether it was that, and done.
    """
    if state.handler is not None or RUNNING or write_checks or modes_in_use:
        return False
    if inference_tensors and is_inference(x):
        return False
    items = index if type(index) is tuple else (index,)
    aval = x._aval
    if x.is_sparse or aval.device is not CPU or len(items) > len(aval.shape):
        return False
    may_join = state.grad_enabled
    if may_join and may_need_graph(x):
        return False
    if type(value) is float or type(value) is int:
        takes_it = aval.dtype is float32 or aval.dtype is float64 or (aval.dtype is int64 and type(value) is int)
        if not takes_it or not (-_MOST < value < _MOST):
            return False
    elif type(value) is bool:
        if aval.dtype is not bool_:
            return False
    elif isinstance(value, TensorBase) and not value.is_sparse and value._aval.device is CPU:
        if value._aval.dtype is not aval.dtype or aval.dtype.is_complex or (may_join and may_need_graph(value)):
            return False
    else:
        return False
    if 0 in aval.stride and not aval.is_contiguous:
        return False  # elements of an expanded tensor share memory
    own = None
    is_basic = all(map(_is_basic, items))
    if not is_basic:
        own = own_memory(x)
        index = None if own is None else _with_arrays(items, own)
        if index is None:
            return False
    target = x._ndarray()
    given = value
    if isinstance(value, TensorBase):
        given, memory, own = value._ndarray(), own_memory(value), own_memory(x)
        if memory is None or own is None:
            return False
        if memory is own:
            return is_basic and _is_written(x, index, given)
    try:
        target[index] = given
    except (ValueError, IndexError, OverflowError):
        return False  # nothing is written: the general way says what is wrong
    _count(x)
    return True
