"""Hits that have to do with views: their links, which of them survive, which share a storage.

Owns: these rules, once, in the subset of Note [Native Python].
Must not know: how a view's operation is found (``hits.py``).

# Note [Links of views]
# ~~~~~~~~~~~~~~~~~~~~~
# A recorded view shares storage, version counter and base with its source, and the storage's slot lists it (Note
# [Aliases in a trace]). Most views are used once and gone, and none of that is ever looked at. So a hit only notes the
# source: the four attributes stay unset, and the first read of one (``TensorBase.__getattr__``) links the view.
# A write, which must know which handles look at its target, links the views that are held before it asks; so a
# view's version is that of its making. The end of a segment lets go of the sources of views that nobody holds, youngest
# first, so that a source which only they held is not taken for a survivor, and links the others. Example: after
# ``h = x.t().reshape(-1)`` the first view is held by the second one's ``_source`` alone.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import held_elsewhere
from jitgrad.cpython.primitives import blank, inlined, native, optimized, refcount
from jitgrad.ops.aval import Aval
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase, install_link
from jitgrad.tracer.recording.keys import FRESH, PENDING, VIEW
from jitgrad.tracer.recording.recorder_state import RUNNING, RecorderState
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import DETACHED, SEVERAL, UNTRACKED, TrieNode

__all__ = ["all_living", "assignments", "catch_up", "find_living", "link_views", "living", "makes_stub", "meet_part",
           "memory_of", "note_source", "sharing"]  # fmt: skip


@native
def pending_storage() -> Any:
    """A storage without memory."""
    storage: StorageBase = blank(StorageBase.kind)
    storage.addr = 0
    storage.nbytes = 0
    storage.owner = None
    return storage


@native
def new_slot(storage: Any, home: Any, owner: Any) -> Any:
    """A slot that one handle looks at."""
    slot: Slot = blank(Slot)
    slot.storage = storage
    slot.home = home
    slot.owner = owner
    slot.others = None
    slot.older = None
    slot.is_shared = False
    slot.is_family = False
    return slot


@inlined
def memory_of(storage: StorageBase) -> Any:
    """The storage whose memory it is: of a window, the one that it is a part of."""
    return storage.owner if storage.is_window else storage


@native
def catch_up(recorder: RecorderState) -> None:
    """Enter into the tables what hits have only noted: hits need no tables, and most calls end without them."""
    entered: list = recorder.entered
    inputs: dict = recorder.input_table
    buffers: dict = recorder.buffer_table
    slots: dict = recorder.slot_table
    i: int = recorder.caught
    while i < len(entered):
        storage: StorageBase = entered[i + 1]
        vid = entered[i + 2]
        inputs[vid] = entered[i]
        buffers[vid] = storage
        if id(storage) not in slots:  # ``meet_part`` may have made it
            slot = new_slot(storage, entered[i], vid)
            slots[id(storage)] = slot
            if storage.is_window:
                slots[id(memory_of(storage))] = slot
        i += 3
    recorder.caught = len(entered)


@native
def meet_part(recorder: RecorderState, x: TensorBase, root: StorageBase) -> None:
    """An input looks at memory of other inputs, of which the first is at home there: ``Entry._enter_alias``."""
    storage: StorageBase = x._storage
    slots: dict = recorder.slot_table
    slot: Slot = slots.get(id(root))
    if slot is None:
        made = slot_of_inputs(recorder, root)
        slot = made
        slots[id(root)] = made
        slots[id(slot.storage)] = made
    if slot.storage is not storage:
        slot.is_family = True
        slots[id(storage)] = slot
    if slot.older is None:
        none: list = []
        slot.older = none
    older: list = slot.older
    older.append(ref(x))
    slot.is_shared = True


@native
def slot_of_inputs(recorder: RecorderState, root: StorageBase) -> Any:
    """A slot whose home is the first input that looks at some memory."""
    entered: list = recorder.entered
    at = 1
    while memory_of(entered[at]) is not root:
        at += 3
    return new_slot(entered[at], entered[at - 1], entered[at + 1])


@native
def slot_of(recorder: RecorderState, source: TensorBase, storage: StorageBase) -> Any:
    """The slot of a storage, made for a value of the trace that gets its first view."""
    if recorder.caught != len(recorder.entered):
        catch_up(recorder)
    slots: dict = recorder.slot_table
    known: Slot = slots.get(id(storage))
    if known is not None:
        return known
    slot: Slot = new_slot(storage, ref(source), source._vid)
    slots[id(storage)] = slot
    storage.tid = recorder.tid
    return slot


@native
def link_view(recorder: RecorderState, out: TensorBase, source: TensorBase) -> None:
    """Let a view share its source's storage, be it pending, and version."""
    storage: StorageBase = source._storage
    if storage is None:
        storage = pending_storage()
        source._storage = storage
    out._storage = storage
    counter: list = source._vc
    out._vc = counter
    if out._tracks:
        base = source._base
        if base is None:
            base = source
        out._base = base
        out._view_version = counter[0]
    elif source._base is not None and is_part(out, source._base):
        recorder.keepers.append(source._base)
    slot: Slot = slot_of(recorder, source, storage)
    if slot.others is None:
        slot.others = []
        recorder.viewed.append(slot)
    others: list = slot.others
    others.append(ref(out))


@native
def makes_stub(window: Any, meta: Any, source: TensorBase) -> bool:
    """Whether a view is made in no_grad mode of what requires grad: ``Aliases`` links it, and ``Stubs`` must know.

    ``window``, ``meta``: of its node.
    """
    if window is not UNTRACKED and (window is not SEVERAL or meta is not None):
        return False
    while source._source is not None and source._tracks:
        farther: TensorBase = source._source
        source = farther
    if source._requires_grad:
        return True
    base: TensorBase = source._base
    return base is not None and base._requires_grad


