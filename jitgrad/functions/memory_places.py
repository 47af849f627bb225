"""Where a tensor's memory is, and what else may see it.

Owns: dim_order, get_device, is_inference, is_pinned, is_set_to, is_shared, module_load, pin_memory, share_memory_.
Imported late.
Must not know: operations.

Memory that processes share is an anonymous map: a child that is forked afterwards sees what the others write. There is
no pinned memory, because there is no accelerator to copy to.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.functions.devices import get_device
from jitgrad.functions.replacing import move_memory
from jitgrad.layouts import channels_last, contiguous_format, memory_format
from jitgrad.runtime.storage.storage import Storage, root_of
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase

__all__ = [
    "dim_order", "get_device", "is_inference", "is_pinned", "is_set_to", "is_shared", "module_load", "pin_memory",
    "share_memory_",
]  # fmt: skip

class _SharedMemory(mmap.mmap):
    """Anonymous memory that a forked process keeps in common with its parent."""


def dim_order(self: Any, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    Args:
        ambiguity_check: raise if the strides allow another order; a list of memory formats: unless they fit exactly one
            of these.

    Raises:
        RuntimeError: by that check.
        TypeError: it is neither a bool nor a list of memory formats.
    """
    formats = [] if isinstance(ambiguity_check, bool) else ambiguity_check
    if not isinstance(formats, list) or not all(isinstance(one, memory_format) for one in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    shape, stride, checks = self._aval.shape, self._aval.stride, ambiguity_check is not False
    if checks and _has_two_orders(shape, stride) and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
        )
    is_last, is_first = (self.is_contiguous(memory_format=f) for f in (channels_last, contiguous_format))
    if len(shape) < 2 or (is_first and not is_last):
        return tuple(range(len(shape)))
    if is_last and not is_first:
        return (0, *range(2, len(shape)), 1)
    order = _from_innermost(shape, stride)
    if checks and any(_compared(a, b, shape, stride) >= 0 for a, b in itertools.pairwise(order)):
        raise RuntimeError("The tensor does not have unique dim order.")
    return tuple(reversed(order))


def _has_two_orders(shape: Sequence[int], stride: Sequence[int]) -> bool:
    return any(n == 1 for n in shape) or any(a == b for a, b in itertools.pairwise(stride))


def _from_innermost(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    """By insertion, because not all pairs can be compared."""
    order = list(reversed(range(len(shape))))
    for start in range(1, len(order)):
        at = start
        for before in reversed(range(start)):
            compared = _compared(order[before], order[at], shape, stride)
            if compared > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif compared < 0:
                break
    return order


def _compared(a: int, b: int, shape: Sequence[int], stride: Sequence[int]) -> int:
    """-1 if dimension a steps less far than b, 1 if farther, 0 if nobody can say."""
    if not stride[a] or not stride[b]:
        return 0
    if stride[a] == stride[b]:
        return 0 if shape[b] >= shape[a] else 1
    return -1 if stride[b] > stride[a] else 1


def is_inference(input: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return bool(input.is_inference())


def is_pinned(self: Any, device: Any = None) -> bool:
    """False: no memory is pinned."""
    return False


def pin_memory(self: Any, device: Any = None) -> NoReturn:
    """RuntimeError: there is no accelerator to copy from pinned memory."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def is_set_to(self: Any, tensor: Any) -> bool:
    """Whether both look at the same memory, through the same shape and strides. TypeError for what is no tensor."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"is_set_to(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}")
    other: Any = tensor
    a, b = self._aval, other._aval
    if (a.shape, a.stride, a.dtype, a.device) != (b.shape, b.stride, b.dtype, b.device):
        return False
    self._sync()
    other._sync()
    return root_of(self._storage) is root_of(other._storage) and self.data_ptr() == other.data_ptr()


def is_shared(self: Any) -> bool:
    """Whether processes that are forked see what is written to the memory, and this process what they write."""
    self._sync()
    owner = getattr(root_of(self._storage), "owner", None)
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(getattr(owner, "obj", owner), _SharedMemory)


def share_memory_(self: Any) -> Any:
    """Move the memory to where processes that are forked from now on share it with this one.

    Raises:
        RuntimeError: other tensors, or NumPy, look at the memory too: it cannot be moved away from them.
    """
    if is_shared(self):
        return self
    self._sync()
    if state.handler is not None:
        state.handler.flush()
    nbytes = self._storage.nbytes
    fresh = Storage.from_array(np.frombuffer(_SharedMemory(-1, max(nbytes, 1)), np.uint8, nbytes))
    move_memory(self, fresh)
    return self


def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """What takes this parameter's place when a state dict's ``other`` is loaded.

    Returns:
        ``other.detach()`` if ``assign``, else this tensor, overwritten with ``other`` and detached.
    """
    return other.detach() if assign else self.copy_(other).detach()
