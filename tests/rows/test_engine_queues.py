"""Ready queues: what goes first, whose they are, and who is woken at the end."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, VIRTUAL, Mode
from threads import LONGEST_WAIT_S, run_threads, sleeps_on, wait_until

import jitgrad
from jitgrad.autograd import engine
from jitgrad.runtime.engine.graph.current import CPU_DEVICE, NO_DEVICE, current_graph_task
from jitgrad.runtime.engine.graph.node import Node
from jitgrad.runtime.engine.run.graph_task import GraphTask
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import NodeTask, ReadyQueue
from jitgrad.runtime.engine.run.thread_locals import ThreadLocalState

pytestmark = pytest.mark.usefixtures("idle_devices")


def _leaf(*values: float, device: Any = None) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True, device=device)


@pytest.mark.row("B38", engine=(HOOKED, ARGUMENTS), fallbacks=VIRTUAL)
def test_only_an_owner_that_sleeps_is_woken(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, device="vcpu:1")
        with engine.trace() as trace:
            (x * 3).sum().backward()  # every node is on vcpu:1: its worker finishes
            wait_until(lambda: trace.of("wake"))  # it says so once the caller has its result
        y = _leaf(1.0)
        # a worker that was held up between its last node and the end of that would be the one who finishes
        y.register_hook(lambda g: wait_until(lambda: current_graph_task().outstanding_tasks == 1))
        with engine.trace() as other:
            (y.to("vcpu:1") * 3).cpu().sum().backward()  # the leaf is on the CPU: the caller finishes
        return [e.device for e in trace.of("wake")], other.of("wake"), x.grad.tolist(), y.grad.tolist()

    assert mode.run(step) == (["cpu"], [], [3.0], [3.0])


@pytest.mark.row("B53", engine=HOOKED, fallbacks=VIRTUAL)
def test_tasks_share_the_queues_of_devices_and_nothing_else(mode: Mode) -> None:
    def step(meet: threading.Barrier) -> Any:
        x = _leaf(1.0)
        h = x.to("vcpu:0") * 2
        y = (h * 3).cpu() * 4
        seen: list[Any] = []

        def on_cpu(grad: Any) -> None:
            meet.wait(LONGEST_WAIT_S)  # both callers are in their backward
            seen.append(("cpu", threading.get_ident(), current_graph_task().cpu_ready_queue))

        def on_device(grad: Any) -> None:
            seen.append(("vcpu:0", threading.get_ident(), current_graph_task().cpu_ready_queue))

        y.register_hook(on_cpu)
        h.register_hook(on_device)
        y.sum().backward()
        return threading.get_ident(), seen, x.grad.tolist()

    meet = threading.Barrier(2)
    results = run_threads(lambda i: mode.run(lambda: step(meet), is_steady=False), 2)  # compiles count for all threads
    workers, queues = set(), set()
    for caller, seen, grad in results:
        (_, cpu_thread, queue), (_, device_thread, same_queue) = seen
        assert cpu_thread == caller
        assert queue is same_queue
        assert grad == [24.0]
        workers.add(device_thread)
        queues.add(queue)
    assert len(workers) == 1
    assert len(queues) == 2


@pytest.mark.row("B53", eager_only="It pushes nodes of two tasks into a device's queue by hand.")
def test_two_tasks_interleave_on_a_device() -> None:
    order: list[str] = []
    release = threading.Event()

    class Say(Node):
        __slots__ = ("text",)

        def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
            order.append(self.text)
            release.wait(LONGEST_WAIT_S)
            return ()

    nodes = []
    for text in ("a0", "b0", "a1", "b1"):  # the last made goes first, whoever it belongs to
        nodes.append(Say())
        nodes[-1].text = text
    first = Say()
    first.text = "first"
    tasks = {letter: GraphTask(False, False, 0, ReadyQueue()) for letter in "abf"}
    engine.initialize_device_threads_pool()
    queue = engine.device_ready_queues[0]
    for task in tasks.values():
        task.thread_locals = ThreadLocalState(False)
        task.owner = 0
    queue.push(NodeTask(tasks["f"].base, first, InputBuffer()))
    wait_until(lambda: order == ["first"])
    for node in nodes:
        queue.push(NodeTask(tasks[node.text[0]].base, node, InputBuffer()))
    release.set()
    for task in tasks.values():
        assert task.future_result.wait(LONGEST_WAIT_S)
        assert task.cpu_ready_queue.empty()
    assert order == ["first", "b1", "a1", "b0", "a0"]


@pytest.mark.row("B54", eager_only="It fills a queue by hand.")
def test_the_order_of_a_queue() -> None:
    queue = ReadyQueue()
    outer, inner = GraphTask(False, False, 0, queue), GraphTask(False, False, 1, queue)
    old, new = Node(), Node()
    tasks = {
        "outer old": NodeTask(outer.base, old, InputBuffer()),
        "inner old": NodeTask(inner.base, old, InputBuffer()),
        "empty": NodeTask(outer.base, None, InputBuffer()),
        "outer new": NodeTask(outer.base, new, InputBuffer()),
        "inner new": NodeTask(inner.base, new, InputBuffer()),
    }
    for task in tasks.values():
        queue.push(task)
    queue.push_shutdown_task()
    assert queue.pop().is_shutdown_task
    order = [_name_of(queue.pop(), tasks) for _ in tasks]
    assert order == ["empty", "inner new", "inner old", "outer new", "outer old"]
    assert queue.empty()


def _name_of(found: NodeTask, tasks: dict[str, NodeTask]) -> str:
    return next(name for name, t in tasks.items() if t.base is found.base and t.fn is found.fn)


@pytest.mark.row("B55", eager_only="It fills a queue by hand.")
def test_a_queue_is_waited_on_and_counts() -> None:
    queue = ReadyQueue()
    task = GraphTask(False, False, 0, queue)
    got: list[NodeTask] = []
    waiter = threading.Thread(target=lambda: got.append(queue.pop()))
    waiter.start()
    wait_until(lambda: sleeps_on(queue))  # nothing to take yet
    assert waiter.is_alive()
    node = Node()
    queue.push(NodeTask(task.base, node, InputBuffer()))
    waiter.join(LONGEST_WAIT_S)
    assert [item.fn for item in got] == [node]
    assert (task.outstanding_tasks, queue.size(), queue.empty()) == (1, 0, True)
    queue.push(NodeTask(task.base, node, InputBuffer()), increment_outstanding_tasks=False)
    assert (task.outstanding_tasks, queue.size(), queue.empty()) == (1, 1, False)
    queue.discard(task.base)
    assert queue.empty()


@pytest.mark.row("B56", engine=HOOKED, fallbacks=VIRTUAL)
def test_there_are_as_many_queues_as_devices_and_callers(mode: Mode) -> None:
    meet = threading.Barrier(3)

    def step() -> Any:
        x = _leaf(1.0)
        y = x.to("vcpu:0") * 2
        queues: list[ReadyQueue] = []

        def look(grad: Any) -> None:
            meet.wait(LONGEST_WAIT_S)
            queues.append(current_graph_task().cpu_ready_queue)

        z = y.cpu() * 1
        z.register_hook(look)
        z.sum().backward()
        return queues

    found = run_threads(lambda i: mode.run(step, is_steady=False), 3)  # compiles are counted for all threads
    own = [queue for queues in found for queue in queues]
    assert len(engine.device_ready_queues) == 2
    assert len({id(queue) for queue in (*own, *engine.device_ready_queues)}) == 5


@pytest.mark.row("B57", eager_only="Queues are looked up by hand.")
def test_queues_by_index() -> None:
    engine.initialize_device_threads_pool()
    own = ReadyQueue()
    assert engine.ready_queue_by_index(own, CPU_DEVICE) is own
    assert engine.ready_queue_by_index(own, 1) is engine.device_ready_queues[1]
    assert engine.ready_queue(own, jitgrad.device("cpu")) is own
    assert engine.ready_queue(own, jitgrad.device("meta")) is own
    assert engine.ready_queue(own, jitgrad.device("vcpu:0")) is engine.device_ready_queues[0]
    for index in (2, NO_DEVICE):
        with pytest.raises(AssertionError, match=f"no ready queue for device {index} of 2"):
            engine.ready_queue_by_index(own, index)
    with pytest.raises(AssertionError, match="without a queue"):
        engine.ready_queue_by_index(None, CPU_DEVICE)


@pytest.mark.row("C16", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_where_roots_are_put(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, device="vcpu:1")
        h = x * 2
        with engine.trace() as single:
            h.sum().backward(retain_graph=True)
        with engine.trace() as several:
            jitgrad.autograd.backward([h.sum(), h.exp().sum()])
        here = threading.current_thread().name
        first = single.of("exec")[0].thread, several.of("exec")[0].thread == here
        return [(t.of("ready")[0].name, t.of("ready")[0].device) for t in (single, several)], first

    assert mode.run(step) == ([("SumBackward0", "vcpu:1"), ("GraphRoot", "cpu")], ("jitgrad-autograd-vcpu:1", True))
