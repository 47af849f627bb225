"""Backward inside backward: how deep, on which thread, and random graphs that do it on several devices at once."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, VIRTUAL, Mode, cpu_and
from threads import LONGEST_WAIT_S, run_threads, sleeps_on, wait_until

import jitgrad
from jitgrad.autograd import engine
from jitgrad.runtime.engine.graph.current import CPU_DEVICE, NO_DEVICE, current, current_graph_task
from jitgrad.runtime.engine.run.graph_task import GraphTask
from jitgrad.runtime.engine.run.ready_queue import ReadyQueue
from jitgrad.runtime.engine.run.reentrant_pool import MAX_DEPTH, ThreadPoolShared
from jitgrad.runtime.engine.run.thread_locals import ThreadLocalStateGuard

pytestmark = pytest.mark.usefixtures("idle_devices")


def _leaf(*values: float, device: Any = None) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True, device=device)


def _nested(
    level: int, look: Callable[[], Any], device: Any = None, after: Callable[[], Any] = lambda: None
) -> Callable[[Any], None]:
    """A hook that looks, and runs a backward whose hook does the same, ``level`` times; ``after`` each is over."""

    def hook(grad: Any) -> None:
        look()
        if level:
            inner = _leaf(1.0, device=device)
            with jitgrad.enable_grad():
                h = inner * 2
                h.register_hook(_nested(level - 1, look, device, after))
                loss = h.sum()
            loss.backward()
            after()

    return hook


@pytest.mark.row("B5", "C22", "B20", engine=HOOKED)
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


@pytest.mark.row("B5", engine=HOOKED)
def test_calls_side_by_side_are_not_nested(mode: Mode) -> None:
    """A hundred nested calls, one after the other: none of them is deep."""

    def step() -> Any:
        depths: set[int] = set()
        threads: set[int] = set()

        def look() -> None:
            depths.add(current_graph_task().reentrant_depth)
            threads.add(threading.get_ident())

        def hook(grad: Any) -> None:
            for _ in range(100):
                _nested(1, look)(grad)

        y = _leaf(1.0) * 2
        y.register_hook(hook)
        y.sum().backward()
        return depths, len(threads), current.current_depth

    assert mode.run(step) == ({0, 1}, 1, 0)


@pytest.mark.row("B20", engine=HOOKED)
def test_nested_tasks_report_their_depth(mode: Mode) -> None:
    def step() -> Any:
        seen: list[int] = []
        y = _leaf(1.0) * 2
        y.register_hook(_nested(2, lambda: seen.append(current_graph_task().reentrant_depth)))
        y.sum().backward()
        return seen, current_graph_task()

    assert mode.run(step) == ([0, 1, 2], None)


@pytest.mark.row("B40", engine=HOOKED)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_call_inside_a_restricted_one_is_restricted(mode: Mode, depth: int) -> None:
    """A checkpoint that runs backward reaches every leaf only if no call around it has chosen its inputs."""

    def step() -> Any:
        seen: list[bool] = []
        x = _leaf(1.0)
        for ask in (lambda y: y.sum().backward(), lambda y: jitgrad.autograd.grad(y.sum(), x)):
            y = x * 2
            y.register_hook(_nested(depth, lambda: seen.append(engine.is_checkpoint_valid())))
            ask(y)
        return seen, engine.is_checkpoint_valid()

    count = depth + 1
    assert mode.run(step) == ([True] * count + [False] * count, True)


@pytest.mark.row("B6", eager_only="It looks at a thread pool of its own, without any graph.")
def test_the_pool_creates_a_thread_only_when_none_is_idle() -> None:
    done = threading.Semaphore(0)
    names: list[str] = []
    gate = threading.Event()

    def run(task: Any) -> None:
        names.append(threading.current_thread().name)
        gate.wait(LONGEST_WAIT_S)
        done.release()

    pool = ThreadPoolShared(run)
    tasks = [GraphTask(False, False, i, ReadyQueue()) for i in range(3)]
    for task in tasks[:2]:
        pool.add_task(task)  # nobody is idle: each creates one
    assert len(pool.threads) == 2
    wait_until(lambda: len(names) == 2)  # or the first thread may be done before the second begins, and take both
    gate.set()
    for _ in range(2):
        assert done.acquire(timeout=LONGEST_WAIT_S)
    wait_until(lambda: pool.num_workers == 2)
    pool.add_task(tasks[2])
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert len(pool.threads) == 2  # an idle one was used again
    assert names[2] in names[:2]
    dead = GraphTask(False, False, 0, ReadyQueue())
    wait_until(lambda: pool.num_workers == 2)
    pool.graphtasks_queue.append(dead.base)
    del dead
    pool.add_task(tasks[0])  # two wait, two are idle: no new thread, and the task whose caller left is passed over
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert len(names) == 4
    threads = list(pool.threads)
    pool.stop(10)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.row("B19", "C21", engine=HOOKED)
@cpu_and("vcpu:0")
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


@pytest.mark.row("C21", "C22", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_deep_nesting_on_a_device_s_worker(mode: Mode) -> None:
    def step() -> Any:
        seen: list[int] = []
        x = _leaf(1.0, device="vcpu:0")
        y = x * 2
        y.register_hook(_nested(70, lambda: seen.append(threading.get_ident()), "vcpu:0"))
        y.sum().backward()
        return len(seen), len(set(seen)), x.grad.tolist()

    assert mode.run(step) == (71, 2, [2.0])


@pytest.mark.row("B58", "B11", engine=HOOKED)
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

    callers = run_threads(lambda i: mode.run(step, is_steady=False), 2)  # compiles are counted for all threads
    queues = []
    for seen in callers:
        assert len({thread for thread, _, _ in seen}) == 2  # the caller, and a thread of the pool
        assert all(is_own for _, is_own, _ in seen)
        (queue,) = {queue for _, _, queue in seen}
        queues.append(queue)
    assert queues[0] is not queues[1]


@pytest.mark.row("B58", engine=HOOKED)
def test_the_pool_lets_go_of_the_recorder_before_the_caller_goes_on(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on = threading.Event()
    too_early: list[bool] = []
    leave = ThreadLocalStateGuard.__exit__

    def leave_late(guard: Any, *error: Any) -> None:
        too_early.append(went_on.wait(0.05))  # the result is there
        leave(guard, *error)

    monkeypatch.setattr(ThreadLocalStateGuard, "__exit__", leave_late)

    def step() -> Any:
        went_on.clear()
        caller = threading.get_ident()
        x = _leaf(1.0)
        y = x * 2

        def note() -> None:
            if threading.get_ident() == caller:
                went_on.set()

        y.register_hook(_nested(MAX_DEPTH + 5, lambda: None, after=note))
        y.sum().backward()
        return x.grad.tolist()

    assert mode.run(step) == [2.0]
    assert too_early
    assert not any(too_early)


@pytest.mark.row("C21", engine=(HOOKED, ARGUMENTS), fallbacks=VIRTUAL)
def test_a_nested_call_that_waits_leaves_the_outer_nodes(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        early, late = x.sin(), x.exp()  # both are ready when the root is done; the later one runs first
        order: list[str] = []

        def nest(grad: Any) -> None:
            mine = current_graph_task().cpu_ready_queue
            inner = _leaf(1.0, device="vcpu:0")
            with jitgrad.enable_grad():
                h = inner * 2
                h.register_hook(lambda g: wait_until(lambda: sleeps_on(mine)))  # it has nothing to do but wait
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
        assert run_threads(call, 3) == [alone] * 3
    finally:
        sys.setswitchinterval(old)
