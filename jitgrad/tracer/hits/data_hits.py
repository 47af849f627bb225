"""Hits of ``x.data``.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: what a write through such an alias needs (``write_hits.py``, ``version_counters.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, counter, is_atomic, native
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.hits import MISSED, Args, is_operand, is_ours, overrides, step_to, takes
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import link
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import UNTRACKED, TrieNode

__all__ = ["data_source", "get_data"]


@native
def data_source(recorder: RecorderState, x: TensorBase) -> Any:
    """What ``x.data`` is made of: ``x``, or the alias through which the call has written ``x``, which has the value.

    A leaf would get a value id of its own for that, and its memory two of them, which ends the segment at the next
    write. Example: ``p.data.mul_(0.9); p.data.add_(step)``.
    """
    if x._tid is recorder.tid:
        return x
    storage: StorageBase = x._storage
    slots: dict = recorder.slot_table
    slot: Slot = slots.get(id(storage))
    if slot is None or slot.home is not x or slot.others is None:
        return x
    for reference in slot.others:
        other = reference()
        if other is not None:
            alias: TensorBase = other
            if alias._tid is recorder.tid and alias._aval is x._aval and alias._base is None:
                return x if alias._requires_grad else other
    return x


@native
def find_alias(node: TrieNode, op: Any, x: Any) -> TrieNode | None:
    """The child that is ``op(x)``, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if child.op is op:
            ids: tuple = child.ids
            if takes(ids[0], x):
                return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@native
def get_data(row: Any, args: Args) -> Any:
    """``x.data``; ``row``: the operation that makes the alias."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or len(args) != 1 or overrides(args[0]):
        return MISSED
    if not isinstance(args[0], TensorBase):
        return MISSED
    given = data_source(recorder, args[0])
    source: TensorBase = given
    if not is_operand(recorder, given):
        return MISSED
    node: TrieNode = find_alias(recorder.node, row, given)
    if node is None or not node.is_simple or node.window is UNTRACKED or not (is_atomic() or is_ours(recorder, given)):
        return MISSED
    alias = step_to(recorder, node, given)
    out: TensorBase = alias
    if out._source is not None:
        link(recorder, out)
    storage = out._storage
    out._vc = counter()
    recorder.counted_twice[id(storage)] = storage
    for handle in recorder.handles:  # ``VersionCounters.note_data``
        other: TensorBase = handle
        if int(other._vid) == int(source._vid) and other._storage is None:
            other._storage = storage
    return alias
