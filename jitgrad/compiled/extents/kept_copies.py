"""Which copies of derived paths stay in the trie.

Owns: ``KeptCopies``.
Must not know: how paths are copied.

# Note [Kept copies]
# ~~~~~~~~~~~~~~~~~~
# A copied path takes some ten kilobytes, and extents that never come again need none of them. Extents that do come
# again spare a call its copy, half a millisecond of a small graph network's step. So the copies of one fork are a cache
# with room for ``_LEAST``, which grows by ``_STEP`` whenever extents come again whose copy had to go: had there been
# room for it, nothing would have been copied. What has gone is remembered for ``_REMEMBERED`` copies by its extents
# alone. The room ends at ``_MOST_EVENTS`` events. Source: Megiddo and Modha, "ARC: a self-tuning, low overhead
# replacement cache", 2003, whose ghost lists these are.
# Example: graphs of 250 to 1000 nodes, at random. Among the first 64 extents few come again; by the 2,000th step there
# is room for most of the 751, and nine steps of ten copy nothing.
# The copy that goes is the one that was used least recently, or nearly so: the oldest one goes to the end of the queue
# instead if a call has taken it since it came (a second chance). One goes for each that comes, once there is no more
# room: the garbage collector counts objects that are made and not let go.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["KeptCopies"]

_LEAST, _STEP, _MOST = 64, 4, 1024
_MOST_EVENTS = 40_000
_REMEMBERED = 1024


class KeptCopies:
    """The copies of one fork. Threads may add at the same time: at worst one copy more is kept, or one less.

    Attributes:
        room: for how many there is room.
    """

    __slots__ = ("_gone", "_kept", "room")

    def __init__(self) -> None:
        self.room = _LEAST
        self._kept: deque[tuple[TrieNode, int, Any]] = deque()
        self._gone: OrderedDict[Any, None] = OrderedDict()

    def add(self, end: TrieNode, extents: Any) -> list[TrieNode]:
        """A path was copied: the ends of those that have to go.

        Args:
            end: the copy's last node, with the tick of this call.
            extents: what it was copied for; equal for equal copies.
        """
        if self._gone.pop(extents, self) is None:
            self.room = min(self.room + _STEP, _MOST, max(_LEAST, _MOST_EVENTS // end.depth))
        self._kept.append((end, end.tick, extents))
        return [] if len(self._kept) <= self.room else self._oldest()

    def _oldest(self) -> list[TrieNode]:
        for _ in range(len(self._kept)):
            try:
                end, tick, extents = self._kept.popleft()
            except IndexError:  # another thread
                return []
            if end.tick == tick:
                self._gone[extents] = None
                if len(self._gone) > _REMEMBERED:
                    self._gone.popitem(last=False)
                return [end]
            self._kept.append((end, end.tick, extents))
        return []
