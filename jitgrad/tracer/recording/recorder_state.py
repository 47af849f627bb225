"""What hits read of a recorder.

Owns: ``RecorderState``: the slots of a recorder that native hits load; the calls that are being recorded, and what
they do to each other's tensors.
Must not know: what the tables mean: the parts of ``recorder.Recorder`` own that.

# Note [Threads that share tensors]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A tensor has room for one stamp, and calls on several threads may meet it at a time. Calls that only read it put their
# stamps on it in turn; a call that finds another's stamp enters the tensor again, and its tables say which value that
# is. What a call has read of its own stamp stays true, so it reads ``_vid`` and ``_tid`` in one expression, or ``_tid``
# last: Python switches threads at calls and jumps back, never inside of ``x._vid if x._tid == tid``.
# A write moves value ids on, and what it writes is in memory only when its segment has ended. So a storage that a call
# writes must be its own as long as that segment is open. Each call notes which storages it has met (``met``), and which
# it is about to write (``claims``), and then looks at what the others have noted: of two calls at least one sees the
# other, and raises ``RuntimeError`` (``errors.OTHER_THREAD``). Gradients of leaves are claimed like storages. Calls
# whose inputs see bytes of one storage that are apart, as rows of one table, do not meet.
# Example: two threads call one training step. Both have met the weights; the first optimizer's step to come raises.
# What no call records, eager operations and reads of values, asks too (``looks_at``), while some other thread records:
# it writes nothing that a call has met, and reads neither what an open segment writes nor what it has yet to compute.
# It waits for the segment's end, a moment, and then raises: the call may itself be waiting for this thread.
# A call that is alone (``LATEST``) notes nothing in its native hits, which no other thread can interrupt: they leave
# its stamp on the storage, and its id in ``dirty``. A call that begins later and finds that stamp notes the storage in
# the other call's ``met``. Hits of writes are for calls that are alone; the same hits in Python's form claim, too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jitgrad.cpython.primitives import blank, native
from jitgrad.devices import CPU
from jitgrad.dtypes import get_default_dtype
from jitgrad.errors import OTHER_THREAD, STILL_RECORDED
from jitgrad.handler import Handler
from jitgrad.ops.aval import last_position
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.aliases import Aliases, Stubs
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.entry import Entry
from jitgrad.tracer.recording.hot import HOT
from jitgrad.tracer.recording.path import Path
from jitgrad.tracer.recording.slots import Slot
from jitgrad.tracer.recording.trie import Trie, TrieNode
from jitgrad.tracer.recording.version_counters import VersionCounters

if TYPE_CHECKING:
    from jitgrad.tracer.recording.backend import Backend

__all__ = [
    "LATEST", "RUNNING", "TIDS", "RecorderState", "looks_at", "new_graph", "new_tid", "sets_grad", "wait_for_memory",
]  # fmt: skip

_PATIENCE_S = 5.0
"""So long eager code waits for the segment of another thread's call to end: its kernels run, or are being compiled."""

_PAUSE_S = 0.0002

TIDS = itertools.count(1)
"""The stamps of calls."""

new_tid = TIDS.__next__
"""The stamp of another call."""


RUNNING: dict[int, Any] = {}
"""Stamp -> recorder, of the calls that are being recorded, on all threads."""

LATEST: list[int] = [0]
"""The stamp of the one call that is being recorded; 0 if another one has begun meanwhile.

Two calls at a time may put their stamps on one tensor in turn. Then a tensor that a call has met looks new to it, so
each call asks its tables, as ``Entry.enter`` does.
"""


