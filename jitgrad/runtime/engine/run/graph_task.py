"""``GraphTask``: the state of one backward call.

Owns: dependencies, exec_info, captures, completion, and what a thread is executing.
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

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jitgrad.runtime.engine.graph import anomaly
from jitgrad.runtime.engine.graph.call_node import CallNode
from jitgrad.runtime.engine.graph.current import NO_DEVICE, current
from jitgrad.runtime.engine.graph.node import Edge, NextEdge, Node, real_edge
from jitgrad.runtime.engine.run import trace
from jitgrad.runtime.engine.run.arrivals import Arrivals
from jitgrad.runtime.engine.run.future import Future
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import ReadyQueue
from jitgrad.runtime.engine.run.thread_locals import ThreadLocalState, ThreadLocalStateGuard
from jitgrad.state import anomaly as anomaly_mode
from jitgrad.structs import field, struct

__all__ = [
    "Capture",
    "ExecInfo",
    "GradCaptureHook",
    "GraphTask",
    "GraphTaskGuard",
    "NodeGuard",
    "compute_dependencies",
    "compute_min_topological_nr",
    "open_call_nodes",
]

_next_task_id = itertools.count().__next__

GradCaptureHook = Callable[[Any], Any]
"""Called with a captured gradient (None = undefined); what it returns replaces that."""


class Capture(NamedTuple):
    """Gradient ``input_idx`` of a node is result ``output_idx`` of the call.

    Attributes:
        hooks: called in order, each with what the one before returned.
    """

    input_idx: int
    output_idx: int
    hooks: list[GradCaptureHook]


@struct
class ExecInfo:
    """What to do at a node; see Note [Exec info]."""

    needed: bool = False
    captures: list[Capture] = field(default_factory=list)

    def should_execute(self) -> bool:
        return self.needed or bool(self.captures)


class GraphTask:
    """State of one backward call; the engine itself keeps none.

    Args:
        keep_graph: saved values survive the call.
        grad_mode: operations inside backward join a graph (``create_graph``).
        reentrant_depth: how many backward calls this one is inside of.
        cpu_ready_queue: where its nodes on the CPU wait.
        exit_on_error: return at the first error, instead of letting queued work drain.

    Attributes:
        id: no other call of the process has it.
        root: where it starts.
        base: the weak reference that its node tasks hold.
        mutex: protects what several threads change: ``dependencies``, ``not_ready``, ``captured_vars``, ``has_error``,
            ``leaf_streams``.
        arrivals: the order in which inputs take their gradients, Note [Order of arrival]; None = as they come.
        dependencies: gradients still to arrive, per node.
        not_ready: what has arrived so far at nodes that wait for more.
        exec_info: empty = run everything; see Note [Exec info].
        captured_vars: results of ``grad()``; none once they are returned.
        outstanding_tasks: pushed and not finished.
        final_callbacks: run when all is done; ``final_callbacks_lock`` protects them.
        has_error: set by the first error; no node runs after it.
        future_result: the captured gradients, or the first error.
        owner: ``worker_device`` of the thread that called.
        thread_locals: the settings of that thread; None while the graph stays on it.
        recorder: that thread's, while a thread of the pool works for it.
        handed_back: completed when that thread of the pool has let go of the recorder; None if none works for it.
        is_alone: only the calling thread runs its nodes; see ``run_alone.py``.
        leaf_streams: streams on which leaves received gradients.
        caller_streams: the calling thread's, which wait for those.
        can_checkpoint_outside: no call that this one is inside of is restricted to some inputs.
    """

    __slots__ = (
        "__weakref__",
        "_is_finishing",
        "arrivals",
        "base",
        "caller_streams",
        "can_checkpoint_outside",
        "captured_vars",
        "cpu_ready_queue",
        "dependencies",
        "error",
        "exec_info",
        "exit_on_error",
        "final_callbacks",
        "final_callbacks_lock",
        "future_result",
        "grad_mode",
        "handed_back",
        "has_error",
        "id",
        "is_alone",
        "keep_graph",
        "leaf_streams",
        "mutex",
        "not_ready",
        "outstanding_tasks",
        "owner",
        "recorder",
        "reentrant_depth",
        "root",
        "thread_locals",
    )

    def __init__(
        self,
        keep_graph: bool,
        grad_mode: bool,
        reentrant_depth: int,
        cpu_ready_queue: ReadyQueue,
        exit_on_error: bool = False,
    ) -> None:
        self.keep_graph = keep_graph
        self.grad_mode = grad_mode
        self.reentrant_depth = reentrant_depth
        self.cpu_ready_queue = cpu_ready_queue
        self.exit_on_error = exit_on_error
        self.id = _next_task_id()
        self.root: Node | None = None
        self.base = weakref.ref(self)
        self.mutex = threading.Lock()
        self.arrivals: Arrivals | None = None
        self.dependencies: dict[Node, int] = {}
        self.not_ready: dict[Node, InputBuffer] = {}
        self.exec_info: dict[Node, ExecInfo] = {}
        self.captured_vars: list[Any] = []
        self.outstanding_tasks = 0
        self.final_callbacks: list[Callable[[], None]] = []
        self.final_callbacks_lock = threading.Lock()
        self.has_error = False
        self.error: BaseException | None = None
        self.future_result = Future()
        self.owner = NO_DEVICE
        self.thread_locals: ThreadLocalState | None = None
        self.recorder: Any = None
        self.handed_back: Future | None = None
        self.is_alone = False
        self.leaf_streams: list[Any] = []
        self.caller_streams: tuple[Any, ...] = ()
        outer = current.graph_task
        self.can_checkpoint_outside = outer is None or outer.can_checkpoint()
        self._is_finishing = False

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

    def can_checkpoint(self) -> bool:
        """Whether a reentrant checkpoint would reach every leaf: no input was chosen, here and outside."""
        return self.can_checkpoint_outside and not self.exec_info

    def capture(self, node: Node, info: ExecInfo, inputs: list[Any]) -> None:
        """Take the gradients that ``grad()`` asked for. Hooks run outside the mutex: they may do anything."""
        for capture in info.captures:
            value = inputs[capture.input_idx]
            for hook in capture.hooks:
                value = hook(value)
            with self.mutex:
                self.captured_vars[capture.output_idx] = value
            if trace.is_active():
                trace.emit("capture", node, count=capture.output_idx, depth=self.reentrant_depth)

    def start_one(self) -> None:
        """Count a task that is being pushed."""
        with self.mutex:
            self.outstanding_tasks += 1

    def finish_one(self) -> bool:
        """Count a task that has ended; returns whether that completes the graph task."""
        with self.mutex:
            self.outstanding_tasks -= 1
            return self.completed()

    def completed(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.outstanding_tasks == 0 or (self.exit_on_error and self.has_error)

    def set_exception(self, error: BaseException, node: Node | None) -> None:
        """Take an error of ``node``: the first one wins, and no node runs after it."""
        if self.set_exception_without_signal(error, node) and self.exit_on_error:
            self.future_result.set_error_if_needed(error)

    def set_exception_without_signal(self, error: BaseException, node: Node | None) -> bool:
        """``set_exception`` that leaves ``future_result`` to the caller; returns whether it was the first error."""
        with self.mutex:
            if self.has_error:
                return False
            self.has_error = True
            self.error = error
            if trace.is_active():
                trace.emit("error", node, depth=self.reentrant_depth, detail=repr(error))
        if node is not None and anomaly_mode.enabled:
            anomaly.report(node, error)
        return True

    def mark_as_completed_and_run_post_processing(self) -> None:
        """Post-process, then complete ``future_result``; a second thread that comes here waits for the first."""
        with self.mutex:
            is_first, self._is_finishing = not self._is_finishing, True
        future = self.future_result
        if not is_first:
            future.wait()
            return
        if self.error is not None:
            future.set_error_if_needed(self.error)
            return
        try:
            self._exec_post_processing()
        except BaseException as error:  # the caller raises it, on whatever thread the last node ran
            self.set_exception_without_signal(error, None)
            future.set_error_if_needed(error)
            return
        with self.mutex:
            captured, self.captured_vars = self.captured_vars, []
        future.mark_completed(captured)

    def _exec_post_processing(self) -> None:
        """Wait for the leaves' streams, then run the final callbacks, in order of registration."""
        if self.not_ready:
            raise RuntimeError("could not compute gradients for some functions")
        for stream in self.leaf_streams:
            for caller in self.caller_streams:
                if caller is not stream:
                    if trace.is_active():
                        trace.emit("sync", device=caller.device, detail=f"{caller} waits for the leaves of {stream}")
                    caller.wait_stream(stream)
        if not self.final_callbacks:
            return
        with GraphTaskGuard(self):
            if self.thread_locals is None:
                self._run_final_callbacks()
            else:
                with ThreadLocalStateGuard(self.thread_locals):
                    self._run_final_callbacks()

    def _run_final_callbacks(self) -> None:
        """A callback may queue another."""
        done = 0
        while True:
            with self.final_callbacks_lock:
                if done == len(self.final_callbacks):
                    return
                callback = self.final_callbacks[done]
            callback()
            done += 1


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


