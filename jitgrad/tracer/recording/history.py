"""What has been recorded along a path: events, and the state they add up to.

Owns: the event classes and ``History``.
Must not know: tensors, programs' insides, the engine.
In: trie nodes. Out: the instructions, and which values are leaves, overwritten, released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad.cpython.primitives import once_per_call
from jitgrad.errors import OTHER_THREAD
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.structs import field, struct
from jitgrad.tracer.recording.graph import Instr, instrs_later
from jitgrad.tracer.recording.keys import HOOKED, LEAF, Filling, InputKind
from jitgrad.tracer.recording.trie import TrieNode

__all__ = [
    "RETURNED", "BackwardEvent", "DataEvent", "DetachEvent", "EndEvent", "History", "InputEvent", "KeepEvent",
    "LeafEvent", "LookEvent", "OpEvent", "OutsideEvent", "PauseEvent", "PlainEvent", "ReleaseEvent", "Returned",
    "SaversEvent", "UpdateEvent", "ViewStep", "add_views",
]  # fmt: skip

RETURNED = "the function returned"
"""``EndEvent.reason`` of a call's last segment."""


@struct
class InputEvent:
    """A tensor from outside was used for the first time. kind: its part in the graph."""

    vid: int
    aval: Aval
    kind: InputKind

    def replay(self, history: History) -> None:
        history.avals[self.vid] = self.aval
        if self.kind in (LEAF, HOOKED):
            history.leaves[self.vid] = self.vid


@struct
class OpEvent:
    """An operation of the user's code.

    Attributes:
        instr: the one whose outputs the user sees.
        instrs: all of the event; usually just that one.
        overwritten: value ids whose storage now holds something else.
        writes: (owner id, value id): pending write to an existing storage.
        leaf_rebinds: (value id, input id): the value is now what this leaf holds.
        node_rebinds: (value id, older id): written outside the graph; the tensor still has the older value's Node.
        successors: (older id, value id): the value that a tensor of the older one holds from here on.
        window: of a write through a view: the new values of its base and of itself.
        several: the operation returns a tuple.
        ends_segment: the segment has reached its limit.
        is_alias: another name for the value in an input's storage: it is there when the segment has ended.
        demands: what is asked of operands' values at every call, see Note [Early checks].
        passed: per demand: the operand's (storage, version) that last met it.
    """

    instr: Instr
    instrs: tuple[Instr, ...]
    overwritten: tuple[int, ...] = ()
    writes: tuple[tuple[int, int], ...] = ()
    leaf_rebinds: tuple[tuple[int, int], ...] = ()
    node_rebinds: tuple[tuple[int, int], ...] = ()
    several: bool = False
    ends_segment: bool = False
    is_alias: bool = False
    successors: tuple[tuple[int, int], ...] = ()
    window: tuple[int, ...] = ()
    demands: tuple[Any, ...] = ()
    passed: list[Any] | None = None

    is_pause = False

    def replay(self, history: History) -> None:
        history.extend(self.instrs)
        history.succeed(self.successors)
        if self.is_alias:
            history.aliases.update(self.instr.outputs)
        history.overwrite(self.overwritten, self.instr.op.name, self.instr.where)
        history.write(self.writes)
        history.leaves.update(self.leaf_rebinds)
        for vid, older in self.node_rebinds:
            history.nodes_from[vid] = history.node_source(older)


@struct
class PlainEvent:
    """An ``OpEvent`` with nothing special about it: most events are like this, and recording makes one per operation.

    Attributes:
        instr, several, ends_segment: see ``OpEvent``, whose other attributes have their defaults here.
    """

    instr: Instr
    several: bool = False
    ends_segment: bool = False

    is_pause = is_alias = False
    overwritten = writes = leaf_rebinds = node_rebinds = successors = window = demands = ()

    @property
    def instrs(self) -> tuple[Instr, ...]:
        """All of the event."""
        return (self.instr,)

    def replay(self, history: History) -> None:
        history.add(self.instr)


class PauseEvent:
    """The segment must end before this operation: it checks a value that is computed in it, Note [Early checks]."""

    __slots__ = ()

    is_pause = True
    demands = (None,)

    def replay(self, history: History) -> None:
        raise AssertionError("no path goes through an operation that was not recorded")


@struct
class UpdateEvent:
    """An optimizer's step over many parameters.

    Attributes:
        events: one in-place event per parameter.
        results: the value ids that the targets move on to, in order.
        ends_segment: the segment has reached its limit, or holds such a step already, see Note [Turns].
    """

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(("results",))

    events: tuple[OpEvent, ...]
    results: tuple[int, ...]
    ends_segment: bool = False

    def replay(self, history: History) -> None:
        for event in self.events:
            event.replay(history)


