"""``GraphTask``: the state of one backward call.

Owns: dependencies, exec_info, captures, and the thread's current task and node.
Must not know: how nodes are run.

# Note [Exec info]
# ~~~~~~~~~~~~~~~~
# ``backward()`` runs every node it can reach: ``exec_info`` is empty. ``grad()`` and ``backward(inputs=)`` run only the
# nodes on a path to an input. An input's own node is *captured* by ``grad()``: its gradient is taken before it would
# run, and it runs only if it is also on the path to another input. ``backward(inputs=)`` marks it *needed* instead: it
# runs, and accumulates.
# A path can only lead down in ``topological_nr``, so nodes below every input are not even looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jitgrad.runtime.engine.edge import Edge
from jitgrad.runtime.engine.input_buffer import InputBuffer
from jitgrad.runtime.engine.node import Node
from jitgrad.runtime.engine.ready_queue import ReadyQueue

__all__ = [
    "Capture",
    "ExecInfo",
    "GraphTask",
    "compute_dependencies",
    "compute_min_topological_nr",
    "current",
    "current_graph_task",
    "current_node",
]


class Capture(NamedTuple):
    """Gradient ``input_idx`` of a node is result ``output_idx`` of the call.

    Attributes:
        hooks: each replaces the captured value, in order.
    """

    input_idx: int
    output_idx: int
    hooks: list[Callable[[Any], Any]]


@dataclass(slots=True, eq=False)
class ExecInfo:
    """What to do at a node; see Note [Exec info]."""

    needed: bool = False
    captures: list[Capture] = field(default_factory=list)

    def should_execute(self) -> bool:
        return self.needed or bool(self.captures)


@dataclass(slots=True, eq=False)
class GraphTask:
    """State of one backward call; the engine itself keeps none.

    Attributes:
        keep_graph: saved values survive the call.
        grad_mode: operations inside backward join a graph (``create_graph``).
        cpu_ready_queue: the calling thread's queue.
        reentrant_depth: how many backward calls this one is inside of.
        dependencies: gradients still to arrive, per node.
        not_ready: what has arrived so far at nodes that wait for more.
        exec_info: empty = run everything; see Note [Exec info].
        captured_vars: results of ``grad()``.
        outstanding_tasks: pushed and not finished.
        final_callbacks: run when all is done.
        has_error: set by the first error; no node runs after it.
        owner: the device whose thread called; reentrant calls are owned by the worker they are on.
    """

    keep_graph: bool
    grad_mode: bool
    cpu_ready_queue: ReadyQueue
    reentrant_depth: int = 0
    dependencies: dict[Node, int] = field(default_factory=dict)
    not_ready: dict[Node, InputBuffer] = field(default_factory=dict)
    exec_info: dict[Node, ExecInfo] = field(default_factory=dict)
    captured_vars: list[Any] = field(default_factory=list)
    outstanding_tasks: int = 0
    final_callbacks: list[Callable[[], None]] = field(default_factory=list)
    has_error: bool = False
    owner: str = "cpu"

    def init_to_execute(self, root: Node, outputs: Sequence[Edge], accumulate_grad: bool) -> None:
        """Fill ``exec_info`` for the paths from ``root`` to ``outputs``.

        Needs ``dependencies``, that is the reachable nodes. In rising ``topological_nr``, all that a node leads to is
        decided before the node itself, so that one pass without recursion is enough.
        """
        exec_info = self.exec_info
        for output_idx, (node, input_nr) in enumerate(outputs):
            assert node is not None
            info = exec_info.setdefault(node, ExecInfo())
            if accumulate_grad:
                info.needed = True
            else:
                info.captures.append(Capture(input_nr, output_idx, []))
        self.captured_vars = [None] * (0 if accumulate_grad else len(outputs))
        reachable = sorted((root, *self.dependencies), key=_topological_nr)
        for node in reachable:
            if any(target in exec_info for target, _ in node.next_edges):
                exec_info.setdefault(node, ExecInfo()).needed = True

    def should_execute(self, node: Node) -> bool:
        """Whether a gradient sent to ``node`` has any use."""
        return not self.exec_info or node in self.exec_info

    def capture(self, info: ExecInfo, inputs: list[Any]) -> None:
        """Take the gradients that ``grad()`` asked for."""
        for capture in info.captures:
            value = inputs[capture.input_idx]
            for hook in capture.hooks:
                value = hook(value)
            self.captured_vars[capture.output_idx] = value

    def take_captured_vars(self) -> list[Any]:
        """The results; the task keeps none."""
        captured, self.captured_vars = self.captured_vars, []
        return captured


def _topological_nr(node: Node) -> int:
    return node.topological_nr


def compute_min_topological_nr(outputs: Sequence[Edge]) -> int:
    """Nodes below this number lead to none of ``outputs``; 0 without outputs: look at all."""
    return min((node.topological_nr for node, _ in outputs if node is not None), default=0)


def compute_dependencies(root: Node, min_topological_nr: int) -> dict[Node, int]:
    """How many gradients will arrive at each node reachable from ``root``.

    Nodes below ``min_topological_nr`` are counted where an edge reaches them, but not looked behind.
    """
    dependencies: dict[Node, int] = {}
    stack = [root]
    while stack:
        for node, _ in stack.pop().next_edges:
            if node is None:
                continue
            if node in dependencies:
                dependencies[node] += 1
            else:
                dependencies[node] = 1
                if node.topological_nr >= min_topological_nr:
                    stack.append(node)
    return dependencies


class _Current(threading.local):
    """What this thread is executing.

    Attributes:
        graph_task: the innermost backward call, or None.
        node: the node being run, or None.
        ready_queue: the queue of the outermost call on this thread, or None.
        inline_depth: backward calls on this thread's stack.
    """

    graph_task: GraphTask | None = None
    node: Node | None = None
    ready_queue: ReadyQueue | None = None
    inline_depth: int = 0


current = _Current()


def current_graph_task() -> GraphTask | None:
    """The backward call that this thread is in."""
    return current.graph_task


def current_node() -> Node | None:
    """The node that this thread is running; readable in hooks, None outside."""
    return current.node
