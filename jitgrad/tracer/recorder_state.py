"""What a recorder holds, and growing its path.

Owns: ``RecorderState`` (the slots of a recorder, misses) and ``Backend`` (what it needs from the levels above).
Must not know: operations' hits, aliases, writes: the parts of ``recorder.Recorder`` that build on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from jitgrad.dtypes import get_default_dtype
from jitgrad.events import log
from jitgrad.handler import Handler
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, inference_tensors, tensor_class
from jitgrad.tracer.graph import Instr
from jitgrad.tracer.history import EndEvent, History
from jitgrad.tracer.numbers import NumberKeys
from jitgrad.tracer.shape_rules import out_avals_of
from jitgrad.tracer.slots import Slot
from jitgrad.tracer.trie import Trie, TrieNode
from jitgrad.user_line import user_line

__all__ = ["Backend", "RecorderState"]

_tids = itertools.count(1)


class Backend(Protocol):
    """What the levels above do for a recorder."""

    def compile_end(self, segment: Any) -> Any: ...
    def defer_end(self, segment: Any) -> Any: ...
    def may_stop(self) -> bool: ...
    def run(self, recorder: Any, event: EndEvent, alive: list[Any], is_last: bool) -> None: ...
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
    def reached_leaves(self, recorder: Any, roots: Any) -> list[Any] | None: ...
    def repeat_backward(self, recorder: Any, root: Any, keep_graph: bool, create_graph: bool) -> bool: ...
    def saved_inputs(self, op: Op, needs: tuple[bool, ...]) -> tuple[int, ...]: ...
    def copy_instr(self, vid: int, fresh: int, aval: Aval) -> Instr: ...
    def alias_instr(self, vid: int, fresh: int, aval: Aval) -> Instr: ...
    def cast_after(self, instr: Instr, dtype: Any) -> tuple[tuple[Instr, ...], Instr]: ...


class RecorderState(Handler):
    """State of one call.

    Attributes:
        tid: stamps of this call carry it.
        node: where the path has got to.
        handles: results since the last segment's end, in order; see ``flush``.
        inputs: value id -> tensor, for what came from outside (and leaves made inside).
        outer: value id -> (Node, output number), for inputs that came with a graph of their own.
        buffers: value id -> storage, for what has memory.
        scalars: run-time scalars so far.
        history: what the path has recorded, or None while every event was a hit.
        graph: what escaping results hold on to.
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
        "_slots",
        "_start",
        "_stubs",
        "_unlinked",
        "_viewed",
        "backend",
        "buffers",
        "graph",
        "handles",
        "has_stopped",
        "history",
        "inputs",
        "launches",
        "misses",
        "must_record",
        "new_values",
        "node",
        "outer",
        "picks",
        "scalars",
        "segment_limit",
        "segments",
        "tid",
        "trie",
    )

    def __init__(self, trie: Trie, backend: Backend, segment_limit: int) -> None:
        self.trie = trie
        self.backend = backend
        self._start = (state.grad_enabled, get_default_dtype())
        self._root = self.node = trie.root(self._start)
        self.tid = next(_tids)
        self.handles: list[Any] = []
        self.inputs: dict[int, Any] = {}
        self.outer: dict[int, tuple[Any, int]] = {}
        self.buffers: dict[int, Any] = {}
        self.scalars: list[int | float] = []
        self.history: History | None = None
        self.misses = self.segments = self.launches = self.new_values = 0
        self.must_record = self.has_stopped = False
        self.segment_limit = segment_limit
        self._slots: dict[int, Slot] = {}
        self._dirty: set[int] = set()
        self._viewed: list[Slot] = []
        self.picks: list[Any] = []
        self._counted_twice: dict[int, Any] = {}
        self._former: dict[int, set[int]] = {}
        self._unlinked: list[Any] = []
        self._stubs: list[Any] = []
        self._numbers = NumberKeys()
        self._cls = cls = tensor_class()
        self._new = cls.__new__
        self.graph = backend.new_graph(self)

    def begin(self) -> None:
        """Start another call with a recorder that ``rest`` has emptied."""
        self.tid = next(_tids)
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
        self.inputs.clear()
        self.buffers.clear()
        self._slots.clear()
        self.scalars.clear()
        self.outer.clear()
        self._viewed.clear()
        self.picks.clear()
        self._counted_twice.clear()
        self._former.clear()
        self._unlinked.clear()
        self._stubs.clear()
        self.history = None
        self.must_record = False
        self.segments = self.launches = 0
        return True

    def carries_level(self) -> None:
        """The call may not stop recording."""
        self.must_record = True

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
        is_floating = any(a.dtype.category == 2 for a in avals)
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
            node = self._publish(self.trie.grow(self.node, key, event), event)
        self.node = node
        return node
