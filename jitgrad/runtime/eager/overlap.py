"""Writes that would read or write one element twice.

Owns: the two refusals of PyTorch's in-place operations (aten/src/ATen/MemoryOverlap.cpp).
Must not know: operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, is_dense
from jitgrad.runtime.storage.storage import storage_behind
from jitgrad.tensor_base import TensorBase

__all__ = ["check_apart", "check_no_overlap", "own_memory"]


_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def check_apart(target: Any, *others: Any) -> None:
    """RuntimeError if another operand *is* what is written, of operations that write elsewhere than where they read."""
    aval, storage = target._aval, target._storage
    for x in others:
        if x is target:
            raise RuntimeError(_SHARED)
        if storage is None or getattr(x, "_storage", None) is not storage:
            continue
        if aval.numel and (x._aval.offset, x._aval.stride, x._aval.shape) == (aval.offset, aval.stride, aval.shape):
            raise RuntimeError(_SHARED)


def check_no_overlap(target: Any, inputs: tuple[Any, ...]) -> None:
    """RuntimeError if elements of ``target`` share memory with each other, or partly with an input.

    The same elements through the same layout are fine: each is read before it is written.
    """
    aval = target._aval
    if not aval.is_contiguous and any(s == 0 and n > 1 for s, n in zip(aval.stride, aval.shape, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    memory = own_memory(target)
    for x in inputs:
        if x is target or not isinstance(x, TensorBase):
            continue
        other = None if memory is None else own_memory(x)
        if other is not None and other is not memory:
            continue
        storage = target._storage
        if storage is not None and x._storage is storage and _overlap_partly(aval, x._aval):
            raise RuntimeError(_SHARED)


def own_memory(tensor: TensorBase) -> Any:
    """The array or the storage that a tensor lies in and that owns its memory; None where this is not known at once.

    Two of them share nothing. So nobody need ask for storages, which cost more to make than this.
    """
    array = tensor._array
    if array is None or array.base is None:
        return array
    if type(array.base) is np.ndarray and array.base.flags.owndata:
        return array.base
    storage = storage_behind(array)
    return storage if storage is not None and storage.owner is None else None


def _overlap_partly(a: Aval, b: Aval) -> bool:
    """Whether two layouts of one storage share some elements, as far as it is cheap to tell."""
    if a is b or not (a.numel and b.numel and is_dense(a) and is_dense(b)):
        return False
    if (a.offset, a.stride, a.numel) == (b.offset, b.stride, b.numel):
        return False
    return a.offset < b.offset + b.numel and b.offset < a.offset + a.numel
