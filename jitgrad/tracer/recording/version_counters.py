"""Memory that is written under more than one version counter.

Owns: ``VersionCounters``, the part of a recorder that knows such storages, and whether a graph still saves one.
Must not know: Nodes; ``Backend.savers`` tells which operations save a value.

# Note [Several version counters]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``t.data`` looks at the memory of ``t`` under a version counter of its own: a write through one of them is not noticed
# by the Node that saved the other, and its backward uses what is in the memory by then. In a trace a saved value
# is a value, not memory. So a write to a storage that has handles under several counters first asks whether the trace
# has an operation whose Node saves a value of that storage and is not used up. If so, those Nodes are made, the segment
# ends - what they saved are windows on the memory now - and the write is done outside (``Detours``). If not, as when an
# old-fashioned optimizer writes ``p.data`` after the backward, it is recorded like any other.
"""

from __future__ import annotations

from typing import Any

from jitgrad.tracer.recording.history import LookEvent, SaversEvent
from jitgrad.tracer.recording.keys import NODE, SAVERS
from jitgrad.tracer.recording.path import Path

__all__ = ["VersionCounters"]


class VersionCounters:
    """Knows which storages have several version counters.

    They are in ``RecorderState.counted_twice``, because hits ask whether there are any.

    Attributes:
        former: id of a storage -> value ids that were in it before the call forgot it.
    """

    __slots__ = ("_path", "_recorder", "former")

    former: dict[int, set[int]]

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path
        self.former = {}

    def note_data(self, source: Any, tensor: Any) -> None:
        """``tensor`` is ``source.data``."""
        recorder, storage = self._recorder, tensor._storage
        if storage is None or tensor._tid != recorder.tid:
            return
        recorder.counted_twice[id(storage)] = storage
        for handle in recorder.handles:  # what Nodes saved of the value looks at the same memory
            if handle._vid == source._vid and handle._storage is None:
                handle._storage = storage

    def is_saved(self, tensor: Any) -> bool:
        """Whether a graph saves what is in the storage of a tensor; then the Nodes that do are there from now on."""
        recorder, path = self._recorder, self._path
        slot = recorder.slots.get(id(tensor._storage))
        seeds = {tensor._vid} if slot is None else {tensor._vid, slot.owner}
        if slot is not None:
            seeds.update(h._vid for h in slot.live() if h._tid == recorder.tid)
        seeds |= self.former.get(id(tensor._storage), set())
        key = tuple(sorted(seeds))
        made = path.mark((SAVERS, key), make=lambda: SaversEvent(recorder.backend.savers(path.live(), key)))
        made.op, made.ids = SAVERS, key  # for hits: ``write_hits.unsaved``
        vids: tuple[int, ...] = made.event.vids
        for vid in vids:
            if not recorder.graph.upkeep.is_lost(path.live, vid):
                self.make_node(vid)
        return bool(vids)

    def make_node(self, vid: int) -> None:
        """Have the Node of a value of this trace. Python may hook it: the path is another one from here."""
        graph = self._recorder.graph
        if vid not in graph.nodes:
            graph.upkeep.before_a_node(graph)
            graph.build(vid, self._path.mark((NODE, vid), make=lambda: LookEvent(vid, graph.recipe(vid))).event.recipe)