@struct
class OutsideEvent:
    """A write that was done eagerly.

    Attributes:
        overwritten: the values whose storage it changed.
        name: of the operation; empty if it was none of jitgrad's.
        where: the user's line.
    """

    overwritten: tuple[int, ...]
    name: str = ""
    where: str = ""

    def replay(self, history: History) -> None:
        history.overwrite(self.overwritten, self.name, self.where)


@struct
class DataEvent:
    """A tensor looks at other memory from here on. vid: the value that it held."""

    vid: int

    def replay(self, history: History) -> None:
        history.replaced.add(self.vid)
        uses = {(i.outputs[0], nr) for i in history.instrs for nr, x in enumerate(i.inputs) if x == self.vid}
        history.replaced_in.update(uses - history.by_results)


@struct
class DetachEvent:
    """``detach_()``: operations that saved the tensor will refuse to use it. vid: the value, as it was in the graph."""

    vid: int

    def replay(self, history: History) -> None:
        history.detached.add(self.vid)


@struct
class SaversEvent:
    """A storage is to be written, Note [Several version counters]. vids: results whose Nodes save what is in it."""

    vids: tuple[int, ...]

    def replay(self, history: History) -> None:
        """Nothing was written yet."""


@struct
class LookEvent:
    """Python hooked a value, or took its Node: gradients that pass there concern Python.

    Attributes:
        vid: the value.
        recipe: how the Nodes behind it are made; None if it was only hooked.
    """

    vid: int
    recipe: Any = None

    def replay(self, history: History) -> None:
        history.looked_at.add(self.vid)


@struct
class ReleaseEvent:
    """The engine has run over Nodes of the trace. released: outputs of instructions whose saved values are gone."""

    released: frozenset[int]

    def replay(self, history: History) -> None:
        history.released |= self.released


@struct
class KeepEvent:
    """The call let go of Nodes and storages, see Note [Nodes that die].

    Attributes:
        nodes: the values whose Nodes somebody can still reach.
        saved: the values that a backward may still read.
        pending: those that the end of the open segment will read or write.
    """

    nodes: frozenset[int]
    saved: frozenset[int]
    pending: frozenset[int]

    def replay(self, history: History) -> None:
        """No value has changed."""


@struct
class LeafEvent:
    """``requires_grad_()`` on a value of this trace: from here on it is a leaf."""

    vid: int

    def replay(self, history: History) -> None:
        history.leaves[self.vid] = self.vid


class ViewStep(NamedTuple):
    """One view of a value.

    Attributes:
        source: the value id of what it is a view of.
        op, params: the operation.
        nr: which of its outputs.
    """

    source: Any
    op: Op
    params: tuple[Any, ...]
    nr: int


class Returned(NamedTuple):
    """One result of ``grad()``.

    Attributes:
        vid, aval, requires_grad: the value that it is, or of which it is a view.
        given: which of the gradients that the caller gave this value is; None if the backward has made it.
        views: what is done to the value, first to last.
    """

    vid: int
    aval: Aval
    requires_grad: bool
    given: int | None
    views: tuple[ViewStep, ...]


class SparseSet(NamedTuple):
    """A leaf (its input id), and its new sparse gradient: (value id, aval) of indices and of values, the shape."""

    leaf: int
    indices: tuple[int, Aval]
    values: tuple[int, Aval]
    shape: tuple[int, ...]


@struct
class BackwardEvent:
    """A whole backward.

    Attributes:
        instrs: everything the derivative rules recorded.
        sets: (leaf's input id, value id, aval, requires_grad): ``leaf.grad`` becomes a new tensor.
        adds: (leaf's input id, value id): the tensor that ``leaf.grad`` already is gets this value.
        results: what ``grad()`` returned, or None, per input.
        released: outputs of instructions whose saved values are gone.
        consts: (value id, tensor): tensors that a rule made by itself.
        overwritten, writes: as in ``OpEvent``, for accumulation in place.
        set_places: per entry of ``sets``, the leaf's place among the call's entered tensors, if hits are to know.
        add_places: the same of ``adds``.
        before: per leaf of the node's ``ids``, the value id of the gradient it had, or None, if hits are to know.
        by_results: (first output of an instruction, operand): it used a result that a Node had saved of its own. That
            is an alias, which keeps its memory where the tensor gets other data.
        sparse_sets: leaves whose ``.grad`` becomes a new sparse tensor.
        later: of a copied path, makes ``instrs`` when somebody looks at them.
    """

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(("add_places", "adds", "before", "set_places", "sets"))

    instrs: tuple[Instr, ...]
    sets: tuple[tuple[int, int, Aval, bool], ...]
    adds: tuple[tuple[int, int], ...]
    results: tuple[Returned | None, ...]
    released: frozenset[int]
    consts: tuple[tuple[int, Any], ...] = ()
    overwritten: tuple[int, ...] = ()
    writes: tuple[tuple[int, int], ...] = ()
    set_places: tuple[int, ...] = ()
    add_places: tuple[int, ...] = ()
    before: tuple[int | None, ...] = ()
    by_results: frozenset[tuple[int, int]] = frozenset()
    sparse_sets: tuple[SparseSet, ...] = ()
    later: Callable[[], Sequence[Instr]] | None = None
    if not TYPE_CHECKING:
        __getattr__ = instrs_later

    def replay(self, history: History) -> None:
        for vid, tensor in self.consts:
            history.avals[vid] = tensor._aval
        history.extend(self.instrs)
        history.by_results |= self.by_results
        history.released |= self.released
        history.write(self.writes)
        history.overwrite(self.overwritten)
        history.succeed(zip(self.overwritten, (vid for _, vid in self.adds), strict=False))


