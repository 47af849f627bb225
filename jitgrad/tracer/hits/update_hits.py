"""Hits of optimizers' steps.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: misses (``writes.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, is_atomic, native, optimized, same
from jitgrad.state import write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.hits import MISSED, Args, is_operand, is_ours
from jitgrad.tracer.hits.write_hits import is_unwatched, move_one
from jitgrad.tracer.recording.history import UpdateEvent
from jitgrad.tracer.recording.keys import UPDATE
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["hit_update", "update_through_door"]


@optimized
def hit_update(
    recorder: RecorderState, op: Any, rows: list, writes: tuple, numbers: tuple, params: tuple
) -> bool:
    """An optimizer's step over some parameters."""
    if write_checks or recorder.picks:
        return False
    for row in rows:
        items: tuple = row
        for x in items:  # a state that a user has put there may be a number
            if not isinstance(x, TensorBase) or not is_operand(recorder, x):
                return False
        for place in writes:
            if not is_unwatched(recorder, items[int(place)]):
                return False
    node: TrieNode = recorder.node.last
    if node is None or node.op is not UPDATE:
        return False
    ids: tuple = node.ids
    if ids[0] is not op or not same(ids[1], params) or len(ids) != len(rows) * row_length(rows) + 3:
        return False
    types: tuple = ids[2]
    if len(types) != len(numbers):
        return False
    for i in range(len(numbers)):
        if type(numbers[i]) is not types[i]:
            return False
    at = 3
    for row in rows:
        members: tuple = row
        for x in members:
            member: TensorBase = x
            if member._vid is not ids[at] or not (is_atomic() or is_ours(recorder, x)):
                return False
            at += 1
    recorder.node = node
    for number in numbers:
        recorder.scalars.append(number)
    event: UpdateEvent = node.event
    results: tuple = event.results
    nr = 0
    for row in rows:
        parts: tuple = row
        for place in writes:
            move_one(recorder, parts[int(place)], results[nr])
            nr += 1
    return True


@optimized
def update_through_door(op: Any, rows: Any, writes: tuple, numbers: tuple, params: tuple, rest: Args) -> Any:
    """``door.apply_update``."""
    if type(rows) is not list or len(rest) != 0:
        return MISSED
    given: list = rows
    if len(given) == 0:
        return None
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or ends_segment(recorder.node.last):
        return MISSED
    recorder.busy = True
    is_hit = hit_update(recorder, op, given, writes, numbers, params)
    recorder.busy = False
    return None if is_hit else MISSED


@native
def ends_segment(node: TrieNode | None) -> bool:
    """Whether an optimizer's step is the last event of its segment."""
    if node is None or node.op is not UPDATE:
        return False
    event: UpdateEvent = node.event
    return event.ends_segment


@native
def row_length(rows: list) -> int:
    """How many tensors a row has."""
    first: tuple = rows[0]
    return len(first)
