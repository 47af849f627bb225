"""Hits of a backward.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: how a backward is recorded (``compiled/backward/backward.py``, Note [Recorded backward]).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import inlined, is_atomic, once_per_call
from jitgrad.state import anomaly, engine_watchers, modes_in_use, write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import may_enter
from jitgrad.tracer.hits.hits import is_operand, is_ours, new_result_handle
from jitgrad.tracer.hits.write_hits import is_unwatched, move_one
from jitgrad.tracer.recording.history import BackwardEvent
from jitgrad.tracer.recording.keys import BACKWARD, GRADS, IN
from jitgrad.tracer.recording.recorder_state import LATEST, RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["hit_backward"]


@once_per_call
def hit_backward(recorder: RecorderState, root: TensorBase, retain_graph: Any, create_graph: Any) -> bool:
    """``loss.backward()`` into leaves whose gradients are dense, or None."""
    if anomaly.enabled is True or engine_watchers or (create_graph is True and modes_in_use):
        return False
    reach: TrieNode = recorder.node.last
    if reach is None or reach.op is not BACKWARD:
        return False
    ids: tuple = reach.ids
    if LATEST[0] is not recorder.tid:
        return False  # ``claim_grad``
    if ids[0] is not root._vid or ids[1] is not retain_graph or ids[2] is not create_graph:
        return False
    node: TrieNode = find_grads(reach)
    if node is None:
        return False
    entered: list = recorder.entered
    event: BackwardEvent = node.event
    leaves: tuple = node.ids
    is_fresh = True
    for place, vid in zip(leaves, event.before):  # noqa: B905
        leaf: TensorBase = entered[int(place)]
        if (leaf._grad is None) is not (vid is None):
            return False
        if vid is not None:
            is_fresh = False
    if is_fresh and node is not reach.last:
        return False
    if not is_fresh and not meets_gradients(recorder, reach, node):
        return False
    recorder.node = node
    places: tuple = event.set_places
    for place, item in zip(places, event.sets):  # noqa: B905
        made: tuple = item
        holder: TensorBase = entered[int(place)]
        holder._grad = new_result_handle(recorder, made[1], made[2], made[3])
    places = event.add_places
    for place, item in zip(places, event.adds):  # noqa: B905
        added: tuple = item
        owner: TensorBase = entered[int(place)]
        move_one(recorder, owner._grad, added[1])
    return True


@inlined
def find_grads(reach: TrieNode) -> TrieNode | None:
    """Second half of a backward that was met after its first, or None; leaves' gradients may be entered between."""
    node: TrieNode = reach.last
    while node is not None and node.op is IN:
        node = node.last
    return None if node is None or node.op is not GRADS else node


@once_per_call
def meets_gradients(recorder: RecorderState, reach: TrieNode, node: TrieNode) -> bool:
    """Whether the leaves' gradients are the values that a backward has added to; enters them.

    False may leave the path behind the first half, which computes nothing: the general way goes through it again.
    """
    if write_checks or recorder.picks:
        return False
    entered: list = recorder.entered
    leaves: tuple = node.ids
    event: BackwardEvent = node.event
    for place in leaves:
        leaf: TensorBase = entered[int(place)]
        grad: TensorBase = leaf._grad
        if grad is None:
            continue
        if grad._requires_grad or not (grad._tid is recorder.tid or may_enter(recorder, grad)):
            return False
    recorder.node = reach
    for place in leaves:
        holder: TensorBase = entered[int(place)]
        old: TensorBase = holder._grad
        if old is not None and not (is_operand(recorder, old) and is_unwatched(recorder, old)):
            return False
    if recorder.node.last is not node:
        return False
    for place, vid in zip(leaves, event.before):  # noqa: B905
        owner: TensorBase = entered[int(place)]
        added: TensorBase = owner._grad
        if added is not None and (added._vid is not vid or not (is_atomic() or is_ours(recorder, added))):
            return False
    return True