@struct
class EndEvent:
    """The end of a segment.

    Attributes:
        program: what to run; None if the segment computes nothing.
        assign: per surviving handle, how it gets its storage (``keys.Filling``).
        written: (value id, owner id): storages that the program wrote.
        outputs: value ids that now have buffers (survivors, and values saved for a later backward).
        avals: of the survivors, as they lie in their storages.
        keeps_graph: some survivor has a graph.
        saves: that graph can still be differentiated, with its saved values, if it has any.
        has_pending: some survivor's storage waits for memory.
        is_deferred: the program is only a stand-in: compile the segment when it is met again.
        named: (owner id, value id): storages that got memory, under another value than they were first known by.
        windows: (value id, value id): saved views, and on whose memory they are windows.
        nbytes: of the outputs.
        segment: what the program computes, for ``explain`` and for replaying an error.
        is_fresh: a copy that no call has come to yet has no plan: few come again, Note [Path families].
        plan: what a hit does, an ``EndPlan``; None if hits take the general way; ``has_plan``: that was asked.
        reason: what ended the segment, with the line; for ``explain``.
    """

    NATIVE_LASTS = True
    NATIVE_FIXED = frozenset(("plan", "windows"))
    """A plan stays, once it is there: threads that make one at the same time keep the first (``segment_end.py``)."""

    program: Any
    assign: tuple[Filling, ...]
    written: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]
    avals: tuple[tuple[int, Aval], ...]
    keeps_graph: bool
    saves: bool
    has_pending: bool
    is_deferred: bool
    named: tuple[tuple[int, int], ...]
    windows: tuple[tuple[int, int], ...]
    segment: Any
    nbytes: int = 0
    plan: Any = None
    has_plan: bool = False
    is_fresh: bool = False
    reason: str = ""

    @property
    def ends_early(self) -> bool:
        """The segment was ended by something before the function's own end."""
        return self.reason not in ("", RETURNED)

    def replay(self, history: History) -> None:
        history.avals.update(self.avals)
        history.moved.update((owner, vid) for vid, owner in self.written)
        history.moved.update((owner, vid) for owner, vid in self.named if owner != vid)
        history.start = len(history.instrs)
        history.here.clear()
        history.writes.clear()
        history.write_log.clear()
        history.end = self


@once_per_call
def add_views(history: History, instr: Instr) -> None:
    """Where the results of the newest instruction are, which is a view."""
    operands: tuple = instr.inputs  # type: ignore[type-arg]
    source = operands[0]
    home = history.homes.get(source)
    shares: list = history.shares.get(source)  # type: ignore[type-arg, assignment]
    if shares is None:
        shares = []
        history.shares[source] = shares
    for vid in instr.outputs:
        history.homes[vid] = source if home is None else home
        shares.append((len(history.instrs), vid))


