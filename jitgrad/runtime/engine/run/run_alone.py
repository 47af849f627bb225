"""The loop for a graph that stays on one thread: no locks, no look at devices or streams.

Owns: ``run_alone``.
Must not know: other threads' work.
In: a graph task whose root is in the queue. Out: ``.grad`` accumulated, gradients captured.

The same steps as ``evaluate.py``, in one function: this is what every backward on the CPU spends its time in, and
calling a shared function for each node would be a tenth of it. A test runs random graphs by both and compares their
traces. The calling thread is the only one that runs nodes of this graph task, or takes tasks from this queue.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from typing import Any

from jitgrad.grad_mode import set_grad_mode
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.call_node import OwnedGrads
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import Node, call_node, name_of
from jitgrad.runtime.engine.graph.validate import check_count, fit
from jitgrad.runtime.engine.run import trace
from jitgrad.runtime.engine.run.evaluate import capture, tell_arrival, tell_useless
from jitgrad.runtime.engine.run.graph_task import GraphTask
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import Entry
from jitgrad.state import state
from jitgrad.tracer.recording.recorder_state import RUNNING

__all__ = ["merge", "run_alone"]


def run_alone(task: GraphTask, run_other: Callable[[Entry], None]) -> None:
    """Run the nodes of a graph task until none is outstanding.

    Args:
        task: with ``dependencies`` and ``exec_info``, and its root in the queue.
        run_other: called with an entry of the queue that belongs to another graph task.

    Raises:
        Whatever a node or a hook raises; tasks of the graph task may be left in the queue.
    """
    heap, next_arrival = task.cpu_ready_queue.heap, task.cpu_ready_queue.next_arrival
    dependencies, not_ready, exec_info = task.dependencies, task.not_ready, task.exec_info
    keep_graph, base, rank = task.keep_graph, task.base, -task.reentrant_depth
    thread, is_traced = current.__dict__, trace.is_active()
    outputs: Any
    edges: Any
    chosen: Entry | None = None
    while task.outstanding_tasks:
        # the next task: what the last node made ready, unless something in the queue goes before it
        if chosen is None:
            chosen = heappop(heap)
        elif heap and heap[0] < chosen:
            chosen = heappushpop(heap, chosen)
        if chosen[3] is not base:
            run_other(chosen)
            chosen = None
            continue
        _, _, _, _, node, inputs = chosen
        chosen = None
        thread["node"] = node
        hooks: Any = node.hooks
        if exec_info and not capture(task, node, inputs):
            outputs = edges = ()
        else:
            if is_traced:
                _tell_run(task, node, inputs)
            outputs = node.apply(inputs) if hooks is None else _call_hooked(task, node, inputs)
            if not keep_graph:
                node.release_variables()
            edges = _give_to_leaves(task, node, outputs) if type(outputs) is OwnedGrads else node.next_edges
            if len(outputs) != len(edges):
                check_count(node, len(outputs), len(edges))
        index = -1
        for target, input_nr in edges:
            index += 1
            if target is None:
                continue
            grad = outputs[index]
            if grad is not None:
                expected = target.input_metadata[input_nr]
                if grad._aval is not expected:
                    grad = fit(node, index, grad, expected)
            missing = dependencies.pop(target, 0) - 1
            if missing:
                _count_down(dependencies, target, missing)
            if exec_info and target not in exec_info:
                if is_traced and not missing:
                    tell_useless(task, target)
                continue
            if is_traced:
                tell_arrival(task, target, not_ready.get(target), input_nr, grad, missing)
            if missing or target in not_ready:
                buffer = merge(not_ready, target, input_nr, grad, missing)
                if buffer is None:
                    continue
            elif len(target.input_metadata) == 1:
                buffer = [grad]
            else:
                buffer = [None] * len(target.input_metadata)
                buffer[input_nr] = grad
            task.outstanding_tasks += 1
            entry = (rank, -target.sequence_nr, next_arrival(), base, target, buffer)
            if chosen is None:
                chosen = entry
            else:
                heappush(heap, entry if chosen < entry else chosen)
                chosen = min(chosen, entry)
        task.outstanding_tasks -= 1
        # gone before the next node runs: AccumulateGrad takes a gradient that nobody else refers to
        inputs = outputs = grad = buffer = entry = None  # type: ignore[assignment]


def _give_to_leaves(task: GraphTask, sender: Node, grads: OwnedGrads) -> Any:
    """Make gradients the ``.grad`` of leaves where accumulating does no more; ``grads`` keeps the others.

    Returns:
        The edges of those that are left.
    """
    edges = sender.next_edges
    if task.exec_info or state.grad_enabled or trace.is_active() or (RUNNING and state.handler is None):
        return edges
    dependencies, not_ready = task.dependencies, task.not_ready
    left: list[Any] = []
    for grad, edge in zip(grads, edges, strict=True):
        node: Any = edge[0]
        is_last = dependencies.get(node) == 1 and node not in not_ready
        if is_last and type(node) is AccumulateGrad and node.hooks is None:
            leaf = node.variable
            is_simple = leaf._requires_grad and not leaf._post_accumulate_hooks and grad is not None
            if is_simple and grad._aval is node.input_metadata[0]:
                with node._lock:
                    if leaf._grad is None:
                        leaf._grad = grad
                        del dependencies[node]
                        continue
        left.append((grad, edge))
    grads[:] = [grad for grad, _ in left]
    return [edge for _, edge in left]


def _tell_run(task: GraphTask, node: Node, inputs: list[Any]) -> None:
    trace.emit("exec", node, device=InputBuffer(inputs).device(), depth=task.reentrant_depth)


def _call_hooked(task: GraphTask, node: Node, inputs: list[Any]) -> Any:
    assert node.hooks is not None
    node.hooks.run_tensor_pre(inputs)
    outputs = call_node(node, inputs)
    if state.grad_enabled is not task.grad_mode:
        set_grad_mode(task.grad_mode)  # a hook changed it; the other nodes are to have theirs
    return outputs


def _count_down(dependencies: dict[Node, int], target: Node, missing: int) -> None:
    if missing < 0:
        raise RuntimeError(f"dependency not found for {name_of(target)}")
    dependencies[target] = missing


def merge(not_ready: dict[Node, InputBuffer], target: Node, input_nr: int, grad: Any, missing: int) -> Any:
    """Add a gradient to those that have arrived; returns them if they are all."""
    buffer = not_ready.get(target)
    if buffer is None:
        buffer = not_ready[target] = InputBuffer([None] * len(target.input_metadata))
        buffer[input_nr] = grad
        return None
    buffer.add(input_nr, grad)
    return None if missing else not_ready.pop(target)
