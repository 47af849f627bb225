"""``evaluate_function``: run one node and send its gradients on, with other threads about.

Owns: the steps of one node: capture, call, check, send.
Must not know: where tasks come from, which thread this is.
In: a graph task, a node, its gradients. Out: tasks pushed to the queues of the nodes that became ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.devices import Device
from jitgrad.runtime.devices.stream import Stream, use_stream
from jitgrad.runtime.engine.graph import anomaly
from jitgrad.runtime.engine.graph.node import Node, call_node, name_of, stream_of
from jitgrad.runtime.engine.graph.validate import check_count, fit
from jitgrad.runtime.engine.run import trace
from jitgrad.runtime.engine.run.graph_task import GraphTask
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import NodeTask, ReadyQueue
from jitgrad.state import anomaly as anomaly_mode

__all__ = ["capture", "evaluate_function", "tell_arrival", "tell_useless"]

FindQueue = Callable[[ReadyQueue, Device], ReadyQueue]


def evaluate_function(task: GraphTask, node: Node, inputs: InputBuffer, find_queue: FindQueue) -> None:
    """Run one node and send its gradients on.

    Args:
        task: what the node is run for.
        node: which.
        inputs: its gradients; empty afterwards, if the node ran.
        find_queue: the queue of a device, given the one for the CPU.

    Raises:
        Whatever the node or a hook raises; nothing was sent then.
    """
    with use_stream(stream := stream_of(node)):
        if task.exec_info and not capture(task, node, inputs):
            return
        if trace.is_active() and not _announce(task, node, inputs.device()):
            return
        outputs = _call_function(task, node, inputs)
        if not node.next_edges:
            if stream is not None:
                with task.mutex:
                    if stream not in task.leaf_streams:
                        task.leaf_streams.append(stream)
            return
        outputs = _validate_outputs(node, outputs)
        if anomaly_mode.enabled:
            anomaly.check_nan(node, outputs)
        with task.mutex:
            ready = _send(task, node, outputs, stream)
    for target, buffer in ready:
        find_queue(task.cpu_ready_queue, buffer.device()).push(NodeTask(task.base, target, buffer))


def capture(task: GraphTask, node: Node, inputs: list[Any]) -> bool:
    """Take what ``grad()`` asked for at this node; returns whether the node also runs.

    At a node that does not run, the tensor pre-hooks come first; at one that does, the captured value is the one before
    them. So it is in PyTorch.
    """
    info = task.exec_info[node]
    if not info.needed and node.hooks is not None:
        node.hooks.run_tensor_pre(inputs)
    if info.captures:
        task.capture(node, info, inputs)
    if not info.needed and trace.is_active():
        trace.emit("skip", node, depth=task.reentrant_depth, detail="its gradient is captured")
    return info.needed


def _announce(task: GraphTask, node: Node, device: Device) -> bool:
    """Tell that the node runs; it does not if an error on another thread came first."""
    with task.mutex:
        if task.has_error:
            trace.emit("skip", node, depth=task.reentrant_depth, detail="after an error")
            return False
        trace.emit("exec", node, device=device, depth=task.reentrant_depth)
        return True


def _call_function(task: GraphTask, node: Node, buffer: InputBuffer) -> Any:
    hooks = node.hooks
    inputs = buffer.variables()  # moved: the buffer no longer holds the gradients
    if hooks is None:
        outputs = node.apply(inputs)
    else:
        hooks.run_tensor_pre(inputs)
        outputs = call_node(node, inputs)
    if not task.keep_graph:
        node.release_variables()
    return outputs


def _validate_outputs(node: Node, outputs: Any) -> list[Any]:
    """The gradients as their edges expect them."""
    edges = node.next_edges
    check_count(node, len(outputs), len(edges))
    fitted = list(outputs)
    for index, (target, input_nr) in enumerate(edges):
        grad = fitted[index]
        if target is not None and grad is not None:
            expected = target.input_metadata[input_nr]
            if grad._aval is not expected:
                fitted[index] = fit(node, index, grad, expected)
    return fitted


def _send(task: GraphTask, node: Node, grads: list[Any], stream: Stream | None) -> list[tuple[Node, InputBuffer]]:
    """Give each gradient to its node; returns the nodes that wait for no more. The caller holds the mutex."""
    dependencies, not_ready = task.dependencies, task.not_ready
    ready = []
    for index, (grad, (target, input_nr)) in enumerate(zip(grads, node.next_edges, strict=True)):
        if target is None:
            continue
        if target not in dependencies:
            raise RuntimeError(f"dependency not found for {name_of(target)}")
        missing = dependencies.pop(target) - 1
        if missing:
            dependencies[target] = missing
        if not task.should_execute(target):
            if trace.is_active() and not missing:
                tell_useless(task, target)
            continue
        buffer = not_ready.pop(target, None)
        if trace.is_active():
            tell_arrival(task, target, buffer, input_nr, grad, missing)
        if buffer is None:
            buffer = InputBuffer([None] * len(target.input_metadata))
        if task.arrivals is None:
            buffer.add(input_nr, grad, stream, stream_of(target))
        else:
            for due, sender_stream in task.arrivals.arrive(node, index, target, input_nr, grad, stream):
                buffer.add(input_nr, due, sender_stream, stream_of(target))
        if missing:
            not_ready[target] = buffer
        else:
            ready.append((target, buffer))
    return ready


def tell_arrival(
    task: GraphTask, target: Node, buffer: InputBuffer | None, input_nr: int, grad: Any, missing: int
) -> None:
    """Tell that a gradient has come to a node, which has what is in ``buffer`` and waits for ``missing`` more."""
    depth = task.reentrant_depth
    if grad is not None and buffer is not None and buffer[input_nr] is not None:
        trace.emit("accumulate", target, count=input_nr, depth=depth)
    if missing:
        trace.emit("not_ready", target, count=missing, depth=depth)
    else:
        device = InputBuffer([*(buffer or ()), grad]).device()
        trace.emit("ready", target, device=device, depth=depth)


def tell_useless(task: GraphTask, target: Node) -> None:
    """Tell that a node does not run, because ``grad()`` asks for nothing that it leads to."""
    trace.emit("skip", target, depth=task.reentrant_depth, detail="it leads to no input")
