"""What runs outside the trace in the middle of a call, on the real memory.

Owns: ``Detours``, the part of a recorder that ends the segment for it, and tells the trace what changed meanwhile.
Must not know: why it is done outside.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from jitgrad.devices import CPU
from jitgrad.errors import ElsewhereError
from jitgrad.events import bump, log
from jitgrad.ops.table import Op
from jitgrad.state import write_checks
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.history import DataEvent, OutsideEvent
from jitgrad.tracer.recording.keys import DATA, OUTSIDE
from jitgrad.tracer.recording.slots import fresh_handle, has_node, looks_refused
from jitgrad.user_line import user_line
from jitgrad.version_counter import version_of

__all__ = ["Detours"]


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
                self.versions.setdefault(id(handle), (handle, version_of(handle)))


class Detours:
    """Writes, and whole eager blocks, that are not recorded."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder

    def enter_and_write(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``apply_inplace``, done eagerly after the end of the segment."""
        recorder = self._recorder
        inputs, params = recorder.backend.split_args(op, args)
        try:
            recorder.entry.ids((*inputs, *targets))
        except ElsewhereError:
            return recorder.outside(recorder.backend.inplace_elsewhere, op, targets, inputs, params)
        return self.write(op, targets, args)

    def write(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """End the segment and write eagerly; other views of the storage read it anew when they are used."""
        recorder = self._recorder
        recorder.flush()
        recorder.backend.check_write(op, targets, args)
        log("fusion", "in-place %s while another window looks at the storage: done eagerly (%s)", op.name, user_line())
        for x in recorder.backend.split_args(op, args)[0]:
            if isinstance(x, TensorBase) and x._requires_grad and has_node(x):
                x.grad_fn  # noqa: B018 - its Node as it was before the write, which its operands may not survive
        self._do(op.name, targets, lambda: recorder.outside(recorder.backend.inplace_eagerly, op, targets, args))
        return targets

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        """``take(tensor, make, name)``: the tensor becomes a view of itself, see ``functions/inplace_views.py``."""
        recorder = self._recorder
        recorder.flush()
        if tensor._aval.device is CPU:
            # what raises, raises before the trace hears of it
            recorder.outside(recorder.backend.eagerly, make, fresh_handle(tensor._aval, tensor._storage))
            self._do(name, (tensor,), lambda: recorder.outside(recorder.backend.eagerly, take, tensor, make, name))
        else:
            self.go_outside()
            recorder.outside(recorder.backend.eagerly, take, tensor, make, name)
            self.come_inside()

    def _do(self, name: str, targets: tuple[Any, ...], write: Callable[[], None]) -> None:
        """Have ``write`` change the targets, after the end of a segment, on the real memory."""
        recorder = self._recorder
        bump("fallbacks")
        for target in targets:
            for handle in recorder.aliases.lookers(target):
                is_held = not recorder.graph.upkeep.is_lost(recorder.path.live, handle._vid)
                if is_held and handle._requires_grad and not looks_refused(handle) and not handle.is_leaf:
                    handle.grad_fn  # noqa: B018 - its Node as it was before the write: saved values have that version
        seen = tuple(dict.fromkeys(v for t in targets for v in recorder.aliases.seen_values(t)))
        for target in targets:  # before: what Nodes save of it afterwards must not look like the old value
            if id(target._storage) in recorder.counted_twice:
                recorder.graph.forget(target._storage)
            recorder.aliases.forget(target)
        self.go_outside()
        try:
            write()
        finally:
            self.come_inside()
        recorder.path.mark((OUTSIDE, name, seen), make=lambda: OutsideEvent(seen, name, user_line()))

    def note_write(self, tensor: Any) -> None:
        """Python has written a tensor's memory without an operation: the recorder reads its values anew."""
        recorder = self._recorder
        if tensor._aval.device is not CPU:
            return
        # a write through ``.data`` has taken the stamp off, but the ids it had are still in some Node
        seen = [tensor._vid] if tensor._graph is recorder.graph else []
        seen += [vid for vid, known in recorder.inputs.items() if known._vc is tensor._vc]
        recorder.flush()
        if tensor._tid != recorder.tid:
            tensor._tid, tensor._vid = 0, -1  # of another trace
        overwritten = tuple(dict.fromkeys([*seen, *recorder.aliases.seen_values(tensor)]))
        recorder.path.mark((OUTSIDE, None, overwritten), OutsideEvent(overwritten))
        recorder.aliases.forget(tensor)

    def go_outside(self) -> None:
        """Nodes made eagerly from now on come after everything recorded so far."""
        recorder = self._recorder
        recorder.graph.order.go_outside(recorder.node.next_vid)

    def come_inside(self) -> None:
        """What is recorded from now on comes after the Nodes made eagerly."""
        recorder = self._recorder
        recorder.graph.order.come_inside(recorder.node.next_vid)

    def leave(self) -> _Left:
        """Recording stops for a while; what is returned tells ``come_back`` which storages were written meanwhile."""
        recorder = self._recorder
        self.step_outside()
        left = _Left(recorder.tid, {id(h): (h, version_of(h)) for slot in recorder.slots.values() for h in slot.live()})
        write_checks.append(left.note)
        return left

    def step_outside(self) -> None:
        """End the segment; what runs from here on is not recorded."""
        recorder = self._recorder
        for storage in tuple(recorder.counted_twice.values()):
            slot = recorder.slots.get(id(storage))
            for handle in slot.live()[:1] if slot is not None else ():
                recorder.counters.is_saved(handle)
        recorder.flush()
        self.go_outside()

    def come_back(self, left: _Left) -> None:
        """Recording goes on: the recorder reads values that were written anew."""
        recorder = self._recorder
        write_checks.remove(left.note)
        self.come_inside()
        written = [h for h, version in left.versions.values() if version_of(h) != version]
        if written:
            seen = tuple(dict.fromkeys(v for h in written for v in recorder.aliases.seen_values(h)))
            recorder.path.mark((OUTSIDE, None, seen), OutsideEvent(seen))
        for handle in written:
            if id(handle._storage) in recorder.counted_twice:
                recorder.graph.forget(handle._storage)
            recorder.aliases.forget(handle)

    def replace_data(self, tensor: Any, value: Any) -> None:
        """``tensor.data = value``: Nodes save their inputs themselves, so they will see the new data, as in PyTorch."""
        recorder = self._recorder
        if tensor._tid == recorder.tid:
            recorder.path.mark((DATA, tensor._vid), DataEvent(tensor._vid))
            recorder.inputs[tensor._vid] = tensor
        recorder.graph.replace_data(tensor, value)
