"""The recorder: turns the operations of one call into a path of the trie.

Owns: ``Recorder``: the handler of a compiled call. It hands every question to the part that owns the answer.
Must not know: LLVM, the engine, NumPy. What it needs from above comes in through ``Backend``.
In: operations, from ``dispatch`` and ``Tensor``. Out: segments, handed to the backend; handles, handed to the user.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jitgrad.door import door
from jitgrad.errors import ElsewhereError
from jitgrad.ops.table import Op
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.detours import Detours
from jitgrad.tracer.hits.call_hits import use_hits
from jitgrad.tracer.hits.hits import MISSED
from jitgrad.tracer.misses.early_checks import EarlyChecks
from jitgrad.tracer.misses.operations import Operations
from jitgrad.tracer.misses.segment_end import SegmentEnd
from jitgrad.tracer.misses.window_writes import WindowWrites
from jitgrad.tracer.misses.writes import Writes
from jitgrad.tracer.picks import Picks
from jitgrad.tracer.recording.aliases import Aliases, Stubs
from jitgrad.tracer.recording.entry import Entry
from jitgrad.tracer.recording.history import DetachEvent, LeafEvent, LookEvent, ReleaseEvent
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import DETACHED_MARK, DTYPE, HOOKS, LEAF_MARK, RELEASED
from jitgrad.tracer.recording.numbers import is_number
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import Trie
from jitgrad.tracer.recording.version_counters import VersionCounters
from jitgrad.tracer.shared_memory import share

if TYPE_CHECKING:
    from jitgrad.tracer.recording.backend import Backend

__all__ = ["Recorder"]

M = TypeVar("M", bound=Callable[..., Any])

# Note [Interrupts]
# ~~~~~~~~~~~~~~~~~
# Python runs signal handlers (and finalizers) between any two bytecodes, also those of the recorder, and a handler
# may use tensors. While the recorder changes its state, ``busy`` is set; an operation that comes in then is not the
# step's: it runs at once, outside the recording. A value that waits for such an operation's segment cannot be had
# at that moment; what has memory is read as it is. Native hits run no bytecode, so they are not entered half-way.
# Between two operations of the step, a handler's operations are the step's like any other.
# A handler may raise (Ctrl-C does), and Python calls it where a function begins, too: that function then does not run.
# What must happen at the end of a call therefore stands in a ``finally`` behind no call, or native code looks whether
# the function has begun and calls it again (``settle_call``).


def _uninterrupted(method: M) -> M:
    """A method that no signal handler's operations get into, see Note [Interrupts]."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any) -> Any:
        before, self.busy = self.busy, True
        try:
            return method(self, *args)
        finally:
            self.busy = before

    return guarded  # type: ignore[return-value]


