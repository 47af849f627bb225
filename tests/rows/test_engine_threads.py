"""Threads and queues of backward: devices' workers, the callers' own queues, the pool of nested calls, the end."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import vcpu
from jitgrad.autograd import Engine, engine
from jitgrad.runtime.engine.graph_task import CPU_DEVICE, NO_DEVICE, GraphTask, current, current_graph_task
from jitgrad.runtime.engine.node import Node
from jitgrad.runtime.engine.ready_queue import NodeTask, ReadyQueue
from jitgrad.runtime.engine.reentrant_pool import MAX_DEPTH, ThreadPoolShared
from jitgrad.runtime.engine.thread_locals import ThreadLocalState
from jitgrad.state import state

WORKERS = ["jitgrad-autograd-vcpu:0", "jitgrad-autograd-vcpu:1"]


@pytest.fixture(autouse=True)
def _idle_devices() -> Iterator[None]:
    yield
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)


def _leaf(*values: float, device: Any = None) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True, device=device)


def _run_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """``work(i)`` on threads of their own at once; their results in order, the first error raised."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]
    return results


def _two_devices(x: Any) -> Any:
    """One branch on each device, the sum on the CPU."""
    return (x.to("vcpu:0").sin().cpu() + x.to("vcpu:1").exp().cpu()).sum()


@pytest.mark.row("B2", eager_only="It counts the threads of an engine of its own, without any graph.")
def test_threads_that_race_start_the_workers_once() -> None:
    own = Engine()
    barrier = threading.Barrier(8)
    before = threading.active_count()

    def start(i: int) -> int:
        barrier.wait()
        own.initialize_device_threads_pool()
        return own.device_threads.count

    counts = _run_threads(start, 8)
    assert counts == [vcpu.device_count()] * 8
    assert [thread.name for thread in own.device_threads.threads] == WORKERS
    assert threading.active_count() == before + len(WORKERS)
    own.stop()
    assert threading.active_count() == before


@pytest.mark.row("B3", eager_only="It looks at the queues and threads of an engine of its own.")
def test_each_device_has_a_queue_and_a_worker_that_has_started() -> None:
    own = Engine()
    assert own.device_ready_queues == []
    own.initialize_device_threads_pool()
    queues, threads = own.device_ready_queues, own.device_threads.threads
    assert len(queues) == len(threads) == own.device_threads.count == 2
    assert all(thread.is_alive() for thread in threads)
    assert len({id(queue) for queue in queues}) == 2
    own.initialize_device_threads_pool()
    assert own.device_ready_queues is queues
    own.stop()


