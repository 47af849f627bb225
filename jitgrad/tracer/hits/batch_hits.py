"""Stand-ins for arguments that begin somewhere in their storage, see Note [Batches of a data set].

Owns: which arguments get one, and how it is made, once, in the subset of Note [Native Python].
Must not know: what becomes of a stand-in after the call (``compiled/batches.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.array_storages import storage_now
from jitgrad.cpython.primitives import native, new_handle, once_per_call
from jitgrad.devices import CPU
from jitgrad.dtypes import DType
from jitgrad.ops.aval import Aval
from jitgrad.storage_base import StorageBase, part_of
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import is_as_its_node_made_it
from jitgrad.tracer.hits.hits import Args

__all__ = ["are_leaves", "comes_back", "moved", "moved_arguments"]


@once_per_call
def gets_stand_in(x: TensorBase) -> bool:
    """Whether an argument is a view that begins somewhere in its storage: one outside any graph, or in one that is
    over, as its Node made it."""
    aval: Aval = x._aval
    if int(aval.offset) == 0 or aval.device is not CPU or type(x) is not TensorBase._result_class:
        return False
    storage: StorageBase = storage_now(x)
    if type(storage) is not StorageBase.kind or int(storage.addr) == 0:
        return False
    if x._grad is not None:
        return False
    if x._requires_grad:
        return x._view_version is not None and x._grad_fn is not None and is_as_its_node_made_it(x)
    base: TensorBase = x._base
    if base is None or not base._requires_grad:
        return True
    return not x.requires_grad  # the property: a write may have brought the base into a graph


@once_per_call
def stand_in(x: TensorBase, pairs: list) -> Any:
    """The same tensor at the beginning of a window of its storage; one for each tensor, however often it is passed."""
    for pair in pairs:
        known: tuple = pair
        if known[0] is x:
            return known[1]
    aval: Aval = x._aval
    dtype: DType = aval.dtype
    window: StorageBase = part_of(x._storage, int(aval.offset) * int(dtype.itemsize))
    counter: list = x._vc
    made: TensorBase = new_handle()
    made._aval = aval.at_start() if aval.start is None else aval.start
    made._storage = window
    made._vc = counter
    made._requires_grad = x._requires_grad
    made._tid = 0
    if x._requires_grad:  # Note [Parts of a graph's tensors]
        made._grad_fn = x._grad_fn
        made._output_nr = x._output_nr
        made._view_version = x._view_version
        made._creation_meta = x._creation_meta
        window.passed = x
    pairs.append((x, made, x._requires_grad))
    return made


@native
def moved(x: Any, pairs: list) -> Any:
    """An argument, or a tuple of them, with stand-ins for such views; pairs of a view and its stand-in are added."""
    if isinstance(x, TensorBase):
        return stand_in(x, pairs) if gets_stand_in(x) else x
    if type(x) is not tuple:
        return x
    items: tuple = x
    made: list = []
    has_moved = False
    for y in items:
        other = y
        if isinstance(y, TensorBase) and gets_stand_in(y):
            other = stand_in(y, pairs)
            has_moved = True
        made.append(other)
    return tuple(made) if has_moved else x


@once_per_call
def moved_arguments(args: Args, pairs: list) -> tuple:
    """``moved`` of each argument."""
    made: list = []
    for x in args:
        made.append(moved(x, pairs))
    return tuple(made)


@native
def are_leaves(pairs: list) -> bool:
    """Whether the call has made a leaf of a stand-in, has given it a gradient, or has it keep one."""
    for pair in pairs:
        known: tuple = pair
        made: TensorBase = known[1]
        if made._grad is not None or made._retains_grad or made._requires_grad is not known[2]:
            return True
    return False


@native
def is_stand_in(x: Any, pairs: list) -> bool:
    """Whether an object is one of the stand-ins, or a view of one that comes with a graph."""
    for pair in pairs:
        known: tuple = pair
        if x is known[1]:
            return True
        if isinstance(x, TensorBase):
            made: TensorBase = known[1]
            if x._base is made and made._requires_grad:
                return True
    return False


@native
def comes_back(result: Any, pairs: list) -> bool:
    """Whether a function may have returned a stand-in, alone or in a tuple, list or dictionary."""
    if type(result) is list:
        return comes_back(tuple(result), pairs)
    if type(result) is tuple:
        row: tuple = result
        for x in row:  # noqa: SIM110
            if is_stand_in(x, pairs):
                return True
        return False
    return type(result) is dict or is_stand_in(result, pairs)
