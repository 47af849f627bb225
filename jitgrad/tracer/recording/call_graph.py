"""``CallGraph``: what hits look at of the graph of a call.

Owns: the slots. ``compiled/nodes/trace_graph.py`` has the class of such graphs.
Must not know: Nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.locks import process_lock
from jitgrad.storage_base import part_of
from jitgrad.tracer.recording.trie import Trie

__all__ = ["OPENED_COSTS", "CallGraph"]

OPENED_COSTS = 4
"""How many plain backwards pay for a graph that was opened, Note [Opened graphs]."""

_making = process_lock()
_FIRST: dict[str, Any] = {
    "ends": 0, "nbytes": 0, "has_made": False, "is_settled": False, "is_touched": False, "saves": False,
    "entered": None, "leaves": None, "noted": None, "outer": None, "parts": None, "room": None, "settled": None,
    "stand_in": None, "table": None, "tip": None,
}  # fmt: skip
"""What slots are that nobody has set."""


class CallGraph:
    """The state of a call's graph.

    Most graphs need few of these: a slot that was never set has its first value, and tables are made when Python first
    asks for them. Native code sees None where there is no table yet.

    Attributes:
        backend: the recorder's.
        recorder: the recorder while the call runs, then None.
        tid: the call.
        trie: of the function that was called.
        tip: the end of the path when a segment last left differentiable survivors.
        is_touched: Nodes of this call were made, or changed.
        is_settled: a segment has ended in the middle of the call, and left what the next three say.
        counters, versions: value id -> version counter; its version when a segment ended.
        settled: (value id, version counter, version), flat: what hits have put into these two.
        survivors: weak references to the differentiable handles that survived the end of a segment.
        ends, nbytes: of such segments since the call last let go of something, Note [Nodes that die]: how many, and
            what they have stored.
        has_made: the call has made Nodes.
        marks: of ``CreationOrder``; empty while no Node was numbered.
        saves: what escaped can still be differentiated.
        leaves: (value id, tensor), flat: the leaves of a graph that escaped and was used up; None otherwise.
        numbers: the run-time scalars of a graph that escaped by a hit.
        noted: (value id, version counter, version), flat: of a graph that escaped by a hit, and can still be
            differentiated; None otherwise.
        entered, table, outer: what such a graph took over from the recorder, under the same names. Inputs that nothing
            asks for any more are None in ``entered``.
        room, parts: the storage of saved values that lie in one, and value id -> where each begins, Note [Rooms].
        nodes: value id -> (Node, output number), for the Nodes that somebody has looked at.
        detached: values that were detached in place.
        used: the first outputs of the instructions whose Nodes a backward has used up, which was a program.
        stand_in: a weak reference to the call's ``CallNode``, or None.
    """

    __slots__ = (
        "backend",
        "counters",
        "detached",
        "ends",
        "entered",
        "has_made",
        "is_settled",
        "is_touched",
        "leaves",
        "marks",
        "nbytes",
        "nodes",
        "noted",
        "numbers",
        "outer",
        "parts",
        "recorder",
        "room",
        "saves",
        "settled",
        "stand_in",
        "survivors",
        "table",
        "tid",
        "tip",
        "trie",
        "used",
        "versions",
    )

    TABLES: ClassVar[dict[str, Callable[[], Any]]] = {
        "counters": dict, "detached": set, "marks": list, "nodes": dict, "numbers": list, "survivors": list,
        "used": frozenset, "versions": dict,
    }  # fmt: skip
    """What makes each table."""

    NATIVE_DEFAULTS: ClassVar[dict[str, Any]] = {**_FIRST, **dict.fromkeys(TABLES)}

    kind: ClassVar[type]
    """The class of new graphs; ``compiled/backend.py`` installs it."""

    backend: Any
    detached: set[int]
    entered: Any
    nodes: dict[int, Any]
    noted: Any
    outer: Any
    parts: Any
    room: Any
    settled: Any
    stand_in: Any
    table: Any
    used: Any

    counters: dict[int, list[Any]]
    ends: int
    has_made: bool
    is_settled: bool
    is_touched: bool
    leaves: list[Any] | None
    marks: list[Any]
    nbytes: int
    numbers: list[Any]
    recorder: Any
    saves: bool
    survivors: list[Any]
    tid: int
    tip: Any
    trie: Trie
    versions: dict[int, int]

    def unfold(self, buffers: dict[int, Any]) -> None:
        """Give the values in the room storages of their own in ``buffers``, windows of it, Note [Rooms]."""
        room, self.room = self.room, None
        if room is not None:
            buffers.update({vid: part_of(room, first) for vid, first in self.parts.items()})

    def __getattr__(self, name: str) -> Any:
        if name in _FIRST:
            return _FIRST[name]
        make = self.TABLES.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _making:  # another thread may ask as well
            try:
                return object.__getattribute__(self, name)
            except AttributeError:
                table = make()
                setattr(self, name, table)
        return table
