"""Hits of what a segment's end leaves to the graph of its call.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: how a segment is run; what is made of a graph (``compiled/nodes/trace_graph.py``).

See Notes [Escaping graphs], [Backward from outside]. While a call runs, its graph's tables hold which versions values
had at the ends of segments. When it is over, a graph that hits alone have fed takes over the lists of the recorder.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.primitives import inlined, native, once_per_call
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.history import EndEvent
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["escapes_lightly", "keep_lightly", "keep_windows", "leaves_graph", "note_versions", "settle"]


@inlined
def leaves_graph(graph: CallGraph, keeps: bool, event: EndEvent) -> bool:
    """Whether a call that ends with this segment has had results, of any segment, that can be differentiated."""
    return (keeps and event.saves) or (graph.tip is not None and graph.saves)


@native
def escapes_lightly(
    recorder: RecorderState, graph: CallGraph, written: tuple, event: EndEvent, alive: list
) -> bool:
    """Whether a graph can take over what the recorder has noted as it is: hits have ended all segments of the call."""
    if graph.is_touched or graph.has_made or graph.marks:
        return False
    if graph.is_settled and not is_settled_by_hits(graph):
        return False
    for pair in written:
        ids: tuple = pair
        if storage_of(recorder, ids[1], alive) is None:
            return False
    return has_wholes(recorder, event, alive)


@native
def has_wholes(recorder: RecorderState, event: EndEvent, alive: list) -> bool:
    """Whether everything that saved windows look at is an input or a survivor."""
    for pair in event.windows:
        window: tuple = pair
        if tensor_of(recorder, int(window[1]), alive) is None:
            return False
    return True


@native
def is_settled_by_hits(graph: CallGraph) -> bool:
    """Whether ``settled`` has all of ``counters``."""
    counters: dict = graph.counters
    settled: list = graph.settled
    if counters is None or settled is None:
        return False
    return len(settled) == 3 * len(counters)


@native
def storage_of(recorder: RecorderState, vid: Any, alive: list) -> Any:
    """Where a value lies that is an input, a survivor, or was left by an earlier segment; None: it is none of these."""
    buffers: dict = recorder.buffer_table
    found = buffers.get(vid)
    if found is not None:
        return found
    x: TensorBase = tensor_of(recorder, int(vid), alive)
    if x is None:
        return None
    return x._storage


@native
def tensor_of(recorder: RecorderState, vid: int, alive: list) -> Any:
    """An input or a survivor, by its value id; None: it is neither."""
    entered: list = recorder.entered
    at = 0
    while at < len(entered):
        if int(entered[at + 2]) == vid:
            return entered[at]
        at += 3
    for handle in alive:
        x: TensorBase = handle
        if int(x._vid) == vid:
            return handle
    return None


@native
def keep_windows(
    recorder: RecorderState, views: tuple, written: tuple, event: EndEvent, alive: list
) -> None:
    """``after`` of a call that is over: where survivors lie, and what was written, and saved windows."""
    buffers: dict = recorder.buffer_table
    for place in views:
        view: TensorBase = alive[int(place)]
        buffers[view._vid] = view._storage
    for pair in written:
        ids: tuple = pair
        buffers[ids[0]] = storage_of(recorder, ids[1], alive)
    for pair in event.windows:
        window: tuple = pair
        whole: TensorBase = tensor_of(recorder, int(window[1]), alive)
        buffers[window[0]] = whole._storage


@native
def note_versions(recorder: RecorderState, graph: CallGraph, event: EndEvent, alive: list) -> None:
    """Note which versions the call's inputs and results have, and what saved windows look at.

    Of a value that was noted before, at the end of a segment, what was noted first counts.
    """
    noted: list = []
    if graph.is_settled:
        noted = graph.settled
        graph.settled = None
    entered: list = recorder.entered
    i = 0
    while i < len(entered):
        note_version(recorder, noted, entered[i])
        i += 3
    for handle in alive:
        note_version(recorder, noted, handle)
    for pair in event.windows:
        window: tuple = pair
        note_counter(noted, window[0], tensor_of(recorder, int(window[1]), alive))
    graph.noted = noted


@native
def note_version(recorder: RecorderState, noted: list, x: TensorBase) -> None:
    """Note the version of a tensor, unless another call has its own number for it."""
    if x._tid is recorder.tid:
        note_counter(noted, x._vid, x)


@native
def note_counter(noted: list, vid: Any, x: TensorBase) -> None:
    """Note the version counter of a tensor, and what it says, under a value id."""
    counter: list = x._vc
    noted.append(vid)
    noted.append(x._vc)
    noted.append(counter[0])


@once_per_call
def settle(recorder: RecorderState, event: EndEvent, alive: list) -> None:
    """A segment has ended which is not the last one: Nodes that are made later must see writes to its survivors."""
    graph: CallGraph = recorder.graph
    graph.is_settled = True
    for handle in alive:
        x: TensorBase = handle
        settle_version(recorder, graph, x)
        if x._requires_grad:
            if graph.survivors is None:
                none: list = []
                graph.survivors = none
            graph.survivors.append(ref(handle))
    ends: int = graph.ends
    graph.ends = ends + 1
    nbytes: int = graph.nbytes
    graph.nbytes = nbytes + int(event.nbytes)


@once_per_call
def settle_version(recorder: RecorderState, graph: CallGraph, x: TensorBase) -> None:
    """Note which version a value has, the first time it is seen, unless another call has its own number for it."""
    if x._tid is recorder.tid:
        note_settled(graph, x._vid, x)


@once_per_call
def note_settled(graph: CallGraph, vid: Any, x: TensorBase) -> None:
    """Note which version counter a value has, and what it says, the first time."""
    if graph.counters is None or graph.versions is None:
        none: dict = {}
        graph.counters = none
        no_version: dict = {}
        graph.versions = no_version
    if graph.settled is None:
        no_row: list = []
        graph.settled = no_row
    counters: dict = graph.counters
    if vid not in counters:
        counter: list = x._vc
        counters[vid] = counter
        versions: dict = graph.versions
        versions[vid] = counter[0]
        note_counter(graph.settled, vid, x)


@once_per_call
def keep_lightly(recorder: RecorderState, graph: CallGraph, node: TrieNode, event: EndEvent, alive: list) -> bool:
    """``graph.keep`` of a call whose inputs all came from outside, with windows on these or on survivors."""
    if len(recorder.input_table) * 3 != len(recorder.entered) or not has_wholes(recorder, event, alive):
        return False
    graph.tip = node
    graph.saves = True
    graph.is_settled = True
    entered: list = recorder.entered
    i = 0
    while i < len(entered):
        settle_version(recorder, graph, entered[i])
        i += 3
    for handle in alive:
        settle_version(recorder, graph, handle)
    for pair in event.windows:
        window: tuple = pair
        whole: TensorBase = tensor_of(recorder, int(window[1]), alive)
        note_settled(graph, window[0], whole)
        recorder.aliases.note_window(whole)
    return True
