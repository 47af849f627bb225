"""Growing the path: events that no call has had before.

Owns: ``Path``, the part of a recorder that knows what its path has recorded, and adds to it.
Must not know: what operations' hits do, aliases, writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.config import config
from jitgrad.events import is_logged, log
from jitgrad.garbage import collect_seldom
from jitgrad.ops.shapes import check_width
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.graph import Instr
from jitgrad.tracer.recording.history import History
from jitgrad.tracer.recording.keys import MARK
from jitgrad.tracer.recording.numbers import NumberKeys
from jitgrad.tracer.recording.shape_rules import kind_of
from jitgrad.tracer.recording.trie import Trie, TrieNode
from jitgrad.user_line import user_line
from jitgrad.version_counter import inference_tensors

__all__ = ["Path"]


class Path:
    """What the call has recorded so far.

    Attributes:
        copied: stamp of the last call that went along a path which was copied for it, Note [Path families].
        noted: stamp of the last call whose new path was noted, likewise.
        copied_by: what made that copy, and the extents that it was made for; None: there may be more of it to come.
        history: the same in a form that misses can ask, or None while every event was a hit.
        misses: how many events were new.
        new_values: how many values this call has recorded that no call had before.
        numbers: finds and makes events with Python numbers.
        segment_limit: how many operations a segment may have.
        is_quiet: nobody reads of single misses, as far as was asked when the first one came.
    """

    __slots__ = (
        "__weakref__", "_recorder", "_trie", "copied", "copied_by", "history", "is_quiet", "misses", "new_values",
        "noted", "numbers", "segment_limit",
    )  # fmt: skip

    copied: int
    noted: int
    copied_by: Any
    history: History | None
    is_quiet: bool
    misses: int
    new_values: int
    numbers: NumberKeys
    segment_limit: int

    def __init__(self, recorder: Any, trie: Trie, segment_limit: int) -> None:
        self._recorder = recorder
        self._trie = trie
        self.history = None
        self.misses = self.new_values = self.copied = self.noted = 0
        self.copied_by = None
        self.is_quiet = False
        self.numbers = NumberKeys()
        self.segment_limit = segment_limit

    def live(self) -> History:
        """The history of the path so far. Hits leave it behind; it catches up here."""
        history, node = self.history, self._recorder.node
        if history is None:
            collect_seldom(self)
            self.is_quiet = not is_logged("record")
            history = self.history = History()
        if history.tip is not node:
            self.history = None  # until it has caught up: a signal's handler that raises leaves no half of an event
            if not history.advance(node):  # an event was published that the path does not have: an error came between
                history = History.replay(node)
            self.history = history
        return history

    def is_full(self, count: int) -> bool:
        """Whether the segment ends after ``count`` more operations."""
        history = self.live()
        return history.length() + count >= self.segment_limit

    def is_new_and_long(self) -> bool:
        """Whether compiling can wait until the graph is met again, see Note [New graphs].

        One that was met before with other numbers is not new.
        """
        is_long = self.new_values > config.compile_at_once and not config.same_bits
        return is_long and self.numbers.shadow is None

    def grow(self, key: Any, event: Any, vids: int = 0, scalars: int = 0) -> TrieNode:
        """A trie node for a new event; nobody finds it before it is published."""
        return self._trie.grow(self._recorder.node, key, event, vids, scalars)

    def publish(self, node: TrieNode, event: Any, mark: Any = None) -> TrieNode:
        """Make a new event findable and part of the history."""
        history, parent = self.live(), node.parent
        self.history = None  # as in ``live``
        if event is not None:
            event.replay(history)
        history.tip = node
        self.history = history
        self.misses += 1
        assert parent is not None
        self.new_values += node.next_vid - parent.next_vid
        if mark is not None or self.numbers.shadow is not None:
            self.numbers.follow(node, mark)
        log("record", "miss: %s", node.key)
        return Trie.publish(node)

    def pause(self, key: Any, event: Any, mark: Any) -> TrieNode:
        """Make an event findable that no path goes through."""
        node = self.grow(key, event)
        self.numbers.follow(node, mark)
        self.numbers = NumberKeys()  # what follows is not below this node
        return Trie.publish(node)

    def instr(
        self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], operands: tuple[Any, ...], first: int = -1
    ) -> tuple[Instr, bool]:
        """Shape rule and graph membership of a new operation. Raises what eager execution does."""
        recorder = self._recorder
        for x in inputs:
            check_width(x)
        kind = kind_of(op, inputs, params)
        if kind.joins and inference_tensors:
            recorder.backend.check_saved(op, inputs, kind.needs)
        first = recorder.node.next_vid if first < 0 else first
        in_avals = tuple([x._aval if isinstance(x, TensorBase) else None for x in inputs])
        outputs = tuple(range(first, first + len(kind.avals))) if kind.several else (first,)
        instr = Instr(
            kind.op, operands, params, outputs, kind.avals, in_avals, kind.joins, kind.needs, user_line(1)
        )
        return instr, kind.several

    def mark(self, key: Any, event: Any = None, make: Callable[[], Any] | None = None) -> TrieNode:
        """An event without results."""
        recorder = self._recorder
        node: TrieNode | None = recorder.node.children.get(key)
        if node is None:
            self.live()
            event = make() if make is not None else event
            node = self.grow(key, event)
            node.op = MARK
            self.publish(node, event)
        recorder.node.last = recorder.node = node
        return node
