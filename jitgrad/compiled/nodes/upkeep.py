"""Nodes and memory of a running call that nobody can reach any more.

Owns: ``Upkeep``, which says when a running call lets go of Nodes and storages, and of which.
Must not know: how Nodes are made, how a segment is run.

# Note [Nodes that die]
# ~~~~~~~~~~~~~~~~~~~~~
# Eagerly a Node dies with the last tensor that leads to it, and with it what Python hung on it: a ``ctx``, a hook's
# closure, metadata, saved tensors. A recorded tensor does not lead to Nodes; its value id does, by way of the trace. So
# the call holds its Nodes itself, and the storages of saved values, and from time to time it asks which of them
# somebody can still reach:
#
# - Handles with a ``_grad_fn`` hold their Nodes, and those behind them, as eager tensors do.
# - Every other handle in the graph is a *root*: all values that it was computed from are reachable, so are their Nodes,
#   and what the backward of the operations on the way reads. Roots are among the handles of the open segment, the
#   survivors of earlier ones (by weak references), and the inputs.
#
# The call lets go of all other Nodes, and of the storages of other values unless something else has a reference to
# them. A Node that the user holds lives on, and is taken back into the table. What the roots reach depends on the path
# alone, so it is an event, ``KeepEvent``, whose key has the roots.
#
# When: so often that asking costs no more than what was done since the last time. In a call that has made Nodes, after
# the ends of segments but the last, and, where references are counted, between them; in others when segments have
# stored much, for the storages' sake. Counts that decide it must be the path's: which storages are free to go is not,
# because small ones may wait to serve again (``EndPlan.spares``). Example: in
#
#     for x in batches:
#         loss = Custom.apply(x @ w).sum()
#
# the step holds the last few ``ctx`` objects; with ``loss.item()`` in the loop, the last one only, and its memory.
# Handles that nothing but the segment's list holds let go of their Nodes before roots are looked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from jitgrad.compiled.nodes.graph_nodes import needs_and_plan
from jitgrad.cpython.liveness import ONE_LOCAL, counts_references, references
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.tracer.recording.history import History, KeepEvent
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import KEEP

__all__ = ["Upkeep"]

_FEW_NODES = 8
"""How many Nodes a call makes in a segment before it asks for the first time."""

_NODES_PER_STEP, _STORAGES_PER_STEP = 8, 32
"""How many Nodes or saved values, and how many storages, are looked at for each Node made or segment ended since."""


class Upkeep:
    """What a running call still needs.

    Its owner, a ``TraceGraph``, is an argument: a circle of the two would wait for the garbage collector.

    Attributes:
        lost: values that a Node of Python's belonged to which the call let go of.
    """

    __slots__ = ("_ends_looked", "_left", "_made", "lost")

    lost: set[int]

    def __init__(self) -> None:
        self.lost = set()
        self.reset()

    def reset(self) -> None:
        """For another call."""
        self.lost.clear()
        self._made = self._left = 0  # since the last time; what was left then
        self._ends_looked = 0  # since storages were looked at

    def before_a_node(self, graph: Any) -> None:
        """A Node is about to be made."""
        graph.has_made = True
        self._made += 1
        if self._made > max(_FEW_NODES, self._left) and counts_references:
            self._let_go(graph)

    def after_a_segment(self, graph: Any) -> None:
        """A segment has ended which is not the last one, of a call that may hold much: see ``may_let_go``."""
        graph.is_touched = True  # hits do not know what is counted here
        if graph.has_made:
            if (self._made + graph.ends) * _NODES_PER_STEP >= self._left:
                self._let_go(graph)
        elif graph.ends * _STORAGES_PER_STEP >= self._left:
            self._let_go(graph)

    def is_lost(self, live: Callable[[], History], vid: int) -> bool:
        """Whether the graph of a value leads to a Node of Python's that the call let go of: nobody holds the value."""
        return bool(self.lost) and not self.lost.isdisjoint(_reached(live(), [vid])[0])

    def _let_go(self, graph: Any) -> None:
        """Let go of what nobody can reach."""
        recorder = graph.recorder
        nodes, outer = graph.nodes, recorder.entry.outer
        before, recorder.busy = recorder.busy, True  # what dies may run Python
        try:
            if recorder.links:
                HOT.link_views(recorder)  # a result by ``detach()`` holds its source, and so a Node, until it is linked
            alive = _living(recorder)
            roots = tuple(sorted({h._vid for h in self._held(recorder, alive) if _is_root(h, graph)}))
            del alive
            make = lambda: _keep(recorder.path.live(), roots, nodes.keys() | outer.keys())  # noqa: E731
            event = recorder.path.mark((KEEP, roots), make=make).event
            idle = [(table, _taken_out(table, event.nodes)) for table in (nodes, outer)]
            self._let_handles_go(recorder)
            for table, rows in idle:
                self._take_back(table, rows, table is outer)
            self._ends_looked += graph.ends
            if self._ends_looked * _STORAGES_PER_STEP >= len(recorder.buffer_table):
                _drop_storages(recorder, event.saved | event.pending)
                self._ends_looked = 0
        finally:
            recorder.busy = before
        self._made = graph.ends = graph.nbytes = 0
        self._left = len(nodes) + len(outer) + len(event.saved)

    @staticmethod
    def _let_handles_go(recorder: Any) -> None:
        """Handles that Nodes have held which died now hold Nodes themselves, and so on."""
        count = -1
        while len(recorder.handles) != count:
            count = len(recorder.handles)
            _living(recorder)

    def _held(self, recorder: Any, alive: list[Any]) -> Iterator[Any]:
        """The call's handles that may be roots. alive: those of the open segment."""
        yield from alive
        yield from recorder.inputs.values()
        survivors = recorder.graph.survivors
        found = [(reference, reference()) for reference in survivors]
        survivors[:] = [reference for reference, handle in found if handle is not None]
        yield from [handle for _, handle in found if handle is not None]

    def _take_back(self, table: dict[int, Any], rows: list[tuple[int, ref[Any], int]], is_outer: bool) -> None:
        """Nodes that something else holds stay in the table."""
        for vid, reference, nr in rows:
            node = reference()
            if node is not None:
                table[vid] = node, nr
            elif is_outer:
                self.lost.add(vid)


