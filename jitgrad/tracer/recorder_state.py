"""What a recorder holds, and growing its path.

Owns: ``RecorderState`` (the slots of a recorder, misses) and ``Backend`` (what it needs from the levels above).
Must not know: operations' hits, aliases, writes: the parts of ``recorder.Recorder`` that build on it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from jitgrad.dtypes import FLOATING, get_default_dtype
from jitgrad.events import log
from jitgrad.handler import Handler
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, inference_tensors, tensor_class
from jitgrad.tracer.graph import Instr
from jitgrad.tracer.history import EndEvent, History
from jitgrad.tracer.hot import HOT
from jitgrad.tracer.keys import MARK
from jitgrad.tracer.numbers import NumberKeys
from jitgrad.tracer.shape_rules import out_avals_of
from jitgrad.tracer.slots import Slot
from jitgrad.tracer.trie import Trie, TrieNode
from jitgrad.user_line import user_line

__all__ = ["LATEST", "RUNNING", "Backend", "RecorderState", "new_tid", "uninterrupted"]

new_tid = itertools.count(1).__next__
"""The stamp of another call."""


RUNNING: dict[int, Any] = {}
"""Stamp -> recorder, of the calls that are being recorded, on all threads."""

LATEST: list[int] = [0]
"""The stamp of the one call that is being recorded; 0 if another one has begun meanwhile.

Two calls at a time may put their stamps on one tensor in turn. Then a tensor that a call has met looks new to it, so
each call asks its tables, as ``Recorder.enter`` does.
"""


class Backend(Protocol):
    """What the levels above do for a recorder."""

    def compile_end(self, segment: Any) -> Any: ...
    def defer_end(self, segment: Any) -> Any: ...
    def may_stop(self) -> bool: ...
    def run(self, recorder: Any, event: EndEvent, alive: list[Any], is_last: bool) -> None: ...
    def end_plan(self, recorder: Any, event: EndEvent, alive: list[Any]) -> Any: ...
    def pending_storage(self) -> Any: ...
    def root_of(self, storage: Any) -> Any: ...
    def check_write(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> None: ...
    def check_saved(self, op: Op, inputs: tuple[Any, ...], needs: tuple[bool, ...]) -> None: ...
    def eagerly(self, function: Callable[..., Any], *args: Any) -> Any: ...
    def inplace_eagerly(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> None: ...
    def apply_elsewhere(self, op: Op, *args: Any) -> Any: ...
    def inplace_elsewhere(
        self, op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], params: tuple[Any, ...]
    ) -> Any: ...
    def new_graph(self, recorder: Any) -> Any: ...
    def check_inplace(self, op: Op, target: Any, aval: Aval) -> None: ...
    def check_no_overlap(self, target: Any, inputs: tuple[Any, ...]) -> None: ...
    def check_writable(self, targets: tuple[Any, ...], inputs: tuple[Any, ...]) -> bool: ...
    def creation_meta_of(self, source: Any, is_several: bool) -> Any: ...
    def split_args(self, op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]: ...
    def saved_vids(self, history: History, roots: list[int]) -> set[int]: ...
    def savers(self, history: History, values: tuple[int, ...]) -> tuple[int, ...]: ...
    def node_making(self, recorder: Any) -> Any: ...
    def record_backward(self, recorder: Any, request: Any) -> Any: ...
    def backward_eagerly(self, request: Any) -> Any: ...
    def reached_leaves(self, recorder: Any, roots: Any) -> list[Any] | None: ...
    def repeat_backward(self, recorder: Any, root: Any, keep_graph: bool, create_graph: bool) -> bool: ...
    def saved_inputs(self, op: Op, needs: tuple[bool, ...]) -> tuple[int, ...]: ...
    def copy_instr(self, vid: int, fresh: int, aval: Aval) -> Instr: ...
    def alias_instr(self, vid: int, fresh: int, aval: Aval) -> Instr: ...
    def cast_after(self, instr: Instr, dtype: Any) -> tuple[tuple[Instr, ...], Instr]: ...


M = TypeVar("M", bound=Callable[..., Any])


def uninterrupted(method: M) -> M:
    """A method of a recorder that no signal handler's operations get into, see Note [Interrupts]."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any) -> Any:
        before, self.busy = self.busy, True
        try:
            return method(self, *args)
        finally:
            self.busy = before

    return guarded  # type: ignore[return-value]


