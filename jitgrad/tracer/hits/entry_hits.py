"""Hits of inputs: tensors that a call meets for the first time, where an earlier call has met the like.

Owns: which tensors may be entered so, and how, once, in the subset of Note [Native Python].
Must not know: operations; what is entered otherwise (``entry.py``).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.array_storages import storage_now
from jitgrad.cpython.primitives import inlined, is_atomic, native, once_per_call
from jitgrad.door import door
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.search_hits import following, likeliest, taken
from jitgrad.tracer.hits.view_hits import meet_part, memory_of
from jitgrad.tracer.recording.keys import EXTERNAL, IN, LEAF, PLAIN
from jitgrad.tracer.recording.recorder_state import LATEST, RecorderState
from jitgrad.tracer.recording.trie import TrieNode
from jitgrad.version_counter import inference_tensors

__all__ = ["allows_parts", "can_enter_at", "enter_as_before", "hit_enter", "is_as_its_node_made_it", "is_marked",
           "may_enter"]  # fmt: skip


@inlined
def is_fresh_leaf(x: TensorBase) -> bool:
    """Whether a tensor that requires grad is a leaf in which Python has no part."""
    if x._graph is not None or x._grad_fn is not None:
        return False
    if x._accumulator is not None and type(x._accumulator) is not ref:
        return False  # its accumulator has hooks of its own: ``HookedAccumulator``
    return x._hooks is None and x._post_accumulate_hooks is None


@inlined
def is_input(child: TrieNode, aval: Any, kind: Any) -> bool:
    """Whether a trie node enters an input of this layout and kind."""
    ids: tuple = child.ids
    return child.op is IN and ids[0] is aval and ids[1] is kind


@inlined
def find_input(node: TrieNode, aval: Any, kind: Any) -> TrieNode | None:
    """The child that enters such an input, or None."""
    child: TrieNode = likeliest(node)
    tries = 0
    while child is not None:
        if is_input(child, aval, kind):
            return taken(node, child, tries)
        child = following(node, child, tries)
        tries += 1
    return None


@inlined
def is_marked(x: TensorBase) -> bool:
    """Whether a tensor is an inference tensor, see ``InferenceVersion``: those are entered, and written, with care."""
    return len(inference_tensors) != 0 and type(x._vc) is not list


@once_per_call
def may_enter(recorder: RecorderState, x: TensorBase) -> bool:
    """Whether a tensor that the call has not met may be entered by a hit: its memory is new to the call, too."""
    if not has_new_memory(recorder, x):
        return False
    base: TensorBase = x._base
    if base is not None and (base._requires_grad or x._requires_grad):
        return False  # a write may have brought the base into the graph
    return not x._requires_grad or is_fresh_leaf(x)


@once_per_call
def has_new_memory(recorder: RecorderState, x: TensorBase) -> bool:
    """Whether a tensor has memory that the call has not met, not even through another storage: ``Slot.is_family``."""
    if LATEST[0] is not recorder.tid:
        return False
    storage: StorageBase = storage_now(x)
    if storage is None or is_marked(x):
        return False
    root: StorageBase = memory_of(storage)
    return root.tid is not recorder.tid and storage.tid is not recorder.tid


@inlined
def allows_parts(recorder: RecorderState) -> bool:
    """Whether all that the call knows of memory are inputs: nothing is written, no value of an earlier segment lies
    there."""
    return len(recorder.dirty) == 0 and int(recorder.segments) == 0


@once_per_call
def has_other_part(recorder: RecorderState, x: TensorBase) -> bool:
    """Whether a tensor looks at memory that inputs of the call look at, but at a part that none of them is.

    It is one more input then, as ``Entry._enter_alias`` makes it: no value of the call lies there, nothing is written.
    """
    storage: StorageBase = x._storage
    if LATEST[0] is not recorder.tid or storage is None or is_marked(x):
        return False
    root: StorageBase = memory_of(storage)
    if root.tid is not recorder.tid or not allows_parts(recorder):
        return False
    entered: list = recorder.entered
    is_known = False
    is_counted = True
    at = 0
    while at < len(entered):
        if memory_of(entered[at + 1]) is root:
            other: TensorBase = entered[at]
            if entered[at + 1] is storage and other._aval is x._aval:
                return False
            is_known = True
            if other._vc is not x._vc:
                is_counted = False
        at += 3
    if is_known and not is_counted:
        recorder.counted_twice[id(storage)] = storage
    return is_known


@inlined
def kind_of_input(x: TensorBase) -> Any:
    """Of a tensor that may be entered."""
    return LEAF if x._requires_grad else PLAIN


@inlined
def enter_at(recorder: RecorderState, x: TensorBase, node: TrieNode) -> None:
    """Enter a tensor where a trie node does so."""
    storage: StorageBase = x._storage
    x._tid = recorder.tid
    x._vid = node.vid
    storage.tid = recorder.tid
    root: StorageBase = memory_of(storage)
    root.tid = recorder.tid
    recorder.entered.append(x)
    recorder.entered.append(storage)
    recorder.entered.append(node.vid)
    if not is_atomic():
        recorder.meet(x, storage, root)


@once_per_call
def hit_enter(recorder: RecorderState, x: TensorBase) -> bool:
    """Enter a tensor whose storage the call has not met, where the path has entered one before."""
    if x._requires_grad and (x._grad_fn is not None or x._graph is not None):
        return enter_outer(recorder, x)
    if not may_enter(recorder, x) and not is_plain_part(recorder, x):
        return False
    child: TrieNode = find_input(recorder.node, x._aval, kind_of_input(x))
    if child is None:
        return False
    enter_there(recorder, x, child)
    return True


@native
def is_plain_part(recorder: RecorderState, x: TensorBase) -> bool:
    """``has_other_part`` of a tensor that no graph knows."""
    base: TensorBase = x._base
    if x._requires_grad or (base is not None and base._requires_grad):
        return False
    return has_other_part(recorder, x)


@native
def enter_there(recorder: RecorderState, x: TensorBase, node: TrieNode) -> None:
    """Enter a tensor where the next event does so."""
    storage: StorageBase = x._storage
    root: StorageBase = memory_of(storage)
    if root.tid is recorder.tid:
        meet_part(recorder, x, root)
    enter_at(recorder, x, node)
    recorder.node = node


@once_per_call
def enter_outer(recorder: RecorderState, x: TensorBase) -> bool:
    """``hit_enter`` of a tensor that comes with a graph of its own: the call's backward leads there."""
    if not is_as_its_node_made_it(x) or not (has_new_memory(recorder, x) or has_other_part(recorder, x)):
        return False
    child: TrieNode = find_input(recorder.node, x._aval, EXTERNAL)
    if child is None:
        return False
    note_outer(recorder, x, child)
    enter_there(recorder, x, child)
    return True


