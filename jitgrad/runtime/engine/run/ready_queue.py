"""``ReadyQueue``: which ready node runs next.

Owns: ``NodeTask``, the order, and waiting for work.
Must not know: what running is.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from jitgrad.runtime.engine.graph.node import Node
from jitgrad.runtime.engine.run.future import longest_wait_s
from jitgrad.runtime.engine.run.input_buffer import InputBuffer

__all__ = ["Entry", "NodeTask", "ReadyQueue"]

_SHUTDOWN_RANK = -(2**63)
_EMPTY_RANK = -(2**62)

Entry = tuple[int, int, int, Any, Any, Any]
"""(rank, -sequence_nr, arrival, base, fn, inputs): plain, so that the heap compares in C and never reaches ``base``."""


class NodeTask(NamedTuple):
    """A node whose inputs are complete.

    Attributes:
        base: a weak reference to the ``GraphTask``; once that is gone, nobody waits for the node and it is skipped.
        fn: the node; None only wakes the thread that waits.
        inputs: one gradient per input of the node.
        is_shutdown_task: the thread that takes it leaves.
    """

    base: weakref.ref[Any] | None
    fn: Node | None
    inputs: InputBuffer
    is_shutdown_task: bool = False

    def get_reentrant_depth(self) -> int:
        """Of the graph task; greater than any if that is gone, so that the queue is soon rid of it."""
        task = self.base() if self.base is not None else None
        return int(task.reentrant_depth) if task is not None else 2**31 - 1


class ReadyQueue:
    """Node tasks in the order in which they run; taking one waits until there is one.

    Shutdown tasks go first, then empty tasks, then greater reentrant depth, then greater ``sequence_nr``, then earlier
    arrival.

    Attributes:
        heap: the entries. One step of the heap is one call into C, which no other thread can see half done: so the
            loop of a graph that stays on its own thread works on it without the lock (``run_alone.py``).
        next_arrival: numbers the entries.
    """

    __slots__ = ("__weakref__", "heap", "mutex", "next_arrival", "not_empty")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.next_arrival = itertools.count().__next__
        self.renew_locks()

    def renew_locks(self) -> None:
        """Nobody holds the mutex, nobody waits: at the start, and in a forked child, whose parent has the others."""
        self.mutex = threading.Lock()
        self.not_empty = threading.Condition(self.mutex)

    def push(self, item: NodeTask, increment_outstanding_tasks: bool = True) -> None:
        """Queue a task and wake one thread that waits.

        Args:
            item: the task.
            increment_outstanding_tasks: count it in its graph task; False where the caller has counted it already.
        """
        base, fn, inputs, is_shutdown_task = item
        task = base() if base is not None else None
        if is_shutdown_task:
            rank, order = _SHUTDOWN_RANK, 0
        elif fn is None:
            rank, order = _EMPTY_RANK, 0
        else:
            rank, order = -item.get_reentrant_depth(), -fn.sequence_nr
        if increment_outstanding_tasks and task is not None:
            task.start_one()
        with self.mutex:
            heappush(self.heap, (rank, order, self.next_arrival(), base, fn, inputs))
            self.not_empty.notify()

    def push_alone(self, task: Any, fn: Node, inputs: InputBuffer) -> None:
        """Queue the root of a graph that stays on this thread: nobody waits here, and nobody else takes it."""
        task.outstanding_tasks += 1
        heappush(self.heap, (-task.reentrant_depth, -fn.sequence_nr, self.next_arrival(), task.base, fn, inputs))

    def push_shutdown_task(self) -> None:
        """Send one of the threads that wait here home."""
        self.push(NodeTask(None, None, InputBuffer(), True), increment_outstanding_tasks=False)

    def pop(self, min_reentrant_depth: int = 0) -> NodeTask:
        """The next task; waits for one. Tasks of a smaller reentrant depth are left where they are."""
        with self.mutex:
            while not self.heap or self.heap[0][0] > -min_reentrant_depth:
                self.not_empty.wait(longest_wait_s())
            rank, _, _, base, fn, inputs = heappop(self.heap)
        return NodeTask(base, fn, inputs, rank == _SHUTDOWN_RANK)

    def discard(self, base: weakref.ref[Any]) -> None:
        """Drop every task of a graph task that has ended."""
        with self.mutex:
            # in place: other threads hold the list
            self.heap[:] = [entry for entry in self.heap if entry[3] is not base]
            heapify(self.heap)

    def size(self) -> int:
        """How many tasks wait."""
        return len(self.heap)

    def empty(self) -> bool:
        """Whether none waits."""
        return not self.heap