class RecorderState(Handler):
    """State of one call.

    Attributes:
        tid: stamps of this call carry it.
        node: where the path has got to.
        handles: results since the last segment's end, in order; see ``flush``.
        busy: its state is being changed, see Note [Interrupts].
        entered: (tensor, storage, value id), flat, of what hits have entered; ``catch_up`` moves it on to the tables.
        caught: how much of ``entered`` is in the tables.
        inputs: value id -> tensor, for what came from outside (and leaves made inside).
        outer: value id -> (Node, output number), for inputs that came with a graph of their own.
        buffers: value id -> storage, for what has memory.
        scalars: run-time scalars so far.
        keepers: values that must be stored because an alias of a part of them may be held.
        links: some view of this segment may not be linked yet, see Note [Links of views].
        history: what the path has recorded, or None while every event was a hit.
        graph: what escaping results hold on to.
        graphs: some that may serve other calls, once nothing holds on to them.
        new_values: how many values this call has recorded that no call had before.
        must_record: the call may not stop recording, and has_stopped: it did, see Note [Long calls].
    """

    __slots__ = (
        "_cls",
        "_counted_twice",
        "_dirty",
        "_former",
        "_new",
        "_numbers",
        "_root",
        "_start",
        "_stubs",
        "_unlinked",
        "_viewed",
        "backend",
        "buffer_table",
        "busy",
        "caught",
        "entered",
        "graph",
        "graphs",
        "handles",
        "has_stopped",
        "history",
        "input_table",
        "keepers",
        "launches",
        "links",
        "misses",
        "must_record",
        "new_values",
        "node",
        "outer",
        "picks",
        "scalars",
        "segment_limit",
        "segments",
        "slot_table",
        "tid",
        "trie",
    )

    _counted_twice: dict[int, Any]
    _dirty: set[int]
    _former: dict[int, set[int]]
    _root: TrieNode
    _start: tuple[bool, Any]
    _stubs: list[Any]
    _unlinked: list[Any]
    _viewed: list[Slot]
    buffer_table: dict[int, Any]
    busy: bool
    caught: int
    entered: list[Any]
    graph: Any
    graphs: list[Any]
    handles: list[Any]
    input_table: dict[int, Any]
    history: History | None
    keepers: list[Any]
    launches: int
    links: bool
    misses: int
    has_stopped: bool
    must_record: bool
    node: TrieNode
    outer: dict[int, tuple[Any, int]]
    picks: list[Any]
    scalars: list[int | float]
    segments: int
    slot_table: dict[int, Slot]
    tid: int
    trie: Trie

    def __init__(self, trie: Trie, backend: Backend, segment_limit: int) -> None:
        self.trie = trie
        self.backend = backend
        self._start = (state.grad_enabled, get_default_dtype())
        self._root = self.node = trie.root(self._start)
        self.tid = new_tid()
        self.handles = []
        self.entered = []
        self.caught = 0
        self.input_table = {}
        self.outer = {}
        self.buffer_table = {}
        self.scalars = []
        self.history = None
        self.misses = self.segments = self.launches = self.new_values = 0
        self.must_record = self.has_stopped = False
        self.segment_limit = segment_limit
        self.slot_table = {}
        self._dirty = set()
        self._viewed = []
        self.picks = []
        self.links = False
        self.busy = False
        self.keepers = []
        self._counted_twice = {}
        self._former = {}
        self._unlinked = []
        self._stubs = []
        self._numbers = NumberKeys()
        self._cls = cls = tensor_class()
        self._new = cls.__new__
        self.graph = backend.new_graph(self)
        self.graphs = [self.graph]

    @property
    def inputs(self) -> dict[int, Any]:
        """See above."""
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.input_table

    @property
    def buffers(self) -> dict[int, Any]:
        """See above."""
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.buffer_table

    @property
    def _slots(self) -> dict[int, Slot]:
        """id of a storage -> who looks at it, see Note [Aliases in a trace]."""
        if self.links:
            HOT.link_views(self)
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.slot_table

    def catch_up(self) -> None:
        """Have everything that was entered in the tables."""
        HOT.catch_up(self)

    def begin(self) -> None:
        """Start another call with a recorder that ``rest`` has emptied."""
        self.tid = new_tid()
        grad_enabled, dtype = self._start
        if state.grad_enabled is not grad_enabled or get_default_dtype() is not dtype:
            self._start = (state.grad_enabled, get_default_dtype())
            self._root = self.trie.root(self._start)
        self.node = self._root
        self.graph.begin(self)

    def rest(self) -> bool:
        """Let go of what the call held. False if an escaped graph still needs it: no call may use this again."""
        if self.misses or self.graph.tip is not None:
            return False
        self.entered.clear()
        self.caught = 0
        self.input_table.clear()
        self.buffer_table.clear()
        self.slot_table.clear()
        self.scalars.clear()
        self.outer.clear()
        self._viewed.clear()
        self.picks.clear()
        self.keepers.clear()
        self._counted_twice.clear()
        self._former.clear()
        self._unlinked.clear()
        self._stubs.clear()
        self.history = None
        self.must_record = self.busy = False
        self.segments = self.launches = 0
        return True

    def carries_level(self) -> None:
        """The call may not stop recording."""
        self.must_record = True

    def outside(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run something eagerly that may read values of the call: it is the step's own, Note [Interrupts]."""
        before, self.busy = self.busy, False
        try:
            return function(*args)
        finally:
            self.busy = before

    def flush(self, is_last: bool = False) -> None:
        """End the segment; ``Recorder`` knows how."""
        raise AssertionError("a part of a recorder was used on its own")

    def _live(self) -> History:
        """The history of the path so far. Hits leave it behind; it catches up here."""
        if self.history is None:
            self.history = History()
        if self.history.tip is not self.node:
            self.history.advance(self.node)
        return self.history

    def _publish(self, node: TrieNode, event: Any, mark: Any = None) -> TrieNode:
        """Make a new event findable and part of the history."""
        history = self._live()
        if event is not None:
            event.replay(history)
        history.tip = node
        self.misses += 1
        assert node.parent is not None
        self.new_values += node.next_vid - node.parent.next_vid
        self._numbers.follow(node, mark)
        log("record", "miss: %s", node.key)
        return Trie.publish(node)

    def _instr(
        self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], operands: tuple[Any, ...], first: int = -1
    ) -> tuple[Instr, bool]:
        """Shape rule and graph membership of a new operation. Raises what eager execution does."""
        avals, several = out_avals_of(op, inputs, params)
        needs = tuple(isinstance(x, TensorBase) and x._requires_grad for x in inputs)
        is_floating = any(a.dtype.category is FLOATING for a in avals)
        joins = state.grad_enabled and bool(op.vjps) and any(needs) and is_floating
        if joins and inference_tensors:
            self.backend.check_saved(op, inputs, needs)
        first = self.node.next_vid if first < 0 else first
        instr = Instr(
            op,
            operands,
            params,
            tuple(range(first, first + len(avals))),
            avals,
            tuple(x._aval if isinstance(x, TensorBase) else None for x in inputs),
            joins,
            needs,
            user_line(),
        )
        return instr, several

    def _mark(self, key: Any, event: Any = None, make: Callable[[], Any] | None = None) -> TrieNode:
        """An event without results."""
        node = self.node.children.get(key)
        if node is None:
            self._live()
            event = make() if make is not None else event
            node = self.trie.grow(self.node, key, event)
            node.op = MARK
            self._publish(node, event)
        self.node.last = self.node = node
        return node
