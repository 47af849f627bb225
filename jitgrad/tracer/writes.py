"""In-place operations of a trace, see Note [Aliases in a trace].

Owns: ``Writes``, the part of a recorder that records writes, or sends them outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.errors import ElsewhereError
from jitgrad.events import bump, log
from jitgrad.ops.table import Op
from jitgrad.state import state, write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.early_checks import must_pause
from jitgrad.tracer.graph import Instr, RuntimeScalar
from jitgrad.tracer.history import DataEvent, History, OpEvent, OutsideEvent, UpdateEvent
from jitgrad.tracer.hot import HOT
from jitgrad.tracer.keys import DATA, OUTSIDE, UPDATE, WRITE, quick_ids
from jitgrad.tracer.long_calls import is_too_long, stop_recording
from jitgrad.tracer.shape_rules import name_line
from jitgrad.tracer.slots import Slot, can_look_afresh, fresh_handle, has_node, looks_refused
from jitgrad.tracer.trie import TrieNode
from jitgrad.tracer.version_counters import VersionCounters
from jitgrad.user_line import user_line

__all__ = ["Writes"]



class _Left:
    """What must be known of an eager block inside a step.

    Attributes:
        versions: id -> (handle, its version before): the handles that share their storage with others from the start;
            the call's other values once they are written.
    """

    def __init__(self, tid: int, versions: dict[int, tuple[Any, int]]) -> None:
        self.versions = versions
        self._tid = tid
        self._thread = get_ident()

    def note(self, tensor: Any) -> None:
        """A tensor is about to be written, on any thread."""
        if get_ident() != self._thread:
            return
        for handle in (tensor, tensor._base):
            if handle is not None and abs(handle._tid) == self._tid:
                self.versions.setdefault(id(handle), (handle, handle._vc[0]))


class Writes(VersionCounters):
    """Records in-place operations."""

    __slots__ = ()

    def write(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``op(*args)`` written into ``targets``; see Note [Aliases in a trace]."""
        inputs, params = self.backend.split_args(op, args)
        try:
            ids, numeric = self._ids(inputs)
            rebinds = self._rebinds(targets, inputs)
        except ElsewhereError:
            return self.outside(self.backend.inplace_elsewhere, op, targets, inputs, params)
        if rebinds is None:
            return self._write_outside(op, targets, args)
        target_ids = tuple([t._vid for t in targets])
        key = (WRITE, op, target_ids, tuple(ids), params)
        node = self.node.children.get(key)
        if node is None and numeric:
            node = self._numbers.promoted_hit(self, op, inputs, params, (WRITE, target_ids))
        if node is None:
            if is_too_long(self):
                stop_recording(self)
                return door.apply_inplace(op, targets, *args)
            node = self._grow_inplace(op, targets, inputs, params, ids, key)
        if node.event.demands and not self._meets(node.event, inputs):
            return self._write_unmet(op, node.event, targets, args)
        self.node.last = self.node = node
        self._rebind(node.event.instr, targets, rebinds)
        if node.event.ends_segment:
            self.flush()
        return targets

    def _write_unmet(self, op: Op, event: Any, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A write that will raise, or that cannot tell yet: Note [Early checks]."""
        del self.scalars[self.node.next_scalar :]  # numbers of an event that is not recorded
        if must_pause(event):
            self.flush()
            return self.write(op, targets, args)
        try:
            return self._write_outside(op, targets, args)
        except Exception as error:
            name_line(error, op)
            raise

    def _rebinds(self, targets: Sequence[Any], inputs: tuple[Any, ...] = ()) -> Sequence[Any] | None:
        """Other handles that look at the targets through the same window; None if the write must be done eagerly."""
        if not self._counted_twice and HOT.all_unwatched(self, [*targets]):
            return ()
        same: list[Any] | tuple[()] = ()
        for nr, target in enumerate(targets):
            if target._tid != self.tid:
                self.enter(target)
            storage = target._storage
            if target._retains_grad and self._joins(inputs):
                return None  # what retains the gradient goes along to the new Node
            if storage is None:
                continue
            if id(storage) in self._counted_twice and self._is_saved(target):
                return None  # Note [Several version counters]
            if target._base is not None and (self._joins(inputs) or has_node(target)):
                return None  # the base joins the graph with its view, or the view gets another Node
            slot = self._slots.get(id(storage))
            if slot is None or (slot.others is None and slot.older is None):
                continue
            if slot.is_family:
                return None
            if slot.is_shared and self.handles:
                self.flush()  # reads of other windows come first; codegen does not know that they share memory
            joins = self._joins(inputs)
            same = same or []
            if not self._others(target, slot, nr, same, joins):
                return None
        return same

    @staticmethod
    def _joins(inputs: tuple[Any, ...]) -> bool:
        return state.grad_enabled and any(isinstance(x, TensorBase) and x._requires_grad for x in inputs)

    def _others(self, target: Any, slot: Slot, nr: int, same: list[Any], joins: bool) -> bool:
        """Sort the other live handles of a slot: same window, or a view to be looked at afresh."""
        stale: list[Any] = []
        home = slot.home() if type(slot.home) is ref else slot.home
        looking = [] if home is None or home is target else [home]
        looking += [h for h in [r() for r in slot.older or ()] if h is not None and h is not target]
        for reference in slot.others or ():
            other = reference()
            if other is None or other is target:
                continue
            # ``other`` and self.handles: if these are all, nobody looks; ``enter`` must not take it for the new value
            (stale if references(other) <= ONE_LOCAL + 1 else looking).append(other)
        for other in looking:
            is_window = other._base is target and other._aval is not target._aval
            if is_window and not joins and other._vid not in self.inputs:
                stale.append(other)
                continue
            is_same = other._aval is target._aval and not (joins or other._requires_grad or target._requires_grad)
            if other._base is target and not is_same and can_look_afresh(other, target):
                stale.append(other)
                continue
            if joins or other._aval is not target._aval or (other._requires_grad and has_node(other)):
                return False
            if (other._requires_grad or target._requires_grad) and not target._storage.addr:
                return False  # nothing but a value id leads to the new value, and they cannot share one
            if other._requires_grad or target._requires_grad:
                stale.append(other)  # an id is a leaf's or nobody's: this handle gets its own when it is used
            else:
                same.append((nr, other))
        for other in stale:
            other._tid = -self.tid if other._base is target else 0
        return True

    def _rebind(self, instr: Instr, targets: tuple[Any, ...], rebinds: Sequence[Any]) -> None:
        """Move the targets, and whoever shares their window, on to the written values."""
        HOT.move(self, list(targets), instr.outputs)
        if instr.requires_grad:
            for target in targets:
                target._requires_grad, target._graph, target._grad_fn = True, self.graph, None
                target._hooks = None  # the old value's Node has them
                if target._storage is not None and target._storage.addr:
                    self.handles.append(target)  # the segment's end must keep what its new graph needs
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
        self.backend.check_writable(targets, inputs)
        operands, key, fresh_scalars, mark = self._numbers.operands(
            self, op, inputs, params, ids, key, (WRITE, tuple(t._vid for t in targets))
        )
        copied, operands = self._keep_target(op, targets, inputs, operands)
        instr, _ = self._instr(op, inputs, params, operands, self.node.next_vid + len(copied))
        for target, aval in zip(targets, instr.avals, strict=True):
            self.backend.check_inplace(op, target, aval)
            self.backend.check_no_overlap(target, inputs)
        wanted = self._demands(op, inputs, instr)
        if wanted is None:
            return self._pause(key, mark)
        instrs, final = self._as_targets(instr, targets)
        event = self._write_event(history, (*copied, *instrs), final, targets)
        event.node_rebinds += tuple((c.outputs[0], c.inputs[0]) for c in copied)
        event.ends_segment = len(history.instrs) - history.start + 1 >= self.segment_limit
        event.demands, event.passed = wanted, [None] * len(wanted)
        if wanted and not self._meets(event, inputs):
            return TrieNode(self.node, key, event, 0, 0)  # nobody finds it
        count = sum(len(i.outputs) for i in event.instrs)
        node = self.trie.grow(self.node, key, event, vids=count, scalars=len(fresh_scalars))
        if not (final.requires_grad or event.ends_segment or event.demands):
            node.writes = final.outputs
            if len(targets) == 1:
                hidden = [isinstance(x, RuntimeScalar) for x in operands]
                node.op, node.ids = WRITE, (op, targets[0]._vid, *quick_ids(inputs, ids, hidden))
                node.params = params
        self._publish(node, event, mark)
        self.scalars.extend(fresh_scalars)
        return node

    def _keep_target(
        self, op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], operands: tuple[Any, ...]
    ) -> tuple[tuple[Instr, ...], tuple[Any, ...]]:
        """Where the Node will save the old value of what is written: a copy to save, which has the old value's Node."""
        needs = tuple(isinstance(x, TensorBase) and x._requires_grad for x in inputs)
        target = inputs[0]
        joins = state.grad_enabled and bool(op.vjps) and any(needs)
        if not joins or target is not targets[0] or 0 not in self.backend.saved_inputs(op, needs):
            return (), operands
        copy = self.backend.copy_instr(operands[0], self.node.next_vid, target._aval)
        return (copy,), (copy.outputs[0], *operands[1:])

    def _as_targets(self, instr: Instr, targets: tuple[Any, ...]) -> tuple[tuple[Instr, ...], Instr]:
        """Append a cast where the result's dtype is not the target's."""
        if len(targets) != 1 or instr.avals[0].dtype is targets[0]._aval.dtype:
            return (instr,), instr
        return self.backend.cast_after(instr, targets[0]._aval.dtype)

    def update(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """``dispatch.apply_update``: one event, whose numbers are run-time scalars from the start."""
        if type(rows) is list and HOT.hit_update(self, op, rows, writes, numbers, params):
            return
        tid = self.tid
        try:
            ids = tuple([x._vid if x._tid == tid else self.enter(x) for row in rows for x in row])
        except ElsewhereError:
            self._update_elsewhere(op, rows, writes, numbers, params)
            return
        targets = [row[i] for row in rows for i in writes]
        rebinds = self._rebinds(targets)
        if rebinds is None:
            for row in rows:
                self.write(op, tuple(row[i] for i in writes), (*row, *numbers, *params))
            return
        key = (UPDATE, op, ids, tuple(map(type, numbers)), params)
        node = self.node.children.get(key)
        if node is None:
            node = self._grow_update(op, rows, writes, numbers, params, key)
        self.node.last = self.node = node
        self.scalars.extend(numbers)
        HOT.move(self, targets, node.event.results)
        for nr, other in rebinds:
            other._vid = node.event.results[nr]
        if node.event.ends_segment:
            self.flush()

    def _update_elsewhere(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """Rows on other devices at once, each by itself; the others as one event."""
        here = [row for row in rows if all(x._aval.device is CPU for x in row)]
        for row in rows:
            if not any(row is r for r in here):
                targets = tuple(row[i] for i in writes)
                self.outside(self.backend.inplace_elsewhere, op, targets, (*row, *numbers), params)
        if here:
            self.update(op, here, writes, numbers, params)

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
            self.backend.check_writable(targets, row)
            operands = (*(x._vid for x in row), *slots)
            instr, _ = self._instr(op, (*row, *numbers), params, operands, vid)
            vid += len(instr.outputs)
            for target, aval in zip(targets, instr.avals, strict=True):
                self.backend.check_inplace(op, target, aval)
            events.append(self._write_event(history, (instr,), instr, targets))
        event = UpdateEvent(tuple(events), tuple(v for e in events for v in e.instr.outputs))
        event.ends_segment = len(history.instrs) - history.start + len(rows) >= self.segment_limit
        node = self.trie.grow(self.node, key, event, vids=vid - first, scalars=len(numbers))
        if not event.ends_segment:
            ids = (x._vid for row in rows for x in row)
            node.op, node.ids = UPDATE, (op, params, tuple(map(type, numbers)), *ids)
        return self._publish(node, event)

    def _write_event(
        self, history: History, instrs: tuple[Instr, ...], final: Instr, targets: tuple[Any, ...]
    ) -> OpEvent:
        """The event of an in-place operation: what it overwrites, what it owes to storages, which leaves move on."""
        writes, leaves = [], []
        for target, vid in zip(targets, final.outputs, strict=True):
            storage = target._storage
            if storage is not None and storage.addr:
                writes.append((self.owner_of(target, target._vid), vid))
            for handle in self._lookers(target):
                if handle._tid == self.tid and handle._vid in history.leaves and handle._requires_grad:
                    leaves.append((vid, history.leaves[handle._vid]))
        nodes = (
            ()
            if final.requires_grad
            else tuple(
                (vid, t._vid) for t, vid in zip(targets, final.outputs, strict=True) if t._requires_grad and has_node(t)
            )
        )
        overwritten = tuple(dict.fromkeys(v for t in targets for v in self._seen_values(t)))
        event = OpEvent(final, instrs, overwritten, tuple(writes), tuple(leaves), nodes)
        event.successors = tuple((t._vid, vid) for t, vid in zip(targets, final.outputs, strict=True))
        return event

    def _lookers(self, target: Any) -> list[Any]:
        """The handles that look at a target's storage."""
        slot = self._slots.get(id(target._storage))
        return [target] if slot is None else slot.live()

    def write_outside(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``apply_inplace``, done eagerly after the end of the segment."""
        inputs, params = self.backend.split_args(op, args)
        try:
            self._ids((*inputs, *targets))
        except ElsewhereError:
            return self.outside(self.backend.inplace_elsewhere, op, targets, inputs, params)
        return self._write_outside(op, targets, args)

    def _write_outside(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """End the segment and write eagerly; what looked at the storage is looked at afresh."""
        self.flush()
        self.backend.check_write(op, targets, args)
        log("fusion", "in-place %s while another window looks at the storage: done eagerly (%s)", op.name, user_line())
        for x in self.backend.split_args(op, args)[0]:
            if isinstance(x, TensorBase) and x._requires_grad and has_node(x):
                x.grad_fn  # noqa: B018 - its Node as it was before the write, which its operands may not survive
        self._do_outside(op.name, targets, lambda: self.outside(self.backend.inplace_eagerly, op, targets, args))
        return targets

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        """``take(tensor, make, name)``: the tensor becomes a view of itself, see ``functions/inplace_views.py``."""
        self.flush()
        if tensor._aval.device is CPU:
            # what raises, raises before the trace hears of it
            self.outside(self.backend.eagerly, make, fresh_handle(tensor._aval, tensor._storage))
            self._do_outside(name, (tensor,), lambda: self.outside(self.backend.eagerly, take, tensor, make, name))
        else:
            self.go_outside()
            self.outside(self.backend.eagerly, take, tensor, make, name)
            self.come_inside()

    def _do_outside(self, name: str, targets: tuple[Any, ...], write: Callable[[], None]) -> None:
        """Have ``write`` change the targets, after the end of a segment, on the real memory."""
        bump("fallbacks")
        for target in targets:
            slot = self._slots.get(id(target._storage))
            for handle in slot.live() if slot is not None else ():
                if handle._requires_grad and not looks_refused(handle) and not handle.is_leaf:
                    handle.grad_fn  # noqa: B018 - its Node as it was before the write: saved values have that version
        seen = tuple(dict.fromkeys(v for t in targets for v in self._seen_values(t)))
        for target in targets:  # before: what Nodes save of it afterwards must not look like the old value
            if id(target._storage) in self._counted_twice:
                self.graph.forget(target._storage)
            self.forget(target)
        self.go_outside()
        try:
            write()
        finally:
            self.come_inside()
        self._mark((OUTSIDE, name, seen), make=lambda: OutsideEvent(seen, name, user_line()))

    def note_write(self, tensor: Any) -> None:
        """Python has written a tensor behind the recorder's back, and says so: its values are looked at afresh."""
        if tensor._aval.device is not CPU:
            return
        # a write through ``.data`` has taken the stamp off, but the ids it had are still in some Node
        seen = [tensor._vid] if tensor._graph is self.graph else []
        seen += [vid for vid, known in self.inputs.items() if known._vc is tensor._vc]
        self.flush()
        if tensor._tid != self.tid:
            tensor._vid = -1  # of another trace
        overwritten = tuple(dict.fromkeys([*seen, *self._seen_values(tensor)]))
        self._mark((OUTSIDE, None, overwritten), OutsideEvent(overwritten))
        self.forget(tensor)

    def go_outside(self) -> None:
        """Nodes made eagerly from now on come after everything recorded so far."""
        self.graph.order.go_outside(self.node.next_vid)

    def come_inside(self) -> None:
        """What is recorded from now on comes after the Nodes made eagerly."""
        self.graph.order.come_inside(self.node.next_vid)

    def leave(self) -> _Left:
        """Recording stops for a while; what is returned tells ``come_back`` which storages were written meanwhile."""
        self.step_outside()
        left = _Left(self.tid, {id(h): (h, h._vc[0]) for slot in self._slots.values() for h in slot.live()})
        write_checks.append(left.note)
        return left

    def step_outside(self) -> None:
        """End the segment; what runs from here on is not recorded."""
        for storage in tuple(self._counted_twice.values()):
            slot = self._slots.get(id(storage))
            for handle in slot.live()[:1] if slot is not None else ():
                self._is_saved(handle)
        self.flush()
        self.go_outside()

    def come_back(self, left: _Left) -> None:
        """Recording goes on: values that were written have to be looked at afresh."""
        write_checks.remove(left.note)
        self.come_inside()
        written = [h for h, version in left.versions.values() if h._vc[0] != version]
        if written:
            seen = tuple(dict.fromkeys(v for h in written for v in self._seen_values(h)))
            self._mark((OUTSIDE, None, seen), OutsideEvent(seen))
        for handle in written:
            if id(handle._storage) in self._counted_twice:
                self.graph.forget(handle._storage)
            self.forget(handle)

    def lookers(self, tensor: Any) -> list[Any]:
        """The handles of this call that look at a tensor's storage."""
        slot = self._slots.get(id(tensor._storage))
        return [] if slot is None else slot.live()

    def _seen_values(self, tensor: Any) -> list[int]:
        """The values in a tensor's storage that a write to the tensor makes stale: those under its version counter.

        A write through ``.data`` counts for nobody else, as in PyTorch.
        """
        slot = self._slots.get(id(tensor._storage))
        if slot is None:
            return [tensor._vid]
        home = slot.home() if type(slot.home) is ref else slot.home
        seen = [tensor._vid, *(h._vid for h in slot.live() if h._vc is tensor._vc)]
        # after a write through ``.data`` a tensor has another id, but who saved it knows the old one
        seen += [vid for vid, known in self.inputs.items() if known._vc is tensor._vc]
        return [slot.owner, *seen] if home is None or home._vc is tensor._vc else seen

    def owner_of(self, tensor: Any, vid: int) -> int:
        """The value id that has ``tensor``'s storage in ``buffers``; ``vid`` if nothing was written to it yet."""
        storage = tensor._storage
        slot = self._slots.get(id(storage))
        if slot is None:
            slot = self._slots[id(storage)] = Slot(storage, ref(tensor), vid)
            storage.tid = self.tid
        if id(storage) not in self._dirty and self.buffers.get(vid) is storage and not self._live().is_open(vid):
            # the id that the write reads: by another one, codegen would not see that they share memory
            slot.owner = vid
        if self.buffers.get(slot.owner) is not storage or self._live().is_open(slot.owner):
            # hits move a handle's value id on, with or without a slot: look for the id that has the memory
            # (by its address: a saved value's second handle may have a storage object of its own), but not for one
            # that the open segment has just given it
            known = (v for v, s in self.buffers.items() if s is storage or s.addr == storage.addr != 0)
            slot.owner = next((v for v in known if not self._live().is_open(v)), slot.owner)
        return self._live().canonical(slot.owner)

    def replace_data(self, tensor: Any, value: Any) -> None:
        """``tensor.data = value``: Nodes save their inputs themselves, so they will see the new data, as in PyTorch."""
        if tensor._tid == self.tid:
            self._mark((DATA, tensor._vid), DataEvent(tensor._vid))
            self.inputs[tensor._vid] = tensor
        self.graph.replace_data(tensor, value)

    def forget(self, tensor: Any) -> None:
        """Take the stamps off every handle of a tensor's storage, so that the next use enters it again."""
        slot = self._slots.pop(id(tensor._storage), None)
        if slot is not None and (slot.is_family or self.backend.root_of(slot.storage) is not slot.storage):
            for key in [k for k, s in self._slots.items() if s is slot]:
                del self._slots[key]
        if slot is not None:
            self._former.setdefault(id(tensor._storage), set()).add(slot.owner)
        for handle in (*slot.live(), tensor) if slot is not None else (tensor,):
            if handle._tid == self.tid:
                self._former.setdefault(id(tensor._storage), set()).add(handle._vid)
            handle._tid = 0