@pytest.mark.row("B3", "B37")
def test_every_node_runs_on_the_thread_of_its_device(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(0.5, 2.0)
        with engine.trace() as trace:
            _two_devices(x).backward()
        here = threading.current_thread().name
        where = {(e.device, e.thread) for e in trace.of("exec")}
        pushed = {id(e.node): e.device for e in trace.of("ready")}
        agree = all(pushed[id(e.node)] == e.device for e in trace.of("exec"))
        return where == {("cpu", here), ("vcpu:0", WORKERS[0]), ("vcpu:1", WORKERS[1])}, agree, x.grad.tolist()

    same_threads, agree, grad = mode.run(step)
    assert same_threads
    assert agree
    assert grad == pytest.approx([2.5263038, 6.9729090], rel=1e-5)


def _nested(level: int, look: Callable[[], Any], device: Any = None) -> Callable[[Any], None]:
    """A hook that looks, and runs a backward whose hook does the same, ``level`` times."""

    def hook(grad: Any) -> None:
        look()
        if level:
            inner = _leaf(1.0, device=device)
            with jitgrad.enable_grad():
                h = inner * 2
                h.register_hook(_nested(level - 1, look, device))
                loss = h.sum()
            loss.backward()

    return hook


@pytest.mark.row("B5", "C22", "B20")
def test_nesting_moves_to_the_pool_at_the_limit(mode: Mode) -> None:
    def step() -> Any:
        seen: list[tuple[int, int, int]] = []

        def look() -> None:
            depth = current_graph_task().reentrant_depth
            seen.append((depth, threading.get_ident(), _stack_depth()))

        x = _leaf(1.0)
        y = x * 2
        y.register_hook(_nested(200, look))
        y.sum().backward()
        return seen, x.grad.tolist()

    seen, grad = mode.run(step)
    assert grad == [2.0]
    assert [depth for depth, _, _ in seen] == list(range(201))
    runs = [len(list(group)) for _, group in itertools.groupby(thread for _, thread, _ in seen)]
    # the outermost call and as many as the limit says; then the pool's threads, the same each
    assert runs == [MAX_DEPTH + 1, MAX_DEPTH + 1, MAX_DEPTH + 1, 18]
    assert seen[0][1] == threading.get_ident()
    assert max(stack for _, _, stack in seen) < 900


def _stack_depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.row("B20")
def test_nested_tasks_report_their_depth(mode: Mode) -> None:
    def step() -> Any:
        seen: list[int] = []
        y = _leaf(1.0) * 2
        y.register_hook(_nested(2, lambda: seen.append(current_graph_task().reentrant_depth)))
        y.sum().backward()
        return seen, current_graph_task()

    assert mode.run(step) == ([0, 1, 2], None)


@pytest.mark.row("B6", eager_only="It looks at a thread pool of its own, without any graph.")
def test_the_pool_creates_a_thread_only_when_none_is_idle() -> None:
    done = threading.Semaphore(0)
    names: list[str] = []
    gate = threading.Event()

    def run(task: Any) -> None:
        names.append(threading.current_thread().name)
        gate.wait(20)
        done.release()

    pool = ThreadPoolShared(run)
    tasks = [GraphTask(False, False, i, ReadyQueue()) for i in range(3)]
    for task in tasks[:2]:
        pool.add_task(task)  # nobody is idle: each creates one
    assert len(pool.threads) == 2
    _wait_until(lambda: len(names) == 2)  # or the first thread may be done before the second begins, and take both
    gate.set()
    for _ in range(2):
        done.acquire()
    _wait_until(lambda: pool.num_workers == 2)
    pool.add_task(tasks[2])
    done.acquire()
    assert len(pool.threads) == 2  # an idle one was used again
    assert names[2] in names[:2]
    dead = GraphTask(False, False, 0, ReadyQueue())
    _wait_until(lambda: pool.num_workers == 2)
    pool.graphtasks_queue.append(dead.base)
    del dead
    pool.add_task(tasks[0])  # two wait, two are idle: no new thread, and the task whose caller left is passed over
    done.acquire()
    assert len(names) == 4
    threads = list(pool.threads)
    pool.stop(10)
    assert not any(thread.is_alive() for thread in threads)


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.row("B7", eager_only="It stops an engine of its own, and a whole process.")
def test_stopping_twice_is_harmless_and_joins_the_workers() -> None:
    own = Engine()
    own.initialize_device_threads_pool()
    threads = list(own.device_threads.threads)
    own.stop()
    own.stop()
    assert own.stopped
    assert own.device_threads.count == 0
    assert not any(thread.is_alive() for thread in threads)
    own.initialize_device_threads_pool()  # a later graph starts them again
    assert own.device_threads.count == 2
    assert not own.stopped
    own.stop()


_PROGRAM = """
import os, threading, jitgrad
def backward():
    x = jitgrad.ones(2, requires_grad=True)
    y = x.to("vcpu:0") * 2
    y.register_hook(nest(70))
    y.cpu().sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
def nest(level):
    def hook(grad):
        if level:
            with jitgrad.enable_grad():
                h = jitgrad.ones(1, requires_grad=True) * 2
                h.register_hook(nest(level - 1))
                loss = h.sum()
            loss.backward()
    return hook
backward()
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        threads = {t.name for t in threading.enumerate()}
        assert not any(name.startswith("jitgrad-") for name in threads), threads
        backward()
        print("child", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
jitgrad.autograd.engine.stop()
backward()
print("end")
"""


@pytest.mark.row("B7", eager_only="It stops an engine of its own, and a whole process.")
def test_the_interpreter_exits_with_workers_and_pool_threads_waiting() -> None:
    env = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, env=env, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["child", "end"]
    assert run.stderr == ""


@pytest.mark.row("B16")
def test_a_hundred_runs_on_two_devices_by_several_callers_agree(mode: Mode) -> None:
    def step() -> Any:
        x, w = _leaf(0.1, 0.2, 0.3), _leaf(1.5)
        a, b = x.to("vcpu:0"), x.to("vcpu:1")
        left, right = (a * w.to("vcpu:0")).sin() * a, (b.exp() * w.to("vcpu:1")).tanh() + b
        (left.cpu() * right.cpu() + right.to("vcpu:0").cpu() * x).sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    def repeat(i: int) -> set[str]:
        function = mode.wrap(step)
        return {repr(function()) for _ in range(34)}

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = set().union(*_run_threads(repeat, 3))
    finally:
        sys.setswitchinterval(old)
    assert len(found) == 1, found


@pytest.mark.row("B18")
def test_a_worker_has_the_settings_of_its_caller(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        y = x.to("vcpu:0") * 2
        seen: list[Any] = []

        def look(grad: Any) -> None:
            flags = jitgrad.autograd.is_anomaly_enabled(), jitgrad.get_default_dtype(), len(state.saved_tensor_hooks)
            seen.append((threading.current_thread().name, *flags))

        y.register_hook(look)
        loss = y.cpu().sum()
        pack_nothing = jitgrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        before = jitgrad.get_default_dtype()
        jitgrad.set_default_dtype(jitgrad.float64)
        try:
            with jitgrad.autograd.detect_anomaly(), pack_nothing:
                loss.backward(retain_graph=True)
        finally:
            jitgrad.set_default_dtype(before)
        loss.backward()
        return seen

    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        seen = mode.run(step, is_steady=False)
    assert seen == [
        (WORKERS[0], True, jitgrad.float64, 1),
        (WORKERS[0], False, jitgrad.float32, 0),
    ]


@pytest.mark.row("B19", "C21")
@pytest.mark.parametrize("device", ["cpu", "vcpu:0"])
def test_a_task_is_owned_by_the_thread_that_called(mode: Mode, device: str) -> None:
    def step() -> Any:
        owners: list[Any] = []
        x = _leaf(1.0, device=device)
        y = x * 2
        y.register_hook(_nested(2, lambda: owners.append((current_graph_task().owner, current.worker_device)), device))
        y.sum().backward()
        return owners, current.worker_device, x.grad.tolist()

    place = CPU_DEVICE if device == "cpu" else 0
    # the outer call is made by the CPU's thread, the nested ones by the thread that runs the hook
    assert mode.run(step) == ([(CPU_DEVICE, place), (place, place), (place, place)], NO_DEVICE, [2.0])


@pytest.mark.row("C21", "C22")
def test_deep_nesting_on_a_device_s_worker(mode: Mode) -> None:
    def step() -> Any:
        seen: list[int] = []
        x = _leaf(1.0, device="vcpu:0")
        y = x * 2
        y.register_hook(_nested(70, lambda: seen.append(threading.get_ident()), "vcpu:0"))
        y.sum().backward()
        return len(seen), len(set(seen)), x.grad.tolist()

    assert mode.run(step) == (71, 2, [2.0])


@pytest.mark.row("B35", eager_only="It pushes a task into a device's queue by hand.")
def test_a_task_whose_backward_is_gone_is_skipped() -> None:
    ran: list[int] = []

    class Ran(Node):
        __slots__ = ()

        def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
            ran.append(1)
            return ()

    engine.initialize_device_threads_pool()
    task = GraphTask(False, False, 0, ReadyQueue())
    base = task.base
    del task
    gc.collect()
    assert base() is None
    with engine.trace() as trace:
        engine.device_ready_queues[0].push(NodeTask(base, Ran(), []))
        _wait_until(lambda: bool(trace.of("skip")))
    assert trace.of("skip")[0].detail == "nobody waits for its backward any more"
    assert not ran
    x = _leaf(1.0, device="vcpu:0")
    (x * 3).sum().backward()  # the worker goes on
    assert x.grad.tolist() == [3.0]


@pytest.mark.row("B38")
def test_only_an_owner_that_sleeps_is_woken(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, device="vcpu:1")
        with engine.trace() as trace:
            (x * 3).sum().backward()  # every node is on vcpu:1: its worker finishes
        y = _leaf(1.0)
        with engine.trace() as other:
            (y.to("vcpu:1") * 3).cpu().sum().backward()  # the leaf is on the CPU: the caller finishes
        return [e.device for e in trace.of("wake")], other.of("wake"), x.grad.tolist(), y.grad.tolist()

    assert mode.run(step) == (["cpu"], [], [3.0], [3.0])


@pytest.mark.row("B39", eager_only="It measures the time that idle threads take from the processor.")
def test_idle_workers_take_no_time() -> None:
    x = _leaf(1.0)
    _two_devices(x).backward()
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)
    time.sleep(0.05)
    start = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - start < 0.1
    assert all(queue.empty() for queue in engine.device_ready_queues)
    assert all(thread.is_alive() for thread in engine.device_threads.threads)


@pytest.mark.row("B53")
def test_tasks_share_the_queues_of_devices_and_nothing_else(mode: Mode) -> None:
    def step(meet: threading.Barrier) -> Any:
        x = _leaf(1.0)
        h = x.to("vcpu:0") * 2
        y = (h * 3).cpu() * 4
        seen: list[Any] = []

        def on_cpu(grad: Any) -> None:
            meet.wait(30)  # both callers are in their backward
            seen.append(("cpu", threading.get_ident(), current_graph_task().cpu_ready_queue))

        def on_device(grad: Any) -> None:
            seen.append(("vcpu:0", threading.get_ident(), current_graph_task().cpu_ready_queue))

        y.register_hook(on_cpu)
        h.register_hook(on_device)
        y.sum().backward()
        return threading.get_ident(), seen, x.grad.tolist()

    meet = threading.Barrier(2)
    results = _run_threads(lambda i: mode.run(lambda: step(meet), is_steady=False), 2)  # compiles count for all threads
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
            release.wait(20)
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
    queue.push(NodeTask(tasks["f"].base, first, []))
    _wait_until(lambda: order == ["first"])
    for node in nodes:
        queue.push(NodeTask(tasks[node.text[0]].base, node, []))
    release.set()
    for task in tasks.values():
        assert task.future_result.wait(20)
        assert task.cpu_ready_queue.empty()
    assert order == ["first", "b1", "a1", "b0", "a0"]


@pytest.mark.row("B54", eager_only="It fills a queue by hand.")
def test_the_order_of_a_queue() -> None:
    queue = ReadyQueue()
    outer, inner = GraphTask(False, False, 0, queue), GraphTask(False, False, 1, queue)
    old, new = Node(), Node()
    tasks = {
        "outer old": NodeTask(outer.base, old, []),
        "inner old": NodeTask(inner.base, old, []),
        "empty": NodeTask(outer.base, None, []),
        "outer new": NodeTask(outer.base, new, []),
        "inner new": NodeTask(inner.base, new, []),
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
    waiter.join(0.1)
    assert waiter.is_alive()  # nothing to take yet
    node = Node()
    queue.push(NodeTask(task.base, node, []))
    waiter.join(20)
    assert [item.fn for item in got] == [node]
    assert (task.outstanding_tasks, queue.size(), queue.empty()) == (1, 0, True)
    queue.push(NodeTask(task.base, node, []), increment_outstanding_tasks=False)
    assert (task.outstanding_tasks, queue.size(), queue.empty()) == (1, 1, False)
    queue.discard(task.base)
    assert queue.empty()


@pytest.mark.row("B56", eager_only="Queues belong to threads and devices, whatever the nodes compute.")
def test_there_are_as_many_queues_as_devices_and_callers() -> None:
    meet = threading.Barrier(3)

    def call(i: int) -> Any:
        x = _leaf(1.0)
        y = x.to("vcpu:0") * 2
        queues: list[ReadyQueue] = []

        def look(grad: Any) -> None:
            meet.wait(30)
            queues.append(current_graph_task().cpu_ready_queue)

        z = y.cpu() * 1
        z.register_hook(look)
        z.sum().backward()
        return queues

    own = [queue for queues in _run_threads(call, 3) for queue in queues]
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


@pytest.mark.row("B58", "B11")
def test_each_caller_has_a_queue_that_the_pool_takes_over(mode: Mode) -> None:
    def step() -> Any:
        seen: list[Any] = []

        def look() -> None:
            task = current_graph_task()
            queue = task.cpu_ready_queue
            seen.append((threading.get_ident(), current.local_ready_queue is queue, queue))

        y = _leaf(1.0) * 2
        y.register_hook(_nested(MAX_DEPTH + 5, look))
        y.sum().backward()
        return seen

    callers = _run_threads(lambda i: mode.run(step, is_steady=False), 2)  # compiles are counted for all threads
    queues = []
    for seen in callers:
        assert len({thread for thread, _, _ in seen}) == 2  # the caller, and a thread of the pool
        assert all(is_own for _, is_own, _ in seen)
        (queue,) = {queue for _, _, queue in seen}
        queues.append(queue)
    assert queues[0] is not queues[1]


@pytest.mark.row("C16")
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

    assert mode.run(step) == ([("SumBackward0", "vcpu:1"), ("GraphRoot", "cpu")], (WORKERS[1], True))


@pytest.mark.row("C21")
def test_a_nested_call_that_waits_leaves_the_outer_nodes(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        early, late = x.sin(), x.exp()  # both are ready when the root is done; the later one runs first
        order: list[str] = []

        def nest(grad: Any) -> None:
            inner = _leaf(1.0, device="vcpu:0")
            with jitgrad.enable_grad():
                h = inner * 2
                h.register_hook(lambda g: time.sleep(0.01))  # the caller has nothing to do but wait
                loss = h.sum()
            loss.backward()
            order.append("nested")

        late.register_hook(nest)
        early.register_hook(lambda g: order.append("outer"))
        (early + late).sum().backward()
        return order

    assert mode.run(step) == ["nested", "outer"]


class _RandomGraph:
    """A graph over three devices, some of whose hooks build and run another one; some hooks fail."""

    devices = ("cpu", "vcpu:0", "vcpu:1")

    def __init__(self, seed: float, depth: int = 0, may_fail: bool = False) -> None:
        rng = random.Random(seed)
        self.leaves = [_leaf(rng.uniform(0.5, 1.5), 1.0, device=rng.choice(self.devices)) for _ in range(2)]
        values = list(self.leaves)
        for _ in range(rng.randint(3, 10)):
            device = rng.choice(self.devices)
            a, b = rng.choice(values).to(device), rng.choice(values).to(device)
            values.append([lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a.sin() - b][rng.randrange(3)](a, b))
            if rng.random() < 0.25 and depth < 2:
                values[-1].register_hook(self._nest(rng.random(), depth + 1))
            if may_fail and rng.random() < 0.15:
                values[-1].register_hook(self._fail)
        self.loss = values[-1].cpu().sum() + values[-2].cpu().sum()

    @staticmethod
    def _fail(grad: Any) -> None:
        raise LookupError("as it should")

    @staticmethod
    def _nest(seed: float, depth: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            with jitgrad.enable_grad():
                inner = _RandomGraph(seed, depth)
            inner.loss.backward()

        return hook

    def run(self) -> str:
        try:
            self.loss.backward()
        except LookupError as error:
            return str(error)
        return repr([leaf.grad if leaf.grad is None else leaf.grad.tolist() for leaf in self.leaves])


def test_random_nested_graphs_are_the_same_for_one_caller_and_for_several() -> None:
    alone = [_RandomGraph(seed, may_fail=seed % 3 == 0).run() for seed in range(40)]
    assert "as it should" in alone

    def call(i: int) -> list[str]:
        return [_RandomGraph(seed, may_fail=seed % 3 == 0).run() for seed in range(40)]

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert _run_threads(call, 3) == [alone] * 3
    finally:
        sys.setswitchinterval(old)


@pytest.mark.row("C23")
@pytest.mark.parametrize("device", ["cpu", "vcpu:0"])
def test_an_error_keeps_nothing_alive(mode: Mode, device: str) -> None:
    found: list[Any] = []

    def step() -> Any:
        x = _leaf(1.0, device=device)
        y = x * 2

        def fail(grad: Any) -> None:
            found.extend((weakref.ref(current_graph_task()), weakref.ref(x)))
            raise LookupError("text")

        y.register_hook(fail)
        with pytest.raises(LookupError):
            y.sum().backward()

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        mode.run(step)
        task, leaf = found[-2:]
        _wait_until(lambda: task() is None)
        if not mode.is_compiled:  # a compiled function remembers its arguments' tensors for a while
            _wait_until(lambda: leaf() is None)
    finally:
        if was_enabled:
            gc.enable()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals sent to a thread")
def test_ctrl_c_ends_the_wait_for_a_device() -> None:
    x = _leaf(1.0, device="vcpu:0")
    y = x * 2
    go_on = threading.Event()
    main = threading.get_ident()

    def hook(grad: Any) -> None:
        signal.pthread_kill(main, signal.SIGINT)
        go_on.wait(30)

    y.register_hook(hook)
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert not go_on.is_set()
    assert current_graph_task() is None
    assert current.worker_device == NO_DEVICE
    go_on.set()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_finished_backward_is_not_kept_by_a_worker() -> None:
    x = _leaf(1.0)
    y = x.to("vcpu:0") * 2
    node = weakref.ref(y.grad_fn)
    y.cpu().sum().backward()
    del y
    _wait_until(lambda: node() is None)


def test_one_thread_does_everything_where_the_caller_wants_it() -> None:
    x = _leaf(0.5, 2.0)
    with engine.trace() as trace, jitgrad.autograd.set_multithreading_enabled(False):
        _two_devices(x).backward()
    assert {e.thread for e in trace.of("exec")} == {threading.current_thread().name}
    assert x.grad.tolist() == pytest.approx([2.5263038, 6.9729090], rel=1e-5)