@native
def meta_of_mode(recorder: RecorderState) -> Any:
    """The ``_creation_meta`` of views that are made while no graph is."""
    thread: dict = recorder.thread
    return recorder.metas[1] if thread.get("inference_mode") is True else recorder.metas[0]


@inlined
def note_source(recorder: RecorderState, node: TrieNode, out: TensorBase, source: TensorBase) -> None:
    """A view is to be linked when that matters. Its source has a storage at once: others compare storages."""
    if source._source is None and source._storage is None:
        source._storage = pending_storage()
    out._source = source
    if node.window is not DETACHED:  # detach() makes an alias that is nobody's view
        out._tracks = True
        if node.window is SEVERAL or node.window is UNTRACKED:
            out._creation_meta = meta_of_mode(recorder) if node.meta is None else node.meta
        elif source._creation_meta is not None:  # then it is a view itself
            out._creation_meta = source._creation_meta
    if recorder.links is False:
        recorder.links = True


@native
def is_part(alias: TensorBase, whole: TensorBase) -> bool:
    """Whether an alias has not all elements of a value in their order, so that it cannot fill the storage itself."""
    part: Aval = alias._aval
    full: Aval = whole._aval
    return not part.is_contiguous or int(part.offset) != 0 or int(part.numel) != int(full.numel)


@native
def link(recorder: RecorderState, out: TensorBase) -> None:
    """Give a view what it gets from its source.

    A view of a view is one of the same base, so those between need no link of their own; but an alias by ``detach()``
    is a base itself, and is linked first.
    """
    source: TensorBase = out._source
    while source._source is not None and source._tracks:
        farther: TensorBase = source._source
        source = farther
    if source._source is not None:
        link(recorder, source)
    if not out._tracks and out._source is not source and is_part(out, source):
        recorder.keepers.append(source)  # nothing else of the alias leads to the value that fills the storage
    link_view(recorder, out, source)
    out._source = None


@native
def link_views(recorder: RecorderState) -> None:
    """Link the views that somebody holds. Of those made before the last time, none will be held that was not then."""
    recorder.links = False
    handles: list = recorder.handles
    i: int = recorder.linked
    while i < len(handles):
        handle = handles[i]
        view: TensorBase = handle
        if view._source is not None and refcount(handle) > 2:  # but for ``handle``: ``view`` and the list
            link(recorder, view)
        i += 1
    recorder.linked = len(handles)


def link_on_demand(view: Any) -> None:
    """Link a view whose attributes somebody looks at."""
    link(RUNNING[view._tid], view)


@inlined
def link_survivor(recorder: RecorderState, handle: TensorBase) -> None:
    """Link a view that is held: what it was made of may be held by it alone."""
    if handle._source is not None:
        link(recorder, handle)


@native
def drop_lonely_storage(recorder: RecorderState, handle: TensorBase) -> None:
    """A storage without memory that nobody else has was made for views, or for what is viewed, that are gone.

    The value needs none of that, no matter whether they were ever linked.
    """
    storage: StorageBase = handle._storage
    if storage is not None and int(storage.addr) == 0:
        slots: dict = recorder.slot_table
        if id(storage) not in slots:
            handle._storage = None
        elif refcount(storage) == 2:  # the handle and the slot
            slots.pop(id(storage))
            handle._storage = None


@inlined
def forget_source(handle: TensorBase) -> None:
    """A view that nobody holds holds nothing itself."""
    if handle._source is not None:
        handle._source = None
        return
    if handle._base is not None:
        handle._base = None
    storage: StorageBase = handle._storage
    if storage is not None and int(storage.addr) == 0:
        handle._storage = None


@native
def living(recorder: RecorderState) -> Any:
    """The handles of the segment that somebody besides the recorder holds; in order. See Note [Links of views]."""
    alive: list = []
    find_living(recorder, alive)
    return alive


@optimized
def find_living(recorder: RecorderState, alive: list) -> None:
    """Add them to an empty list."""
    handles: list = recorder.handles
    i = len(handles) - 1
    while i >= 0:
        handle = handles[i]
        if refcount(handle) > 1:
            alive.append(handle)
            link_survivor(recorder, handle)
        else:
            forget_source(handle)
        i -= 1
    for item in alive:  # now that nothing that is gone has a storage any more
        drop_lonely_storage(recorder, item)
    if len(alive) > 1:
        alive.reverse()
    recorder.links = False


def all_living(recorder: RecorderState) -> list[Any]:
    """``living`` where references are not counted."""
    for handle in recorder.handles:
        if handle._source is not None:
            link(recorder, handle)
        else:
            drop_lonely_storage(recorder, handle)
    recorder.links = False
    return held_elsewhere(recorder.handles)


@native
def assignments(alive: list) -> Any:
    """One per handle. Of the handles that share a storage without memory, the first that is no view fills it."""
    assign: list = []
    filled: set = set()
    for item in alive:
        handle: TensorBase = item
        storage: StorageBase = handle._storage
        how = VIEW
        if storage is None:
            how = FRESH
        elif handle._base is None and id(storage) not in filled and int(storage.addr) == 0:
            how = PENDING
            filled.add(id(storage))
        assign.append(how)
    return tuple(assign)


@optimized
def sharing(alive: list) -> Any:
    """``assignments``, or () where every handle gets a storage of its own: part of the key of a segment's end."""
    for handle in alive:
        held: TensorBase = handle
        if held._storage is not None:
            return assignments(alive)
    return ()


install_link(link_on_demand)
