"""``CallNode``: what stands in a graph for all Nodes of a compiled call, as long as nobody looks.

Owns: the class; what calls that end alike have in common, as native code reads it; how a result gets its ``CallNode``.
Must not know: how the gradients are computed (``runtime/engine/run/call_runs.py``), how real Nodes are made.

See Note [Backward from outside]. Native code and Python run the same functions, Note [Eager in native code].
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.primitives import blank, eager_apart, eager_native
from jitgrad.ops.aval import Aval
from jitgrad.runtime.engine.graph.accumulate_grad import accumulator_of
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import NextEdge, Node
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["CallNode", "CallOutline", "CallProgram", "OwnedGrads", "call_nodes_in_use", "is_unlooked", "join_call"]

call_nodes_in_use: list[bool] = []
"""Not empty once there was a ``CallNode``: the engine need not look for them before."""


class OwnedGrads(list[Any]):
    """Gradients of a ``CallNode`` that nobody else refers to, no two in the same memory."""

    __slots__ = ()


class CallProgram:
    """The backward of a call as one native step, for gradients of known layouts, to all edges.

    Attributes:
        addends: edges to leaves whose gradients could be added to sums at once, Note [Sums of calls].
        adding: the form that does so; None: it is not made.
        avals: of the gradients of the call's results; None for a result that has none.
        step: what computes the gradients of the edges. Its words are input and output addresses.
        own: (word, place in ``CallGraph.entered`` or -1, value id), flat: what the call has kept. -1: it is in
            ``CallGraph.table``, or in ``CallGraph.room``.
        seeds: (word, number of the result), flat: gradients that come in.
        consts: (word, address), flat: memory of ``keep``.
        makes: what make arrays for its outputs.
        first_output: the word of the first; the others follow, then that of the arena, then the numbers.
        slots: which numbers of the call.
        made_avals: of these arrays.
        sources: per edge: the output that is its gradient; -1: it has none; -2 - n: that of result n.
        keep: what ``consts`` point to.
        make_adding: makes ``adding``, if that can be, and is called once; then None.
        patience: how many more times sums must be met before.
        sums: (word, edge), flat: of the form that adds, what it adds to.
        used: as ``CallGraph.used``, after a backward that does not retain the graph.
        freed: value ids that nothing asks for then.
        drops: those of inputs, by their places in ``CallGraph.entered``.
    """

    __slots__ = (
        "addends", "adding", "avals", "consts", "drops", "first_output", "freed", "keep", "made_avals", "make_adding",
        "makes", "own", "patience", "seeds", "slots", "sources", "step", "sums", "used",
    )  # fmt: skip

    addends: tuple[int, ...]
    adding: CallProgram | None
    avals: tuple[Aval | None, ...]
    consts: tuple[int, ...]
    drops: tuple[int, ...]
    first_output: int
    freed: tuple[int, ...]
    keep: tuple[Any, ...]
    made_avals: tuple[Aval, ...]
    make_adding: Any
    makes: tuple[Any, ...]
    own: tuple[int, ...]
    patience: int
    seeds: tuple[int, ...]
    slots: tuple[int, ...]
    sources: tuple[int, ...]
    step: LoadedStep
    sums: tuple[int, ...]
    used: frozenset[int]


class CallOutline:
    """What calls that end at one trie node have in common: the part of ``CallBackward`` that native code reads.

    Attributes:
        numbers: value id -> which result it is.
        metadata: the results' avals.
        depth: no path from a result to an edge is longer.
        last_vid: the value id of the last result.
        edge_vids: per edge: the input id of a leaf, or of a tensor that came with a graph of its own.
        places: per edge: the leaf's place in ``CallGraph.entered``; -1: the edge is in ``CallGraph.outer``. None: not
            known yet.
        is_covered: every result leads to all edges.
        programs: those that are known.
    """

    __slots__ = ("depth", "edge_vids", "is_covered", "last_vid", "metadata", "numbers", "places", "programs")

    depth: int
    edge_vids: tuple[int, ...]
    is_covered: bool
    last_vid: int
    metadata: tuple[Aval, ...]
    numbers: dict[int, int]
    places: tuple[int, ...] | None
    programs: list[CallProgram]

    def leads_on(self, arrives: tuple[bool, ...]) -> bool:
        """Whether an edge leads on to a graph that gets nothing, if only these results have gradients."""
        raise NotImplementedError


class CallNode(Node):
    """Stands in a graph for all Nodes that a call of a compiled function has recorded, as long as nobody looks.

    Its gradients in are those of the call's results; its edges lead to the call's leaves, and to the graphs that its
    arguments came with. Python code never gets one: ``grad_fn`` returns the real Node.

    Attributes:
        graph: the call's; what it needs is kept there.
        known: what calls that end like this one have in common (``CallBackward``).
        used: by the backward that ran last: (numbers of the results that had a gradient, per edge whether it wanted one
            or None for all).
    """

    __slots__ = ("graph", "known", "used")

    graph: Any
    known: Any
    used: Any

    def __init__(self, graph: Any, known: Any, edges: tuple[NextEdge, ...]) -> None:
        begin_call_node(self, graph, known, edges)

    def name(self) -> str:
        return "CompiledBackward"

    def real(self, nr: int) -> tuple[Node, int]:
        """The Node of result ``nr``, and which of its outputs that is."""
        found: tuple[Node, int] = self.graph.node_of(self.known.vids[nr])
        return found

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        task = current.graph_task
        wanted = task.exec_info if task is not None else None
        edges = self.next_edges
        needed = tuple([node in wanted for node, _ in edges]) if wanted else None
        self.used = (tuple([nr for nr, grad in enumerate(grad_outputs) if grad is not None]), needed)
        grads: Any = self.graph.run_backward(self, grad_outputs, needed)
        return grads

    def release_variables(self) -> None:
        self.graph.use_up(self.known, *self.used)


_NOTHING_USED = (), None


@eager_native
def begin_call_node(node: CallNode, graph: Any, known: CallOutline, edges: tuple[Any, ...]) -> None:
    """Fill a new node, but for its numbers."""
    node.graph = graph
    node.known = known
    node.used = _NOTHING_USED
    node.input_metadata = known.metadata
    node.next_edges = edges
    node.hooks = None
    if len(call_nodes_in_use) == 0:
        call_nodes_in_use.append(True)


@eager_native
def is_unlooked(graph: CallGraph) -> bool:
    """Whether a call is over that a hit has closed, whose graph nobody has looked at or used since."""
    return graph.recorder is None and graph.saves and graph.entered is not None and not graph.used


@eager_apart
def join_call(tensor: TensorBase) -> bool:
    """Give a result of a compiled call its ``CallNode``: ``CallGraph.join``, for calls that ended as others did.

    Returns:
        Whether it did; if not, nothing has happened.
    """
    if not isinstance(tensor._graph, CallGraph):
        return False
    graph: CallGraph = tensor._graph
    if not is_unlooked(graph):
        return False
    tip: TrieNode = graph.tip
    if not isinstance(tip.outside, CallOutline):
        return False
    outline: CallOutline = tip.outside
    nr = outline.numbers.get(tensor._vid)
    if nr is None or outline.places is None:
        return False
    node: Any = graph.stand_in() if graph.stand_in is not None else None
    if node is None:
        node = make_stand_in(graph, outline)
    if node is None:
        return False
    tensor._grad_fn = node
    tensor._output_nr = nr
    return True


@eager_native
def make_stand_in(graph: CallGraph, outline: CallOutline) -> Any:
    """A call's ``CallNode``; None: the call has not entered its inputs as others did."""
    marks: list[Any] = graph.marks
    if len(marks) != 1:
        return None
    edges: list[Any] = []
    longest = -1
    places: Any = outline.places
    vids = outline.edge_vids
    for i in range(len(vids)):
        found = edge_at(graph, int(places[i]), vids[i])
        if found is None:
            return None
        edge: tuple[Any, ...] = found
        below: Node = edge[0]
        if int(below.topological_nr) > longest:
            longest = int(below.topological_nr)
        edges.append(found)
    node: CallNode = blank(CallNode)
    begin_call_node(node, graph, outline, tuple(edges))
    mark: tuple[Any, ...] = marks[0]  # the number of value 0, ``CreationOrder``
    node.sequence_nr = int(mark[1]) + int(outline.last_vid)
    node.topological_nr = int(outline.depth) + longest
    graph.stand_in = ref(node)
    return node


@eager_native
def edge_at(graph: CallGraph, place: int, vid: Any) -> Any:
    """The edge to a leaf at a place of ``CallGraph.entered``, or that which a tensor came with; None: there is none."""
    if place < 0:
        outer: dict[Any, Any] = graph.outer
        found = outer.get(vid)
        if found is None:
            return None
        edge: tuple[Any, ...] = found
        return None if edge[0] is None else found
    entered: list[Any] = graph.entered
    if place + 2 >= len(entered) or entered[place + 2] is not vid:
        return None
    return (accumulator_of(entered[place]), 0)
