"""``ReadyQueue``: which ready node runs next.

Owns: the order.
Must not know: what running is.
"""

from __future__ import annotations

import itertools
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitgrad.runtime.engine.graph_task import GraphTask
    from jitgrad.runtime.engine.node import Node

__all__ = ["NodeTask", "ReadyQueue"]

NodeTask = tuple[int, int, int, "GraphTask", "Node", list[Any]]
"""(-reentrant depth, -sequence_nr, arrival, graph task, node, inputs): a tuple, so that the heap compares in C."""


class ReadyQueue:
    """Node tasks by greater reentrant depth, then greater ``sequence_nr``, then earlier arrival.

    One per calling thread; a reentrant backward uses the queue of the call it is in, and its own tasks go first.
    """

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        self._heap: list[NodeTask] = []
        self._arrivals = itertools.count().__next__

    def push(self, graph_task: GraphTask, node: Node, inputs: list[Any]) -> None:
        """Queue a node whose inputs are complete, and count it as outstanding."""
        graph_task.outstanding_tasks += 1
        entry = (-graph_task.reentrant_depth, -node.sequence_nr, self._arrivals(), graph_task, node, inputs)
        heappush(self._heap, entry)

    def pop(self) -> NodeTask:
        """The next task; IndexError when there is none."""
        return heappop(self._heap)

    def discard(self, graph_task: GraphTask) -> None:
        """Drop every task of a graph task that failed."""
        self._heap = [entry for entry in self._heap if entry[3] is not graph_task]
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)
