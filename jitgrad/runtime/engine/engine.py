"""``Engine``: runs a backward graph.

Owns: the order of execution and the flow of gradients between nodes.
Must not know: what nodes compute, how a tensor is stored, whether operations run or are recorded.
In: root edges with their gradients. Out: ``.grad`` accumulated, or captured gradients.

# Note [Reentrant backward]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# A node or a hook is Python and may call backward(). The nested GraphTask runs inline, on the caller's own ReadyQueue,
# at ``reentrant_depth + 1``: its tasks go first, and the loop that it starts returns when *its* tasks are done, leaving
# those of the outer call in the queue. Every ``MAX_DEPTH`` levels the nesting moves to another thread, and the caller
# waits: so no stack grows without bound. The queue and the recorder move with it; nobody else uses them meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.grad_mode import set_grad_mode
from jitgrad.runtime.engine.edge import Edge
from jitgrad.runtime.engine.graph_task import (
    GraphTask,
    compute_dependencies,
    compute_min_topological_nr,
    current,
)
from jitgrad.runtime.engine.input_buffer import InputBuffer
from jitgrad.runtime.engine.node import GraphRoot, Node, call_node
from jitgrad.runtime.engine.ready_queue import ReadyQueue
from jitgrad.runtime.engine.reentrant_pool import MAX_DEPTH, pool
from jitgrad.runtime.engine.validate import check_count, fit
from jitgrad.state import state, switch_recorder

__all__ = ["Engine", "engine"]


class Engine:
    """Executes backward graphs. One for the process; it keeps nothing between calls."""

    def execute(
        self,
        roots: Sequence[Edge],
        inputs: Sequence[Any],
        keep_graph: bool,
        create_graph: bool,
        accumulate_grad: bool,
        outputs: Sequence[Edge] = (),
    ) -> list[Any]:
        """Run the graph from ``roots``.

        Args:
            roots: where to start.
            inputs: the gradient of each root.
            keep_graph: leave saved values in place, for another backward.
            create_graph: record the backward itself, so that it can be differentiated.
            accumulate_grad: with ``outputs``: run their nodes; else capture what arrives there.
            outputs: run only what leads here; empty = everything.

        Returns:
            The captured gradients, in the order of ``outputs`` (None = nothing arrived); empty when accumulating.
        """
        root, root_inputs = _graph_root(tuple(roots), tuple(inputs))
        queue = current.ready_queue or ReadyQueue()
        parent = current.graph_task
        task = GraphTask(keep_graph, create_graph, queue, parent.reentrant_depth + 1 if parent is not None else 0)
        min_topological_nr = compute_min_topological_nr(outputs)
        task.dependencies = compute_dependencies(root, min_topological_nr)
        if outputs:
            task.init_to_execute(root, outputs, accumulate_grad)
        if task.should_execute(root):
            queue.push(task, root, root_inputs)
        if current.inline_depth < MAX_DEPTH:
            self._execute_with_graph_task(task)
        else:
            _execute_on_pool(self, task)
        return task.take_captured_vars()

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` when the current backward is done; RuntimeError outside one."""
        task = current.graph_task
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        task.final_callbacks.append(callback)

    def _execute_with_graph_task(self, task: GraphTask) -> None:
        """Run the task's nodes, then its callbacks; whatever happens, leave the thread as it was."""
        outer = current.graph_task, current.node, current.ready_queue
        grad_mode = state.grad_enabled
        current.graph_task, current.ready_queue = task, task.cpu_ready_queue
        current.inline_depth += 1
        set_grad_mode(task.grad_mode)
        try:
            _run(task)
            _run_final_callbacks(task)
        except BaseException:
            task.has_error = True
            task.cpu_ready_queue.discard(task)
            raise
        finally:
            task.not_ready.clear()
            current.inline_depth -= 1
            current.graph_task, current.node, current.ready_queue = outer
            set_grad_mode(grad_mode)


def _execute_on_pool(engine: Engine, task: GraphTask) -> None:
    """Run a task that is nested too deep on a thread of its own stack, which takes over this thread's state."""
    grad_mode, recorder = state.grad_enabled, state.recorder

    def run() -> None:
        state.grad_enabled = grad_mode
        switch_recorder(recorder)
        try:
            engine._execute_with_graph_task(task)
        finally:
            switch_recorder(None)

    try:
        pool.run(run)
    finally:
        switch_recorder(recorder)


def _graph_root(roots: tuple[Edge, ...], seeds: tuple[Any, ...]) -> tuple[Node, list[Any]]:
    """The node to start at, and its inputs; several roots get a common source."""
    if len(roots) != 1:
        return GraphRoot(roots, seeds), []
    node, input_nr = roots[0]
    assert node is not None
    buffer = InputBuffer(len(node.input_metadata))
    buffer.add(input_nr, seeds[0])
    return node, buffer


def _run(task: GraphTask) -> None:
    """Take ready nodes until the task has none outstanding."""
    pop = task.cpu_ready_queue.pop
    while task.outstanding_tasks:
        _, _, _, owner, node, inputs = pop()
        current.node = node
        evaluate_function(owner, node, inputs)
        owner.outstanding_tasks -= 1


def _run_final_callbacks(task: GraphTask) -> None:
    """In order of registration; a callback may queue another."""
    done = 0
    while done < len(task.final_callbacks):
        task.final_callbacks[done]()
        done += 1


def evaluate_function(task: GraphTask, node: Node, inputs: list[Any]) -> None:
    """Run one node and send its gradients on."""
    hooks = node.hooks
    if task.exec_info and not _capture(task, node, inputs):
        return
    if hooks is not None:
        hooks.run_tensor_pre(inputs)
    outputs = node.apply(inputs) if hooks is None else call_node(node, inputs)
    if not task.keep_graph:
        node.release_variables()
    edges = node.next_edges
    if len(outputs) != len(edges):
        check_count(node, len(outputs), len(edges))
    for index, (target, input_nr) in enumerate(edges):
        if target is not None:
            grad = outputs[index]
            if grad is not None:
                expected = target.input_metadata[input_nr]
                if grad._aval is not expected:
                    grad = fit(node, index, grad, expected)
            _send(task, grad, target, input_nr)


def _capture(task: GraphTask, node: Node, inputs: list[Any]) -> bool:
    """Take what ``grad()`` asked for at this node; returns whether the node also runs.

    At a node that does not run, the tensor pre-hooks come first; at one that does, the captured value is the one before
    them. So it is in PyTorch.
    """
    info = task.exec_info[node]
    if not info.needed and node.hooks is not None:
        node.hooks.run_tensor_pre(inputs)
    if info.captures:
        task.capture(info, inputs)
    return info.needed


def _send(task: GraphTask, grad: Any, target: Node, input_nr: int) -> None:
    """Give a gradient to ``target``, and queue it if that was the last one it waited for."""
    dependencies = task.dependencies
    try:
        missing = dependencies[target] - 1
    except KeyError:
        raise RuntimeError(f"dependency not found for {target.name()}") from None
    if missing:
        dependencies[target] = missing
    else:
        del dependencies[target]
    if task.exec_info and target not in task.exec_info:
        return
    not_ready = task.not_ready
    buffer = not_ready.get(target)
    if buffer is None:
        buffer = InputBuffer(len(target.input_metadata))
        if missing:
            not_ready[target] = buffer
    elif not missing:
        del not_ready[target]
    buffer.add(input_nr, grad)
    if not missing:
        task.cpu_ready_queue.push(task, target, buffer)


engine = Engine()
