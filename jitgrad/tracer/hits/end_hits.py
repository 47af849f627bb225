"""Hits of a segment's end.

Owns: these rules, once, in the subset of Note [Native Python]; ``EndPlan``, what a segment's end does on a hit.
Must not know: misses; how a plan is made (``compiled/end_plan.py``), what its program computes.

# Note [Hits of an end]
# ~~~~~~~~~~~~~~~~~~~~~
# The end of a segment that was met before: the surviving handles are the ones in the node's key, so its program runs.
# ``EndPlan`` says where the program finds its operands: mostly as the n-th tensor that the call has entered, which is
# the same one in every call of the path. Outputs get storages; small ones that nobody holds any more serve again, two
# per output in turn, because the result of the last call is often still held when the next one is made. Whatever is
# not usual (several native steps, operations without kernels, an error in the program) is done by ``Recorder.flush``.
#
# Note [Rooms]
# ~~~~~~~~~~~~
# A call whose graph escapes leaves what its backward reads: of a recurrent cell some ten vectors, which come and go
# together. A storage for each costs more than the kernel that fills it. So small values that only the graph needs lie
# side by side in one storage, the graph's ``room``, and its ``parts`` say where. The backward's program looks there
# (``call_runs.py``). Python code that needs a storage for each value gets windows of the room (``CallGraph.unfold``).
"""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import Any

from jitgrad.abi import RunRecord, TimedRuns
from jitgrad.cpython.liveness import counts_references
from jitgrad.cpython.primitives import (
    inlined,
    is_atomic,
    native,
    once_per_call,
    poke,
    poke_float,
    refcount,
    retire_all,
    run_driver,
    run_driver_released,
    same,
    take_last,
)
from jitgrad.probe import probe
from jitgrad.state import modes_in_use
from jitgrad.storage_base import StorageBase, new_storage
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.graph_hits import (
    escapes_lightly,
    keep_lightly,
    keep_windows,
    leaves_graph,
    note_versions,
    settle,
)
from jitgrad.tracer.hits.view_hits import catch_up, find_living, sharing
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.history import EndEvent
from jitgrad.tracer.recording.keys import END
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["EndPlan", "hit_end", "may_let_go"]

_SPARE_NBYTES = 1 << 16
_MUCH = 16 << 20
"""How many bytes the segments of a call without Nodes store before it looks what it can let go of."""


class EndPlan:
    """What a hit of a segment's end does.

    Attributes:
        has_program: something is to be run.
        program: what the records belong to; another thread may have given the event a program of its own.
        idle: the program's records that no thread is using.
        timed: of the same program, with tasks that are timed.
        places: per input of the program, which of the call's entered tensors it is; -1: ``vids`` says.
        vids: per input, its value id.
        sizes: bytes of each output.
        outs: the outputs' value ids.
        offsets: per output, where it lies in the graph's room; -1: it has a storage of its own, Note [Rooms].
        parts: value id -> that place, of those in the room.
        room_nbytes: of the room.
        holders: per output, which surviving handle gets it; -1: none.
        is_pending: per output, whether that handle has a storage that waits for memory.
        views: the surviving handles that share a storage that has memory.
        numbers: per run-time scalar of the program, its place among the call's.
        arena_nbytes: of an arena that is lent for the run; 0: the record has its own.
        releases: the program takes so long that other threads may run Python meanwhile.
        launches: for the counters.
        spares, seconds: per output, storages that may serve again.
        written: pairs of value ids: what was written has the storage of what it was written to.
        keeps: an escaped graph needs to know where the outputs are.
    """

    __slots__ = (
        "arena_nbytes",
        "has_program",
        "holders",
        "idle",
        "is_pending",
        "keeps",
        "launches",
        "numbers",
        "offsets",
        "outs",
        "parts",
        "places",
        "program",
        "releases",
        "room_nbytes",
        "seconds",
        "sizes",
        "spares",
        "timed",
        "vids",
        "views",
        "written",
    )

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(__slots__) - {"program"}

    arena_nbytes: int
    has_program: bool
    holders: tuple[int, ...]
    idle: list[Any]
    is_pending: tuple[bool, ...]
    keeps: bool
    launches: int
    numbers: tuple[int, ...]
    offsets: tuple[int, ...]
    outs: tuple[int, ...]
    parts: dict[int, int]
    places: tuple[int, ...]
    program: Any
    releases: bool
    room_nbytes: int
    seconds: list[Any]
    sizes: tuple[int, ...]
    spares: list[Any]
    timed: TimedRuns
    vids: tuple[int, ...]
    views: tuple[int, ...]
    written: tuple[tuple[int, int], ...]


@inlined
def is_end(child: TrieNode, alive: list) -> bool:
    """Whether a trie node ends a segment with these survivors."""
    if child.op is not END:
        return False
    ids: tuple = child.ids
    if len(ids) != len(alive):
        return False
    for i in range(len(alive)):
        handle: TensorBase = alive[i]
        if handle._vid is not ids[i]:
            return False
    return True


