"""Which handles look at which storage, in one call; see Note [Aliases in a trace].

Owns: ``Aliases``, the part of a recorder that keeps the slots, links views, and forgets what has changed unseen;
``Stubs``, the part that tells of views made in no_grad mode that they require grad, once the mode is on again.
Must not know: how writes are recorded.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.state import state
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.keys import STUB
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import DETACHED, SEVERAL, TRACKED, TrieNode
from jitgrad.version_counter import VERSION, version_of

__all__ = ["Aliases", "Stubs"]


class Aliases:
    """The slots of a call.

    They are in ``RecorderState.slots``; ``viewed``, ``links`` and ``keepers`` of the recorder belong to them, and are
    with it because hits read them.
    """

    __slots__ = ("_path", "_recorder")

    def __init__(self, recorder: Any, path: Path) -> None:
        self._recorder = recorder
        self._path = path

    def lookers(self, tensor: Any) -> list[Any]:
        """The handles of this call that look at a tensor's storage."""
        slot = self._recorder.slots.get(id(tensor._storage))
        return [] if slot is None else slot.live()

    def note_view(self, node: TrieNode, out: Any, source: Any) -> None:
        """A view: linked now, or when that matters (Note [Links of views])."""
        is_hit = node.is_simple or node.outs is not None
        if is_hit and not HOT.makes_stub(node.window, node.meta, source):
            HOT.note_source(self._recorder, node, out, source)
        else:
            self._link_view(out, source)

    def _link_view(self, out: Any, source: Any) -> None:
        """Let a view share its source's storage, be it pending, and version."""
        recorder = self._recorder
        storage = source._storage
        if storage is None:
            storage = source._storage = recorder.backend.pending_storage()
        out._storage = storage
        version = source._vc
        out._vc = version
        window = recorder.node.window
        if window is not DETACHED:  # detach() makes an alias that is nobody's view, and never joins the graph
            base = source._base
            out._base = source if base is None else base
            out._view_version = version[VERSION]
            if not out._requires_grad and out._base._requires_grad:
                recorder.stubs.unlinked.append(ref(out))
            if base is not None or window is not TRACKED:
                out._creation_meta = recorder.backend.creation_meta_of(source, window is SEVERAL)
        slots = recorder.slots
        slot = slots.get(id(storage))
        if slot is None:
            slot = slots[id(storage)] = Slot(storage, ref(source), source._vid)
            storage.tid = recorder.tid
        self._add(slot, out)

    def take_over(self, handle: Any) -> None:
        """The user gets ``handle``, of another class, instead of a result of this call that it was copied from."""
        self._recorder.handles.append(handle)
        slot = self._recorder.slots.get(id(handle._storage))
        if slot is not None and handle._storage is not None:
            self._add(slot, handle)

    def note_window(self, whole: Any) -> None:
        """A window on a tensor's memory is known by a value id of its own from here on, though no handle looks at it.

        A Node has saved it: what its backward reads must be read before the memory is written.
        """
        storage, slots = whole._storage, self._recorder.slots
        slot = slots.get(id(storage))
        if slot is None:
            slot = slots[id(storage)] = Slot(storage, ref(whole), whole._vid)
            storage.tid = self._recorder.tid
        slot.older = slot.older or []  # no handle, but writes must ask
        slot.is_shared = True

    def _add(self, slot: Slot, handle: Any) -> None:
        """One more handle looks at a storage."""
        if slot.others is None:
            slot.others = []
            self._recorder.viewed.append(slot)
        slot.others.append(ref(handle))

    def age_views(self, base: Any) -> None:
        """The base has become a leaf: views from before its last write read it, as the graph sees it."""
        for view in self.lookers(base):
            if view._base is base and view._view_version != version_of(view):
                view._tid = -self._recorder.tid

    def seen_values(self, tensor: Any) -> list[int]:
        """The values in a tensor's storage that a write to the tensor makes stale: those under its version counter.

        A write through ``.data`` counts for nobody else, as in PyTorch.
        """
        slot = self._recorder.slots.get(id(tensor._storage))
        if slot is None:
            return [tensor._vid]
        home = slot.home() if type(slot.home) is ref else slot.home
        seen = [tensor._vid, *(h._vid for h in slot.live() if h._vc is tensor._vc)]
        # after a write through ``.data`` a tensor has another id, but a Node that saved it knows the old one
        seen += [vid for vid, known in self._recorder.inputs.items() if known._vc is tensor._vc]
        return [slot.owner, *seen] if home is None or home._vc is tensor._vc else seen

    def owner_of(self, tensor: Any, vid: int) -> int:
        """The value id that has ``tensor``'s storage in ``buffers``; ``vid`` if nothing was written to it yet."""
        recorder, history = self._recorder, self._path.live()
        storage, slots = tensor._storage, recorder.slots
        slot = slots.get(id(storage))
        if slot is None:
            slot = slots[id(storage)] = Slot(storage, ref(tensor), vid)
            storage.tid = recorder.tid
        buffers = recorder.buffers
        if id(storage) in recorder.dirty:
            # the open segment writes to it: by another id there would be two writes to one storage, in any order. The
            # slot may not know the id: hits have no need of it
            for owner in history.writes:
                if _is_memory_of(buffers.get(owner), storage):
                    return owner
        elif buffers.get(vid) is storage and not history.is_open(vid):
            # the id that the write reads: by another one, codegen would not see that they share memory
            slot.owner = vid
        if buffers.get(slot.owner) is not storage or history.is_open(slot.owner):
            # hits move a handle's value id on, with or without a slot: look for the id that has the memory
            # (by its address: a saved value's second handle may have a storage object of its own), but not for one
            # that the open segment has just given it
            known = (v for v, s in buffers.items() if _is_memory_of(s, storage))
            slot.owner = next((v for v in known if not history.is_open(v)), slot.owner)
        return history.canonical(slot.owner)

    def forget(self, tensor: Any) -> None:
        """Take the stamps off every handle of a tensor's storage, so that the next use enters it again."""
        recorder = self._recorder
        storage, slots, former = tensor._storage, recorder.slots, recorder.counters.former
        slot = slots.pop(id(storage), None)
        if slot is not None and (slot.is_family or recorder.backend.root_of(slot.storage) is not slot.storage):
            for key in [k for k, s in slots.items() if s is slot]:
                del slots[key]
        if slot is not None:
            former.setdefault(id(storage), set()).add(slot.owner)
        for handle in (*slot.live(), tensor) if slot is not None else (tensor,):
            if handle._tid == recorder.tid:
                former.setdefault(id(storage), set()).add(handle._vid)
            handle._tid = 0


