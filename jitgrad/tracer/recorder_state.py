"""What hits read of a recorder.

Owns: ``RecorderState``: the slots of a recorder that native hits load, and the calls that are being recorded.
Must not know: what the tables mean: the parts of ``recorder.Recorder`` own that.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from jitgrad.dtypes import get_default_dtype
from jitgrad.handler import Handler
from jitgrad.state import state
from jitgrad.tracer.aliases import Stubs
from jitgrad.tracer.entry import Entry
from jitgrad.tracer.hot import HOT
from jitgrad.tracer.path import Path
from jitgrad.tracer.slots import Slot
from jitgrad.tracer.trie import Trie, TrieNode
from jitgrad.tracer.version_counters import VersionCounters

if TYPE_CHECKING:
    from jitgrad.tracer.backend import Backend

__all__ = ["LATEST", "RUNNING", "RecorderState", "new_tid"]

new_tid = itertools.count(1).__next__
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
        scalars: run-time scalars so far.
        graph: what escaping results hold on to.
        graphs: some that may serve other calls, once nothing holds on to them.
        thread: the dictionary of ``state`` on the thread that records the call.
        trie, root, start: of the function; where this call began, and with which grad mode and default dtype.
        has_dropped: handles of the open segment have left ``handles``, see Note [Nodes that die].
        must_record: the call may not stop recording, and has_stopped: it did, see Note [Long calls].
        segments, launches: counters of this call.
        entered: of ``Entry``: (tensor, storage, value id), flat, of what hits have entered; ``catch_up`` moves it on to
            the tables.
        caught: of ``Entry``: how much of ``entered`` is in the tables.
        input_table, buffer_table: of ``Entry``: what ``inputs`` and ``buffers`` are when hits have been caught up with.
        slot_table: of ``Aliases``: what ``slots`` is when hits have been caught up with.
        viewed: of ``Aliases``: slots that got views since the last segment's end.
        links: of ``Aliases``: some view of this segment may not be linked yet, see Note [Links of views].
        learns: a function runs whose call is to be remembered, see Note [Remembered calls]; learned: how many have.
        keepers: of ``Aliases``: values that must be stored because an alias of a part of them may be held.
        dirty: of ``Writes``: ids of the storages that the segment's end writes.
        counted_twice: of ``VersionCounters``: id -> storage, of those with several counters.
        picks: of ``Picks``: the parts that are followed.
        path, entry, counters, stubs: parts that hits look at when a segment or a call ends.
    """

    __slots__ = (
        "backend",
        "buffer_table",
        "busy",
        "caught",
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
        "links",
        "must_record",
        "node",
        "path",
        "picks",
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

    buffer_table: dict[int, Any]
    busy: bool
    caught: int
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
    links: bool
    must_record: bool
    node: TrieNode
    path: Path
    picks: list[Any]
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
        self.start = (state.grad_enabled, get_default_dtype())
        self.root = self.node = trie.root(self.start)
        self.tid = new_tid()
        self.thread = state.__dict__
        self.handles = []
        self.entered = []
        self.caught = 0
        self.input_table = {}
        self.buffer_table = {}
        self.scalars = []
        self.segments = self.launches = self.learned = 0
        self.must_record = self.has_stopped = self.has_dropped = self.learns = self.links = self.busy = False
        self.slot_table = {}
        self.dirty = set()
        self.viewed = []
        self.picks = []
        self.keepers = []
        self.counted_twice = {}
        self.graph = backend.new_graph(self)
        self.graphs = [self.graph]

    def forget_graph(self) -> None:
        """The graph has left with the tables of the call: have others."""
        graph = self.graph
        self.graph = made = self.backend.new_graph(self)
        self.graphs[:] = [made if other is graph else other for other in self.graphs]
        self.buffer_table, self.entry.outer = {}, {}

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
        if self.path.misses or self.graph.tip is not None:
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
        self.counters.former.clear()
        self.path.history = None
        self.stubs.clear()
        self.must_record = self.has_dropped = self.busy = False
        self.segments = self.launches = 0
        return True