@inlined
def find_end(recorder: RecorderState, alive: list) -> TrieNode | None:
    """The child that is this end, or None; it also matters which survivors share a storage."""
    node: TrieNode = recorder.node.last
    if node is None or not is_end(node, alive):
        return None
    if not same(node.params, sharing(alive)):
        return None
    return node


@inlined
def output_storage(plan: EndPlan, i: int) -> Any:
    """A storage for an output: one that served before and that nobody holds any more, or a new one.

    Another thread must not look at the same spares meanwhile: to each, the other's local would be the list's reference.
    """
    sizes: tuple = plan.sizes
    nbytes: int = sizes[i]
    if nbytes > _SPARE_NBYTES or not is_atomic():
        return new_storage(nbytes)
    spare: StorageBase = plan.spares[i]
    if spare is not None and refcount(spare) == 1 and spare.__weakref__ is None:
        return spare
    second: StorageBase = plan.seconds[i]
    is_free = second is not None and refcount(second) == 1 and second.__weakref__ is None
    if not is_free:
        second = new_storage(nbytes)
    plan.seconds[i] = spare
    plan.spares[i] = second
    return second


@inlined
def is_known(recorder: RecorderState, plan: EndPlan) -> bool:
    """Whether all inputs of the program are where the plan looks for them, and its numbers are floats."""
    entered: list = recorder.entered
    places: tuple = plan.places
    vids: tuple = plan.vids
    buffers: dict = recorder.buffer_table
    for i in range(len(places)):
        at: int = places[i]
        if at < 0:
            if vids[i] not in buffers:
                return False
        elif at >= len(entered) or entered[at + 1] is not vids[i]:
            return False
    for place in plan.numbers:  # noqa: SIM110
        if type(recorder.scalars[int(place)]) is not float:
            return False
    return True


@inlined
def records_for(plan: EndPlan, is_timed: bool) -> Any:
    """The records that a run can have; None: runs are timed, and enough were."""
    if not is_timed:
        return plan.idle
    timed: TimedRuns = plan.timed
    left: int = timed.left
    if left <= 0:
        return None
    timed.left = left - 1
    return timed.idle


@once_per_call
def run(
    recorder: RecorderState, plan: EndPlan, alive: list, keeps: bool, escapes: bool, is_stamped: bool, is_timed: bool
) -> bool:
    """Run the program of a segment, and give survivors their storages. False: nothing has happened.

    ``escapes``: the graph takes over what only it needs, in a room.
    """
    if not is_known(recorder, plan):
        return False
    idle: list = records_for(plan, is_timed)
    if idle is None:
        return False
    made: list = recorder.made
    room: StorageBase = None
    if escapes and int(plan.room_nbytes) != 0:
        room = new_storage(int(plan.room_nbytes))
    offsets: tuple = plan.offsets
    for i in range(len(plan.outs)):
        made.append(output_storage(plan, i) if room is None or int(offsets[i]) < 0 else room)
    is_done = run_into(recorder, plan, made, room, idle, is_stamped)
    if is_done:
        if room is not None:
            graph: CallGraph = recorder.graph
            graph.room = room
            graph.parts = plan.parts
        hand_out(recorder, plan, alive, made, room, keeps)
        launches: int = recorder.launches
        recorder.launches = launches + int(plan.launches)
        segments: int = recorder.segments
        recorder.segments = segments + 1
    made.clear()
    return is_done


@once_per_call
def run_into(recorder: RecorderState, plan: EndPlan, made: list, room: Any, idle: list, is_stamped: bool) -> bool:
    """Run a program whose outputs get these storages, or have places in the room."""
    arena: StorageBase = None
    if int(plan.arena_nbytes) != 0:
        arena = new_storage(int(plan.arena_nbytes))
    record: RunRecord = take_last(idle)
    if record is None:
        return False
    fill(recorder, plan, record, made, room)
    if arena is not None:
        poke(int(record.bufs_addr), 1 + len(plan.places) + len(plan.outs), int(arena.addr))
    status = 0
    if is_stamped:
        recorder.program_began = perf_counter_ns()
    if plan.releases:  # noqa: SIM108
        status = run_driver_released(int(record.record_addr))
    else:
        status = run_driver(int(record.record_addr))
    if is_stamped:
        recorder.program_ended = perf_counter_ns()
    idle.append(record)
    return status == 0


@once_per_call
def fill(recorder: RecorderState, plan: EndPlan, record: RunRecord, made: list, room: Any) -> None:
    """Write addresses and numbers into a record. Runs no Python: nobody may use the record meanwhile."""
    bufs: int = record.bufs_addr
    entered: list = recorder.entered
    places: tuple = plan.places
    vids: tuple = plan.vids
    buffers: dict = recorder.buffer_table
    count = len(places)
    for i in range(count):
        at: int = places[i]
        if at < 0:
            known: StorageBase = buffers.get(vids[i])
            poke(bufs, 1 + i, int(known.addr))
        else:
            storage: StorageBase = entered[at]
            poke(bufs, 1 + i, int(storage.addr))
    offsets: tuple = plan.offsets
    for i in range(len(made)):
        out: StorageBase = made[i]
        first = int(offsets[i]) if made[i] is room else 0
        poke(bufs, 1 + count + i, int(out.addr) + first)
    word = 2 + count + len(made)
    for place in plan.numbers:
        poke_float(bufs, word, recorder.scalars[int(place)])
        word += 1


