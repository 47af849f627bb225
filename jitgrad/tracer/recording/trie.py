"""The trie of recorded events.

Owns: ``TrieNode``, ``Trie`` and its bound.
Must not know: what events mean (``events``), tensors, programs.

# Note [Trace trie]
# ~~~~~~~~~~~~~~~~~
# A trace is a path. Each node is one event after its parent's; the key says everything that could make the event
# different (design: operation, operand ids, static params, layouts, grad mode by position, ...). A hit moves down with
# one dict look-up and builds nothing but a handle. A miss adds a child; before the first miss of a call, the history
# of the path so far is rebuilt from the nodes' own events (``history.History.replay``), so nothing is run twice.
# Value ids are numbered along the path: every call that takes the path gives the same value the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any
from weakref import WeakValueDictionary

from jitgrad.cpython.primitives import blank, once_per_call
from jitgrad.events import bump

__all__ = [
    "DETACHED",
    "MAX_CALL_EVENTS",
    "SEVERAL",
    "TRACKED",
    "UNTRACKED",
    "Trie",
    "TrieNode",
    "ViewKind",
    "forget_calls",
    "new_node",
]

MAX_CALL_EVENTS = 1024
"""How many events a call that is remembered may have, see Note [Remembered calls]."""


class ViewKind(IntEnum):
    """What a view is to the graph; compare with ``is``."""

    DETACHED = 0
    """An alias that is nobody's view, or no view at all."""
    TRACKED = 1
    UNTRACKED = 2
    """It was made in no_grad mode."""
    SEVERAL = 3
    """One of many that an operation makes."""


DETACHED, TRACKED, UNTRACKED, SEVERAL = ViewKind


Bounds = tuple[int, int, int, int, int, int, int]
"""Of an operand: its position, the bytes before its first value, how many there are, the range, what else is fine, -1.
Of an older value that an operand came from: -1, then the same, and its id at the end."""


class TrieNode:
    """One recorded event.

    Attributes:
        calls: what calls of functions that began here have done, see Note [Remembered calls]; None: nothing is known.
        children: key -> next event.
        parent: the event before; None at a root.
        key: under which the parent holds this node.
        event: what happened, for replays.
        vid, aval, requires_grad: of the (first) result, for events that make one.
        param_types: types of the params, where equal params of other types would mean something else.
        next_vid, next_scalar: first unused value id and run-time scalar slot after this event.
        masks: number-blind key -> which numbers are run-time scalars, see Note [Number promotion].
        seen: number-blind key -> (the numbers last recorded here, the key of the child they led to).
        window: for a view: what it is to the graph.
        writes: of an in-place operation that is a hit without further ado: the value ids that its targets get.
        tick: when a call last ended here.
        depth: number of events on the path.
        last, first, sibling: the child taken last, the first child, the parent's next one: what hits look at.
        op, ids, params: the key in the form that hits compare, see ``hits.py``.
        is_simple, is_view: whether a hit may make the result by itself, and whether that is a view.
        outs: (value id, aval, whether it requires grad) per result, if a hit may make several; else None.
        bounds: of an operation that checks few values, ``Bounds`` per operand that a hit looks at; else None.
        outside: of the end of a call: what is known of a backward from outside (``CallBackward``), False if there is
            none of that kind, None while nobody has asked.
        meta: for several views, their ``_creation_meta``.
    """

    __slots__ = (
        "aval",
        "bounds",
        "calls",
        "children",
        "depth",
        "event",
        "first",
        "ids",
        "is_simple",
        "is_view",
        "key",
        "last",
        "masks",
        "meta",
        "next_scalar",
        "next_vid",
        "op",
        "outs",
        "outside",
        "param_types",
        "params",
        "parent",
        "requires_grad",
        "seen",
        "sibling",
        "tick",
        "vid",
        "window",
        "writes",
    )

    NATIVE_LASTS = True
    """A node lasts as long as the calls that can meet it, see ``Trie.outlived`` and Note [Lasting references]."""

    NATIVE_FIXED = frozenset(
        ("aval", "bounds", "event", "ids", "key", "meta", "op", "outs", "params", "vid", "writes")
    )
    """Slots that nothing changes once the node is published."""

    aval: Any
    bounds: tuple[Bounds, ...] | None
    calls: list[Any] | None
    children: dict[Any, TrieNode]
    depth: int
    event: Any
    first: TrieNode | None
    ids: tuple[Any, ...]
    is_simple: bool
    is_view: bool
    key: Any
    last: TrieNode | None
    masks: dict[Any, tuple[bool, ...]] | None
    meta: Any
    next_scalar: int
    next_vid: int
    op: Any
    outs: tuple[tuple[int, Any, bool], ...] | None
    outside: Any
    param_types: tuple[type, ...] | None
    params: tuple[Any, ...]
    parent: TrieNode | None
    requires_grad: bool
    seen: dict[Any, tuple[Any, ...]] | None
    sibling: TrieNode | None
    tick: int
    vid: int
    window: ViewKind
    writes: tuple[int, ...] | None

    def unlink(self, child: TrieNode) -> None:
        """Take a child out of what hits look at."""
        if self.last is child:
            self.last = None
        node, before = self.first, None
        while node is not None and node is not child:
            node, before = node.sibling, node
        if node is not None and before is not None:
            before.sibling = node.sibling
        elif node is not None:
            self.first = node.sibling


