"""Which handles look at which storage.

Owns: ``Slot``, which kind of input a tensor is, and second handles on a value.

# Note [Aliases in a trace]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# Values are immutable; storages are not. ``slots`` lists, per storage, the handles of this call that look at it.
# A write to a storage that one handle (or several with the very same window) looks at is recorded: those handles move
# on to the new value, and the segment's end writes it into the storage, once.
# A write through a view v of a base b (``window_writes.py``) is v' = op(v, ..) and b' = copy_slices(b, v'). In the
# graph the two are one ``CopySlices``, as eager execution makes it (Note [In-place on views]); where the base is part
# of the graph, v goes on as a window of b'. Other views of b, after this or a write to b itself, are looked at afresh:
# their stamp is negated, and the next use of one, or the next look at its graph, gives it a new id,
# strided_window(b'). So a view that nobody uses costs nothing, and a Node is as old as in eager execution, which makes
# it at that moment too. What codegen makes of chains of such writes, and that a window of a large storage from outside
# is stored by itself, is Note [Updates].
# Some writes are not worth modelling: the segment ends there and the write is done eagerly, on the real memory. These
# are writes through a view that no slices of its base's dimensions reach (``ops/views/regions.py``), or whose base the
# call has not met; through views that retain their gradient; where some other view is a leaf; to memory that a graph
# saves under another version counter (Note [Several version counters]); and those whose gradient changes its dtype.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references
from jitgrad.ops.aval import Aval
from jitgrad.ops.views.regions import region_of
from jitgrad.tensor_base import new_tensor
from jitgrad.tracer.recording.keys import EXTERNAL, HOOKED, LEAF, PLAIN, InputKind
from jitgrad.version_counter import version_of

__all__ = [
    "Slot",
    "can_look_afresh",
    "fresh_handle",
    "has_node",
    "input_kind",
    "looks_refused",
    "twin_of",
]

def input_kind(tensor: Any) -> InputKind:
    """What part a tensor has in the graph."""
    if not tensor._requires_grad:
        return PLAIN
    if not tensor.is_leaf:
        return EXTERNAL
    if tensor._hooks or tensor._post_accumulate_hooks or _is_node_hooked(tensor):
        return HOOKED
    return LEAF


def looks_refused(tensor: Any) -> bool:
    """Whether a view's base was written, and how the view was made allows it no new Node: eager execution says so."""
    return tensor._creation_meta is not None and tensor._view_version != version_of(tensor)


def can_look_afresh(view: Any, base: Any) -> bool:
    """Whether a view may be left as it is while its base is written, and be read out of the base when it is used."""
    if view._vc is not base._vc or view._view_version is None or view._retains_grad:
        return False
    is_leaf = view._requires_grad and not has_node(view)
    return not is_leaf and region_of(base._aval, view._aval) is not None


def has_node(tensor: Any) -> bool:
    """``not is_leaf`` of a tensor that requires grad, without a look at what its base has become."""
    return tensor._graph is not None or tensor._grad_fn is not None


def _is_node_hooked(leaf: Any) -> bool:
    """Whether the leaf's accumulator carries hooks of its own."""
    if leaf._accumulator is None:
        return False
    node = leaf._accumulator()
    if node is None:
        leaf._accumulator = None  # it died with its graph: native hits need not ask again
        return False
    hooks = node.hooks
    return hooks is not None and bool(hooks.pre or hooks.post)


class Slot:
    """The handles of a call that look at one storage. None but an input is kept alive by it.

    Attributes:
        storage: the storage, kept alive because slots are found by its ``id``.
        owner: the value id that has the storage in ``buffers``.
        home: the first handle: an input, or a weak reference to a value of the trace.
        is_shared: more than one value id has the storage in ``buffers``.
        is_family: its handles look at the memory through several storages, see Note [Batches of a data set].
        others: weak references to handles made since the last segment's end; None while there are none.
        older: the same, from before.
    """

    __slots__ = ("home", "is_family", "is_shared", "older", "others", "owner", "storage")

    home: Any
    is_family: bool
    is_shared: bool
    older: list[Any] | None
    others: list[Any] | None
    owner: int
    storage: Any

    def __init__(self, storage: Any, home: Any, owner: int) -> None:
        self.storage = storage
        self.home = home
        self.owner = owner
        self.others = None
        self.older = None
        self.is_shared = False
        self.is_family = False

    def add_older(self, tensor: Any) -> None:
        """A tensor from outside looks at the storage too."""
        if self.older is None:
            self.older = []
        self.older.append(ref(tensor))
        self.is_shared = True

    def settle(self) -> None:
        """A segment has ended: the views that are left are windows on memory from here on."""
        self.older = [r for r in (*(self.older or ()), *(self.others or ())) if r() is not None]
        self.others = None
        self.is_shared = True

    def drop_idle(self) -> None:
        """After a write: forget the views that nothing but the segment's list of handles holds.

        No statement can use them any more, and the event of the write knows their values. Else each write to a part
        would look at the parts of all writes before it.
        """
        if self.others:
            kept = []
            for reference in self.others:
                view = reference()
                if view is not None and references(view) > ONE_LOCAL + 1:
                    kept.append(reference)
            self.others = kept

    def live(self) -> list[Any]:
        """The handles that still exist."""
        home = self.home() if type(self.home) is ref else self.home
        handles = [] if home is None else [home]
        for group in (self.others, self.older):
            if group:
                handles += [h for h in [r() for r in group] if h is not None]
        return handles


def fresh_handle(aval: Aval, storage: Any, tid: int = 0, vid: int = -1) -> Any:
    """A handle outside any graph, stamped for a trace if there is one."""
    handle = new_tensor(aval, storage)
    handle._tid, handle._vid = tid, vid
    return handle


def twin_of(handle: Any) -> Any:
    """A second handle on the value of a handle, outside any graph, under the same version counter."""
    twin = fresh_handle(handle._aval, handle._storage, handle._tid, handle._vid)
    twin._vc = handle._vc
    if handle._base is not None and not handle._storage.addr:
        twin._base = handle._base  # whose memory it will be a window on
    return twin