class RecorderState(Handler):
    """What hits read of one call.

    Hits read most of this at every operation, so it is one load away from the recorder. What a table means is a part's
    affair.

    Attributes:
        tid: stamps of this call carry it.
        node: where the path has got to.
        handles: results since the last segment's end, in order; see ``SegmentEnd``.
        busy: its state is being changed, see Note [Interrupts].
        met: id -> storage, of the memory that the call has met in the general way; see Note [Threads that share
            tensors]. Also ``_of_leaf`` -> leaf, of those in ``claims``.
        claims: ids of the memory that the open segment writes, and ``_of_leaf`` of leaves whose gradients it sets; see
            there.
        scalars: run-time scalars so far.
        graph: what escaping results hold on to.
        graphs: some that may serve other calls, once nothing holds on to them.
        metas: ``Backend.metas_without_grad``.
        thread: the dictionary of ``state`` on the thread that records the call.
        trie, root, start: of the function; where this call began, and with which grad mode and default dtype.
        has_dropped: handles of the open segment have left ``handles``, see Note [Nodes that die].
        must_record: the call may not stop recording, and has_stopped: it did, see Note [Long calls].
        segments, launches: counters of this call.
        program_began, program_ended: of the last program that ran while ``probe.stamps`` was there; nanoseconds.
        entered: of ``Entry``: (tensor, storage, value id), flat, of what hits have entered; ``catch_up`` moves it on to
            the tables.
        caught: of ``Entry``: how much of ``entered`` is in the tables.
        input_table, buffer_table: of ``Entry``: what ``inputs`` and ``buffers`` are when hits have been caught up with.
        slot_table: of ``Aliases``: what ``slots`` is when hits have been caught up with.
        viewed: of ``Aliases``: slots that got views since the last segment's end.
        links: of ``Aliases``: some view of this segment may not be linked yet, see Note [Links of views].
        linked: of ``Aliases``: how many of ``handles``, from the first on, no write has to look at for such views.
        learns: a function runs whose call is to be remembered, see Note [Remembered calls]; learned: how many have.
        keepers: of ``Aliases``: values that must be stored because an alias of a part of them may be held.
        dirty: of ``Writes``: ids of the storages that the segment's end writes.
        counted_twice: of ``VersionCounters``: id -> storage, of those with several counters.
        picks: of ``Picks``: the parts that are followed.
        alive, made: lists that a hit of a segment's end fills and empties: handles that get storages, and these.
        aliases, path, entry, counters, stubs: parts that hits look at when a segment or a call ends.
    """

    __slots__ = (
        "aliases",
        "alive",
        "backend",
        "buffer_table",
        "busy",
        "caught",
        "claims",
        "counted_twice",
        "counters",
        "dirty",
        "entered",
        "entry",
        "graph",
        "graphs",
        "handles",
        "has_dropped",
        "has_stopped",
        "input_table",
        "keepers",
        "launches",
        "learned",
        "learns",
        "linked",
        "links",
        "made",
        "met",
        "metas",
        "must_record",
        "node",
        "path",
        "picks",
        "program_began",
        "program_ended",
        "root",
        "scalars",
        "segments",
        "slot_table",
        "start",
        "stubs",
        "thread",
        "tid",
        "trie",
        "viewed",
    )

    aliases: Aliases
    alive: list[Any]
    buffer_table: dict[int, Any]
    busy: bool
    caught: int
    claims: set[int]
    counted_twice: dict[int, Any]
    counters: VersionCounters
    dirty: set[int]
    entered: list[Any]
    entry: Entry
    graph: Any
    graphs: list[Any]
    handles: list[Any]
    has_dropped: bool
    has_stopped: bool
    input_table: dict[int, Any]
    keepers: list[Any]
    launches: int
    learned: int
    learns: bool
    linked: int
    links: bool
    made: list[Any]
    met: dict[int, Any]
    metas: tuple[Any, Any]
    must_record: bool
    node: TrieNode
    path: Path
    picks: list[Any]
    program_began: int
    program_ended: int
    root: TrieNode
    scalars: list[int | float]
    segments: int
    slot_table: dict[int, Slot]
    start: tuple[bool, Any]
    stubs: Stubs
    thread: dict[str, Any]
    tid: int
    trie: Trie
    viewed: list[Slot]

    def __init__(self, trie: Trie, backend: Backend) -> None:
        self.trie = trie
        self.backend = backend
        self.metas = backend.metas_without_grad
        self.start = (state.grad_enabled, get_default_dtype())
        self.root = self.node = trie.root(self.start)
        self.tid = new_tid()
        self.thread = state.__dict__
        self.handles = []
        self.alive, self.made = [], []
        self.entered = []
        self.caught = self.linked = 0
        self.input_table = {}
        self.buffer_table = {}
        self.scalars = []
        self.segments = self.launches = self.learned = self.program_began = self.program_ended = 0
        self.must_record = self.has_stopped = self.has_dropped = self.learns = self.links = self.busy = False
        self.slot_table = {}
        self.dirty = set()
        self.met = {}
        self.claims = set()
        self.viewed = []
        self.picks = []
        self.keepers = []
        self.counted_twice = {}
        self.graph = new_graph(self)
        self.graphs = [self.graph]

    @property
    def inputs(self) -> dict[int, Any]:
        """Value id -> tensor, for what came from outside (and leaves made inside)."""
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.input_table

    @property
    def buffers(self) -> dict[int, Any]:
        """Value id -> storage, for what has memory."""
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.buffer_table

    @property
    def slots(self) -> dict[int, Slot]:
        """id of a storage -> the handles that look at it, see Note [Aliases in a trace]."""
        if self.links:
            HOT.link_views(self)
        if self.caught != len(self.entered):
            HOT.catch_up(self)
        return self.slot_table

    def catch_up(self) -> None:
        """Have everything that was entered in the tables."""
        HOT.catch_up(self)

    # --- other threads, see Note [Threads that share tensors] ---

    def others(self) -> list[RecorderState]:
        """The calls that other threads are recording."""
        return calls_elsewhere(self.thread) if len(RUNNING) > 1 else []

    def meet(self, tensor: Any, storage: Any, root: Any) -> None:
        """Note that the call enters a tensor.

        Raises:
            RuntimeError: a call on another thread is about to write its memory.
        """
        key = id(root)
        is_new = key not in self.met
        self.met[key] = root
        for other in self.others():
            if other.tid in (abs(tensor._tid), storage.tid, root.tid):
                other.met[key] = root
            is_written = key in other.claims or other.is_writing(storage, root)
            if is_written and _overlap(_bytes_of(tensor), other.extent(root)):
                if is_new:
                    del self.met[key]
                raise RuntimeError(OTHER_THREAD)
            if other.is_unmade(tensor):  # or another thread stands between two statements that stamp it
                _wait_while(lambda call=other: STILL_RECORDED if call.is_unmade(tensor) else None)  # type: ignore[misc]

    def is_unmade(self, tensor: Any) -> bool:
        """Whether a tensor is a value of this call that is not in memory yet."""
        if abs(tensor._tid) != self.tid:
            return False
        if tensor._vid in self.entered[2::3]:
            return False
        return self.busy or tensor._vid not in self.buffer_table  # busy: perhaps with the segment that computes it

    def objection(self, tensor: Any, is_written: bool) -> str | None:
        """Why eager code of another thread may not look at a tensor now, or write it; None: it may."""
        storage = tensor._storage
        root = None if storage is None else self.backend.root_of(storage)
        if root is None:
            is_taken = False
        elif is_written:
            is_taken = id(root) in self.met or self.tid in (abs(tensor._tid), storage.tid, root.tid)
        else:
            is_taken = id(root) in self.claims or self.is_writing(storage, root)
        if is_taken and _overlap(_bytes_of(tensor), self.extent(root)):
            return OTHER_THREAD
        return STILL_RECORDED if self.is_unmade(tensor) else None

    def is_writing(self, storage: Any, root: Any) -> bool:
        """Whether hits have recorded a write to a storage, or to a window of the same memory."""
        if not self.dirty:
            return False
        slot = self.slot_table.get(id(root))
        return any(id(s) in self.dirty for s in (storage, root, root if slot is None else slot.storage))

    def claim(self, storage: Any) -> None:
        """Have a storage for this call as long as the segment is open, which writes it.

        Raises:
            RuntimeError: a call on another thread has met it.
        """
        root = self.backend.root_of(storage)
        stamps = (storage.tid, root.tid)

        def is_taken(other: RecorderState) -> bool:
            has_met = id(root) in other.met or other.tid in stamps
            return has_met and _overlap(self.extent(root), other.extent(root))

        self._claim(id(root), is_taken)

    def extent(self, root: Any) -> tuple[int, int] | None:
        """From the first to the last byte of a storage that inputs of the call see; None: it is not known which."""
        inputs = (*self.input_table.values(), *self.entered[::3])
        seen = [_bytes_of(x) for x in inputs if x._storage is not None and self.backend.root_of(x._storage) is root]
        return (min(begin for begin, _ in seen), max(end for _, end in seen)) if seen else None

    def claim_grad(self, leaf: Any) -> None:
        """Have a leaf's gradient for this call, which sets it.

        Raises:
            RuntimeError: a call on another thread has set it.
        """
        key = _of_leaf(leaf)
        self.met[key] = leaf  # what stands in for a leaf while a backward is recorded goes, and another gets its id
        self._claim(key, lambda other: other.has_set_grad(leaf))

    def has_set_grad(self, leaf: Any) -> bool:
        """Whether the call has given a leaf its gradient, or is about to do so."""
        grad = leaf._grad
        return _of_leaf(leaf) in self.claims or (grad is not None and not grad.is_sparse and abs(grad._tid) == self.tid)

    def _claim(self, key: int, is_taken: Callable[[RecorderState], bool]) -> None:
        is_new = key not in self.claims
        self.claims.add(key)
        if any(is_taken(other) for other in self.others()):
            if is_new:
                self.claims.discard(key)
            raise RuntimeError(OTHER_THREAD)

    def begin(self, tid: int) -> None:
        """Start a call with a recorder that is new, or that ``rest`` has emptied."""
        self.tid = tid
        self.busy = self.learns = False
        self.thread = state.__dict__
        self.thread.setdefault("grad_enabled", True)  # hits look for it there
        grad_enabled, dtype = self.start
        if state.grad_enabled is not grad_enabled or get_default_dtype() is not dtype:
            self.start = (state.grad_enabled, get_default_dtype())
            self.root = self.trie.root(self.start)
        self.node = self.root
        self.graph.begin(self)

    def rest(self) -> bool:
        """Let go of what the call held. False if an escaped graph still needs it: no call may use this again."""
        if self.path.misses or self.has_stopped or self.graph.tip is not None:
            return False
        self.entered.clear()
        self.caught = 0
        self.input_table.clear()
        self.buffer_table.clear()
        self.slot_table.clear()
        self.scalars.clear()
        self.entry.outer.clear()
        self.viewed.clear()
        self.picks.clear()
        self.keepers.clear()
        self.counted_twice.clear()
        self.met.clear()
        self.claims.clear()
        self.counters.former.clear()
        self.path.history = None
        self.stubs.clear()
        self.must_record = self.has_dropped = self.busy = False
        self.segments = self.launches = 0
        return True


