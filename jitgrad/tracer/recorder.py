"""The recorder: turns the operations of one call into a path of the trie.

Owns: ``Recorder``: hits of operations, modes and leaves, the end of a segment. Inputs, writes and growing the path are
the parts it is made of.
Must not know: LLVM, the engine, NumPy. What it needs from above comes in through ``Backend``.
In: operations, from ``dispatch`` and ``Tensor``. Out: segments, handed to the backend; handles, handed to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.devices import CPU, Device
from jitgrad.door import door
from jitgrad.dtypes import FLOATING
from jitgrad.errors import ElsewhereError
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.early_checks import must_pause, must_raise_now
from jitgrad.tracer.end_hits import use_hits
from jitgrad.tracer.flush import build_end
from jitgrad.tracer.graph import RuntimeScalar
from jitgrad.tracer.history import DetachEvent, LeafEvent, LookEvent, OpEvent, ReleaseEvent
from jitgrad.tracer.hits import MISSED
from jitgrad.tracer.hot import HOT
from jitgrad.tracer.keys import DETACHED_MARK, DTYPE, END, HOOKS, LEAF_MARK, RELEASED, STUB, quick_ids
from jitgrad.tracer.long_calls import is_too_long, stop_recording
from jitgrad.tracer.numbers import is_number
from jitgrad.tracer.picks import Picks
from jitgrad.tracer.recorder_state import uninterrupted
from jitgrad.tracer.shape_rules import name_line
from jitgrad.tracer.shared_memory import share
from jitgrad.tracer.slots import Slot
from jitgrad.tracer.trie import DETACHED, SEVERAL, TRACKED, UNTRACKED, TrieNode

__all__ = ["Recorder"]



# Note [Interrupts]
# ~~~~~~~~~~~~~~~~~
# Python runs signal handlers (and finalizers) between any two bytecodes, also those of the recorder, and a handler
# may use tensors. While the recorder changes its state, ``busy`` is set; an operation that comes in then is not the
# step's: it runs at once, outside the recording. A value that waits for such an operation's segment cannot be had
# at that moment; what has memory is read as it is. Native hits run no bytecode, so they are not entered half-way.
# Between two operations of the step, a handler's operations are the step's like any other.


class Recorder(Picks):
    """One call of a compiled function; see ``RecorderState`` for what it holds."""

    __slots__ = ()

    is_hot = True  # native hits may answer for it

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        """``a op b`` from an operator of Tensor."""
        if isinstance(b, TensorBase) or type(b) is float or type(b) is int:
            return self.apply(op, (a, b))
        # NumPy scalars become Python numbers; bool is a number; anything else is not ours
        return self.apply(op, (a, b.item() if hasattr(b, "item") else b)) if is_number(b) else NotImplemented

    def reflected(self, op: Op, number: int | float, x: Any) -> Any:
        """``number op x`` from a reflected operator of Tensor."""
        return self.apply(op, (number, x))

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Any operation: inputs, then static params."""
        if self.busy:
            return self.backend.eagerly(door.apply, op, *args)
        self.busy = True
        try:
            out = HOT.hit_apply(self, op, args)
            return self._apply_general(op, args) if out is MISSED else out
        finally:
            self.busy = False

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``op(*args)`` written into ``targets``."""
        if self.busy:
            return self.backend.eagerly(door.apply_inplace, op, targets, *args)
        self.busy = True
        try:
            done = targets if HOT.hit_inplace(self, op, targets, args) else self.write(op, targets, args)
        finally:
            self.busy = False
        if self.picks:
            self.follow(targets)
        return done

    def apply_update(
        self, op: Op, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """An optimizer's step."""
        if self.busy:
            self.backend.eagerly(door.apply_update, op, rows, writes, numbers, params)
            return
        self.busy = True
        try:
            self.update(op, rows, writes, numbers, params)
        finally:
            self.busy = False
        if self.picks:
            self.follow([row[i] for row in rows for i in writes])

    def _apply_general(self, op: Op, args: tuple[Any, ...]) -> Any:
        inputs, params = self.backend.split_args(op, args)
        try:
            ids, numeric = self._ids(inputs)
        except ElsewhereError:
            return self.outside(self.backend.apply_elsewhere, op, *args)
        key = (op, tuple(ids), params)
        node = self.node.children.get(key)
        if node is None and numeric:
            node = self._numbers.promoted_hit(self, op, inputs, params)
        if node is None:
            return self._grow(op, inputs, params, ids, key)
        return self._apply_special(op, node, inputs, params, ids, key)

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
        event = node.event
        if event.demands and not self._meets(event, inputs):
            return self._apply_unmet(op, event, inputs, params)
        if self.node.last is not node:
            self.node.last = node
        self.node = node
        return self._results(node, inputs)

    def _apply_unmet(self, op: Op, event: Any, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """An operation that will raise, or that cannot tell yet: Note [Early checks]."""
        del self.scalars[self.node.next_scalar :]  # numbers of an event that is not recorded
        args = (*((inputs,) if op.num_inputs < 0 else inputs), *params)
        self.flush()
        if must_pause(event):
            return self._apply_general(op, args)
        try:
            return self.outside(self.backend.apply_elsewhere, op, *args)
        except Exception as error:
            name_line(error, op)
            raise

    def _results(self, node: TrieNode, inputs: tuple[Any, ...]) -> Any:
        """Handles for a node's results."""
        event = node.event
        instr = event.instr
        outs = []
        for nr, (vid, aval) in enumerate(zip(instr.outputs, instr.avals, strict=True)):
            out = self._handle(vid, aval, instr.requires_grad and aval.dtype.category is FLOATING)
            if nr and out._requires_grad:
                out._output_nr = nr
            if node.is_view:
                self._note_view(node, out, inputs[0])
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

    def _note_view(self, node: TrieNode, out: Any, source: Any) -> None:
        """A view: linked now, or when that matters (Note [Links of views])."""
        if node.is_simple and node.window is not UNTRACKED and HOT.has_plain_source(source):
            HOT.note_source(self, node, out, source)
        else:
            self._link_view(out, source)

    def _link_view(self, out: Any, source: Any) -> None:
        """Let a view share its source's storage, be it pending, and version."""
        storage = source._storage
        if storage is None:
            storage = source._storage = self.backend.pending_storage()
        out._storage = storage
        version = source._vc
        out._vc = version
        window = self.node.window
        if window is not DETACHED:  # detach() makes an alias that is nobody's view, and never joins the graph
            base = source._base
            out._base = source if base is None else base
            out._view_version = version[0]
            if not out._requires_grad and out._base._requires_grad:
                self._unlinked.append(ref(out))
            if base is not None or window is not TRACKED:
                out._creation_meta = self.backend.creation_meta_of(source, window is SEVERAL)
        slot = self._slots.get(id(storage))
        if slot is None:
            slot = self._slots[id(storage)] = Slot(storage, ref(source), source._vid)
            storage.tid = self.tid
        if slot.others is None:
            slot.others = []
            self._viewed.append(slot)
        slot.others.append(ref(out))

    def _grow(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], ids: list[Any], key: Any) -> Any:
        """Record an operation for the first time. Raises what eager execution would, leaving no trace of it."""
        if is_too_long(self):
            stop_recording(self)
            return door.apply(op, *((inputs,) if op.num_inputs < 0 else inputs), *params)
        if Device in map(type, params):  # its result is not on the CPU
            operands = (inputs,) if op.num_inputs < 0 else inputs
            return self.outside(self.backend.apply_elsewhere, op, *operands, *params)
        self._live()
        operands, key, fresh_scalars, mark = self._numbers.operands(self, op, inputs, params, ids, key)
        instr, several = self._instr(op, inputs, params, operands)
        event = OpEvent(instr, (instr,), several=several)
        if op.checks_values:
            wanted = self._demands(op, inputs, instr)
            if wanted is None:
                return self._apply_unmet(op, self._pause(key, mark).event, inputs, params)
            event.demands, event.passed = wanted, [None] * len(wanted)
            if not self._meets(event, inputs):
                return self._apply_unmet(op, event, inputs, params)
        vids, scalars = len(instr.outputs), len(fresh_scalars)
        node = self.trie.grow(self.node, key, event, vids=vids, scalars=scalars)
        node.vid, node.aval = instr.outputs[0], instr.avals[0]
        node.requires_grad = instr.requires_grad and instr.avals[0].dtype.category is FLOATING
        history = self._live()
        is_full = len(history.instrs) - history.start + 1 >= self.segment_limit
        event.ends_segment = is_full or must_raise_now(history, instr)
        if any(type(p) in (float, bool) for p in params):
            node.param_types = tuple(map(type, params))
        node.op, node.params, node.is_view = op, params, op.is_view and not op.is_unseen
        node.ids = quick_ids(inputs, ids, [isinstance(x, RuntimeScalar) for x in operands])
        node.is_simple = op.num_inputs > 0 and not (several or event.ends_segment or event.demands)
        if op.has_base:
            node.window = SEVERAL if several else TRACKED if state.grad_enabled else UNTRACKED
        self._publish(node, event, mark)
        self.scalars.extend(fresh_scalars)
        self.node = node
        return self._results(node, inputs)

    def set_grad_mode(self, enabled: bool) -> None:
        """Grad mode is part of the path, so no operation has to carry it."""
        if self.busy:
            return
        self.busy = True
        try:
            if not HOT.hit_mark(self, enabled):
                self._mark(enabled)
            if enabled and self._unlinked:
                self._give_stubs()
        finally:
            self.busy = False

    def _give_stubs(self) -> None:
        """Views that were made in no_grad mode of a tensor that requires grad: with grad mode on, they do as well.

        Their gradient goes nowhere. Until the call ends, they are told by their flag.
        """
        views, self._unlinked = self._unlinked, []
        ours = set(map(id, self.handles))
        for reference in views:
            view = reference()
            if view is None or (id(view) in ours and references(view) <= ONE_LOCAL + 1):
                continue  # nobody but ``handles`` holds it
            if view._tid == self.tid and not view._requires_grad and view.requires_grad:
                self._mark((STUB, view._vid))
                self.outer[view._vid] = (None, 0)
                view._requires_grad = True
                self._stubs.append(reference)

    @uninterrupted
    def set_default_dtype(self, dtype: Any) -> None:
        """What Python floats become from here on is part of the path."""
        self._mark((DTYPE, dtype))

    @uninterrupted
    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        """A value of the trace becomes a leaf, or leaves the graph."""
        if tensor._tid != self.tid:
            return
        if requires_grad and any(view() is tensor for view in self._stubs):
            self._stubs = [view for view in self._stubs if view() is not tensor]
            del self.outer[tensor._vid]
        elif tensor._requires_grad is requires_grad:
            return
        if not requires_grad and not tensor.is_leaf:
            self._mark((DETACHED_MARK, tensor._vid), make=lambda: DetachEvent(tensor._vid))
            self.graph.detach(tensor)
            self.renumber(tensor)  # who used the value before still has its Node
            return
        vid = tensor._vid
        self._mark((LEAF_MARK, vid, requires_grad), make=lambda: LeafEvent(vid) if requires_grad else None)
        self.inputs[tensor._vid] = tensor
        if requires_grad:
            self._age_views(tensor)

    @uninterrupted
    def add_hooks(self, tensor: Any) -> None:
        """A value of the trace got a hook: from here on the path is another one."""
        if tensor._aval.device is not CPU:
            return
        if tensor._tid != self.tid:
            self.enter(tensor)
        self._mark((HOOKS, tensor._vid), LookEvent(tensor._vid))

    def shares(self, tensor: Any, owner: Any) -> None:
        """See ``Handler.shares``: what is pending must have read the memory, and what follows must read it in time."""
        self.flush()
        share(self, tensor, owner)

    def read(self, tensor: Any) -> None:
        """Python wants to see a value: run what it depends on."""
        if not self.busy:
            self._read(tensor)

    @uninterrupted
    def _read(self, tensor: Any) -> None:
        storage = tensor._storage
        if storage is None or not storage.addr:
            # a window whose storage was written has lost its stamp, but the storage is still the trace's to fill
            if tensor._tid == self.tid or (storage is not None and id(storage) in self._slots):
                self.flush()
        elif self._dirty and (id(storage) in self._dirty or self._is_in_family(storage)):
            self.flush()

    def _is_in_family(self, storage: Any) -> bool:
        """Whether the call knows a storage's memory by another storage, too."""
        slot = self._slots.get(id(self.backend.root_of(storage)))
        return slot is not None and slot.storage is not storage

    def grad_fn_of(self, tensor: Any) -> Any:
        """The Node of a value of this trace, built on demand. Python may hook it: the path is another one from here."""
        self._make_node(tensor._vid)
        return self.graph.attach(tensor)

    def saved_hooks_changed(self) -> None:
        """Saved-tensor hooks came or went: while there are any, Nodes are made as operations are recorded."""
        if state.saved_tensor_hooks:
            switch_handler(self.backend.node_making(self))

    @uninterrupted
    def mark_released(self, request_key: Any) -> None:
        """The engine has run over Nodes of this trace: values saved by Nodes that are used up need not be kept."""
        self._mark((RELEASED, request_key), make=lambda: ReleaseEvent(self.graph.released()))

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        """The usual ``loss.backward()``, if it is a hit: no request is made."""
        return not self.busy and self._repeat_backward(root, keep_graph, create_graph)

    @uninterrupted
    def _repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        return self.backend.repeat_backward(self, root, keep_graph, create_graph)

    def reached_leaves(self, roots: Any) -> list[Any] | None:
        """The leaves below values of the call; None if some of the graph began outside it."""
        return self.backend.reached_leaves(self, roots)

    def record_backward(self, request: Any) -> Any:
        """A whole backward is one event; the engine belongs to the levels above."""
        if self.busy:
            return self.backend.backward_eagerly(request)
        return self.backend.record_backward(self, request)

    def flush(self, is_last: bool = False) -> None:
        """End the segment: run it, and give every handle that somebody still holds its storage."""
        before, self.busy = self.busy, True
        try:
            if not HOT.hit_end(self, is_last):
                self._end(is_last)
        finally:
            self.busy = before

    def _end(self, is_last: bool) -> None:
        """``flush`` of an end that is new, or not a usual one."""
        if self.picks:
            self.drop_idle_picks()
        alive = HOT.living(self)
        key: tuple[Any, ...] = (END, *[h._vid for h in alive]) if alive else (END,)
        shared = HOT.sharing(alive)
        if shared:  # which of the handles share a storage is not told by their values
            key = (*key, shared)
        node = self.node.children.get(key)
        if node is None:
            node = self._grow_end(key, alive)
        elif node.event.is_deferred:
            node.event.program = self.backend.compile_end(node.event.segment)
            node.event.is_deferred = False
        self.node.last = self.node = node
        self.handles = []
        self.keepers.clear()
        event = node.event
        try:
            if not event.has_plan and not event.is_deferred:
                event.plan, event.has_plan = self.backend.end_plan(self, event, alive), True
            self.backend.run(self, event, alive, is_last)
        except BaseException:
            self._drop_lost_gradients()
            raise
        finally:
            # also after an error, which the step may catch: what came before the operation that raised has happened
            self._settle(node, alive, is_last)

    def _settle(self, node: TrieNode, alive: list[Any], is_last: bool) -> None:
        """The segment has ended; what it leaves behind has memory from here on."""
        event = node.event
        if event.keeps_graph:
            self.graph.keep(node, alive, event.saves, event.windows)
        if is_last:
            for reference in self._stubs:
                view = reference()
                if view is not None:
                    view._requires_grad = False
        else:
            self.graph.note_versions(alive)  # Nodes that are made later must see writes to these
        self._dirty.clear()
        if self._viewed and not is_last:  # their views are windows on memory from here on
            for slot in self._viewed:
                slot.settle()
            self._viewed.clear()

    def _drop_lost_gradients(self) -> None:
        """The segment raised: a backward after the operation that did so has not happened."""
        for tensor in self.inputs.values():
            grad = tensor._grad
            if grad is not None and grad._tid == self.tid and (grad._storage is None or not grad._storage.addr):
                tensor._grad = None

    def _grow_end(self, key: Any, alive: list[Any]) -> TrieNode:
        history = self._live()
        event = build_end(history, self.backend, alive, self._slots, self.inputs, self.trie.defers or self.has_stopped)
        node = self.trie.grow(self.node, key, event)
        node.op, node.ids = END, tuple(h._vid for h in alive)
        node.params = HOT.sharing(alive)
        return self._publish(node, event)


use_hits()
