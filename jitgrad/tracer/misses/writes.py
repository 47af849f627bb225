"""In-place operations of a trace, see Note [Aliases in a trace].

Owns: ``Writes``, the part of a recorder that records writes, or sends them to ``Detours``.
Must not know: what a write through a view is (``window_writes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.devices import CPU
from jitgrad.door import door
from jitgrad.errors import ElsewhereError
from jitgrad.ops.aval import has_repeats
from jitgrad.ops.table import Op
from jitgrad.state import state
from jitgrad.structs import replaced
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.misses.early_checks import may_hits_look, must_pause
from jitgrad.tracer.misses.long_calls import must_leave, stop_recording
from jitgrad.tracer.recording.graph import Instr, RuntimeScalar
from jitgrad.tracer.recording.history import History, OpEvent, UpdateEvent
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import UPDATE, WRITE
from jitgrad.tracer.recording.numbers import quick_ids
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.shape_rules import name_line
from jitgrad.tracer.recording.slots import Slot, can_look_afresh, has_node
from jitgrad.tracer.recording.trie import TrieNode, new_node
from jitgrad.tracer.recording.views_of_base import end_stand_ins

__all__ = ["TURN_OPS", "Writes", "as_targets", "joins_graph", "keep_target"]

TURN_OPS = 64
"""From so many operations on a segment ends where an optimizer's step comes round again, see Note [Turns]."""