@native
def new_graph(recorder: RecorderState) -> Any:
    """The graph of a recorder's next call; what is not set here is as ``CallGraph`` says."""
    graph: CallGraph = blank(CallGraph.kind)
    graph.recorder = recorder
    graph.trie = recorder.trie
    graph.tid = recorder.tid
    graph.backend = recorder.backend
    return graph


def _bytes_of(tensor: Any) -> tuple[int, int]:
    """Addresses of the first byte that a tensor sees, and of the end of the last one."""
    aval, start = tensor._aval, tensor._storage.addr
    return start + aval.offset * aval.dtype.itemsize, start + (last_position(aval) + 1) * aval.dtype.itemsize


def _of_leaf(leaf: Any) -> int:
    """What stands for a leaf among claims: no id of memory, for memory may have gone whose id a new leaf got."""
    return ~id(leaf)


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])


def calls_elsewhere(thread: dict[str, Any]) -> list[RecorderState]:
    """The calls that are being recorded, but for those of the thread whose state this is."""
    calls = RUNNING.copy()  # at once: a collection within ``tuple(...)`` lets another thread begin or end a call
    return [call for tid, call in calls.items() if call.tid == tid and call.thread is not thread]


def looks_at(operands: Sequence[Any], *, is_written: bool = False) -> None:
    """Eager code is about to look at operands, or to write them: it waits a moment for calls on other threads.

    Raises:
        RuntimeError: such a call has yet to compute one of them, or writes it, or reads what would be written; it did
            not end its segment within ``_PATIENCE_S``.
    """
    _wait_while(lambda: _objection(operands, is_written))


