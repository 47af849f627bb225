"""Hits of in-place operations on values that nobody else looks at, or only ``x`` where ``x.data`` is written.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: what other writes need (``writes.py``, ``window_writes.py``).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.primitives import active, inlined, is_atomic, native, optimized, refcount
from jitgrad.ops.table import Op
from jitgrad.state import write_checks
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import is_marked
from jitgrad.tracer.hits.hits import MISSED, Args, are_ours, is_inside, is_operand, note_number, takes_all
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import catch_up, link_views
from jitgrad.tracer.hits.window_hits import hit_window_write
from jitgrad.tracer.recording.history import SaversEvent
from jitgrad.tracer.recording.keys import SAVERS, WRITE
from jitgrad.tracer.recording.recorder_state import LATEST, RecorderState
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["all_unwatched", "hit_inplace", "hit_write", "is_unwatched", "move", "move_one", "write_through_door"]


@optimized
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
    counted: dict = recorder.counted_twice
    if len(counted) != 0 and id(storage) in counted:
        return False
    slots: dict = recorder.slot_table
    if len(slots) == 0:
        return True
    slot: Slot = slots.get(id(storage))
    return slot is None or (slot.others is None and slot.older is None)


@inlined
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


@inlined
def fits_write(child: TrieNode, op: Any, target: TensorBase, args: Args, count: int) -> bool:
    """Whether a trie node is ``op(*args)`` written into a tensor."""
    if child.op is not WRITE:
        return False
    ids: tuple = child.ids
    return ids[0] is op and ids[1] is target._vid and takes_all(child, 2, args, count)


@inlined
def find_write(node: TrieNode, op: Any, target: TensorBase, args: Args, count: int) -> TrieNode | None:
    """The child that is such a write, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if fits_write(child, op, target, args, count):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@optimized
def hit_inplace(recorder: RecorderState, op: Op, targets: tuple, args: Args) -> bool:
    """``op(*args)`` written into one target that nobody else looks at."""
    return len(targets) == 1 and isinstance(targets[0], TensorBase) and hit_write(recorder, op, targets[0], args)


@optimized
def hit_write(recorder: RecorderState, op: Op, target: TensorBase, args: Args) -> bool:
    """``hit_inplace`` of its only target."""
    count: int = op.num_inputs
    if count < 1 or count > len(args):
        return False
    if write_checks or recorder.picks:
        return False
    for i in range(count):
        if not is_operand(recorder, args[i]):
            return False
    if not is_unwatched(recorder, target):
        if LATEST[0] is not recorder.tid:
            return False
        if target._base is not None:
            return hit_window_write(recorder, op, target, args, count)
        return hit_alias_write(recorder, op, target, args, count)
    return follow_write(recorder, find_write(recorder.node, op, target, args, count), target, args, count)


@optimized
def follow_write(
    recorder: RecorderState, node: TrieNode | None, target: TensorBase, args: Args, count: int
) -> bool:
    """Go on to the trie node that a write was found to be, if to any."""
    if node is None or node.writes is None:
        return False
    if node.bounds is not None and not is_inside(recorder, node, args):
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


# --- writes through ``x.data`` ---


@native
def hit_alias_write(recorder: RecorderState, op: Any, target: TensorBase, args: Args, count: int) -> bool:
    """``hit_write`` of ``x.data`` at which nobody but ``x`` looks, too: ``Writes.write`` in the usual case.

    Example: ``p.data.add_(p.grad, alpha=-0.1)`` after the backward, when no Node saves ``p`` any more.
    """
    if target._tid is not recorder.tid or target._retains_grad or target._requires_grad or is_marked(target):
        return False
    storage: StorageBase = target._storage
    slot: Slot = slot_alone(recorder, storage)
    if slot is None or recorder.counters.former or not are_elsewhere(target, storage, args, count):
        return False
    first = slot.home() if type(slot.home) is ref else slot.home
    seeds: set = set()
    seeds.add(target._vid)
    seeds.add(slot.owner)
    if first is not None:
        original: TensorBase = first
        if original._aval is not target._aval or original._grad_fn is not None or original._graph is not None:
            return False
        if original._requires_grad and int(storage.addr) == 0:
            return False
        if original._tid is recorder.tid:
            seeds.add(original._vid)
    others: list = slot.others
    for reference in others:
        other = reference()
        if other is None or other is target:
            continue
        if refcount(other) > 1:  # somebody but the segment's list
            return False
        alias: TensorBase = other
        if alias._tid is recorder.tid:
            seeds.add(alias._vid)
    if not is_atomic():
        recorder.claim(storage)
    node: TrieNode = unsaved(recorder, seeds)
    if node is None or not follow_write(recorder, find_write(node, op, target, args, count), target, args, count):
        return False
    if first is not None:
        holder: TensorBase = first
        if holder._requires_grad:
            holder._tid = 0  # an id is a leaf's or nobody's: it gets its own when it is used
        else:
            holder._vid = target._vid
    leave_alone(slot, target)
    return True


@native
def slot_alone(recorder: RecorderState, storage: StorageBase) -> Any:
    """The slot of a storage that several version counters count; None if its windows differ."""
    counted: dict = recorder.counted_twice
    if storage is None or id(storage) not in counted:
        return None
    if recorder.caught != len(recorder.entered):
        catch_up(recorder)
    slots: dict = recorder.slot_table
    slot: Slot = slots.get(id(storage))
    if slot is None or slot.others is None or slot.older is not None or slot.is_family or slot.is_shared:
        return None
    return slot


@native
def are_elsewhere(target: TensorBase, storage: StorageBase, args: Args, count: int) -> bool:
    """Whether the operands of a write but its target are no graph's, and lie in other memory."""
    for i in range(count):
        operand = args[i]
        if operand is not target and isinstance(operand, TensorBase):
            x: TensorBase = operand
            if x._requires_grad or x._storage is storage:
                return False
    return True


@native
def unsaved(recorder: RecorderState, seeds: set) -> TrieNode | None:
    """The trie node which says that no Node saves these values, if it comes next."""
    node: TrieNode = recorder.node.last
    if node is None or node.op is not SAVERS:
        return None
    wanted: tuple = node.ids
    event: SaversEvent = node.event
    if len(wanted) != len(seeds) or len(event.vids) != 0:
        return None
    for vid in wanted:
        if vid not in seeds:
            return None
    return node


@native
def leave_alone(slot: Slot, target: TensorBase) -> None:
    """Forget the aliases that only the segment's list holds: all but the target."""
    kept: list = []
    others: list = slot.others
    for reference in others:
        other = reference()
        if other is target:
            kept.append(reference)
        elif other is not None:
            alias: TensorBase = other
            alias._tid = 0
    slot.others = kept


@optimized
def write_through_door(op: Op, targets: tuple, args: Args) -> Any:
    """``door.apply_inplace``."""
    recorder: RecorderState = active()
    if recorder is not None and not recorder.busy and hit_inplace(recorder, op, targets, args):
        return targets
    return MISSED
