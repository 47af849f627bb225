"""Hits of in-place operations on values that nobody else looks at.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: what other writes need (``writes.py``, ``window_writes.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, is_atomic, native
from jitgrad.ops.table import Op
from jitgrad.state import write_checks
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits import (
    MISSED,
    Args,
    are_ours,
    following,
    is_marked,
    is_operand,
    likeliest,
    note_number,
    taken,
    takes_all,
)
from jitgrad.tracer.keys import WRITE
from jitgrad.tracer.recorder_state import LATEST, RecorderState
from jitgrad.tracer.slots import Slot
from jitgrad.tracer.trie import TrieNode
from jitgrad.tracer.view_hits import link_views

__all__ = ["all_unwatched", "hit_inplace", "hit_write", "is_unwatched", "move", "move_one", "write_through_door"]


@native
def is_unwatched(recorder: RecorderState, target: TensorBase) -> bool:
    """Whether nobody else can be looking at what a write to a tensor changes. False: it has to be asked in detail."""
    if LATEST[0] is not recorder.tid:
        return False
    if recorder.links:
        link_views(recorder)
    if target._tid is not recorder.tid or target._retains_grad or target._base is not None or is_marked(target):
        return False
    storage: StorageBase = target._storage
    if storage is None:
        return True
    if not is_atomic():
        recorder.claim(storage)
    slots: dict = recorder.slot_table
    slot: Slot = slots.get(id(storage))
    return slot is None or (slot.others is None and slot.older is None)


@native
def move_one(recorder: RecorderState, target: TensorBase, vid: Any) -> None:
    """A tensor goes on to a new value; its storage is to be written."""
    target._vid = vid
    counter: list = target._vc
    version: int = int(counter[0]) + 1
    counter[0] = version
    storage: StorageBase = target._storage
    if storage is not None:
        recorder.dirty.add(id(storage))


@native
def move(recorder: RecorderState, targets: list, vids: tuple) -> None:
    """Targets go on to new values."""
    for target, vid in zip(targets, vids):  # noqa: B905
        move_one(recorder, target, vid)


@native
def all_unwatched(recorder: RecorderState, targets: list) -> bool:
    """``is_unwatched`` of every target."""
    for target in targets:  # noqa: SIM110
        if not is_unwatched(recorder, target):
            return False
    return True


@native
def fits_write(child: TrieNode, op: Any, target: TensorBase, args: Args, count: int) -> bool:
    """Whether a trie node is ``op(*args)`` written into a tensor."""
    if child.op is not WRITE:
        return False
    ids: tuple = child.ids
    return ids[0] is op and ids[1] is target._vid and takes_all(child, 2, args, count)


@native
def find_write(node: TrieNode, op: Any, target: TensorBase, args: Args, count: int) -> Any:
    """The child that is such a write, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if fits_write(child, op, target, args, count):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@native
def hit_inplace(recorder: RecorderState, op: Op, targets: tuple, args: Args) -> bool:
    """``op(*args)`` written into one target that nobody else looks at."""
    return len(targets) == 1 and hit_write(recorder, op, targets[0], args)


@native
def hit_write(recorder: RecorderState, op: Op, target: TensorBase, args: Args) -> bool:
    """``hit_inplace`` of its only target."""
    count: int = op.num_inputs
    if count < 1 or count > len(args):
        return False
    if write_checks or recorder.counted_twice or recorder.picks:
        return False
    for i in range(count):
        if not is_operand(recorder, args[i]):
            return False
    if not is_unwatched(recorder, target):
        return False
    node: TrieNode = find_write(recorder.node, op, target, args, count)
    if node is None or node.writes is None:
        return False
    if not is_atomic() and not are_ours(recorder, args, count):
        return False
    ids: tuple = node.ids
    for i in range(count):
        note_number(recorder, ids[i + 2], args[i])
    recorder.node = node
    written: tuple = node.writes
    move_one(recorder, target, written[0])
    return True


@native
def write_through_door(op: Op, targets: tuple, args: Args) -> Any:
    """``door.apply_inplace``."""
    recorder: RecorderState = active()
    if recorder is not None and not recorder.busy and hit_inplace(recorder, op, targets, args):
        return targets
    return MISSED