@once_per_call
def new_node(parent: TrieNode | None, key: Any, event: Any, next_vid: int, next_scalar: int) -> Any:
    """A trie node that nobody finds yet."""
    made = blank(TrieNode)
    node: TrieNode = made
    node.children = {}
    node.parent = parent
    node.key = key
    node.event = event
    node.vid = -1
    node.aval = None
    node.requires_grad = False
    node.param_types = None
    node.next_vid = next_vid
    node.next_scalar = next_scalar
    node.masks = node.seen = None
    node.tick = 0
    node.window = DETACHED
    node.writes = None
    node.last = node.first = node.sibling = None
    node.op = None
    node.ids = node.params = ()
    node.is_simple = node.is_view = False
    node.meta = node.outs = node.bounds = node.outside = node.calls = None
    node.depth = 0 if parent is None else int(parent.depth) + 1
    return made


class Trie:
    """All paths of one compiled function.

    Attributes:
        roots: one per state that a call can start in (grad mode, default dtype).
        size: number of nodes.
        defers: segments that are new are not compiled yet, see Note [New graphs].
        follows: calls leave their recording at the first operation that is new, see there.
        clock: calls so far; stamps the ends of paths for the LRU.
        new_limit: how many new values one call may record, Note [Long calls].
        outlived: (stamps of calls, nodes that left the trie while these were recorded): they last until the next time
            that nodes leave it and the calls are over, see Note [Lasting references].
        plans: key of a segment -> its plan, as long as a program in the trie has it; the backend's, Note [Known plans].
        forks: where paths part by extents -> what is known of them; the backend's, Note [Path families].
        opened: what the Nodes of graphs that calls have left have cost, less what others have saved, Note
            [Opened graphs].
    """

    __slots__ = (
        "clock", "defers", "follows", "forks", "limit", "new_limit", "opened", "outlived", "plans", "roots", "size",
    )  # fmt: skip

    clock: int
    limit: int
    opened: int
    size: int

    def __init__(self, limit: int, new_limit: int) -> None:
        self.roots: dict[Any, TrieNode] = {}
        self.size = 0
        self.clock = self.opened = 0
        self.defers = self.follows = False
        self.limit = limit
        self.new_limit = new_limit
        self.forks: dict[Any, Any] = {}
        self.outlived: list[tuple[frozenset[int], list[TrieNode]]] = []
        self.plans: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def root(self, start: Any) -> TrieNode:
        """The root for calls that start in the given state."""
        found = self.roots.get(start)
        return found if found is not None else self.roots.setdefault(start, new_node(None, start, None, 0, 0))

    def grow(self, parent: TrieNode, key: Any, event: Any, vids: int = 0, scalars: int = 0) -> TrieNode:
        """Add a child; it becomes visible to other threads only when it is complete (``publish``)."""
        self.size += 1
        made: TrieNode = new_node(parent, key, event, parent.next_vid + vids, parent.next_scalar + scalars)
        return made

    @staticmethod
    def publish(node: TrieNode) -> TrieNode:
        """Let calls find ``node`` from now on. It is complete: a signal's handler may raise after any statement."""
        parent = node.parent
        assert parent is not None
        node.sibling = parent.first
        parent.children[node.key] = node
        parent.first = node
        parent.last = node
        return node

    def end_of_call(self, node: TrieNode, running: Iterable[int]) -> None:
        """Note that a call ended at ``node``, and keep the trie within its bound.

        Args:
            running: the stamps of the other calls that are being recorded.
        """
        self.clock += 1
        node.tick = self.clock
        if self.size > self.limit:
            self._evict(frozenset(running))

    def _evict(self, running: frozenset[int]) -> None:
        """Drop the least recently used half of the paths, and what nodes remember.

        A call that is being recorded may be in the middle of a native hit, which borrows the nodes that it looks at.
        """
        ends = self._ends()
        ends.sort(key=lambda n: n.tick)
        self._drop(ends[: max(1, len(ends) // 2)], running)
        bump("evictions", max(1, len(ends) // 2))

    def drop(self, ends: Iterable[TrieNode], running: frozenset[int]) -> None:
        """Drop the paths that end at some nodes; ``running`` as of ``end_of_call``."""
        there = [end for end in ends if not end.children and end.parent is not None]
        for end in there:
            forget_calls(end)
        self._drop([end for end in there if end.parent.children.get(end.key) is end], running)  # type: ignore[union-attr]

    def _drop(self, ends: Iterable[TrieNode], running: frozenset[int]) -> None:
        self.outlived = [(calls, nodes) for calls, nodes in self.outlived if calls & running]
        pruned: list[TrieNode] = []
        for end in ends:
            self._prune(end, pruned)
        for node in pruned if self.forks else ():
            self.forks.pop(node, None)
        if running:
            self.outlived.append((running, pruned))

    def _ends(self) -> list[TrieNode]:
        """The leaves of the trie. No node remembers calls any more."""
        ends = []
        stack = list(self.roots.values())
        while stack:
            node = stack.pop()
            node.calls = None  # they lead past nodes that may go
            children = list(node.children.values())
            stack.extend(children)
            if not children and node.parent is not None:
                ends.append(node)
        return ends

    def _prune(self, node: TrieNode, pruned: list[TrieNode]) -> None:
        """Remove a leaf, and its ancestors as far as nothing else hangs on them; adds them to a list."""
        current: TrieNode | None = node
        while current is not None and (parent := current.parent) is not None and not current.children:
            if len(parent.children) == 1:  # nobody hashes its key
                parent.children.clear()
                parent.first = parent.last = None
            else:
                parent.children.pop(current.key, None)
                parent.unlink(current)
            self.size -= 1
            pruned.append(current)
            current = parent


def forget_calls(node: TrieNode) -> None:
    """Have no node remember a call whose path may lead past ``node``."""
    current: TrieNode | None = node
    for _ in range(MAX_CALL_EVENTS):
        if current is None:
            return
        current.calls = None
        current = current.parent
