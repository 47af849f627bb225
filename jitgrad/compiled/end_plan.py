"""Making the plan of a segment's end, for its hits; see Note [Hits of an end].

Owns: ``end_plan``, and which ends are usual enough to have one.
Must not know: what hits do with a plan.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from jitgrad.abi import TimedRuns
from jitgrad.compiled.run import LoadedProgram
from jitgrad.tracer.hits.end_hits import EndPlan
from jitgrad.tracer.recording.history import EndEvent
from jitgrad.tracer.recording.keys import PENDING, VIEW

__all__ = ["end_plan"]

_PART_NBYTES = 1 << 14
"""Larger values have memory of their own: side by side, their rows would begin at multiples of 4 KiB, and such rows
share the same places of the first cache."""
_ALIGNMENT = 64


def end_plan(recorder: Any, event: EndEvent, alive: list[Any]) -> EndPlan | None:
    """The plan of an end that this call is about to run; None if its hits take the general way."""
    plan = EndPlan()
    plan.views = tuple(i for i, how in enumerate(event.assign) if how is VIEW)
    plan.keeps, plan.written = event.keeps_graph, event.written
    plan.has_program, plan.program = event.program is not None, event.program
    if event.program is None:
        _fill(plan, (), (), (), [])
        return plan if len(plan.views) == len(alive) else None
    loaded: LoadedProgram = plan.program
    step = loaded.only
    if step is None or not step.is_short or loaded.program.interpreted or not all(f for _, f in step.step.scalars):
        return None
    holders = {h._vid: i for i, (h, how) in enumerate(zip(alive, event.assign, strict=True)) if how is not VIEW}
    outs = dict(step.step.outputs)
    if len(holders) + len(plan.views) != len(alive) or not holders.keys() <= outs.keys():
        return None  # two handles on one value, or one that the program does not compute
    _fill(plan, tuple(outs), tuple(max(n, 1) for n in outs.values()), step.step.inputs, recorder.entered)
    plan.holders = tuple(holders.get(vid, -1) for vid in outs)
    plan.is_pending = tuple(at >= 0 and event.assign[at] is PENDING for at in plan.holders)
    plan.numbers = tuple(slot for slot, _ in step.step.scalars)
    # ``keep_windows`` gives these their storages: a written value that of its target, a window that of its base
    elsewhere = {*holders, *[vid for vid, _ in event.written], *[vid for vid, _ in event.windows]}
    plan.parts, plan.room_nbytes = _places_in_room(step.step.outputs, elsewhere)
    plan.offsets = tuple(plan.parts.get(vid, -1) for vid in outs)
    plan.idle, plan.timed, plan.arena_nbytes = step.idle, step.timed, step.lent_nbytes
    plan.releases, plan.launches = step.releases, loaded.launches
    return plan


def _fill(plan: EndPlan, outs: Any, sizes: Any, inputs: Any, entered: list[Any]) -> None:
    """Outputs, and where the inputs are: the place of the storage among what the call has entered, or -1."""
    known = {entered[i + 2]: (i + 1, entered[i + 2]) for i in range(0, len(entered), 3)}
    found = [known.get(vid, (-1, vid)) for vid in inputs]
    plan.places, plan.vids = tuple(at for at, _ in found), tuple(vid for _, vid in found)
    plan.outs, plan.sizes = tuple(outs), tuple(sizes)
    plan.spares, plan.seconds = [None] * len(plan.outs), [None] * len(plan.outs)
    plan.holders = plan.is_pending = plan.numbers = plan.offsets = ()
    plan.parts, plan.room_nbytes = {}, 0
    plan.idle, plan.timed, plan.arena_nbytes, plan.releases, plan.launches = [], TimedRuns(), 0, False, 0


def _places_in_room(outputs: Iterable[tuple[int, int]], elsewhere: Container[int]) -> tuple[dict[int, int], int]:
    """(Value id -> where it begins in the room of the graph, the room's bytes), Note [Rooms].

    Args:
        outputs: (value id, bytes) of what a program stores.
        elsewhere: value ids that have storages of their own.
    """
    parts: dict[int, int] = {}
    end = 0
    for vid, nbytes in outputs:
        if vid not in elsewhere and nbytes <= _PART_NBYTES:
            parts[vid] = end
            end += -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
    return (parts, end) if len(parts) > 1 else ({}, 0)
