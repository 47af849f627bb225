"""The recorder: turns the operations of one call into a path of the trie.

Owns: ``Recorder`` - stamps, hits, misses, in-place writes and aliases of one call.
Must not know: LLVM, the engine, NumPy. What it needs from above comes in through ``Backend``.
In: operations, from ``dispatch`` and ``Tensor``. Out: segments, handed to the backend; handles, handed to the user.

# Note [Aliases in a trace]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# Values are immutable; storages are not. ``_slots`` lists, per storage, the handles of this call that look at it.
# A write to a storage that one handle (or several with the very same window) looks at is recorded: those handles move
# on to the new value, and the segment's end writes it into the storage, once. A write while a *different* live window
# looks on is not worth modelling: the segment ends there and the write is done eagerly, on the real memory.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import ref

from jitgrad.dtypes import get_default_dtype
from jitgrad.errors import JitgradError
from jitgrad.events import bump, log
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, tensor_class
from jitgrad.tracer.flush import build_end
from jitgrad.tracer.graph import Instr, RuntimeScalar
from jitgrad.tracer.history import EndEvent, History, InputEvent, LeafEvent, OpEvent, UpdateEvent
from jitgrad.tracer.numbers import NumberKeys, is_number
from jitgrad.tracer.rules import out_avals_of, user_line
from jitgrad.tracer.trie import Trie, TrieNode

__all__ = ["EXTERNAL", "HOT", "OTHER", "SIMPLE", "VIEWS", "Backend", "Recorder", "Slot", "input_kind"]

_END, _IN, _ALIAS, _LEAF, _HOOKS, _WRITE, _NODE, _UPDATE = (
    f"<{n}>" for n in ("end", "in", "alias", "leaf", "hooks", "write", "node", "update")
)
PLAIN, LEAF, HOOKED, EXTERNAL = range(4)
SIMPLE, VIEWS, OTHER = range(3)  # TrieNode.special
_tids = itertools.count(1)
_getrefcount = sys.getrefcount


class Backend(Protocol):
    """What the levels above do for a recorder."""

    def compile_end(self, segment: Any) -> Any: ...
    def run(self, recorder: Recorder, event: EndEvent, alive: list[Any]) -> None: ...
    def pending_storage(self) -> Any: ...
    def inplace_eagerly(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> None: ...
    def new_graph(self, recorder: Recorder) -> Any: ...
    def check_inplace(self, op: Op, target: Any, aval: Aval) -> None: ...
    def check_no_overlap(self, target: Any, inputs: tuple[Any, ...]) -> None: ...
    def check_writable_leaf(self, target: Any) -> None: ...
    def split_args(self, op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]: ...
    def saved_vids(self, history: History, roots: list[int]) -> set[int]: ...
    def record_backward(self, recorder: Recorder, request: Any) -> Any: ...
    def alias_instr(self, vid: int, fresh: int, aval: Aval) -> Instr: ...
    def cast_after(self, instr: Instr, dtype: Any) -> tuple[tuple[Instr, ...], Instr]: ...


def input_kind(tensor: Any) -> int:
    """PLAIN: outside any graph. LEAF. HOOKED: Python wants to see its gradient. EXTERNAL: its graph began elsewhere."""
    if not tensor._requires_grad:
        return PLAIN
    if not tensor.is_leaf:
        return EXTERNAL
    return HOOKED if tensor._hooks or tensor._post_accumulate_hooks else LEAF


def _alive(handles: list[Any]) -> list[Any]:
    """The handles that somebody outside the list holds: list, loop variable and argument make three references."""
    return [h for h in handles if _getrefcount(h) > 3]


class Hot:
    """Functions of the hot path that have a native twin, see Note [Native hits]."""

    alive = staticmethod(_alive)


HOT = Hot()


class Slot:
    """The handles of a call that look at one storage. None but an input is kept alive by it.

    Attributes:
        owner: the value id that has the storage in ``buffers``.
        home: the first handle: an input, or a weak reference to a value of the trace.
        others: weak references to the rest; None while there are none.
    """

    __slots__ = ("home", "others", "owner")

    def __init__(self, home: Any, owner: int) -> None:
        self.home = home
        self.owner = owner
        self.others: list[Any] | None = None

    def add(self, tensor: Any) -> None:
        if self.others is None:
            self.others = [ref(tensor)]
        else:
            self.others.append(ref(tensor))

    def live(self) -> list[Any]:
        """The handles that still exist."""
        home = self.home() if type(self.home) is ref else self.home
        handles = [] if home is None else [home]
        if self.others is not None:
            handles += [h for h in [r() for r in self.others] if h is not None]
        return handles


class Recorder:
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
    """

    is_hot = True  # native hits may answer for it

    __slots__ = (
        "_cls",
        "_dirty",
        "_new",
        "_numbers",
        "_slots",
        "backend",
        "buffers",
        "graph",
        "handles",
        "history",
        "inputs",
        "launches",
        "misses",
        "node",
        "outer",
        "scalars",
        "segment_limit",
        "segments",
        "tid",
        "trie",
    )

    def __init__(self, trie: Trie, backend: Backend, segment_limit: int) -> None:
        self.trie = trie
        self.backend = backend
        self.tid = next(_tids)
        self.node: TrieNode = trie.root((state.grad_enabled, get_default_dtype()))
        self.handles: list[Any] = []
        self.inputs: dict[int, Any] = {}
        self.outer: dict[int, tuple[Any, int]] = {}
        self.buffers: dict[int, Any] = {}
        self.scalars: list[int | float] = []
        self.history: History | None = None
        self.misses = self.segments = self.launches = 0
        self.segment_limit = segment_limit
        self._slots: dict[int, Slot] = {}
        self._dirty: set[int] = set()
        self._numbers = NumberKeys()
        self._cls = cls = tensor_class()
        self._new = cls.__new__
        self.graph = backend.new_graph(self)

    # ---- hits ------------------------------------------------------------------------------------------------

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        """``a op b`` from an operator of Tensor: the shortest path of a hit."""
        tid = self.tid
        ia = a._vid if a._tid == tid else self.enter(a)
        if isinstance(b, TensorBase):
            key: Any = (op, ia, b._vid if b._tid == tid else self.enter(b))
        elif type(b) is float or type(b) is int:
            key = (op, ia, (b or repr(b), type(b)))
        else:
            return self._odd_operand(op, a, b)
        node = self.node.children.get(key)
        if node is None or node.special:
            return self.apply(op, (a, b))
        self.node = node
        out = self._new(self._cls)
        out._tid = tid
        out._vid = node.vid
        out._aval = node.aval
        if node.requires_grad:
            out._requires_grad = True
            out._graph = self.graph
        else:
            out._requires_grad = False
        self.handles.append(out)
        return out

    def _odd_operand(self, op: Op, a: Any, b: Any) -> Any:
        """NumPy scalars become Python numbers; bool is a number; anything else is not ours."""
        if is_number(b):
            return self.apply(op, (a, b.item() if hasattr(b, "item") else b))
        return NotImplemented

    def reflected(self, op: Op, number: int | float, x: Any) -> Any:
        """``number op x`` from a reflected operator of Tensor."""
        if type(number) is not float and type(number) is not int:
            return self.apply(op, (number, x))
        vid = x._vid if x._tid == self.tid else self.enter(x)
        node = self.node.children.get((op, (number or repr(number), type(number)), vid))
        if node is None or node.special:
            return self.apply(op, (number, x))
        self.node = node
        return self._handle(node.vid, node.aval, node.requires_grad)

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Any operation: inputs, then static params."""
        x = args[0]
        if op.num_inputs != 1 or not isinstance(x, TensorBase):
            return self._apply_general(op, args)
        vid = x._vid if x._tid == self.tid else self.enter(x)
        params = args[1:]
        key = (op, vid, params)
        node = self.node.children.get(key)
        if node is None:
            return self._grow(op, (x,), params, [vid], key)
        if node.special == OTHER or node.param_types is not None:
            return self._apply_special(op, node, (x,), params, [vid], key)
        if node.special:
            self.node = node
            out = self._handle(node.vid, node.aval, node.requires_grad)
            self._link_view(out, x)
            return out
        self.node = node
        return self._handle(node.vid, node.aval, node.requires_grad)

    def _apply_general(self, op: Op, args: tuple[Any, ...]) -> Any:
        inputs, params = self.backend.split_args(op, args)
        ids, numeric = self._ids(inputs)
        key = (op, ids[0], ids[1]) if op.num_inputs == 2 and not params else (op, tuple(ids), params)
        node = self.node.children.get(key)
        if node is None and numeric:
            node = self._numbers.promoted_hit(self, op, inputs, params)
        if node is None:
            return self._grow(op, inputs, params, ids, key)
        return self._apply_special(op, node, inputs, params, ids, key)

    def _ids(self, inputs: tuple[Any, ...]) -> tuple[list[Any], bool]:
        """(value ids, with numbers as (value, type); whether there are numbers). Inputs that are new are entered."""
        tid = self.tid
        ids: list[Any] = []
        numeric = False
        for x in inputs:
            if isinstance(x, TensorBase):
                ids.append(x._vid if x._tid == tid else self.enter(x))
            else:  # repr tells -0.0 from 0.0
                ids.append((x or repr(x), type(x)))
                numeric = True
        return ids, numeric

    def _apply_special(
        self, op: Op, node: TrieNode, inputs: tuple[Any, ...], params: tuple[Any, ...], ids: list[Any], key: Any
    ) -> Any:
        """A hit that needs a second look: params whose type matters, several outputs, a full segment."""
        types = node.param_types
        if types is not None and types != tuple(map(type, params)):
            # params that compare equal but differ in type (1, 1.0, True) are different events
            key = (key, tuple(map(type, params)))
            other = self.node.children.get(key)
            if other is None:
                return self._grow(op, inputs, params, ids, key)
            node = other
        self.node = node
        return self._results(node, inputs)

    def _results(self, node: TrieNode, inputs: tuple[Any, ...]) -> Any:
        """Handles for a node's results."""
        event = node.event
        instr = event.instr
        outs = []
        for nr, (vid, aval) in enumerate(zip(instr.outputs, instr.avals, strict=True)):
            out = self._handle(vid, aval, instr.requires_grad and aval.dtype.category == 2)
            if nr:
                out._output_nr = nr
            if instr.op.is_view:
                self._link_view(out, inputs[0])
            outs.append(out)
        if event.ends_segment:
            self.flush()
        return tuple(outs) if event.several else outs[0]

    def _handle(self, vid: int, aval: Aval, requires_grad: bool) -> Any:
        out = self._new(self._cls)
        out._tid = self.tid
        out._vid = vid
        out._aval = aval
        if requires_grad:
            out._requires_grad = True
            out._graph = self.graph
        else:
            out._requires_grad = False
        self.handles.append(out)
        return out

    def _link_view(self, out: Any, source: Any) -> None:
        """Let a view share its source's storage, be it pending, and version."""
        storage = source._storage
        if storage is None:
            storage = source._storage = self.backend.pending_storage()
        out._storage = storage
        # a detached view is the base of its own views: they never notice writes that join the graph
        out._base = source if source._base is None or source._view_version is None else source._base
        version = source._vc
        out._vc = version
        if self.node.event.instr.op.vjps:  # detach() makes a view that never joins the graph
            out._view_version = version[0] if state.grad_enabled else ~version[0]
        slot = self._slots.get(id(storage))
        if slot is None:
            slot = self._slots[id(storage)] = Slot(ref(source), source._vid)
        slot.add(out)

    # ---- inputs ----------------------------------------------------------------------------------------------

    def enter(self, tensor: Any) -> int:
        """Stamp a tensor that this call has not seen (under this stamp); returns its value id."""
        storage = tensor._storage
        if storage is None:
            raise JitgradError("this tensor belongs to a compiled step that another thread is still recording")
        kind = input_kind(tensor) if tensor._requires_grad else PLAIN
        if kind == EXTERNAL:  # now, before the stamp of the call it came from is overwritten
            origin = (tensor.grad_fn, tensor._output_nr)
        slot = self._slots.get(id(storage))
        if slot is not None:
            vid = self._enter_alias(tensor, storage, slot, kind)
        else:
            vid = self._input(tensor, storage, (_IN, tensor._aval, kind), kind)
            self._slots[id(storage)] = Slot(tensor, vid)
        if kind == EXTERNAL:
            self.outer[vid] = origin
        return vid

    def _input(self, tensor: Any, storage: Any, key: Any, kind: int) -> int:
        node = self.node.children.get(key)
        if node is None:
            event = InputEvent(self.node.next_vid, tensor._aval, kind)
            node = self._publish(self.trie.grow(self.node, key, event, vids=1), event)
            node.vid = event.vid
        self.node = node
        vid = node.vid
        tensor._tid = self.tid
        tensor._vid = vid
        self.inputs[vid] = tensor
        self.buffers[vid] = storage
        return vid

    def _enter_alias(self, tensor: Any, storage: Any, slot: Slot, kind: int) -> int:
        """A second handle on a storage: the same value if the window is the same, else one more input."""
        for other in slot.live():
            if other._aval is tensor._aval and other._tid == self.tid:
                vid = self._same_value(tensor, other._vid, kind)
                break
        else:
            if id(storage) in self._dirty:
                self.flush()
            vid = self._input(tensor, storage, (_IN, tensor._aval, kind), kind)
        slot.add(tensor)
        return vid

    def _same_value(self, tensor: Any, vid: int, kind: int) -> int:
        """The value id for another handle on a known value; a leaf of its own needs an id of its own."""
        tensor._tid = self.tid
        if kind == PLAIN:
            tensor._vid = vid
            return vid
        key = (_ALIAS, vid, kind)
        node = self.node.children.get(key)
        if node is None:
            event = self._alias_event(vid, kind)
            node = self._publish(self.trie.grow(self.node, key, event, vids=1), event)
            node.vid = event.instr.outputs[0]
        self.node = node
        tensor._vid = node.vid
        self.inputs[node.vid] = tensor
        return node.vid

    def _alias_event(self, vid: int, kind: int) -> OpEvent:
        history = self._live()
        aval = history.aval_of(vid)
        fresh = self.node.next_vid
        instr = self.backend.alias_instr(vid, fresh, aval)
        rebinds = ((fresh, fresh),) if kind == LEAF else ()
        return OpEvent(instr, (instr,), leaf_rebinds=rebinds)

    # ---- misses ----------------------------------------------------------------------------------------------

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
        self._numbers.follow(node, mark)
        log("record", "miss: %s", node.key)
        return Trie.publish(node)

    def _grow(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], ids: list[Any], key: Any) -> Any:
        """Record an operation for the first time. Raises what eager execution would, leaving no trace of it."""
        self._live()
        operands, key, fresh_scalars, mark = self._numbers.operands(self, op, inputs, params, ids, key)
        instr, several = self._instr(op, inputs, params, operands)
        event = OpEvent(instr, (instr,), several=several)
        vids, scalars = len(instr.outputs), len(fresh_scalars)
        node = self.trie.grow(self.node, key, event, vids=vids, scalars=scalars)
        node.vid, node.aval = instr.outputs[0], instr.avals[0]
        node.requires_grad = instr.requires_grad and instr.avals[0].dtype.category == 2
        history = self._live()
        event.ends_segment = len(history.instrs) - history.start + 1 >= self.segment_limit
        if any(type(p) in (float, bool) for p in params):
            node.param_types = tuple(map(type, params))
        plain = not (several or event.ends_segment)
        node.special = OTHER if not plain else VIEWS if op.is_view else SIMPLE
        self._publish(node, event, mark)
        self.scalars.extend(fresh_scalars)
        self.node = node
        return self._results(node, inputs)

    def _instr(
        self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], operands: tuple[Any, ...], first: int = -1
    ) -> tuple[Instr, bool]:
        """Shape rule and graph membership of a new operation."""
        avals, several = out_avals_of(op, inputs, params)
        needs = tuple(isinstance(x, TensorBase) and x._requires_grad for x in inputs)
        joins = state.grad_enabled and bool(op.vjps) and any(needs)
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

    # ---- in place --------------------------------------------------------------------------------------------

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``op(*args)`` written into ``targets``; see Note [Aliases in a trace]."""
        inputs, params = self.backend.split_args(op, args)
        ids, numeric = self._ids(inputs)
        rebinds = self._rebinds(targets, inputs)
        if rebinds is None:
            return self._write_outside(op, targets, args)
        target_ids = tuple([t._vid for t in targets])
        key = (_WRITE, op, target_ids, tuple(ids), params)
        node = self.node.children.get(key)
        if node is None and numeric:
            node = self._numbers.promoted_hit(self, op, inputs, params, (_WRITE, target_ids))
        if node is None:
            node = self._grow_inplace(op, targets, inputs, params, ids, key)
        self.node = node
        self._rebind(node.event.instr, targets, rebinds)
        if node.event.ends_segment:
            self.flush()
        return targets

    def _rebinds(self, targets: Sequence[Any], inputs: tuple[Any, ...] = ()) -> Sequence[Any] | None:
        """Other handles that look at the targets through the same window; None if the write must be done eagerly."""
        same: list[Any] | tuple[()] = ()
        for nr, target in enumerate(targets):
            if target._tid != self.tid:
                self.enter(target)
            storage = target._storage
            if storage is None:
                continue
            slot = self._slots.get(id(storage))
            if slot is None or slot.others is None:
                continue
            joins = state.grad_enabled and any(isinstance(x, TensorBase) and x._requires_grad for x in inputs)
            same = same or []
            if not self._others(target, slot, nr, same, joins):
                return None
        return same

    def _others(self, target: Any, slot: Slot, nr: int, same: list[Any], joins: bool) -> bool:
        """Sort the other live handles of a slot: same window, or a view to be looked at afresh."""
        # a handle that nobody wants any more is held by: self.handles maybe, the list, the loop variable, the argument
        pending = {id(h) for h in self.handles}
        stale = []
        for other in slot.live():
            if other is target or _getrefcount(other) <= 3 + (id(other) in pending):
                continue
            if other._aval is target._aval and not (other._requires_grad and not other.is_leaf):
                same.append((nr, other))
            elif other._base is target and not joins and other._vid not in self.inputs:
                stale.append(other)
            else:
                return False
        for other in stale:
            other._tid = 0
        return True

    def _rebind(self, instr: Instr, targets: tuple[Any, ...], rebinds: Sequence[Any]) -> None:
        """Move the targets, and whoever shares their window, on to the written values."""
        joins = instr.requires_grad
        for target, vid in zip(targets, instr.outputs, strict=True):
            target._vid = vid
            target._vc[0] += 1
            if joins:
                target._requires_grad, target._graph, target._grad_fn = True, self.graph, None
            storage = target._storage
            if storage is not None:
                self._dirty.add(id(storage))
        for nr, other in rebinds:
            other._vid = instr.outputs[nr]

    def _grow_inplace(
        self,
        op: Op,
        targets: tuple[Any, ...],
        inputs: tuple[Any, ...],
        params: tuple[Any, ...],
        ids: list[Any],
        key: Any,
    ) -> TrieNode:
        history = self._live()
        operands, key, fresh_scalars, mark = self._numbers.operands(
            self, op, inputs, params, ids, key, (_WRITE, tuple(t._vid for t in targets))
        )
        instr, _ = self._instr(op, inputs, params, operands)
        for target, aval in zip(targets, instr.avals, strict=True):
            self.backend.check_inplace(op, target, aval)
            self.backend.check_writable_leaf(target)
            self.backend.check_no_overlap(target, inputs)
        instrs, final = self._as_targets(instr, targets)
        event = self._write_event(history, instrs, final, targets)
        event.ends_segment = len(history.instrs) - history.start + 1 >= self.segment_limit
        count = sum(len(i.outputs) for i in instrs)
        node = self.trie.grow(self.node, key, event, vids=count, scalars=len(fresh_scalars))
        self._publish(node, event, mark)
        self.scalars.extend(fresh_scalars)
        return node

    def _as_targets(self, instr: Instr, targets: tuple[Any, ...]) -> tuple[tuple[Instr, ...], Instr]:
        """Append a cast where the result's dtype is not the target's."""
        if len(targets) != 1 or instr.avals[0].dtype is targets[0]._aval.dtype:
            return (instr,), instr
        return self.backend.cast_after(instr, targets[0]._aval.dtype)

    def apply_update(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """``dispatch.apply_update``: one event, whose numbers are run-time scalars from the start."""
        tid = self.tid
        ids = tuple([x._vid if x._tid == tid else self.enter(x) for row in rows for x in row])
        targets = [row[i] for row in rows for i in writes]
        rebinds = self._rebinds(targets)
        if rebinds is None:
            for row in rows:
                self.apply_inplace(op, tuple(row[i] for i in writes), (*row, *numbers, *params))
            return
        key = (_UPDATE, op, ids, tuple(map(type, numbers)), params)
        node = self.node.children.get(key)
        if node is None:
            node = self._grow_update(op, rows, writes, numbers, params, key)
        self.node = node
        self.scalars.extend(numbers)
        dirty = self._dirty
        for target, vid in zip(targets, node.event.results, strict=True):
            target._vid = vid
            target._vc[0] += 1
            storage = target._storage
            if storage is not None:
                dirty.add(id(storage))
        for nr, other in rebinds:
            other._vid = node.event.results[nr]
        if node.event.ends_segment:
            self.flush()

    def _grow_update(
        self,
        op: Op,
        rows: Sequence[tuple[Any, ...]],
        writes: tuple[int, ...],
        numbers: tuple[Any, ...],
        params: tuple[Any, ...],
        key: Any,
    ) -> TrieNode:
        history = self._live()
        slots = tuple(RuntimeScalar(self.node.next_scalar + i, isinstance(x, float)) for i, x in enumerate(numbers))
        first = vid = self.node.next_vid
        events = []
        for row in rows:
            targets = tuple(row[i] for i in writes)
            operands = (*(x._vid for x in row), *slots)
            instr, _ = self._instr(op, (*row, *numbers), params, operands, vid)
            vid += len(instr.outputs)
            for target, aval in zip(targets, instr.avals, strict=True):
                self.backend.check_inplace(op, target, aval)
                self.backend.check_writable_leaf(target)
            events.append(self._write_event(history, (instr,), instr, targets))
        event = UpdateEvent(tuple(events), tuple(v for e in events for v in e.instr.outputs))
        event.ends_segment = len(history.instrs) - history.start + len(rows) >= self.segment_limit
        return self._publish(self.trie.grow(self.node, key, event, vids=vid - first, scalars=len(numbers)), event)

    def _write_event(
        self, history: History, instrs: tuple[Instr, ...], final: Instr, targets: tuple[Any, ...]
    ) -> OpEvent:
        """The event of an in-place operation: what it overwrites, what it owes to storages, which leaves move on."""
        writes, leaves = [], []
        for target, vid in zip(targets, final.outputs, strict=True):
            storage = target._storage
            if storage is not None and storage.addr:
                writes.append((self.owner_of(target, target._vid), vid))
            for handle in self._slots[id(storage)].live() if storage is not None else (target,):
                if handle._vid in history.leaves and handle._requires_grad:
                    leaves.append((vid, history.leaves[handle._vid]))
        return OpEvent(final, instrs, tuple(t._vid for t in targets), tuple(writes), tuple(leaves))

    def _write_outside(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """End the segment and write eagerly; what looked at the storage is looked at afresh."""
        self.flush()
        bump("fallbacks")
        for target in targets:
            slot = self._slots.get(id(target._storage))
            for handle in slot.live() if slot is not None else ():
                if handle._base is not None and handle._requires_grad:
                    handle.grad_fn  # noqa: B018 - its Node as it was before the write
        log("fusion", "in-place %s while another window looks at the storage: done eagerly (%s)", op.name, user_line())
        self.backend.inplace_eagerly(op, targets, args)
        for target in targets:
            self.forget(target)
        return targets

    def owner_of(self, tensor: Any, vid: int) -> int:
        """The value id that has ``tensor``'s storage in ``buffers``; ``vid`` if nothing was written to it yet."""
        return self._slots.setdefault(id(tensor._storage), Slot(ref(tensor), vid)).owner

    def forget(self, tensor: Any) -> None:
        """Take the stamps off every handle of a tensor's storage, so that the next use enters it again."""
        slot = self._slots.pop(id(tensor._storage), None)
        for handle in slot.live() if slot is not None else ():
            handle._tid = 0
        tensor._tid = 0

    # ---- modes, leaves, hooks --------------------------------------------------------------------------------

    def _mark(self, key: Any, event: Any = None, make: Callable[[], Any] | None = None) -> TrieNode:
        """An event without results."""
        node = self.node.children.get(key)
        if node is None:
            self._live()
            event = make() if make is not None else event
            node = self._publish(self.trie.grow(self.node, key, event), event)
        self.node = node
        return node

    def set_grad_mode(self, enabled: bool) -> None:
        """Grad mode is part of the path, so no operation has to carry it."""
        node = self.node.children.get(enabled)
        self.node = node if node is not None else self._mark(enabled)

    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        """A value of the trace becomes a leaf, or leaves the graph."""
        if tensor._tid != self.tid:
            return
        self._mark((_LEAF, tensor._vid, requires_grad), make=lambda: LeafEvent(tensor._vid) if requires_grad else None)
        self.inputs[tensor._vid] = tensor

    def add_hooks(self, tensor: Any) -> None:
        """A value of the trace got a hook: from here on the path is another one."""
        if tensor._tid != self.tid:
            self.enter(tensor)
        self._mark((_HOOKS, tensor._vid))

    def read(self, tensor: Any) -> None:
        """Python wants to see a value: run what it depends on."""
        storage = tensor._storage
        if storage is None or not storage.addr:
            if tensor._tid == self.tid:
                self.flush()
        elif id(storage) in self._dirty:
            self.flush()

    def grad_fn_of(self, tensor: Any) -> Any:
        """The Node of a value of this trace, built on demand. Python may hook it: the path is another one from here."""
        self._mark((_NODE, tensor._vid))
        return self.graph.node_of(tensor)

    def record_backward(self, request: Any) -> Any:
        """A whole backward is one event; the engine belongs to the levels above."""
        return self.backend.record_backward(self, request)

    # ---- the end of a segment --------------------------------------------------------------------------------

    def flush(self) -> None:
        """End the segment: run it, and give every handle that somebody still holds its storage."""
        alive = HOT.alive(self.handles)
        key = (_END, *[h._vid for h in alive])
        node = self.node.children.get(key)
        if node is None:
            node = self._grow_end(key, alive)
        self.node = node
        self.handles = []
        event = node.event
        self.backend.run(self, event, alive)
        if event.keeps_graph:
            self.graph.keep(node, alive, event.saves)
        self._dirty.clear()

    def _grow_end(self, key: Any, alive: list[Any]) -> TrieNode:
        history = self._live()
        event = build_end(history, self.backend, alive)
        node = self.trie.grow(self.node, key, event)
        return self._publish(node, event)
