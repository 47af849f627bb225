"""Writes that would read or write one element twice.

Owns: the two refusals of PyTorch's in-place operations (aten/src/ATen/MemoryOverlap.cpp).
Must not know: what operations compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.ops.aval import REPEATS, Aval, has_repeats, is_dense
from jitgrad.ops.table import Op
from jitgrad.runtime.storage.storage import storage_behind
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = ["check_apart", "check_no_overlap", "own_memory", "writes_repeats"]


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


def check_no_overlap(target: Any, inputs: tuple[Any, ...], op: Op | None = None) -> None:
    """RuntimeError if elements of ``target`` share memory with each other, or partly with an input.

    The same elements through the same layout are fine: each is read before it is written. ``op``: is to write it; some
    operations write expanded targets all the same.
    """
    aval = target._aval
    if has_repeats(aval) and not (op is not None and _may_repeat(op, target, inputs)):
        raise RuntimeError(REPEATS)
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


def _may_repeat(op: Op, target: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether an operation writes an expanded target as PyTorch's does, with a warning or without an effect."""
    aval = target._aval
    if op.name == "copy":
        return _is_itself(target, inputs[1])
    if not writes_repeats(op, aval):
        return False
    name = op.name.rstrip("123456").removesuffix("_accumulate")
    index = "indices] = tensor" if name == "index_put" else "mask] = scalar"
    warn_once(
        f"Use of {name}_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        f"operation. This also applies to advanced indexing e.g. tensor[{index}"
    )
    return True


def writes_repeats(op: Op, aval: Aval) -> bool:
    """Whether an operation writes an expanded target of this layout element by element, in its own memory."""
    return op.write is not None and not aval.dtype.is_short and aval.device is CPU and has_repeats(aval)


def _is_itself(target: Any, value: Any) -> bool:
    """Whether a value that is copied to a target is, once broadcast, the target's own elements."""
    if not isinstance(value, TensorBase) or value._storage is not target._storage:
        return False
    have, aval = value._aval, target._aval
    extra = len(aval.shape) - len(have.shape)
    if extra < 0 or (have.offset, have.dtype) != (aval.offset, aval.dtype):
        return False
    pairs = zip(have.shape, have.stride, aval.shape[extra:], strict=False)
    stride = [*[0] * extra, *[s if n == wanted else 0 for n, s, wanted in pairs]]
    return all(a == b or n == 1 for a, b, n in zip(stride, aval.stride, aval.shape, strict=True))


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