@once_per_call
def hand_out(recorder: RecorderState, plan: EndPlan, alive: list, made: list, room: Any, keeps: bool) -> None:
    """Survivors receive storages; later segments and an escaped graph find them by value id, or in the room."""
    outs: tuple = plan.outs
    holders: tuple = plan.holders
    pending: tuple = plan.is_pending
    buffers: dict = recorder.buffer_table
    for i in range(len(made)):
        at: int = holders[i]
        storage: StorageBase = made[i]
        if at >= 0:
            handle: TensorBase = alive[at]
            if pending[i] is True:
                waiting: StorageBase = handle._storage
                waiting.addr = storage.addr
                waiting.nbytes = storage.nbytes
                waiting.owner = storage
                storage = waiting
            else:
                handle._storage = storage
        if keeps and made[i] is not room:
            buffers[outs[i]] = storage


@once_per_call
def hit_end(recorder: RecorderState, is_last: bool) -> bool:
    """End the segment: run it, give every handle that somebody still holds its storage."""
    alive: list = recorder.alive
    made: list = recorder.made
    if len(alive) + len(made) != 0:  # an error has ended a hit before this
        alive.clear()
        made.clear()
    stamps: list = probe.stamps
    if probe.session is not None and stamps is None:  # Note [Profiling points]
        return False
    began: Any = None
    if stamps is not None:
        began = perf_counter_ns()
    if not counts_references or recorder.picks or recorder.stubs.views or modes_in_use:
        return False
    find_living(recorder, alive)
    is_hit = end_segment(recorder, alive, stamps, began, is_last)
    alive.clear()
    return is_hit


@once_per_call
def end_segment(recorder: RecorderState, alive: list, stamps: Any, began: Any, is_last: bool) -> bool:
    """``hit_end`` of a segment with these survivors."""
    node: TrieNode = find_end(recorder, alive)
    if node is None:
        return False
    event: EndEvent = node.event
    plan: EndPlan = event.plan
    graph: CallGraph = recorder.graph
    if plan is None or event.is_deferred:
        return False
    keeps = not is_last or plan.keeps or graph.tip is not None
    escapes = is_last and leaves_graph(graph, plan.keeps, event)
    escapes = escapes and escapes_lightly(recorder, graph, plan.written, event, alive)
    if keeps and not escapes and int(recorder.caught) != len(recorder.entered):
        catch_up(recorder)
    is_timed = probe.hand_tasks is not None
    if plan.has_program and not run(recorder, plan, alive, keeps, escapes, stamps is not None, is_timed):
        return False
    recorder.node = node
    retire_all(recorder.handles)
    recorder.handles.clear()
    recorder.linked = 0
    recorder.keepers.clear()
    if escapes:
        note_versions(recorder, graph, event, alive)
        graph.tip = node
        graph.saves = True
    elif plan.keeps:
        if not event.saves:
            graph.tip = node
        elif not keep_lightly(recorder, graph, node, event, alive):
            recorder.graph.keep(node, alive, event.saves, event.windows)
    if len(recorder.dirty) != 0:
        recorder.dirty.clear()
    if len(recorder.claims) != 0:
        recorder.claims.clear()
    if escapes:
        keep_windows(recorder, plan.views, plan.written, event, alive)
    elif keeps:
        after(recorder, plan, event, alive, is_last)
    if stamps is not None:
        stamp(recorder, plan, event, stamps, began)
    return True


@native
def stamp(recorder: RecorderState, plan: EndPlan, event: EndEvent, stamps: list, began: Any) -> None:
    """Add a row to ``probe.stamps``."""
    program: Any = None
    if plan.has_program:
        program = plan.program
    times = (began, recorder.program_began, recorder.program_ended, perf_counter_ns())
    stamps.append((event, program, times, get_ident()))


@native
def after(recorder: RecorderState, plan: EndPlan, event: EndEvent, alive: list, is_last: bool) -> None:
    """What later segments, or an escaped graph, must find."""
    buffers: dict = recorder.buffer_table
    for place in plan.views:
        view: TensorBase = alive[int(place)]
        buffers[view._vid] = view._storage
    for pair in plan.written:
        ids: tuple = pair
        buffers[ids[0]] = buffers[ids[1]]
    for pair in event.windows:
        window: tuple = pair
        buffers[window[0]] = buffers[window[1]]
    if not is_last:
        settle(recorder, event, alive)
        for slot in recorder.viewed:
            slot.settle()
        recorder.viewed.clear()


@native
def may_let_go(graph: CallGraph) -> bool:
    """Whether a call in whose middle a segment has ended may hold what nobody needs, Note [Nodes that die]."""
    return graph.has_made or int(graph.nbytes) >= _MUCH
