"""Writes through views, recorded; see Note [Aliases in a trace].

Owns: ``WindowWrites``, the part of a recorder that writes a view's base through the view, and looks at views afresh.
Must not know: Nodes. That ``copy_slices`` becomes a ``CopySlices`` is ``compiled/nodes/graph_nodes.py``'s affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.errors import ElsewhereError
from jitgrad.ops.table import Op
from jitgrad.ops.views.regions import region_of
from jitgrad.ops.views.strided import COPY_SLICES, STRIDED_WINDOW
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.misses.early_checks import may_hits_look
from jitgrad.tracer.misses.writes import as_targets, joins_graph, keep_target
from jitgrad.tracer.recording.graph import Instr, RuntimeScalar
from jitgrad.tracer.recording.history import OpEvent
from jitgrad.tracer.recording.keys import AFRESH, THROUGH, WINDOW
from jitgrad.tracer.recording.numbers import quick_ids
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.slots import Slot, can_look_afresh, has_node
from jitgrad.tracer.recording.trie import TrieNode, new_node
from jitgrad.user_line import user_line
from jitgrad.version_counter import count_write, version_of

__all__ = ["WindowWrites"]


class WindowWrites:
    """Records in-place operations on views as new values of their bases."""

    __slots__ = ("_path", "_places", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path
        self._places: dict[int, int] = {}  # id of a tensor -> where it may be among the handles

    def refresh(self, view: Any) -> None:
        """Somebody asks for the graph of a view whose base has been written in this call."""
        try:
            self.look_afresh(view)
        except ElsewhereError:
            return

    def write(self, op: Op, target: Any, args: tuple[Any, ...]) -> bool:
        """Write a view as a part of its base. False, if that is not worth modelling: nothing has happened then."""
        recorder = self._recorder
        inputs, params = recorder.backend.split_args(op, args)
        if not inputs or inputs[0] is not target:
            return False
        try:
            ids, numeric = recorder.entry.ids(inputs)
        except ElsewhereError:
            return False
        if target._storage is not None:
            recorder.claim(target._storage)
        base = target._base
        slot = self._window_slot(target, base, joins_graph(inputs))
        if slot is None:
            return False
        if slot.storage.addr and self._read_through_base(slot, base, inputs):
            ids, numeric = recorder.entry.ids(inputs)
        key = (WINDOW, op, base._vid, tuple(ids), params)
        node = recorder.node.children.get(key)
        if node is None and numeric:
            node = self._path.numbers.promoted_hit(recorder, op, inputs, params, (WINDOW, base._vid))
        if node is None:
            if recorder.trie.defers and slot.storage.addr:
                return False  # without kernels the whole base would be copied, Note [New graphs]
            node = self._grow_window(op, base, inputs, params, ids, key)
            if node is None:
                return False
        if node.event.demands and not recorder.checks.meets(node.event, inputs):
            recorder.writes.write_unmet(op, node.event, (target,), args)
            return True
        recorder.node.last = recorder.node = node
        self._move_on(node.event, slot, base, target)
        if node.event.ends_segment:
            recorder.flush()
        return True

    def _window_slot(self, target: Any, base: Any, joins: bool) -> Slot | None:
        """The slot of the storage, if everything that looks at it can follow a write of the target to its base."""
        recorder = self._recorder
        storage = target._storage
        slot = recorder.slots.get(id(storage))
        if slot is None or base._tid != recorder.tid or base._storage is not storage or base._vc is not target._vc:
            return None
        if slot.is_family or target._view_version is None or id(storage) in recorder.counted_twice:
            return None
        if target._requires_grad and not (has_node(target) and base._requires_grad):
            return None
        if (joins or base._requires_grad) and (base._retains_grad or target._retains_grad):
            return None  # what retains the gradient goes along to the new Node
        if region_of(base._aval, target._aval) is None:
            return None
        for other in slot.live():
            if other is base or other is target:
                continue
            if other._base is base:
                if not can_look_afresh(other, base):
                    return None
            elif other._base is None and references(other) > ONE_LOCAL + 2:
                return None  # an alias by detach(): a base of its own, held by more than ``live()`` and ``handles``
            elif other._base is not None or other._requires_grad or other._vc is not base._vc:
                return None
        return slot

    def _read_through_base(self, slot: Slot, base: Any, inputs: tuple[Any, ...]) -> bool:
        """Whether an operand got a new value id: codegen must see that it lies in the memory that is written.

        A window that has memory since an earlier segment is known by an id of its own.
        """
        recorder = self._recorder
        if slot.is_shared and (recorder.handles or recorder.has_dropped):
            recorder.flush()  # reads of such windows come first
        found = False
        for x in inputs:
            is_window = isinstance(x, TensorBase) and x._base is base and x._storage is slot.storage
            if is_window and recorder.buffers.get(x._vid) is slot.storage:
                self.read_through(x, base)
                self._keep_in_sight(x)
                found = True
        return found

    @staticmethod
    def may_read_through(view: Any, bases: Sequence[Any]) -> bool:
        """Whether a window's value can be read out of one of the bases."""
        base = view._base
        return any(base is b for b in bases) and region_of(base._aval, view._aval) is not None

    def read_through(self, view: Any, base: Any) -> None:
        """A second id for a window's value, read out of the base; its Node stays what it is."""
        recorder = self._recorder
        key = (THROUGH, view._vid, base._vid)
        node = recorder.node.children.get(key)
        if node is None:
            fresh = recorder.node.next_vid
            rebinds = ((fresh, view._vid),) if view._requires_grad else ()
            instr = _window_instr(base, view, fresh, joins=False)
            event = OpEvent(instr, (instr,), node_rebinds=rebinds)
            node = self._path.grow(key, event, vids=1)
            node.vid = fresh
            self._path.publish(node, event)
        recorder.node = node
        view._vid = node.vid

    def _keep_in_sight(self, tensor: Any) -> None:
        """The segment's end must tell where the value is that a tensor with memory has now."""
        handles = self._recorder.handles
        place = self._places.get(id(tensor), len(handles))
        if place >= len(handles) or handles[place] is not tensor:
            place = next((n for n in range(len(handles) - 1, -1, -1) if handles[n] is tensor), len(handles))
            if place == len(handles):
                handles.append(tensor)
            self._places[id(tensor)] = place

    def _grow_window(
        self, op: Op, base: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], ids: list[Any], key: Any
    ) -> TrieNode | None:
        recorder = self._recorder
        target = inputs[0]
        self._path.live()
        recorder.backend.check_writable((target,), inputs)
        operands, key, fresh_scalars, mark = self._path.numbers.operands(
            recorder, op, inputs, params, ids, key, (WINDOW, base._vid)
        )
        copied, operands = keep_target(recorder, op, (target,), inputs, operands)
        instr, several = self._path.instr(op, inputs, params, operands, recorder.node.next_vid + len(copied))
        if several or (instr.requires_grad and instr.avals[0].dtype is not target._aval.dtype):
            return None
        recorder.backend.check_inplace(op, target, instr.avals[0])
        recorder.backend.check_no_overlap(target, inputs)
        wanted = recorder.checks.demands(op, inputs, instr)
        if wanted is None:
            return recorder.checks.pause(key, mark)
        instrs, final = as_targets(recorder, instr, (target,))
        event = self._window_event(base, target, (*copied, *instrs), final)
        event.node_rebinds += tuple((c.outputs[0], c.inputs[0]) for c in copied)
        event.ends_segment = self._path.is_full(len(event.instrs))
        event.demands, event.passed = wanted, [None] * len(wanted)
        if wanted and not recorder.checks.meets(event, inputs):
            unseen: TrieNode = new_node(recorder.node, key, event, 0, 0)  # nobody finds it
            return unseen
        count = sum(len(i.outputs) for i in event.instrs)
        node = self._path.grow(key, event, vids=count, scalars=len(fresh_scalars))
        if not event.ends_segment and may_hits_look(node, event, inputs):
            hidden = [isinstance(x, RuntimeScalar) for x in operands]
            node.op, node.ids, node.params = WINDOW, (op, base._vid, *quick_ids(op, inputs, ids, hidden)), params
            node.writes, node.requires_grad = event.window, event.instr.requires_grad
        self._path.publish(node, event, mark)
        recorder.scalars.extend(fresh_scalars)
        return node

    def _window_event(self, base: Any, target: Any, instrs: tuple[Instr, ...], final: Instr) -> OpEvent:
        """The event of a write through a view: the operation, the new base, and the view of that."""
        recorder = self._recorder
        history = self._path.live()
        joins, (written,) = final.requires_grad, final.outputs
        whole = Instr(
            COPY_SLICES, (base._vid, written), (base._aval, target._aval), (written + 1,), (base._aval,),
            (base._aval, final.avals[0]), joins, (base._requires_grad, True) if joins else (False, False), user_line(),
        )  # fmt: skip
        made, now = [*instrs, whole], written
        nodes: list[tuple[int, int]] = []
        if joins:  # the view has its Node at once; what the operation saved of its result is a slice of the base
            now = written + 2
            made.append(_window_instr(base, target, now, joins=True, source=whole.outputs[0]))
            nodes.append((written, now))
        elif base._requires_grad and has_node(base):
            nodes.append((whole.outputs[0], base._vid))
        if target._requires_grad and not joins:
            nodes.append((written, target._vid))  # no new Node: the target keeps the old one, which a refusal names
        leaf = history.leaves.get(base._vid) if base._requires_grad else None
        storage = base._storage
        event = OpEvent(final, tuple(made))
        event.overwritten = tuple(dict.fromkeys([base._vid, *recorder.aliases.seen_values(target)]))
        if storage.addr:
            event.writes = ((recorder.aliases.owner_of(base, base._vid), whole.outputs[0]),)
        event.leaf_rebinds = () if leaf is None else ((whole.outputs[0], leaf),)
        event.node_rebinds = tuple(nodes)
        event.successors = ((base._vid, whole.outputs[0]), (base._vid, written))
        event.window = (whole.outputs[0], now)
        return event

    def _move_on(self, event: OpEvent, slot: Slot, base: Any, target: Any) -> None:
        """Base and view have new values; other views are looked at afresh when they are used."""
        recorder = self._recorder
        whole, now = event.window
        joins, storage = event.instr.requires_grad, slot.storage
        for other in slot.live():
            if other is not base and other is not target:
                other._tid = -recorder.tid if other._base is base else 0
        other = None
        slot.drop_idle()
        count_write(target)
        if joins:
            if storage.addr:
                self._keep_in_sight(base)  # the segment's end must keep what its new graph needs
            for tensor in (base, target):
                tensor._requires_grad, tensor._graph, tensor._grad_fn = True, recorder.graph, None
                tensor._hooks = tensor._accumulator = None
                tensor._output_nr = 0
            target._view_version = version_of(target)
        base._vid, target._vid = whole, now
        if base._requires_grad and not joins:
            target._tid = -recorder.tid
        recorder.dirty.add(id(storage))

    def look_afresh(self, view: Any) -> int | None:
        """The value id of a view whose base has been written, as a window of the base; None if it is not one."""
        recorder = self._recorder
        base = view._base
        if base is None or base._tid != recorder.tid or base._storage is not view._storage:
            return None
        if id(view._storage) not in recorder.slots or not can_look_afresh(view, base):
            return None
        version = version_of(view)
        joins = base._requires_grad and view._view_version != version
        if (joins and view._creation_meta is not None) or (view._requires_grad and not base._requires_grad):
            return None
        older = view._vid if view._requires_grad and not joins else None
        key = (AFRESH, view._aval, base._vid, joins, older)
        node = recorder.node.children.get(key)
        if node is None:
            instr = _window_instr(base, view, recorder.node.next_vid, joins)
            event = OpEvent(instr, (instr,), node_rebinds=() if older is None else ((instr.outputs[0], older),))
            node = self._path.grow(key, event, vids=1)
            node.vid = instr.outputs[0]
            self._path.publish(node, event)
        recorder.node = node
        view._tid, view._vid = recorder.tid, node.vid
        if joins:
            view._requires_grad, view._graph, view._grad_fn = True, recorder.graph, None
            view._hooks, view._view_version = None, version
        if view._storage.addr:
            self._keep_in_sight(view)
        return node.vid


def _window_instr(base: Any, view: Any, fresh: int, joins: bool, source: int | None = None) -> Instr:
    source = base._vid if source is None else source
    return Instr(
        STRIDED_WINDOW, (source,), (base._aval, view._aval), (fresh,), (view._aval,), (base._aval,), joins, (joins,),
        user_line(),
    )  # fmt: skip