@once_per_call
def note_outer(recorder: RecorderState, x: TensorBase, node: TrieNode) -> None:
    """Note where the graph goes on of a tensor that a trie node enters."""
    way: Any = door  # a local, so that native code asks for its function at each call
    if x._grad_fn is None and not way.join_call(x):  # now, before the stamp of the call it came from is overwritten
        x._graph.join(x)
    outer: dict = recorder.entry.outer
    outer[node.vid] = (x._grad_fn, x._output_nr)


@once_per_call
def can_enter_at(recorder: RecorderState, x: TensorBase, node: TrieNode) -> bool:
    """Whether a tensor that the call has not met may be entered as a trie node enters one."""
    if x._requires_grad and (x._grad_fn is not None or x._graph is not None):
        if not is_input(node, x._aval, EXTERNAL) or not is_as_its_node_made_it(x):
            return False
        return has_new_memory(recorder, x) or has_other_part(recorder, x)
    if not is_input(node, x._aval, kind_of_input(x)):
        return False
    return may_enter(recorder, x) or is_plain_part(recorder, x)


@once_per_call
def enter_as_before(recorder: RecorderState, x: TensorBase, node: TrieNode) -> None:
    """``enter_at``, of a tensor of which ``can_enter_at`` was true."""
    ids: tuple = node.ids
    if ids[1] is EXTERNAL:
        note_outer(recorder, x, node)
    root: StorageBase = memory_of(x._storage)
    if root.tid is recorder.tid and has_other_part(recorder, x):
        meet_part(recorder, x, root)
    enter_at(recorder, x, node)


@native
def is_as_its_node_made_it(x: TensorBase) -> bool:
    """Whether nobody has written the base of a view since, or of what a stand-in is a view; true of what is none."""
    if x._view_version is None:
        return True
    versions: list = x._vc
    return int(x._view_version) == int(versions[0])