class Recorder(RecorderState):
    """One call of a compiled function: parts with their own state, over what hits read (``RecorderState``).

    Parts refer to the recorder, so they and it would wait for the garbage collector, with all that the call has met:
    ``rest`` parts with them if no other call can use them.

    Attributes:
        path: the events that are new, and the history of all.
        entry: tensors from outside.
        operations: operations that are no usual hit.
        aliases: which handles look at which storage.
        counters: storages with several version counters.
        checks: values that an operation asks something of.
        writes: in-place operations, and windows: those through views.
        detours: what runs outside the trace.
        picked: parts that were picked by positions that the step does not know.
        stubs: views that were made in no_grad mode.
        ends: the ends of segments.
    """

    __slots__ = ("checks", "detours", "ends", "operations", "picked", "windows", "writes")

    is_hot = True  # native hits may answer for it

    checks: EarlyChecks
    detours: Detours
    ends: SegmentEnd
    operations: Operations
    picked: Picks
    windows: WindowWrites
    writes: Writes

    def __init__(self, trie: Trie, backend: Backend, segment_limit: int) -> None:
        super().__init__(trie, backend)
        self.path = path = Path(self, trie, segment_limit)
        self.entry = Entry(self, path)
        self.operations = Operations(self, path)
        self.aliases = Aliases(self, path)
        self.counters = VersionCounters(self, path)
        self.checks = EarlyChecks(self, path)
        self.writes = Writes(self, path)
        self.windows = WindowWrites(self, path)
        self.detours = Detours(self)
        self.picked = Picks(self)
        self.stubs = Stubs(self)
        self.ends = SegmentEnd(self, path)

    def rest(self) -> bool:
        """As ``RecorderState.rest``. If no other call may use the recorder, it ends the circle with its parts."""
        if super().rest():
            return True
        del self.path, self.entry, self.operations, self.aliases, self.counters, self.checks
        del self.writes, self.windows, self.detours, self.picked, self.stubs, self.ends
        return False

    # --- operations ---

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
            return self.operations.apply(op, args) if out is MISSED else out
        finally:
            self.busy = False

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``op(*args)`` written into ``targets``."""
        if self.busy:
            return self.backend.eagerly(door.apply_inplace, op, targets, *args)
        self.busy = True
        try:
            done = targets if HOT.hit_inplace(self, op, targets, args) else self.writes.write(op, targets, args)
        finally:
            self.busy = False
        if self.picks:
            self.picked.follow(targets)
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
            self.writes.update(op, rows, writes, numbers, params)
        finally:
            self.busy = False
        if self.picks:
            self.picked.follow([row[i] for row in rows for i in writes])

    def outside(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run something eagerly that may read values of the call: it is the step's own, Note [Interrupts]."""
        before, self.busy = self.busy, False
        try:
            return function(*args)
        finally:
            self.busy = before

    # --- modes ---

    def set_grad_mode(self, enabled: bool) -> None:
        """Grad mode is part of the path, so no operation has to carry it."""
        if self.busy:
            return
        self.busy = True
        try:
            if not HOT.hit_mark(self, enabled):
                self.path.mark(enabled)
            if enabled and self.stubs.unlinked:
                self.stubs.give()
        finally:
            self.busy = False

    @_uninterrupted
    def set_default_dtype(self, dtype: Any) -> None:
        """What Python floats become from here on is part of the path."""
        self.path.mark((DTYPE, dtype))

    def saved_hooks_changed(self) -> None:
        """Saved-tensor hooks came or went: while there are any, Nodes are made as operations are recorded."""
        if state.saved_tensor_hooks:
            switch_handler(self.backend.node_making(self))

    def carries_level(self) -> None:
        """The call may not stop recording."""
        self.must_record = True

    # --- values ---

    def enter(self, tensor: Any) -> int:
        """See ``Entry.enter``."""
        return self.entry.enter(tensor)

    def adopt(self, handle: Any) -> None:
        """A handle made elsewhere on a value of this call: the segment's end sees to its memory, if it has none yet.

        A window on an input's storage counts: its value id is not known to have memory before a segment has ended.
        """
        if handle._vid not in self.buffers:
            self.handles.append(handle)

    def take_over(self, handle: Any) -> None:
        """See ``Aliases.take_over``."""
        self.aliases.take_over(handle)

    def twin(self, tensor: Any) -> Any:
        """See ``Entry.twin``."""
        return self.entry.twin(tensor)

    def refresh(self, view: Any) -> None:
        """See ``WindowWrites.refresh``."""
        self.windows.refresh(view)

    def lookers(self, tensor: Any) -> list[Any]:
        """See ``Aliases.lookers``."""
        return self.aliases.lookers(tensor)

    def note_pick(self, part: Any, whole: Any, read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> None:
        """See ``Picks.note``."""
        self.picked.note(part, whole, read, write)

    def shares(self, tensor: Any, owner: Any, is_new: bool = False) -> None:
        """See ``Handler.shares``: what is pending must have read the memory, and what follows must read it in time."""
        if not is_new:
            self.flush()
        share(self, tensor, owner)

    def read(self, tensor: Any) -> None:
        """Python wants to see a value: run what it depends on."""
        if not self.busy:
            self._read(tensor)

    @_uninterrupted
    def _read(self, tensor: Any) -> None:
        if self._owes(tensor):  # no variable may hold the storage meanwhile: the segment's end counts the references
            self.flush()

    def _owes(self, tensor: Any) -> bool:
        """Whether a tensor's memory is not yet what the call says that it is."""
        storage = tensor._storage
        if storage is None or not storage.addr:
            # a window whose storage was written has lost its stamp, but the storage is still the trace's to fill
            return tensor._tid == self.tid or (storage is not None and id(storage) in self.slots)
        return bool(self.dirty) and (id(storage) in self.dirty or self._is_in_family(storage))

    def _is_in_family(self, storage: Any) -> bool:
        """Whether the call knows a storage's memory by another storage, too."""
        slot = self.slots.get(id(self.backend.root_of(storage)))
        return slot is not None and slot.storage is not storage

    def flush(self, is_last: bool = False) -> None:
        """End the segment: run it, and give every handle that somebody still holds its storage.

        Behind the last one nothing can be recorded: the recorder stays busy until another call begins.
        """
        before, self.busy = self.busy or is_last, True
        try:
            if not HOT.hit_end(self, is_last):
                self.ends.end(is_last)
            self.has_dropped = False
            if not is_last:
                self.let_go()
        finally:
            self.busy = before

    def let_go(self) -> None:
        """A segment has ended in the middle of the call: let go of what nobody needs any more."""
        if HOT.may_let_go(self.graph):
            self.graph.upkeep.after_a_segment(self.graph)

    # --- graphs ---

    @_uninterrupted
    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        """A value of the trace becomes a leaf, or leaves the graph."""
        if tensor._tid != self.tid:
            return
        was_stub = requires_grad and self.stubs.take(tensor)
        if not was_stub and tensor._requires_grad is requires_grad:
            return
        if not requires_grad and not tensor.is_leaf:
            self.path.mark((DETACHED_MARK, tensor._vid), make=lambda: DetachEvent(tensor._vid))
            self.graph.detach(tensor)
            self.entry.renumber(tensor)  # a user of the value before still has its Node
            return
        vid = tensor._vid
        self.path.mark((LEAF_MARK, vid, requires_grad), make=lambda: LeafEvent(vid) if requires_grad else None)
        self.inputs[tensor._vid] = tensor
        if requires_grad:
            tensor._requires_grad = True
            self.aliases.age_views(tensor)
            self.stubs.add_views_of(tensor)
        else:
            self.stubs.drop_views_of(tensor)
            self.graph.note_former_leaf(vid, tensor)

    @_uninterrupted
    def add_hooks(self, tensor: Any) -> None:
        """A value of the trace got a hook: from here on the path is another one.

        Operations on what has no place in a trace are eager ones, and so are the Nodes that run its hooks.
        """
        if tensor._tid != self.tid:
            try:
                self.enter(tensor)
            except ElsewhereError:
                return
        self.path.mark((HOOKS, tensor._vid), LookEvent(tensor._vid))

    def grad_fn_of(self, tensor: Any) -> Any:
        """The Node of a value of this trace, built on demand. Python may hook it: the path is another one from here."""
        self.counters.make_node(tensor._vid)
        return self.graph.attach(tensor)

    def has_node_of(self, vid: int, node: Any) -> bool:
        """Whether a value's Node, made of the trace or by Python, is ``node``."""
        found = self.graph.nodes.get(vid) or self.entry.outer.get(vid)
        return found is not None and found[0] is node

    def join_outer(self, tensor: Any, graph_node: Any, output_nr: int) -> None:
        """See ``Entry.join_outer``."""
        self.entry.join_outer(tensor, graph_node, output_nr)

    @_uninterrupted
    def mark_released(self, request_key: Any) -> None:
        """The engine has run over Nodes of this trace: values saved by Nodes that are used up need not be kept."""
        self.path.mark((RELEASED, request_key), make=lambda: ReleaseEvent(self.graph.released()))

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        """The usual ``loss.backward()``, if it is a hit: no request is made."""
        if self.busy:
            return False
        self.busy = True
        try:
            is_hit = HOT.hit_backward(self, root, keep_graph, create_graph)
            return is_hit or self.backend.repeat_backward(self, root, keep_graph, create_graph)
        finally:
            self.busy = False

    def reached_leaves(self, roots: Any) -> list[Any] | None:
        """The leaves below values of the call; None if some of the graph began outside it."""
        return self.backend.reached_leaves(self, roots)

    def record_backward(self, request: Any) -> Any:
        """A whole backward is one event; the engine belongs to the levels above."""
        if self.busy:
            return self.backend.backward_eagerly(request)
        return self.backend.record_backward(self, request)

    # --- what goes past the recorder ---

    def go_outside(self) -> None:
        """See ``Detours.go_outside``."""
        self.detours.go_outside()

    def come_inside(self) -> None:
        """See ``Detours.come_inside``."""
        self.detours.come_inside()

    def leave(self) -> Any:
        """See ``Detours.leave``."""
        return self.detours.leave()

    def come_back(self, left: Any) -> None:
        """See ``Detours.come_back``."""
        self.detours.come_back(left)

    def note_write(self, tensor: Any) -> None:
        """See ``Detours.note_write``."""
        self.detours.note_write(tensor)

    def data_source(self, tensor: Any) -> Any:
        """See ``data_hits.data_source``."""
        return HOT.data_source(self, tensor)

    def note_data(self, source: Any, tensor: Any) -> None:
        """See ``VersionCounters.note_data``."""
        self.counters.note_data(source, tensor)

    def replace_data(self, tensor: Any, value: Any) -> None:
        """See ``Detours.replace_data``."""
        self.detours.replace_data(tensor, value)

    def forget(self, tensor: Any) -> None:
        """See ``Aliases.forget``."""
        self.aliases.forget(tensor)

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        """See ``Detours.view_inplace``."""
        self.detours.view_inplace(tensor, make, name, take)


use_hits()