def _is_root(handle: Any, graph: Any) -> bool:
    """Whether the trace alone knows the graph of a handle.

    Also of a view whose next use gives it a new value id, and of a tensor whose data was replaced: it is no value of
    the call any more, but its next use attaches the Node that it had.
    """
    in_graph = handle._requires_grad and handle._graph is not None and handle._grad_fn is None
    return in_graph and (abs(handle._tid) == graph.tid or handle._graph is graph)


def _living(recorder: Any) -> list[Any]:
    """The handles of the open segment that somebody holds; the others let go of their Nodes, and most leave the list.

    Those that share memory stay there without their Nodes: what a Node saves of their values must share it, too.
    Latest first: a view that nobody holds may be all that holds its source.
    """
    if not counts_references:
        return list(recorder.handles)
    handles = recorder.handles
    kept: list[Any] = []
    alive: list[Any] = []
    by_dead: Counter[int] = Counter()  # id of a handle -> how many handles that nobody holds have references to it
    count = len(handles)
    while handles:
        handle = handles.pop()
        if references(handle) > ONE_LOCAL + by_dead[id(handle)]:
            alive.append(handle)
            kept.append(handle)
            continue
        handle._grad_fn = None
        source = handle._source
        if source is None and handle._storage is None:
            continue
        kept.append(handle)
        source = handle._base if source is None else source
        if source is not None:
            by_dead[id(source)] += 1
    kept.reverse()
    handles += kept
    recorder.linked = 0
    recorder.has_dropped = recorder.has_dropped or len(kept) < count
    return alive


def _taken_out(table: dict[int, Any], kept: frozenset[int]) -> list[tuple[int, ref[Any], int]]:
    """Take all values but the kept ones out of a table of Nodes; (value id, Node, output number) of each."""
    idle = [(vid, ref(node), nr) for vid, (node, nr) in table.items() if vid not in kept and node is not None]
    for vid, _, _ in idle:
        del table[vid]
    return idle


def _drop_storages(recorder: Any, needed: frozenset[int]) -> None:
    """Let go of storages that only the tables of the call hold: no handle is left, and nothing will read them."""
    buffers, inputs, slots = recorder.buffers, recorder.inputs, recorder.slots
    vids_of: dict[int, list[int]] = {}
    for vid, storage in buffers.items():
        vids_of.setdefault(id(storage), []).append(vid)
    for key, vids in vids_of.items():
        slot = slots.get(key)
        if any(vid in needed or vid in inputs for vid in vids) or (slot is not None and slot.is_family):
            continue
        storage = buffers[vids[0]]
        if references(storage) == ONE_LOCAL + len(vids) + (slot is not None):
            for vid in vids:
                del buffers[vid]
            slots.pop(key, None)


def _keep(history: History, roots: tuple[int, ...], known: set[int]) -> KeepEvent:
    reached, saved = _reached(history, roots)
    pending = {v for instr in history.instrs[history.start :] for v in instr.inputs if isinstance(v, int)}
    return KeepEvent(frozenset(known & reached), frozenset(saved), frozenset(pending | history.writes.keys()))


def _reached(history: History, roots: Iterable[int]) -> tuple[set[int], set[int]]:
    """(the values that some values were computed from, as the graph sees it; what their backward will read)."""
    reached: set[int] = set()
    saved: set[int] = set()
    waiting = [*roots]
    while waiting:
        vid = waiting.pop()
        if vid in reached:
            continue
        reached.add(vid)
        waiting.append(history.node_source(vid))
        found = history.defs.get(vid)
        if found is None or not found[0].requires_grad or vid in history.leaves:
            continue
        instr = found[0]
        waiting += [v for v, needs in zip(instr.inputs, instr.needs, strict=True) if needs and isinstance(v, int)]
        if instr.op is COPY_SLICES:
            waiting.append(instr.inputs[1])  # the operation itself: its Node is part of this one
        plan = needs_and_plan(instr)[1]
        saved.update([v for v in [instr.inputs[i] for i in plan.inputs] if isinstance(v, int)])
        saved.update([instr.outputs[nr] for nr in plan.outputs])
    return reached, saved