def _is_memory_of(other: Any, storage: Any) -> bool:
    """Whether a storage object is, or stands for, the memory of another one."""
    return other is storage or (other is not None and other.addr == storage.addr != 0)


class Stubs:
    """Views of tensors that require grad, made in no_grad mode or before those did. Their gradient goes nowhere.

    Attributes:
        unlinked: weak references to those that were made since grad mode was on last.
        views: weak references to those that require grad; until the call ends, their flag identifies them.
    """

    __slots__ = ("_recorder", "unlinked", "views")

    unlinked: list[ref[Any]]
    views: list[ref[Any]]

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.unlinked = []
        self.views = []

    def give(self) -> None:
        """Grad mode is on: those that somebody holds require grad."""
        recorder = self._recorder
        views = self.unlinked[:]
        self.unlinked.clear()
        ours = set(map(id, recorder.handles))
        for reference in views:
            view = reference()
            if view is None or (id(view) in ours and references(view) <= ONE_LOCAL + 1):
                continue  # nobody but ``handles`` holds it
            if view._tid == recorder.tid and not view._requires_grad and view.requires_grad:
                recorder.path.mark((STUB, view._vid))
                recorder.entry.outer[view._vid] = (None, 0)
                view._requires_grad = True
                self.views.append(reference)

    def add_views_of(self, base: Any) -> None:
        """The base has become a leaf: views that nobody has written since require grad, but have no history."""
        recorder = self._recorder
        views = [v for v in recorder.aliases.lookers(base) if v._base is base and v._tid == recorder.tid]
        self.unlinked.extend([ref(v) for v in views if not v._requires_grad])
        views.clear()
        if self.unlinked and state.grad_enabled:
            self.give()

    def drop_views_of(self, base: Any) -> None:
        """The base is no leaf any more: neither do its views require grad."""
        for view in [v for v in [reference() for reference in self.views] if v is not None and v._base is base]:
            self.take(view)
            view._requires_grad = False

    def take(self, tensor: Any) -> bool:
        """Whether a tensor was one of them. It is none from here on: it becomes a leaf."""
        if not any(view() is tensor for view in self.views):
            return False
        self.views[:] = [view for view in self.views if view() is not tensor]
        del self._recorder.entry.outer[tensor._vid]
        return True

    def end(self) -> None:
        """The call is over."""
        for reference in self.views:
            view = reference()
            if view is not None:
                view._requires_grad = False

    def clear(self) -> None:
        """Know of none."""
        self.unlinked.clear()
        self.views.clear()