def open_call_nodes(
    root: Node, roots: Sequence[NextEdge], nodes: Iterable[Node], create_graph: bool, is_partial: bool
) -> set[Node]:
    """Let edges lead to the real Nodes of calls, where a stand-in will not do for a backward.

    Args:
        root: where the backward starts.
        roots: its edges, which the caller is to change.
        nodes: all others that it can reach.
        create_graph: the backward is to be differentiable.
        is_partial: it stops at some inputs. What leads to one result of a call need not run then where another one
            does, as hooks can tell.

    Returns:
        The stand-ins that are no part of the graph any more; what is behind the real Nodes has not been looked at.
    """
    parents = (root, *nodes)
    numbers: dict[CallNode, set[int]] = {node: set() for node in parents if type(node) is CallNode}
    if not numbers:
        return set()
    for edges in (roots, *[parent.next_edges for parent in parents]):
        for node, nr in edges:
            if type(node) is CallNode:
                numbers[node].add(nr)
    opened: set[Node] = {
        node
        for node, used in numbers.items()
        if create_graph or (is_partial and not node.known.is_covered) or node.graph.must_open(node.known, used)
    }
    for parent in parents:
        if any(node in opened for node, _ in parent.next_edges):
            parent.next_edges = tuple([real_edge(e) if e[0] in opened else e for e in parent.next_edges])
    return opened


class GraphTaskGuard:
    """``with``: this thread is in that backward call."""

    __slots__ = ("_before", "_task")

    def __init__(self, graph_task: GraphTask | None) -> None:
        self._task = graph_task

    def __enter__(self) -> None:
        self._before = current.graph_task
        current.graph_task = self._task

    def __exit__(self, *exc_info: object) -> None:
        current.graph_task = self._before


class NodeGuard:
    """``with``: this thread is running that node."""

    __slots__ = ("_before", "_node")

    def __init__(self, node: Node | None) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._before = current.node
        current.node = self._node

    def __exit__(self, *exc_info: object) -> None:
        current.node = self._before
