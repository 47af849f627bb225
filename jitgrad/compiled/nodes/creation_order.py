"""Sequence numbers for Nodes that are made later than eager execution would have made them.

Owns: ``CreationOrder``.
Must not know: how Nodes are made.

The engine runs ready Nodes by descending creation number. A trace makes a Node when somebody looks, so its number has
to say when its operation was recorded: value ids rise in that order, and the number is the value id plus an offset.
Nodes that Python makes in between (custom Functions, eager writes) push the offset up.
"""

from __future__ import annotations

from bisect import bisect_right

from jitgrad.numbering import next_sequence_nr, reserve_sequence_nrs, skip_sequence_nrs

__all__ = ["CreationOrder"]


class CreationOrder:
    """The numbers of one call's Nodes; costs nothing until the first is asked for.

    Attributes:
        marks: (first value id, offset), both rising; the call's graph keeps the list.
    """

    __slots__ = ("marks",)

    def __init__(self, marks: list[tuple[int, int]]) -> None:
        self.marks = marks

    def number_of(self, vid: int) -> int:
        """Of the Node whose first output is value ``vid``."""
        marks = self.marks
        if not marks:
            marks.append((0, next_sequence_nr()))  # more than any Node from before the call
        found = marks[-1] if marks[-1][0] <= vid else marks[bisect_right(marks, vid, key=_first) - 1]
        return found[1] + vid

    def number_now(self, next_vid: int) -> int:
        """Of a Node that Python has just made; values from ``next_vid`` on come later."""
        number = self.number_of(next_vid)
        self.marks.append((next_vid, number + 1 - next_vid))
        return number

    def go_outside(self, next_vid: int) -> None:
        """Nodes that eager execution makes from now on come after all values recorded so far."""
        skip_sequence_nrs(self.number_of(next_vid))

    def come_inside(self, next_vid: int) -> None:
        """Values recorded from now on come after what eager execution has made."""
        self.marks.append((next_vid, next_sequence_nr() + 1 - next_vid))

    def close(self, next_vid: int) -> None:
        """The call is over: Nodes made from now on are younger than its own."""
        if self.marks:
            self.go_outside(next_vid)
        else:
            self.marks.append((0, reserve_sequence_nrs(next_vid)))

    def reset(self) -> None:
        """For another call."""
        self.marks.clear()

    @property
    def is_in_use(self) -> bool:
        """Whether a number has been asked for."""
        return bool(self.marks)


def _first(mark: tuple[int, int]) -> int:
    return mark[0]
