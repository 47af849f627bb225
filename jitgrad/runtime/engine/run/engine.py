"""``Engine``: runs a backward graph.

Owns: which thread runs a node (the calling thread, a device's worker, the pool of nested calls), and the engine's end.
Must not know: what nodes compute, how a tensor is stored, whether operations run or are recorded.
In: root edges with their gradients. Out: ``.grad`` accumulated, or captured gradients.

# Note [Threads of backward]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~
# A graph without nodes on a virtual device never leaves the calling thread, and is run by ``run_alone.py`` without a
# lock. Otherwise every device's nodes are run by the device's own worker, from the one ReadyQueue that all calls share,
# and the CPU's nodes by the calling thread, from a queue of its own (``local_ready_queue``). The thread that
# finishes the last node does the post-processing, and wakes the caller with an empty task if it sleeps on its queue.
# Workers take over the caller's settings (``thread_locals.py``). They never have a recorder: inside a compiled step,
# such a graph ends the segment first, and what its nodes do is not recorded.
#
# Note [Reentrant backward]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# A node or a hook is Python and may call backward(). It then occupies the only thread that serves its queue, so to wait
# for that queue would be a deadlock. The nested GraphTask therefore runs inline: the thread works on its own queue, at
# ``reentrant_depth + 1``, until the nested task is completed. It takes no task of a smaller depth, even while it waits
# for other threads: what outer calls have queued runs where it would have run, on every call the same. Nobody can wait
# for ever: the nodes of the deepest task are taken by every thread.
# Every ``max_recursion_depth`` levels the nesting moves to a thread of the pool, which serves the same queue while the
# caller waits: so no stack grows without bound. The recorder moves with it; nobody else uses it meanwhile.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.config import config
from jitgrad.devices import Device
from jitgrad.grad_mode import set_grad_mode
from jitgrad.ops.aval import devices_in_use
from jitgrad.probe import probe
from jitgrad.runtime.devices.device import device_count, set_device
from jitgrad.runtime.devices.stream import current_stream
from jitgrad.runtime.engine.graph.call_node import call_nodes_in_use
from jitgrad.runtime.engine.graph.current import CPU_DEVICE, NO_DEVICE, current
from jitgrad.runtime.engine.graph.node import Edge, GraphRoot, Node, device_of, real_edge, stream_of
from jitgrad.runtime.engine.graph.validate import fit_seed
from jitgrad.runtime.engine.run import trace
from jitgrad.runtime.engine.run.arrivals import Arrivals
from jitgrad.runtime.engine.run.device_threads import DeviceThreads
from jitgrad.runtime.engine.run.evaluate import evaluate_function
from jitgrad.runtime.engine.run.future import Future
from jitgrad.runtime.engine.run.graph_task import (
    GraphTask,
    GraphTaskGuard,
    NodeGuard,
    compute_dependencies,
    compute_min_topological_nr,
    open_call_nodes,
)
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import Entry, NodeTask, ReadyQueue
from jitgrad.runtime.engine.run.reentrant_pool import MAX_DEPTH, ThreadPoolShared
from jitgrad.runtime.engine.run.run_alone import run_alone
from jitgrad.runtime.engine.run.thread_locals import ThreadLocalState, ThreadLocalStateGuard
from jitgrad.state import anomaly, state, switch_handler

__all__ = ["Engine", "engine"]


class Engine:
    """Executes backward graphs. One for the process; it keeps threads and their queues, and nothing of any call.

    Attributes:
        max_recursion_depth: nested calls on one thread.
        device_threads: the devices' workers.
        thread_pool_shared: the threads of deeply nested calls.
        stopped: ``stop`` was called; a graph that needs threads starts them again.
    """

    def __init__(self) -> None:
        self.max_recursion_depth = MAX_DEPTH
        self.release_workers()

    # -- running a graph

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

        Raises:
            RuntimeError: a seed does not fit its root.
            Whatever a node or a hook raises; the first one, if several threads meet one.
        """
        roots = tuple(roots)
        root, root_inputs = _graph_root(roots, tuple(inputs))
        task = self.new_graph_task(keep_graph, create_graph)
        task.dependencies = compute_dependencies(root, compute_min_topological_nr(outputs))
        stops = bool(outputs)
        while call_nodes_in_use and (opened := open_call_nodes(root, roots, task.dependencies, create_graph, stops)):
            roots = tuple([Edge(*real_edge(edge)) if edge[0] in opened else edge for edge in roots])
            root, root_inputs = _graph_root(roots, tuple(inputs))
            task.dependencies = compute_dependencies(root, compute_min_topological_nr(outputs))
        if outputs:
            task.init_to_execute(root, outputs, accumulate_grad)
        try:
            if not task.should_execute(root):
                return task.captured_vars
            captured: list[Any] = self.execute_with_graph_task(task, root, root_inputs).value()
            return captured
        except BaseException:
            # an error refers to the frames it came through, and they to the task: let it not refer to the error
            task.error, task.future_result = None, Future()
            raise

    def new_graph_task(self, keep_graph: bool, create_graph: bool, exit_on_error: bool = False) -> GraphTask:
        """A graph task for a call on this thread, without a graph: for ``execute_with_graph_task``."""
        outer = current.graph_task
        depth = 0 if outer is None else outer.reentrant_depth + 1
        return GraphTask(keep_graph, create_graph, depth, self._init_local_ready_queue(), exit_on_error)

    def execute_with_graph_task(self, graph_task: GraphTask, graph_root: Node, input_buffer: InputBuffer) -> Future:
        """Run a graph task that is prepared: with ``dependencies``, and ``exec_info`` if not everything is to run.

        Args:
            graph_task: made on this thread.
            graph_root: where to start.
            input_buffer: its gradients.

        Returns:
            ``graph_task.future_result``, completed.
        """
        outer, recorder, multithreading = current.worker_device, state.handler, state.multithreading_enabled
        overrides_off, outer_task = state.overrides_off, current.graph_task
        uses_devices = _uses_devices(graph_task, graph_root)
        # the handles of some interpreters of operations (``transforms.level``) mean nothing to another thread
        stays_here = uses_devices and recorder is not None and recorder.stays_on_thread
        graph_task.is_alone = not (uses_devices or outer >= 0 or anomaly.enabled or probe.session is not None)
        graph_task.root = graph_root
        graph_task.owner = CPU_DEVICE if outer == NO_DEVICE else outer
        try:
            if uses_devices:
                graph_task.arrivals = Arrivals((graph_root, *graph_task.dependencies))
                self._prepare_devices(graph_task, None if stays_here else recorder)
            if stays_here:
                state.multithreading_enabled = False
            if not graph_task.is_alone:
                graph_task.thread_locals = ThreadLocalState(graph_task.grad_mode)
            self._push_root(graph_task, graph_root, input_buffer)
            if outer == NO_DEVICE:
                current.worker_device = CPU_DEVICE
                self._run(graph_task)
            elif current.current_depth >= self.max_recursion_depth:
                self._run_on_pool(graph_task)
            else:
                current.current_depth += 1
                try:
                    self._run(graph_task)
                finally:
                    current.current_depth -= 1
        finally:
            current.worker_device, current.graph_task = outer, outer_task
            state.multithreading_enabled, state.overrides_off = multithreading, overrides_off
            if uses_devices and recorder is not None:
                switch_handler(recorder)
        return graph_task.future_result

    def _prepare_devices(self, task: GraphTask, recorder: Any) -> None:
        """Have the workers, remember the caller's streams, and end the segment of a compiled step."""
        self.initialize_device_threads_pool()
        task.caller_streams = tuple(current_stream(Device("vcpu", i)) for i in range(device_count()))
        if recorder is not None:
            recorder.flush()
            switch_handler(None)

    def _push_root(self, task: GraphTask, root: Node, inputs: InputBuffer) -> None:
        if task.is_alone and not trace.is_active():
            task.cpu_ready_queue.push_alone(task, root, inputs)
            return
        device = inputs.device()
        if trace.is_active():
            for node, count in task.dependencies.items():
                trace.emit("deps", node, count=count, depth=task.reentrant_depth)
            trace.emit("ready", root, device=device, depth=task.reentrant_depth)
        self.ready_queue(task.cpu_ready_queue, device).push(NodeTask(task.base, root, inputs))

    def _run(self, task: GraphTask) -> None:
        """Run the nodes that are this thread's, until the task is completed; leave the thread as it was."""
        outer, grad_mode = (current.graph_task, current.node), state.grad_enabled
        try:
            try:
                if grad_mode is not task.grad_mode:
                    set_grad_mode(task.grad_mode)
                if not task.is_alone:
                    self.thread_main(task)
                    return
                current.graph_task = task
                try:
                    run_alone(task, self._run_entry)
                except BaseException as error:
                    self.thread_on_exception(task, current.node, error)
                    task.outstanding_tasks = task.outstanding_tasks - 1 if task.exit_on_error else 0
                    if trace.is_active() and not task.exit_on_error:
                        _tell_dropped(task)
                current.node = outer[1]
                task.mark_as_completed_and_run_post_processing()
            finally:
                if state.grad_enabled is not grad_mode:
                    set_grad_mode(grad_mode)
        finally:  # twice, as Ctrl-C may come between any two statements, also of the ``finally`` before
            current.graph_task, current.node = outer
            if state.grad_enabled is not grad_mode:
                set_grad_mode(grad_mode)
            if task.has_error:
                task.cpu_ready_queue.discard(task.base)

    def thread_main(self, graph_task: GraphTask | None) -> None:
        """Take tasks from this thread's queue and run them.

        Args:
            graph_task: until this one is completed; None: until a shutdown task, as the devices' workers do.
        """
        queue = current.local_ready_queue
        assert queue is not None
        while graph_task is None or not graph_task.future_result.completed():
            try:
                item = queue.pop(graph_task.reentrant_depth if graph_task is not None else 0)
            except BaseException as error:  # Ctrl-C while waiting: what still runs elsewhere is not waited for
                if graph_task is None:
                    raise
                graph_task.set_exception(error, None)
                graph_task.future_result.set_error_if_needed(error)
                return
            if item.is_shutdown_task:
                return
            self._run_node_task(item)
            del item  # a worker that sleeps must not keep a graph alive

    def _run_entry(self, entry: Entry) -> None:
        self._run_node_task(NodeTask(*entry[3:]))

    def _run_node_task(self, item: NodeTask) -> None:
        """Run a node, or skip it; complete its graph task if it was the last one."""
        task = item.base() if item.base is not None else None
        node = item.fn
        if node is None:
            return  # it has woken this thread; that is all it is for
        if task is None:
            trace.emit("skip", node, detail="nobody waits for its backward any more")
            return
        if task.has_error:
            trace.emit("skip", node, depth=task.reentrant_depth, detail="after an error")
        else:
            thread_locals = task.thread_locals or ThreadLocalState(task.grad_mode)
            try:
                with GraphTaskGuard(task), NodeGuard(node), ThreadLocalStateGuard(thread_locals):
                    if probe.session is None:
                        evaluate_function(task, node, item.inputs, self.ready_queue)
                    else:
                        args = (task, node, item.inputs, self.ready_queue)
                        probe.session.call("node", node, evaluate_function, *args)
            except BaseException as error:  # it belongs to the thread that called
                self.thread_on_exception(task, node, error)
        if task.finish_one():
            task.mark_as_completed_and_run_post_processing()
            if current.worker_device != task.owner:
                trace.emit("wake", device=_device_name(task.owner), depth=task.reentrant_depth)
                wake = NodeTask(task.base, None, InputBuffer())
                self.ready_queue_by_index(task.cpu_ready_queue, task.owner).push(wake, False)

    def thread_on_exception(self, graph_task: GraphTask, node: Node | None, error: BaseException) -> None:
        """A node or a hook has raised."""
        graph_task.set_exception(error, node)

    # -- queues and threads

    def ready_queue(self, cpu_ready_queue: ReadyQueue, device: Device) -> ReadyQueue:
        """Where nodes of ``device`` wait: the CPU's and those without data in the graph task's own queue.

        So do all where the caller wants one thread to do everything (``set_multithreading_enabled(False)``).
        """
        if not device.is_virtual or not state.multithreading_enabled:
            return cpu_ready_queue
        assert device.index is not None
        return self.ready_queue_by_index(cpu_ready_queue, device.index)

    def ready_queue_by_index(self, cpu_ready_queue: ReadyQueue | None, device_index: int) -> ReadyQueue:
        """The queue of a device by its number; ``CPU_DEVICE`` is the graph task's own.

        Raises:
            AssertionError: there is no such device.
        """
        if device_index == CPU_DEVICE:
            if cpu_ready_queue is None:
                raise AssertionError("a graph task without a queue for the CPU")
            return cpu_ready_queue
        queues = self.device_threads.queues
        if not 0 <= device_index < len(queues):
            raise AssertionError(f"no ready queue for device {device_index} of {len(queues)}")
        return queues[device_index]

    @property
    def device_ready_queues(self) -> list[ReadyQueue]:
        """The queues of the virtual devices, by number; empty until the first graph that needs them."""
        return self.device_threads.queues

    def initialize_device_threads_pool(self) -> None:
        """Start the devices' workers unless they run; all of them have started when this returns."""
        self.stopped = False
        self.device_threads.start(device_count())

    def thread_init(self, device: int, ready_queue: ReadyQueue) -> None:
        """What the worker of a device runs."""
        set_device(device)
        current.worker_device = device
        current.local_ready_queue = ready_queue
        self.thread_main(None)

    def _init_local_ready_queue(self) -> ReadyQueue:
        queue = current.local_ready_queue
        if queue is None:
            queue = current.local_ready_queue = ReadyQueue()
        return queue

    def _run_on_pool(self, task: GraphTask) -> None:
        """Have a thread of the pool run a task that is nested too deep; it takes over this thread's state.

        The result is there before that thread has restored its grad mode, which the recorder notes: two threads would
        grow one path. So this thread waits until the other one has let go of the recorder.
        """
        recorder = state.handler
        task.recorder = recorder
        task.handed_back = Future()
        if task.thread_locals is None:
            task.thread_locals = ThreadLocalState(task.grad_mode)
        self.stopped = False
        self.add_thread_pool_task(task)
        try:
            task.handed_back.wait()
        except BaseException as error:  # Ctrl-C: the other thread still has the recorder
            task.set_exception(error, None)
            task.handed_back.wait()
        finally:
            switch_handler(recorder)

    def add_thread_pool_task(self, graph_task: GraphTask) -> None:
        """Have a thread of the pool run a graph task, which the caller keeps alive; returns at once."""
        self.thread_pool_shared.add_task(graph_task)

    def _run_on_this_pool_thread(self, task: GraphTask) -> None:
        assert task.thread_locals is not None and task.handed_back is not None
        current.worker_device = task.owner
        current.local_ready_queue = self.ready_queue_by_index(task.cpu_ready_queue, task.owner)
        switch_handler(task.recorder)
        try:
            with ThreadLocalStateGuard(task.thread_locals):
                self._run(task)
        finally:
            switch_handler(None)
            current.worker_device, current.local_ready_queue = NO_DEVICE, None
            task.handed_back.mark_completed(None)

    def stop(self) -> None:
        """Send all threads home and wait for them; nothing happens when that is done already.

        Runs at the interpreter's exit, too. While a backward is using the devices its workers are left alone: they end
        with the process. ``config.shutdown_wait_s`` bounds the wait.
        """
        if self.stopped:
            return
        self.stopped = True
        if all(queue.empty() for queue in self.device_threads.queues):
            self.device_threads.stop(config.shutdown_wait_s)
        self.thread_pool_shared.stop(config.shutdown_wait_s)

    def release_workers(self) -> None:
        """Have no threads: at the start, and in a forked child, whose parent keeps them."""
        if current.local_ready_queue is not None:
            current.local_ready_queue.renew_locks()  # a worker may have been about to wake this thread
        self.stopped = False
        self.device_threads = DeviceThreads(self.thread_init)
        self.thread_pool_shared = ThreadPoolShared(self._run_on_this_pool_thread)

    # -- from inside a backward

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` when the current backward is done; RuntimeError outside one."""
        task = current.graph_task
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        with task.final_callbacks_lock:
            task.final_callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether a nested backward may accumulate: not inside ``grad()`` or ``backward(inputs=)``."""
        task = current.graph_task
        return task is None or task.can_checkpoint()

    def trace(self) -> trace.Trace:
        """``with engine.trace() as t:`` what the engine does in the block, event by event; ``print(t)`` shows it."""
        return trace.Trace()


def _graph_root(roots: tuple[Edge, ...], seeds: tuple[Any, ...]) -> tuple[Node, InputBuffer]:
    """The node to start at, and its inputs; several roots get a common source."""
    seeds = tuple([fit_seed(i, edge, seed) for i, (edge, seed) in enumerate(zip(roots, seeds, strict=True))])
    if len(roots) != 1:
        return GraphRoot(roots, seeds), InputBuffer()
    ((node, input_nr),) = roots
    assert node is not None
    buffer = InputBuffer([None] * len(node.input_metadata))
    seed = seeds[0]
    if seed is not None and seed._aval.device.is_virtual:
        buffer.add(input_nr, seed, current_stream(seed._aval.device), stream_of(node))
    else:
        buffer.add(input_nr, seed)
    return node, buffer


def _uses_devices(task: GraphTask, root: Node) -> bool:
    """Whether some node of the graph is on a virtual device."""
    return bool(devices_in_use) and any(device_of(node).is_virtual for node in (root, *task.dependencies))


def _tell_dropped(task: GraphTask) -> None:
    """Tell which nodes an error has left in the queue of a graph that stays on one thread."""
    for entry in sorted(task.cpu_ready_queue.heap):
        if entry[3] is task.base:
            trace.emit("skip", entry[4], depth=task.reentrant_depth, detail="after an error")


def _device_name(index: int) -> str:
    return "cpu" if index < 0 else f"vcpu:{index}"


engine = Engine()
atexit.register(engine.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=engine.release_workers)
