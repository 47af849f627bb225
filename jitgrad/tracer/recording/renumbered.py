"""Segments in terms of ranks: what is equal in all but the ids of its values.

Owns: ``Renumbered``.
Must not know: how segments are planned, or what plans are kept for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.tracer.recording.graph import Const, RuntimeScalar, Segment

__all__ = ["Renumbered", "exact", "ids_and_slots"]


class Renumbered:
    """A segment, and all that its plan depends on, apart from the ids themselves.

    Attributes:
        ids, slots: value ids and slots of run-time scalars, in order; the key has their positions here.
        key: equal for segments that one plan fits.
    """

    __slots__ = ("ids", "key", "segment", "slots")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.ids, self.slots = ids_and_slots(segment)
        self.key = self._key()

    def _key(self) -> Any:
        """Avals, operations and dtypes are equal to themselves only."""
        segment = self.segment
        rank = {vid: nr for nr, vid in enumerate(self.ids)}
        slot_rank = {slot: nr for nr, slot in enumerate(self.slots)}

        def operand(x: Any) -> Any:
            if type(x) is int:
                return rank[x]
            return (exact(x.value),) if type(x) is Const else (slot_rank[x.slot], x.is_float)

        def ranks(vids: Iterable[int]) -> tuple[int, ...]:
            return tuple([rank[vid] for vid in vids])

        instrs = [
            (i.op, tuple([operand(x) for x in i.inputs]), exact(i.params), ranks(i.outputs), i.avals, i.input_avals)
            for i in segment.instrs
        ]
        return (
            tuple(instrs),
            tuple([(rank[vid], aval) for vid, aval in segment.inputs.items()]),
            ranks(segment.outputs),
            tuple([(rank[vid], rank[owner]) for vid, owner in segment.writes]),
            tuple([(rank[vid], aval) for vid, aval in segment.layouts.items()]),
        )


def ids_and_slots(segment: Segment) -> tuple[list[int], list[int]]:
    """The value ids of a segment, and its slots of run-time scalars, in order."""
    made = {vid for instr in segment.instrs for vid in instr.outputs}
    slots = {x.slot for i in segment.instrs for x in i.inputs if type(x) is RuntimeScalar}
    return sorted(made.union(segment.inputs)), sorted(slots)


def exact(x: Any) -> Any:
    """Equal for what is equal and of one type only: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    kind = type(x)
    if kind is tuple:
        return tuple([exact(y) for y in x])
    if kind is float:
        return kind, x.hex()
    return (kind, x) if kind is int or kind is bool else (kind, repr(x)) if kind is complex else x
