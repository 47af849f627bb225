"""Fronts of methods that apply no operation: gradients, modules, ``no_grad``; see Note [Native fronts].

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: which classes the methods are of.

Most of these answer outside a compiled step, too.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, blank, call_rest, native, number_at, once_per_call, optimized
from jitgrad.dtypes import bool_, float32, float64, int64
from jitgrad.grad_mode import GradMode, no_grad
from jitgrad.ops.aval import Aval
from jitgrad.storage_base import FreeLists, StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.backward_hits import hit_backward
from jitgrad.tracer.hits.call_hits import call_compiled
from jitgrad.tracer.hits.data_hits import get_data
from jitgrad.tracer.hits.end_hits import hit_end, may_let_go
from jitgrad.tracer.hits.hits import MISSED, Args, hit_mark
from jitgrad.tracer.recording.recorder_state import LATEST, RUNNING, RecorderState

__all__ = ["METHOD_FRONTS", "make_no_grad"]


# --- modules and optimizers ---


@optimized
def call_module(row: Any, args: Args, names: Any) -> Any:
    """``Module.__call__`` where neither the module nor all modules (``row``) have hooks: its ``forward``."""
    module = args[0]
    if module._hooks is not None or row.hooks is not None:
        return MISSED
    return call_rest(module.forward, args, names)


@optimized
def is_alone() -> bool:
    """Whether no other thread records a call, which may have set the gradient: ``recorder_state.sets_grad``."""
    if len(RUNNING) == 0:
        return True
    recorder: RecorderState = active()
    return recorder is not None and LATEST[0] is recorder.tid


@native
def drop_grads(row: Any, args: Args) -> Any:
    """``Optimizer.zero_grad()``."""
    if len(args) != 1:
        return MISSED
    groups = args[0].param_groups
    if type(groups) is not list or not is_alone():
        return MISSED
    listed: list = groups
    for group in listed:
        if type(group) is not dict:
            return MISSED
        options: dict = group
        members = options.get("params")
        if type(members) is not list:
            return MISSED
        parameters: list = members
        for parameter in parameters:
            if not isinstance(parameter, TensorBase):
                return MISSED
            x: TensorBase = parameter
            x._grad = None
    return None


# --- values ---


@native
def kind_of(dtype: Any) -> int:
    """What ``number_at`` calls a dtype; -1: it does not know it."""
    if dtype is float32:
        return 0
    if dtype is float64:
        return 1
    if dtype is int64:
        return 2
    return 3 if dtype is bool_ else -1


@once_per_call
def read_item(row: Any, args: Args) -> Any:
    """``item()`` of a value of the call: ends the segment that is to compute it, if that is a hit."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) != 1 or not isinstance(args[0], TensorBase):
        return MISSED
    x: TensorBase = args[0]
    aval: Aval = x._aval
    kind = kind_of(aval.dtype)
    if kind < 0 or int(aval.numel) != 1 or x._tid is not recorder.tid:
        return MISSED
    if has_memory(x):
        if len(recorder.dirty) != 0:  # it may be what the segment's end writes
            return MISSED
    else:  # no variable may hold the storage here: the segment's end counts the references to storages
        recorder.busy = True
        is_hit = hit_end(recorder, False)
        recorder.has_dropped = False
        recorder.busy = False
        if not is_hit:
            return MISSED
        if may_let_go(recorder.graph):
            recorder.graph.upkeep.after_a_segment(recorder.graph)
    storage: StorageBase = x._storage
    if storage is None or int(storage.addr) == 0:
        return MISSED
    aval = x._aval
    return number_at(int(storage.addr) + int(aval.offset) * int(aval.dtype.itemsize), kind)


@native
def has_memory(x: TensorBase) -> bool:
    """Whether a tensor's storage has memory."""
    storage: StorageBase = x._storage
    return storage is not None and int(storage.addr) != 0


# --- gradients, storages, modes ---


@once_per_call
def call_backward(row: Any, args: Args) -> Any:
    """``loss.backward()``."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) != 1 or not isinstance(args[0], TensorBase):
        return MISSED
    root: TensorBase = args[0]
    if root._tid is not recorder.tid:
        return MISSED
    recorder.busy = True
    is_hit = hit_backward(recorder, root, False, False)
    recorder.busy = False
    return None if is_hit else MISSED


@optimized
def get_grad(row: Any, args: Args) -> Any:
    """``leaf.grad`` that is there, also outside a step."""
    if len(args) != 1 or not isinstance(args[0], TensorBase):
        return MISSED
    x: TensorBase = args[0]
    return MISSED if x._grad is None else x._grad


@optimized
def drop_grad(row: Any, args: Args) -> Any:
    """``leaf.grad = None``, also outside a step."""
    if len(args) != 2 or args[1] is not None or not isinstance(args[0], TensorBase) or not is_alone():
        return MISSED
    x: TensorBase = args[0]
    x._grad = None
    return None


@native
def drop_storage(row: FreeLists, args: Args) -> Any:
    """``Storage.__del__``: ``memory.give``, also outside a step.

    It must never be left to Python: between two bytecodes of a finalizer, Ctrl-C would be raised, printed and lost.
    """
    storage: StorageBase = args[0]
    if storage.owner is not None or int(storage.addr) == 0:
        return None
    nbytes = int(storage.nbytes)
    held = int(row.nbytes) + nbytes
    if held > int(row.limit):
        row.release(row.starts.pop(storage.addr, storage.addr))
        return None
    blocks: dict = row.blocks
    freed: list = blocks.get(storage.nbytes)
    if freed is None:
        freed = []
        blocks[storage.nbytes] = freed
    freed.append(storage.addr)
    row.nbytes = held
    return None


_OUTERMOST = (True, None)
"""What a block that is not inside another one goes back to."""


@native
def new_no_grad(row: Any, args: Args) -> Any:
    """``no_grad()``, also outside a step."""
    if len(args) != 1 or args[0] is not no_grad:
        return MISSED
    made: GradMode = blank(args[0])
    made._outer = None
    return made


@once_per_call
def make_no_grad(cls: Any) -> Any:
    """``no_grad()`` where nobody has changed the class."""
    made: GradMode = blank(cls)
    made._outer = None
    return made


@once_per_call
def enter_no_grad(row: Any, args: Args) -> Any:
    """The beginning of a ``no_grad`` block."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or type(args[0]) is not no_grad:
        return MISSED
    thread: dict = recorder.thread
    enabled = thread.get("grad_enabled")
    if enabled is None or (enabled is True and not hit_mark(recorder, False)):
        return MISSED
    mode: GradMode = args[0]
    if enabled is True and mode._outer is None:
        mode._outer = _OUTERMOST
    else:
        mode._outer = (enabled, mode._outer)
    thread["grad_enabled"] = False
    return None


@once_per_call
def exit_no_grad(row: Any, args: Args) -> Any:
    """Its end."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or type(args[0]) is not no_grad:
        return MISSED
    mode: GradMode = args[0]
    before: tuple = mode._outer
    thread: dict = recorder.thread
    if thread.get("grad_enabled") is not before[0]:
        if recorder.stubs.unlinked or not hit_mark(recorder, before[0]):
            return MISSED
        thread["grad_enabled"] = before[0]
    mode._outer = before[1]
    return None


METHOD_FRONTS = (
    call_compiled, call_module, call_backward, drop_grads, get_grad, drop_grad, get_data, drop_storage,
    new_no_grad, enter_no_grad, exit_no_grad, read_item,
)  # fmt: skip
"""These fronts."""
