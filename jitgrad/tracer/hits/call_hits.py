"""Hits of whole calls: where a call begins, and where it ends.

Owns: these rules, once, in the subset of Note [Native Python]; what hits read of a compiled function.
Must not know: what a call computes, misses, errors (``jitgrad/compile.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.cpython.primitives import (
    NATIVE,
    Raised,
    activate,
    attempt,
    attempt_pair,
    attempt_row,
    inlined,
    native,
    once_per_call,
    refcount,
    same,
    take_last,
    thread_dict,
)
from jitgrad.dtypes import DEFAULT_DTYPE
from jitgrad.events import CALL_LIMIT, CALLS
from jitgrad.numbering import reserve_sequence_nrs
from jitgrad.state import anomaly, modes_in_use, state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits import backward_hits, data_hits, update_hits
from jitgrad.tracer.hits.batch_hits import are_leaves, comes_back, moved_arguments
from jitgrad.tracer.hits.end_hits import hit_end
from jitgrad.tracer.hits.hits import MISSED, Args, began, ended
from jitgrad.tracer.hits.view_hits import all_living
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.recorder_state import TIDS, RecorderState, new_graph
from jitgrad.tracer.recording.trie import Trie, TrieNode

__all__ = ["FINISHED", "OPENED_FROM", "CallSite", "call_compiled", "use_hits"]

_MAX_CALLS = 1000
_MAX_GRAPHS = 4

FINISHED = -1
"""The stamp of a recorder whose call is over."""

OPENED_FROM = 128
"""See Note [Opened graphs]."""


class CallSite:
    """What hits read of a compiled function.

    Attributes:
        fn: the function as written; call it to run eagerly.
        batches: what is done with arguments that are views (``compiled.Batches``).
        trie: what its calls have recorded.
        idle: recorders for further calls.
        last: where the path of the call ended that was the last to end, on any thread, and did not leave early.
        debt: what looks at new graphs have cost and known graphs have not yet saved, see Note [New graphs].
        skip: how many calls are to run eagerly, see there.
        tries: how many calls in a row have left their recording early, see there.
        pauses: how often calls have run eagerly for a while, see Note [Opened graphs].
    """

    __slots__ = ("batches", "debt", "fn", "idle", "last", "pauses", "skip", "trie", "tries")

    batches: Any
    debt: int
    fn: Any
    idle: list[Any]
    last: Any
    pauses: int
    skip: int
    trie: Trie
    tries: int

    def settle(self, recorder: Any, how: tuple[int, Any, Any, list[bool]]) -> Any:
        """End a call that ``call_compiled`` has begun, and that raised or does not end as usual."""
        raise NotImplementedError

    def count_known_graph(self) -> None:
        """A call had nothing new, while there is much debt."""
        raise NotImplementedError

    def pause(self) -> None:
        """Graphs of calls have been opened too often: see Note [Opened graphs]."""
        raise NotImplementedError


@native
def runs_now(site: CallSite) -> bool:
    """Whether a call is not recorded: it is a part of another one that is, or recording is off."""
    return runs_now_on(site, thread_dict(state))


@inlined
def runs_now_on(site: CallSite, thread: dict) -> bool:
    """``runs_now`` on the thread whose state this is."""
    if thread.get("handler") is not None or config.eager is True or anomaly.enabled is True:
        return True
    depth = thread.get("eager_depth")
    return int(site.skip) != 0 or (depth is not None and not same(depth, 0))


@native
def begins_inside(args: tuple) -> bool:
    """Whether an argument, or an item of a tuple among them, is a tensor that begins inside its storage."""
    for x in args:
        if isinstance(x, TensorBase):
            if int(x._aval.offset) != 0:
                return True
        elif type(x) is tuple:
            items: tuple = x
            if begins_inside(items):
                return True
    return False


@inlined
def switch(thread: dict, recorder: Any) -> None:
    """``switch_handler`` as a hit: what stood in the slot is known."""
    thread["handler"] = recorder
    activate(recorder)


@native
def begin_call(recorder: RecorderState, tid: Any) -> bool:
    """Let a recorder that rests record a call on this thread; False if the call does not begin as its last one did."""
    return begin_call_on(recorder, tid, thread_dict(state))


@once_per_call
def begin_call_on(recorder: RecorderState, tid: Any, thread: dict) -> bool:
    """``begin_call`` on the thread whose state this is."""
    if modes_in_use or not hit_begin(recorder, tid, thread.get("grad_enabled"), DEFAULT_DTYPE[0]):
        return False
    recorder.thread = thread
    began(recorder)
    switch(thread, recorder)
    return True


@once_per_call
def end_call(site: CallSite, recorder: RecorderState) -> bool:
    """End the last segment, and the call with it if it was a usual one. False: nothing has happened."""
    if recorder.has_stopped or modes_in_use:
        return False
    recorder.busy = True  # until the call is over: nothing can be recorded behind its last segment
    if not hit_end(recorder, True):
        recorder.busy = False
        return False
    switch(recorder.thread, None)
    ended(recorder.tid)
    if hit_finish(recorder):
        put_away(site, recorder)
    elif recorder.graph.room is not None:
        recorder.graph.unfold(recorder.buffer_table)
    return True


@inlined
def may_move(site: CallSite, args: Args) -> bool:
    """Whether ``batches`` must look at the arguments of a call, of which ``site`` is the first one."""
    if len(args) == 1:
        return False
    moves = site.batches.are_rebased
    if moves is False:
        return False
    for x in args:
        if isinstance(x, TensorBase):
            if int(x._aval.offset) != 0 or (moves is None and not x._requires_grad):
                return True
        elif type(x) is tuple:
            items: tuple = x
            if moves is None or begins_inside(items):
                return True
    return False


@once_per_call
def call_compiled(row: Any, args: Args, names: Any) -> Any:
    """``CompiledFunction.__call__`` of a call that begins as others did: its front, see Note [Native fronts].

    Where the call raises, or does not end as usual, ``CompiledFunction.settle`` does what is left to do.
    """
    site: CallSite = args[0]
    thread: dict = thread_dict(state)
    if runs_now_on(site, thread):
        return MISSED
    pairs: list = None
    given: tuple = None
    if may_move(site, args):
        if site.batches.are_rebased is not True:
            return MISSED
        pairs = []
        given = moved_arguments(args, pairs)
    recorder: RecorderState = take_last(site.idle)
    if recorder is None:
        return MISSED
    tid = next(TIDS)
    if not begin_call_on(recorder, tid, thread):
        site.idle.append(recorder)
        return MISSED
    result = attempt(site.fn, args, names) if given is None else attempt_row(site.fn, given, names)
    if type(result) is Raised:
        return settle_call(site, recorder, (tid, result, False), pairs)
    is_over = attempt_pair(HOT.end_call, site, recorder)
    if is_over is not True or recorder.tid is tid:
        result = settle_call(site, recorder, (tid, result, is_over), pairs)
    elif given is not None and are_leaves(pairs):
        site.batches.settle(pairs)
    if given is not None and comes_back(result, pairs):
        return site.batches.returned(result, pairs)
    return result


@native
def settle_call(site: CallSite, recorder: RecorderState, how: tuple, pairs: Any) -> Any:
    """``CompiledFunction.settle``, also where Ctrl-C comes before its first statement: Python runs a signal's handler
    where a function begins, and then the function does not run."""
    tid = how[0]
    has_begun: list = []
    settled = attempt_pair(site.settle, recorder, (tid, how[1], how[2], has_begun))
    while type(settled) is Raised and len(has_begun) == 0:
        settled = attempt_pair(site.settle, recorder, (tid, settled, False, has_begun))
    if pairs is not None:
        site.batches.settle(pairs)
    if type(settled) is Raised:
        return settled.raise_again()
    return settled


@inlined
def put_away(site: CallSite, recorder: RecorderState) -> None:
    """A call is over in which nothing was new. Another one may use the recorder from here on."""
    site.last = recorder.node
    debt: int = site.debt
    if site.trie.defers:
        site.count_known_graph()
    elif debt != 0:
        site.debt = debt - 1
    if int(site.trie.opened) >= OPENED_FROM:
        site.pause()
    recorder.tid = FINISHED
    site.idle.append(recorder)


@inlined
def hit_begin(recorder: RecorderState, tid: Any, grad_enabled: Any, dtype: Any) -> bool:
    """Start another call with a recorder that rests; False if it starts in another state than its last one."""
    start: tuple = recorder.start
    if start[0] is not grad_enabled or start[1] is not dtype:
        return False
    recorder.tid = tid
    recorder.node = recorder.root
    recorder.must_record = False
    recorder.learns = False
    recorder.busy = False
    graph: CallGraph = recorder.graph
    graph.recorder = recorder
    graph.tid = tid
    return True


@once_per_call
def hit_finish(recorder: RecorderState) -> bool:
    """The usual end of a call: nothing was new, no graph escaped. Counts it, and empties the recorder."""
    graph: CallGraph = recorder.graph
    if graph.tip is not None and refcount(graph) == 2:  # ``recorder.graph`` and ``recorder.graphs``: no handle has it
        graph.tip = None
        graph.saves = False
        graph.noted = None
        graph.room = None
    if int(recorder.path.misses) != 0 or graph.is_touched or graph.marks or graph.has_made:
        return False
    node: TrieNode = recorder.node
    if graph.tip is not None and recorder.has_stopped:
        return False
    if graph.tip is not None and graph.noted is None and (graph.saves or len(recorder.entry.outer) != 0):
        return False
    if graph.tip is not None and len(recorder.input_table) * 3 != int(recorder.caught):
        return False  # the step has made leaves itself: ``entered`` does not have them
    trie: Trie = recorder.trie
    clock: int = trie.clock
    trie.clock = clock + 1
    node.tick = trie.clock
    if int(trie.size) > int(trie.limit) or len(CALLS) >= _MAX_CALLS:
        return False
    segments: int = recorder.segments
    launches: int = recorder.launches
    if segments >= CALL_LIMIT or launches >= CALL_LIMIT:
        return False
    CALLS.append((int(node.depth) * CALL_LIMIT + segments) * CALL_LIMIT + launches)
    graph.recorder = None
    if graph.noted is not None:
        escape_whole(recorder, graph)
    elif graph.tip is not None:
        escape(recorder, graph)
    elif graph.is_settled:
        unsettle(graph)
    recorder.entered.clear()
    if int(recorder.caught) != 0:
        recorder.caught = 0
    empty(recorder.input_table)
    empty(recorder.buffer_table)
    empty(recorder.slot_table)
    empty(recorder.entry.outer)
    empty(recorder.counted_twice)
    empty(recorder.met)
    if len(recorder.claims) != 0:
        recorder.claims.clear()
    empty(recorder.counters.former)
    recorder.scalars.clear()
    recorder.viewed.clear()
    recorder.picks.clear()
    recorder.keepers.clear()
    recorder.stubs.unlinked.clear()
    recorder.stubs.views.clear()
    recorder.path.history = None
    recorder.segments = 0
    recorder.launches = 0
    return True


@native
def escape(recorder: RecorderState, graph: CallGraph) -> None:
    """A result holds on to the graph, which was used up: its shape and its leaves are all that can be asked for."""
    leaves: list = []
    entered: list = recorder.entered
    i = 0
    while i < len(entered):
        x: TensorBase = entered[i]
        if x._requires_grad:
            leaves.append(entered[i + 2])
            leaves.append(x)
        i += 3
    graph.leaves = leaves
    graph.numbers = recorder.scalars
    recorder.scalars = []
    node: TrieNode = recorder.node
    graph.tip = node
    close_order(recorder, graph, node.next_vid)
    recorder.graph = idle_graph(recorder)


@native
def close_order(recorder: RecorderState, graph: CallGraph, next_vid: Any) -> None:
    """``CreationOrder.close``."""
    if graph.marks:
        recorder.graph.order.close(next_vid)
        return
    if graph.marks is None:
        none: list = []
        graph.marks = none
    graph.marks.append((0, reserve_sequence_nrs(int(next_vid))))


@native
def escape_whole(recorder: RecorderState, graph: CallGraph) -> None:
    """A result holds on to the graph, which can still be differentiated: it takes over what the call has met."""
    graph.entered = recorder.entered
    recorder.entered = []
    graph.table = recorder.buffer_table
    graph.outer = recorder.entry.outer
    graph.numbers = recorder.scalars
    recorder.scalars = []
    node: TrieNode = recorder.node
    graph.tip = node
    close_order(recorder, graph, node.next_vid)
    if graph.is_settled:  # ``noted`` has it
        unsettle(graph)
    renew_graph(recorder, graph)


@native
def renew_graph(recorder: RecorderState, graph: CallGraph) -> None:
    """The graph has left with the tables of the call: have others."""
    made = new_graph(recorder)
    recorder.graph = made
    graphs: list = recorder.graphs
    for i in range(len(graphs)):
        if graphs[i] is graph:
            graphs[i] = made
    table: dict = {}
    recorder.buffer_table = table
    outer: dict = {}
    recorder.entry.outer = outer


@native
def idle_graph(recorder: RecorderState) -> Any:
    """A graph for the next call: one that nothing holds on to any more, or a new one."""
    graphs: list = recorder.graphs
    for item in graphs:
        graph: CallGraph = item
        if refcount(item) == 2 and not graph.is_touched:  # ``graph`` and the list
            graph.tip = None
            graph.leaves = None
            graph.numbers = []
            if graph.marks is not None:
                graph.marks.clear()
            if graph.is_settled:
                unsettle(graph)
            return item
    made = new_graph(recorder)
    if len(graphs) < _MAX_GRAPHS:
        graphs.append(made)
    else:
        graphs[0] = made
    return made


@native
def unsettle(graph: CallGraph) -> None:
    """Let go of what ``settle`` has left: another call may use the graph."""
    graph.is_settled = False
    if graph.counters is not None:
        graph.counters.clear()
    if graph.versions is not None:
        graph.versions.clear()
    if graph.survivors is not None:
        graph.survivors.clear()
    graph.settled = None
    graph.ends = 0
    graph.nbytes = 0


@inlined
def empty(table: dict) -> None:
    """Clear a dictionary that is usually empty already."""
    if len(table) != 0:
        table.clear()


_WITH_HITS = (backward_hits, data_hits, update_hits)
"""Modules of hits that no other hit calls; to be imported is what makes a function one of ``NATIVE``."""


def use_hits() -> None:
    """Let ``HOT`` hold the hits as Python has them. ``recorder.py`` calls it once."""
    HOT.use({function.__name__: function for function in NATIVE})
    if not counts_references:
        HOT.living = all_living