class Writes:
    """Records in-place operations, and optimizers' steps.

    Which storages the segment's end will write is in ``RecorderState.dirty``, because hits of writes add to it.
    """

    __slots__ = ("_path", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path

    def write(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``op(*args)`` written into ``targets``; see Note [Aliases in a trace]."""
        recorder = self._recorder
        end_stand_ins(targets)
        is_expanded = has_repeats(targets[0]._aval)  # what writes that at all, writes real memory
        is_view = len(targets) == 1 and targets[0]._base is not None and not is_expanded
        if is_view and recorder.windows.write(op, targets[0], args):
            return targets
        inputs, params = recorder.backend.split_args(op, args)
        try:
            ids, numeric = recorder.entry.ids(inputs)
            rebinds = self.rebinds(targets, inputs)
        except ElsewhereError:
            return recorder.outside(recorder.backend.inplace_elsewhere, op, targets, inputs, params)
        windows = self._windows_of(targets, inputs) if rebinds is not None else []
        if rebinds is None or is_expanded or not all(recorder.windows.may_read_through(x, targets) for x in windows):
            return recorder.detours.write(op, targets, args)
        for window in windows:
            old = window._vid
            recorder.windows.read_through(window, window._base)
            ids = [window._vid if vid is old else vid for vid in ids]
        target_ids = tuple([t._vid for t in targets])
        key = (WRITE, op, target_ids, tuple(ids), params)
        node = recorder.node.children.get(key)
        if node is None and numeric:
            node = self._path.numbers.promoted_hit(recorder, op, inputs, params, (WRITE, target_ids))
        if node is None:
            if must_leave(recorder):
                stop_recording(recorder)
                return door.apply_inplace(op, targets, *args)
            node = self._grow_inplace(op, targets, inputs, params, ids, key)
        if node.event.demands and not recorder.checks.meets(node.event, inputs):
            return self.write_unmet(op, node.event, targets, args)
        recorder.node.last = recorder.node = node
        self._rebind(node.event.instr, targets, rebinds)
        if node.event.ends_segment:
            recorder.flush()
        return targets

    def _windows_of(self, targets: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The operands that lie in a target's memory under value ids of their own: codegen would not see that."""
        storages = {id(t._storage) for t in targets if t._storage is not None and t._storage.addr}
        if not storages:
            return []
        known = {t._vid for t in targets}
        buffers = self._recorder.buffers
        return [
            x
            for x in inputs
            if isinstance(x, TensorBase)
            and id(x._storage) in storages
            and x._vid not in known
            and buffers.get(x._vid) is x._storage
        ]

    def write_unmet(self, op: Op, event: Any, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A write that will raise, or that cannot tell yet: Note [Early checks]."""
        recorder = self._recorder
        del recorder.scalars[recorder.node.next_scalar :]  # numbers of an event that is not recorded
        if must_pause(event):
            recorder.flush()
            return self.write(op, targets, args)
        try:
            return recorder.detours.write(op, targets, args)
        except Exception as error:
            name_line(error, op)
            raise

    def rebinds(self, targets: Sequence[Any], inputs: tuple[Any, ...] = ()) -> Sequence[Any] | None:
        """Other handles that look at the targets through the same window; None if the write must be done eagerly."""
        recorder = self._recorder
        same: list[Any] | tuple[()] = ()
        for target in targets:
            if target._tid != recorder.tid:
                recorder.entry.enter(target)
            if target._storage is not None:
                recorder.claim(target._storage)
        if HOT.all_unwatched(recorder, [*targets]):
            return ()
        for nr, target in enumerate(targets):
            storage = target._storage
            if target._retains_grad and joins_graph(inputs):
                return None  # what retains the gradient goes along to the new Node
            if storage is None:
                continue
            if id(storage) in recorder.counted_twice and recorder.counters.is_saved(target):
                return None  # Note [Several version counters]
            if target._base is not None and (joins_graph(inputs) or has_node(target)):
                return None  # the base joins the graph with its view, or the view gets another Node
            slot = recorder.slots.get(id(storage))
            if slot is None or (slot.others is None and slot.older is None):
                continue
            if slot.is_family:
                return None
            if slot.is_shared and (recorder.handles or recorder.has_dropped):
                recorder.flush()  # reads of other windows come first; codegen does not know that they share memory
            joins = joins_graph(inputs)
            same = same or []
            if not self._others(target, slot, nr, same, joins):
                return None
        return same

    def _others(self, target: Any, slot: Slot, nr: int, same: list[Any], joins: bool) -> bool:
        """Sort the other live handles of a slot: same window, or a view to be looked at afresh."""
        recorder = self._recorder
        stale: list[Any] = []
        home = slot.home() if type(slot.home) is ref else slot.home
        looking = [] if home is None or home is target else [home]
        looking += [h for h in [r() for r in slot.older or ()] if h is not None and h is not target]
        for reference in slot.others or ():
            other = reference()
            if other is None or other is target:
                continue
            # ``other`` and ``handles``: if these are all, nobody looks; ``enter`` must not take it for the new value
            (stale if references(other) <= ONE_LOCAL + 1 else looking).append(other)
        for other in looking:
            is_window = other._base is target and other._aval is not target._aval
            if is_window and not joins and other._vid not in recorder.inputs:
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
            other._tid = -recorder.tid if other._base is target else 0
        return True

    def _rebind(self, instr: Instr, targets: tuple[Any, ...], rebinds: Sequence[Any]) -> None:
        """Move the targets, and the handles that share their window, on to the written values."""
        recorder = self._recorder
        HOT.move(recorder, list(targets), instr.outputs)
        if instr.requires_grad:
            for target in targets:
                target._requires_grad, target._graph, target._grad_fn = True, recorder.graph, None
                target._hooks = None  # the old value's Node has them
                if target._storage is not None and target._storage.addr:
                    recorder.handles.append(target)  # the segment's end must keep what its new graph needs
        for nr, other in rebinds:
            other._vid = instr.outputs[nr]
        for target in targets:
            slot = recorder.slot_table.get(id(target._storage))
            if slot is not None:
                slot.drop_idle()

    def _grow_inplace(
        self,
        op: Op,
        targets: tuple[Any, ...],
        inputs: tuple[Any, ...],
        params: tuple[Any, ...],
        ids: list[Any],
        key: Any,
    ) -> TrieNode:
        recorder = self._recorder
        history = self._path.live()
        recorder.backend.check_writable(targets, inputs)
        operands, key, fresh_scalars, mark = self._path.numbers.operands(
            recorder, op, inputs, params, ids, key, (WRITE, tuple(t._vid for t in targets))
        )
        copied, operands = keep_target(recorder, op, targets, inputs, operands)
        instr, _ = self._path.instr(op, inputs, params, operands, recorder.node.next_vid + len(copied))
        for target, aval in zip(targets, instr.avals, strict=True):
            recorder.backend.check_inplace(op, target, aval)
            recorder.backend.check_no_overlap(target, inputs)
        wanted = recorder.checks.demands(op, inputs, instr)
        if wanted is None:
            return recorder.checks.pause(key, mark)
        instrs, final = as_targets(recorder, instr, targets)
        event = self._write_event(history, (*copied, *instrs), final, targets)
        event.node_rebinds += tuple((c.outputs[0], c.inputs[0]) for c in copied)
        event.ends_segment = self._path.is_full(1)
        event.demands, event.passed = wanted, [None] * len(wanted)
        if wanted and not recorder.checks.meets(event, inputs):
            unseen: TrieNode = new_node(recorder.node, key, event, 0, 0)  # nobody finds it
            return unseen
        count = sum(len(i.outputs) for i in event.instrs)
        node = self._path.grow(key, event, vids=count, scalars=len(fresh_scalars))
        if not (final.requires_grad or event.ends_segment) and may_hits_look(node, event, inputs):
            node.writes = final.outputs
            if len(targets) == 1:
                hidden = [isinstance(x, RuntimeScalar) for x in operands]
                node.op, node.ids = WRITE, (op, targets[0]._vid, *quick_ids(op, inputs, ids, hidden))
                node.params = params
        self._path.publish(node, event, mark)
        recorder.scalars.extend(fresh_scalars)
        return node

    def update(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """``dispatch.apply_update``: one event, whose numbers are run-time scalars from the start."""
        recorder = self._recorder
        if type(rows) is list and HOT.hit_update(recorder, op, rows, writes, numbers, params):
            if recorder.node.event.ends_segment:
                recorder.flush()
            return
        tid = recorder.tid
        try:
            ids = tuple([x._vid if x._tid == tid else recorder.entry.enter(x) for row in rows for x in row])
        except ElsewhereError:
            self._update_elsewhere(op, rows, writes, numbers, params)
            return
        targets = [row[i] for row in rows for i in writes]
        rebinds = self.rebinds(targets)
        if rebinds is None or self._windows_of(targets, [x for row in rows for x in row]):
            for row in rows:
                self.write(op, tuple(row[i] for i in writes), (*row, *numbers, *params))
            return
        key = (UPDATE, op, ids, tuple(map(type, numbers)), params)
        node = recorder.node.children.get(key)
        if node is None:
            node = self._grow_update(op, rows, writes, numbers, key)
        recorder.scalars[node.next_scalar - len(numbers) :] = numbers  # before the path has the event that reads them
        recorder.node.last = recorder.node = node
        HOT.move(recorder, targets, node.event.results)
        for nr, other in rebinds:
            other._vid = node.event.results[nr]
        if node.event.ends_segment:
            recorder.flush()

    def _update_elsewhere(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """Rows that have no place in a trace at once, each by itself; the others as one event."""
        recorder = self._recorder
        here = []
        for row in rows:
            targets = tuple(row[i] for i in writes)
            if any(x._aval.device is not CPU for x in row):
                recorder.outside(recorder.backend.inplace_elsewhere, op, targets, (*row, *numbers), params)
            elif self._enters(row):
                here.append(row)
            else:
                self.write(op, targets, (*row, *numbers, *params))
        if here:
            self.update(op, here, writes, numbers, params)

    def _enters(self, row: tuple[Any, ...]) -> bool:
        """Whether all of a row has a place in the trace; it is entered then."""
        try:
            for x in row:
                if x._tid != self._recorder.tid:
                    self._recorder.entry.enter(x)
        except ElsewhereError:
            return False
        return True

    def _grow_update(
        self,
        op: Op,
        rows: Sequence[tuple[Any, ...]],
        writes: tuple[int, ...],
        numbers: tuple[Any, ...],
        key: Any,
    ) -> TrieNode:
        recorder = self._recorder
        _, _, ids, _, params = key
        history = self._path.live()
        slots = tuple(RuntimeScalar(recorder.node.next_scalar + i, isinstance(x, float)) for i, x in enumerate(numbers))
        first = vid = recorder.node.next_vid
        events = []
        for nr, row in enumerate(rows):
            targets = tuple(row[i] for i in writes)
            recorder.backend.check_writable(targets, row)
            operands = (*ids[nr * len(row) : (nr + 1) * len(row)], *slots)
            instr, _ = self._path.instr(op, (*row, *numbers), params, operands, vid)
            vid += len(instr.outputs)
            for target, aval in zip(targets, instr.avals, strict=True):
                recorder.backend.check_inplace(op, target, aval)
            instr = in_targets(instr, targets)
            events.append(self._write_event(history, (instr,), instr, targets))
        event = UpdateEvent(tuple(events), tuple(v for e in events for v in e.instr.outputs))
        event.ends_segment = self._path.is_full(len(rows)) or _ends_turn(history, event)
        node = self._path.grow(key, event, vids=vid - first, scalars=len(numbers))
        node.op, node.ids = UPDATE, (op, params, tuple(map(type, numbers)), *ids)
        return self._path.publish(node, event)

    def _write_event(
        self, history: History, instrs: tuple[Instr, ...], final: Instr, targets: tuple[Any, ...]
    ) -> OpEvent:
        """The event of an in-place operation: what it overwrites, what it owes to storages, which leaves move on."""
        recorder = self._recorder
        writes, leaves = [], []
        for target, vid in zip(targets, final.outputs, strict=True):
            storage = target._storage
            if storage is not None and storage.addr:
                writes.append((recorder.aliases.owner_of(target, target._vid), vid))
            slot = recorder.slots.get(id(storage))
            for handle in (target,) if slot is None else slot.live():
                if handle._tid == recorder.tid and handle._vid in history.leaves and handle._requires_grad:
                    leaves.append((vid, history.leaves[handle._vid]))
        nodes = (
            ()
            if final.requires_grad
            else tuple(
                (vid, t._vid) for t, vid in zip(targets, final.outputs, strict=True) if t._requires_grad and has_node(t)
            )
        )
        overwritten = tuple(dict.fromkeys(v for t in targets for v in recorder.aliases.seen_values(t)))
        event = OpEvent(final, instrs, overwritten, tuple(writes), tuple(leaves), nodes)
        event.successors = tuple((t._vid, vid) for t, vid in zip(targets, final.outputs, strict=True))
        return event


def _ends_turn(history: History, event: UpdateEvent) -> bool:
    """Whether a long segment ends with an optimizer's step, because it has such a step of the same tensors already."""
    if history.length() < TURN_OPS:
        return False
    owners = {owner for row in event.events for owner, _ in row.writes}
    return not owners.isdisjoint(history.writes)


def joins_graph(inputs: tuple[Any, ...]) -> bool:
    """Whether a write of a function of these tensors brings its target into the graph."""
    return state.grad_enabled and any(isinstance(x, TensorBase) and x._requires_grad for x in inputs)


def keep_target(
    recorder: Any, op: Op, targets: tuple[Any, ...], inputs: tuple[Any, ...], operands: tuple[Any, ...]
) -> tuple[tuple[Instr, ...], tuple[Any, ...]]:
    """Where the Node will save the old value of what is written: a copy to save, which has the old value's Node."""
    needs = tuple(isinstance(x, TensorBase) and x._requires_grad for x in inputs)
    joins = state.grad_enabled and bool(op.vjps) and any(needs)
    if not joins or inputs[0] is not targets[0] or 0 not in recorder.backend.saved_inputs(op, needs):
        return (), operands
    copy = recorder.backend.copy_instr(operands[0], recorder.node.next_vid, targets[0]._aval)
    return (copy,), (copy.outputs[0], *operands[1:])


def as_targets(recorder: Any, instr: Instr, targets: tuple[Any, ...]) -> tuple[tuple[Instr, ...], Instr]:
    """Results as they lie in the targets; with a cast where the dtype of a result is not the target's."""
    if len(targets) == 1 and instr.avals[0].dtype is not targets[0]._aval.dtype:
        both, final = recorder.backend.cast_after(instr, targets[0]._aval.dtype)
        cast = in_targets(final, targets)
        return (*both[:-1], cast), cast
    written = in_targets(instr, targets)
    return (written,), written


def in_targets(instr: Instr, targets: tuple[Any, ...]) -> Instr:
    """The results of a write have the layout of what is written, whatever they would have in memory of their own."""
    avals = tuple([t._aval if a.dtype is t._aval.dtype else a for t, a in zip(targets, instr.avals, strict=True)])
    if all(a is b for a, b in zip(avals, instr.avals, strict=True)):
        return instr
    return replaced(instr, avals=avals)
