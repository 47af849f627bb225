"""The numbers of a graph's Nodes: they rise with creation, one series per thread, as in PyTorch.

Owns: the series, and how numbers are taken from it.
Must not know: Nodes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import advance, native

__all__ = ["next_sequence_nr", "reserve_sequence_nrs", "sequence", "share_sequence", "skip_sequence_nrs"]


class _Sequence(threading.local):
    """The rising creation number, one series per thread as in PyTorch; ``take()`` is ``next_sequence_nr``."""

    def __init__(self) -> None:
        self.take = itertools.count().__next__


sequence = _Sequence()


def next_sequence_nr() -> int:
    """The number of the next node that this thread creates."""
    return sequence.take()


def share_sequence(take: Callable[[], int] | None = None) -> Callable[[], int]:
    """This thread's series, which another thread may take over; with ``take``, this thread goes on with that one."""
    before = sequence.take
    if take is not None:
        sequence.take = take
    return before


def skip_sequence_nrs(least: int) -> None:
    """Let the next number be at least ``least``, for Nodes that were numbered by other means meanwhile."""
    upcoming = sequence.take()
    sequence.take = itertools.count(max(upcoming, least)).__next__


_from = itertools.count


@native
def reserve_sequence_nrs(count: int) -> Any:
    """The first of ``count`` numbers in a row, for Nodes that are made later."""
    take: Any = sequence.take  # native code would look a method of a global object up once
    wanted = count if count > 0 else 1
    at_once = advance(take.__self__, wanted)
    if at_once >= 0:
        return at_once
    first = take()
    series: Any = _from(int(first) + wanted)
    sequence.take = series.__next__
    return first
