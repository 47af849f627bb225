"""``x[index] = value`` at once, where that is one assignment of NumPy's.

Owns: when it is. Must not know: what an index means (``functions/indexing.py``, which does all other assignments).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.cpython.primitives import eager_apart
from jitgrad.devices import CPU
from jitgrad.dtypes import float32, float64
from jitgrad.runtime.eager.overlap import own_memory
from jitgrad.runtime.engine.graph.overwrites import caught, note_write
from jitgrad.state import modes_in_use, state, write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recorder_state import RUNNING
from jitgrad.version_counter import VERSION, inference_tensors, is_inference

__all__ = ["assign"]

_MOST = 9e18
"""Numbers below this fit into float32, and ints into 64 bits; others are checked."""


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
    if x.is_sparse or aval.device is not CPU or len(items) > len(aval.shape) or not all(map(_is_basic, items)):
        return False
    may_join = state.grad_enabled
    if may_join and may_need_graph(x):
        return False
    if type(value) is float or type(value) is int:
        if not (-_MOST < value < _MOST) or (aval.dtype is not float32 and aval.dtype is not float64):
            return False
    elif isinstance(value, TensorBase) and not value.is_sparse and value._aval.device is CPU:
        if value._aval.dtype is not aval.dtype or aval.dtype.is_complex or (may_join and may_need_graph(value)):
            return False
    else:
        return False
    if 0 in aval.stride and not aval.is_contiguous:
        return False  # elements of an expanded tensor share memory
    target = x._ndarray()
    given = value
    if isinstance(value, TensorBase):
        given, memory, own = value._ndarray(), own_memory(value), own_memory(x)
        if memory is None or own is None:
            return False
        if memory is own:
            return _is_written(x, index, given)
    try:
        target[index] = given
    except (ValueError, IndexError, OverflowError):
        return False  # nothing is written: the general way says what is wrong
    _count(x)
    return True
