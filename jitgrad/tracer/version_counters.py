"""Memory that is written under more than one version counter.

Owns: ``VersionCounters``, the part of a recorder that knows such storages, and whether a graph still saves one.
Must not know: Nodes; ``Backend.savers`` tells which operations save a value.

# Note [Several version counters]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``t.data`` looks at the memory of ``t`` under a version counter of its own: a write through one of them is not noticed
# by who saved the other, and its backward uses what is in the memory by then. In a trace a saved value is a value, not
# memory. So a write to a storage that has handles under several counters first asks whether the trace has an operation
# whose Node saves a value of that storage and is not used up. If so, those Nodes are made, the segment ends - what they
# saved are windows on the memory now - and the write is done outside (``Writes._write_outside``). If not, as when
# an old-fashioned optimizer writes ``p.data`` after the backward, it is recorded like any other.
"""

from __future__ import annotations

from typing import Any

from jitgrad.tracer.early_checks import EarlyChecks
from jitgrad.tracer.history import LookEvent, SaversEvent
from jitgrad.tracer.keys import NODE, SAVERS

__all__ = ["VersionCounters"]


class VersionCounters(EarlyChecks):
    """Knows which storages have several version counters."""

    __slots__ = ()

    def note_data(self, source: Any, tensor: Any) -> None:
        """``tensor`` is ``source.data``."""
        storage = tensor._storage
        if storage is None or tensor._tid != self.tid:
            return
        self._counted_twice[id(storage)] = storage
        for handle in self.handles:  # what Nodes saved of the value looks at the same memory
            if handle._vid == source._vid and handle._storage is None:
                handle._storage = storage

    def _is_saved(self, tensor: Any) -> bool:
        """Whether a graph saves what is in the storage of a tensor; then the Nodes that do are there from now on."""
        slot = self._slots.get(id(tensor._storage))
        seeds = {tensor._vid} if slot is None else {tensor._vid, slot.owner}
        if slot is not None:
            seeds.update(h._vid for h in slot.live() if h._tid == self.tid)
        seeds |= self._former.get(id(tensor._storage), set())
        key = tuple(sorted(seeds))
        vids = self._mark((SAVERS, key), make=lambda: SaversEvent(self.backend.savers(self._live(), key))).event.vids
        for vid in vids:
            self._make_node(vid)
        return bool(vids)

    def _make_node(self, vid: int) -> None:
        """Have the Node of a value of this trace. Python may hook it: the path is another one from here."""
        graph = self.graph
        if vid not in graph.nodes:
            graph.build(vid, self._mark((NODE, vid), make=lambda: LookEvent(vid, graph.recipe(vid))).event.recipe)