def wait_for_memory(tensor: Any) -> None:
    """``looks_at`` one tensor; RuntimeError if it has no memory, which a call on another thread has yet to give it."""
    if RUNNING:
        looks_at((tensor,))
    if tensor._storage is None:
        raise RuntimeError(STILL_RECORDED)


def _wait_while(objection: Callable[[], str | None]) -> None:
    """Come back once nothing stands against it; RuntimeError if that takes longer than ``_PATIENCE_S``."""
    end = 0.0
    while (why := objection()) is not None:
        end = end or time.monotonic() + _PATIENCE_S
        if time.monotonic() > end:
            raise RuntimeError(why)
        time.sleep(_PAUSE_S)


def _objection(operands: Sequence[Any], is_written: bool) -> str | None:
    for call in calls_elsewhere(state.__dict__):
        for x in operands:
            if isinstance(x, TensorBase) and x._aval.device is CPU and not x.is_sparse:
                why = call.objection(x, is_written)
                if why is not None:
                    return why
    return None


def sets_grad(leaf: Any) -> None:
    """``leaf.grad`` is about to be assigned, by a compiled step or outside one.

    Raises:
        RuntimeError: a call on another thread has set it, see Note [Threads that share tensors].
    """
    if not RUNNING:
        return
    handler = state.handler
    call = None if handler is None else RUNNING.get(handler.tid)
    if call is not None:
        call.claim_grad(leaf)
    else:
        _wait_while(lambda: _objection_to_grad(leaf))


def _objection_to_grad(leaf: Any) -> str | None:
    return OTHER_THREAD if any(call.has_set_grad(leaf) for call in calls_elsewhere(state.__dict__)) else None
