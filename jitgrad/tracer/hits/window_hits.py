"""Hits of writes through views: ``u[1:-1] = v``.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: what other such writes need (``window_writes.py``, whose ``write`` this is in the usual case).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.primitives import is_atomic, native, refcount
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import is_marked
from jitgrad.tracer.hits.hits import Args, are_ours, is_inside, note_number, takes_all
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import catch_up
from jitgrad.tracer.recording.keys import WINDOW
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["hit_window_write"]


@native
def find_window(node: TrieNode, op: Any, base: TensorBase, args: Args, count: int) -> TrieNode | None:
    """The child that is ``op(*args)`` written into a view of ``base``, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if child.op is WINDOW:
            ids: tuple = child.ids
            if ids[0] is op and ids[1] is base._vid and takes_all(child, 2, args, count):
                return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@native
def base_slot(recorder: RecorderState, target: TensorBase, base: TensorBase) -> Any:
    """The slot of a view's storage, where nothing but its base and views of it have that; else None."""
    storage: StorageBase = target._storage
    if storage is None or base._storage is not storage or base._tid is not recorder.tid or base._vc is not target._vc:
        return None
    counted: dict = recorder.counted_twice
    if target._view_version is None or id(storage) in counted:
        return None
    if recorder.caught != len(recorder.entered):
        catch_up(recorder)
    slots: dict = recorder.slot_table
    slot: Slot = slots.get(id(storage))
    if slot is None or slot.others is None or slot.older is not None or slot.is_family or slot.is_shared:
        return None
    first = slot.home() if type(slot.home) is ref else slot.home
    return slot if first is base else None


@native
def may_follow(slot: Slot, target: TensorBase, base: TensorBase) -> bool:
    """Whether other views that somebody holds are the same part of the base, so that they can be looked at afresh."""
    others: list = slot.others
    for reference in others:
        other = reference()
        if other is None or other is target:
            continue
        if refcount(other) > 1:  # somebody but the segment's list
            view: TensorBase = other
            if view._base is not base or view._aval is not target._aval or view._vc is not base._vc:
                return False
            if view._view_version is None or view._retains_grad:
                return False
            if view._requires_grad and view._graph is None and view._grad_fn is None:
                return False
    return True


@native
def are_made_here(recorder: RecorderState, base: TensorBase, args: Args, count: int) -> bool:
    """Whether no operand is a window of the base that has memory since an earlier segment."""
    buffers: dict = recorder.buffer_table
    for i in range(count):
        operand = args[i]
        if isinstance(operand, TensorBase):
            x: TensorBase = operand
            if x._base is base and x._vid in buffers:
                return False
    return True


@native
def may_join(node: TrieNode, target: TensorBase, base: TensorBase) -> bool:
    """Whether the graph has the view and its base as a write needs that: in it together, or not at all."""
    if not node.requires_grad:
        return not base._requires_grad and not target._requires_grad
    storage: StorageBase = target._storage
    if int(storage.addr) != 0 or base._retains_grad or target._retains_grad:
        return False
    if not target._requires_grad:
        return True
    return base._requires_grad and (target._graph is not None or target._grad_fn is not None)


@native
def look_away(recorder: RecorderState, slot: Slot, target: TensorBase, base: TensorBase) -> None:
    """Views but the target have an old value: those that are held are looked at afresh when they are used."""
    kept: list = []
    others: list = slot.others
    for reference in others:
        other = reference()
        if other is target:
            kept.append(reference)
        elif other is not None:
            view: TensorBase = other
            view._tid = -int(recorder.tid) if view._base is base else 0
            if refcount(other) > 2:  # but for ``view``: the list
                kept.append(reference)
    slot.others = kept


@native
def join(recorder: RecorderState, x: TensorBase) -> None:
    """A tensor is a part of the call's graph from here on."""
    x._requires_grad = True
    x._graph = recorder.graph
    x._grad_fn = None
    x._hooks = None
    x._accumulator = None
    x._output_nr = 0


@native
def hit_window_write(recorder: RecorderState, op: Any, target: TensorBase, args: Args, count: int) -> bool:
    """``op(*args)`` written into a view, which is a new value of its base."""
    if args[0] is not target or target._tid is not recorder.tid or is_marked(target):
        return False
    base: TensorBase = target._base
    slot: Slot = base_slot(recorder, target, base)
    if slot is None or not are_made_here(recorder, base, args, count):
        return False
    node: TrieNode = find_window(recorder.node, op, base, args, count)
    if node is None or node.writes is None or not may_join(node, target, base) or not may_follow(slot, target, base):
        return False
    if node.bounds is not None and not is_inside(recorder, node, args):
        return False
    storage: StorageBase = target._storage
    if not is_atomic():
        recorder.claim(storage)
        if not are_ours(recorder, args, count):
            return False
    ids: tuple = node.ids
    for i in range(count):
        note_number(recorder, ids[i + 2], args[i])
    recorder.node = node
    look_away(recorder, slot, target, base)
    counter: list = target._vc
    version: int = int(counter[0]) + 1
    counter[0] = version
    if node.requires_grad:
        join(recorder, base)
        join(recorder, target)
        target._view_version = counter[0]
    written: tuple = node.writes
    base._vid = written[0]
    target._vid = written[1]
    recorder.dirty.add(id(storage))
    return True