@struct
class History:
    """The state that a path's events add up to.

    Attributes:
        tip: how far down the path this state is.
        instrs: all of the path; those from ``start`` on belong to the open segment.
        here: the values that the open segment computes.
        defs: value id -> (instruction, which output).
        leaves: value id -> the input id of the leaf that holds the value.
        avals: of inputs and materialised values, with their layouts.
        overwritten: values that are no longer in their storage, views of such values included.
        writers: of such values: the operation that was the first to write over it, and its line.
        released: see ``BackwardEvent.released``.
        writes: owner id -> value id, pending in the open segment.
        aliases: see ``OpEvent.is_alias``.
        moved: value id -> the one that a segment wrote into its storage.
        looked_at: see ``LookEvent``.
        replaced: see ``DataEvent``.
        replaced_in: (first output of an operation, operand): the operation used the tensor before its data was
            replaced. Later operations with that id use another handle on the old value.
        by_results: see ``BackwardEvent.by_results``.
        detached: see ``DetachEvent``.
        homes: value id -> the first value of its storage, for views and for what was written in place.
        parts: value id -> the one that it was written into, as a window.
        shares: value id -> (instruction number, value id): views of it, and what was written into it as a window.
        nodes_from: see ``OpEvent.node_rebinds``.
        write_log: every (value id, owner id) of the open segment, in order.
        end: of the segment that ended last.
    """

    tip: TrieNode | None = None
    instrs: list[Instr] = field(default_factory=list)
    start: int = 0
    here: set[int] = field(default_factory=set)
    defs: dict[int, tuple[Instr, int]] = field(default_factory=dict)
    leaves: dict[int, int] = field(default_factory=dict)
    avals: dict[int, Aval] = field(default_factory=dict)
    overwritten: set[int] = field(default_factory=set)
    writers: dict[int, tuple[str, str]] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    writes: dict[int, int] = field(default_factory=dict)
    write_log: list[tuple[int, int]] = field(default_factory=list)
    end: EndEvent | None = None
    nodes_from: dict[int, int] = field(default_factory=dict)
    looked_at: set[int] = field(default_factory=set)
    moved: dict[int, int] = field(default_factory=dict)
    replaced: set[int] = field(default_factory=set)
    replaced_in: set[tuple[int, int]] = field(default_factory=set)
    by_results: set[tuple[int, int]] = field(default_factory=set)
    detached: set[int] = field(default_factory=set)
    homes: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    shares: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    aliases: set[int] = field(default_factory=set)

    def node_source(self, vid: int) -> int:
        """The value whose Node ``vid`` has."""
        return self.nodes_from.get(vid, vid)

    def write(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.writes.update(pairs)
        self.write_log.extend((vid, owner) for owner, vid in pairs)

    def overwrite(self, vids: tuple[int, ...], name: str = "", where: str = "") -> None:
        """The storages of these values hold something else now."""
        if not vids:
            return
        gone = dict.fromkeys(vids, -1)  # value id -> from which instruction on
        waiting = list(vids)
        while waiting:
            vid = waiting.pop()
            for nr, part in self.shares.get(vid, ()):
                if nr > gone[vid] and nr < gone.get(part, len(self.instrs)):
                    gone[part] = nr
                    waiting.append(part)
        self.overwritten |= gone.keys()
        if name:
            for vid in gone:
                self.writers.setdefault(vid, (name, where))

    def length(self) -> int:
        """How many operations the open segment has."""
        return len(self.instrs) - self.start

    def is_open(self, vid: int) -> bool:
        """Whether a value is computed in the open segment."""
        return vid in self.here

    def whole(self, vid: int) -> int:
        """The value that a window is a part of; ``vid`` itself if it is none."""
        while True:
            found = self.defs.get(vid)
            if vid in self.parts:
                vid = self.parts[vid]
            elif found is not None and found[0].op.is_view:
                vid = found[0].inputs[0]
            else:
                return vid

    def home(self, vid: int) -> int:
        """The first value of the storage that a value is in."""
        return self.homes.get(vid, vid)

    def succeed(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Values that are in the storages of older ones."""
        for older, vid in pairs:
            self.homes[vid] = self.home(older)

    def canonical(self, owner: int) -> int:
        """The value id that a storage goes by: the one last written to it by a segment."""
        while owner in self.moved:
            owner = self.moved[owner]
        return owner

    def extend(self, instrs: tuple[Instr, ...]) -> None:
        for instr in instrs:
            self.add(instr)

    def add(self, instr: Instr) -> None:
        """One more instruction."""
        op, outputs = instr.op, instr.outputs
        self.instrs.append(instr)
        for nr, vid in enumerate(outputs):
            self.defs[vid] = (instr, nr)
        self.here.update(outputs)
        if op.is_view:
            add_views(self, instr)
        elif op is COPY_SLICES:
            self.parts[instr.inputs[1]] = outputs[0]
            self.shares.setdefault(outputs[0], []).append((len(self.instrs), instr.inputs[1]))

    @staticmethod
    def replay(tip: TrieNode) -> History:
        """The history of the path that ends at ``tip``."""
        history = History()
        history.advance(tip)
        return history

    def advance(self, tip: TrieNode) -> bool:
        """Replay what lies between here and ``tip``; False, and nothing is done, if that is not below this node."""
        path = []
        node: TrieNode | None = tip
        while node is not self.tip and node is not None:
            path.append(node.event)
            node = node.parent
        if node is None and self.tip is not None:
            return False
        for event in reversed(path):
            if event is not None:
                event.replay(self)
        self.tip = tip
        return True

    def aval_of(self, vid: int) -> Aval:
        """What is known of a value."""
        found = self.avals.get(vid)
        if found is not None:
            return found
        made = self.defs.get(vid)
        if made is None:
            raise RuntimeError(OTHER_THREAD)
        return made[0].avals[made[1]]
