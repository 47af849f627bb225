"""The devices' workers: started once, seen at work, stopped, and what they keep of a backward that ended."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest
from modes import ANOMALY, ARGUMENTS, HOOKED, NOTHING_HELD, OUTSIDE, VIRTUAL, Mode, cpu_and
from threads import LONGEST_WAIT_S, run_threads, sleeps_on, wait_for_devices, wait_until

import jitgrad
from jitgrad import vcpu
from jitgrad.autograd import Engine, engine
from jitgrad.runtime.engine.graph.current import NO_DEVICE, current, current_graph_task
from jitgrad.runtime.engine.graph.node import Node
from jitgrad.runtime.engine.run.device_threads import DeviceThreads
from jitgrad.runtime.engine.run.graph_task import GraphTask
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import NodeTask, ReadyQueue
from jitgrad.state import state

pytestmark = pytest.mark.usefixtures("idle_devices")

WORKERS = ["jitgrad-autograd-vcpu:0", "jitgrad-autograd-vcpu:1"]


def _leaf(*values: float, device: Any = None) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True, device=device)


def _two_devices(x: Any) -> Any:
    """One branch on each device, the sum on the CPU."""
    return (x.to("vcpu:0").sin().cpu() + x.to("vcpu:1").exp().cpu()).sum()


@pytest.mark.row("B2", eager_only="It counts the threads of an engine of its own, without any graph.")
def test_threads_that_race_start_the_workers_once() -> None:
    own = Engine()
    others = set(threading.enumerate())
    barrier = threading.Barrier(8)

    def start(i: int) -> int:
        barrier.wait()
        own.initialize_device_threads_pool()
        return own.device_threads.count

    counts = run_threads(start, 8)
    assert counts == [vcpu.device_count()] * 8
    assert [thread.name for thread in own.device_threads.threads] == WORKERS
    mine = own.device_threads.threads[:]
    started = [thread for thread in threading.enumerate() if thread.name in WORKERS and thread not in others]
    assert set(started) == set(mine)
    own.stop()
    assert not any(thread.is_alive() for thread in mine)


@pytest.mark.row("B2", engine=OUTSIDE, fallbacks=VIRTUAL)
def test_backwards_that_race_start_the_workers_once(mode: Mode) -> None:
    engine.stop()
    others = set(threading.enumerate())
    barrier = threading.Barrier(8)

    def step() -> Any:
        x = _leaf(0.5, 2.0)
        loss = _two_devices(x)
        barrier.wait(LONGEST_WAIT_S)
        loss.backward()
        return x.grad.tolist()

    grads = run_threads(lambda i: mode.run(step, is_steady=False), 8)  # compiles are counted for all threads
    assert grads == [pytest.approx([2.5263038, 6.9729090], rel=1e-5)] * 8
    started = [t for t in threading.enumerate() if t.name.startswith("jitgrad-autograd") and t not in others]
    assert sorted(t.name for t in started) == WORKERS
    assert engine.device_threads.count == len(engine.device_ready_queues) == vcpu.device_count()


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


@pytest.mark.row("B3", eager_only="It looks at the queues and threads of an engine of its own.")
def test_who_starts_the_workers_waits_for_them() -> None:
    class Slow(DeviceThreads):
        def _serve(self, index: int, queue: ReadyQueue) -> None:
            time.sleep(0.05)
            super()._serve(index, queue)

    seen: list[int] = []

    def serve(index: int, queue: ReadyQueue) -> None:
        seen.append(index)
        assert queue.pop().is_shutdown_task

    own = Slow(serve)
    own.start(2)
    assert own.count == 2
    own.stop(10)
    assert sorted(seen) == [0, 1]


@pytest.mark.row("B3", "B37", engine=OUTSIDE, fallbacks=VIRTUAL)
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


@pytest.mark.row("B7", engine=(OUTSIDE, HOOKED), fallbacks=VIRTUAL)
def test_a_backward_after_stop_starts_the_workers_again(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(0.5, 2.0)
        _two_devices(x).backward()
        wait_for_devices()
        threads = list(engine.device_threads.threads)
        engine.stop()
        engine.stop()
        ended = engine.stopped, engine.device_threads.count, [t.is_alive() for t in threads]
        _two_devices(x).backward()
        return ended, engine.stopped, engine.device_threads.count, x.grad.tolist()

    ended, stopped, count, grad = mode.run(step)
    assert ended == (True, 0, [False] * 2)
    assert (stopped, count) == (False, 2)
    assert grad == pytest.approx([2 * 2.5263038, 2 * 6.9729090], rel=1e-5)


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


@pytest.mark.row("B16", engine=OUTSIDE, fallbacks=VIRTUAL)
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

    with jitgrad.autograd.set_multithreading_enabled(False):
        alone = repr(mode.wrap(step)())  # every node on this thread, one after the other

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = set().union(*run_threads(repeat, 3))
    finally:
        sys.setswitchinterval(old)
    assert found == {alone}


@pytest.mark.row("B17", "B18", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_worker_has_the_grad_mode_of_the_call(mode: Mode, create_graph: bool) -> None:
    def step() -> Any:
        x = _leaf(1.0, device="vcpu:0")
        seen: list[bool] = []
        y = x * x
        y.register_hook(lambda grad: seen.append(jitgrad.is_grad_enabled()))
        with jitgrad.set_grad_enabled(not create_graph):
            (grad,) = jitgrad.autograd.grad(y, x, jitgrad.ones(1, device="vcpu:0"), create_graph=create_graph)
        return seen, grad.requires_grad, grad.tolist()

    assert mode.run(step) == ([create_graph], create_graph, [2.0])


@pytest.mark.row("B18", engine=(ANOMALY, ARGUMENTS), fallbacks=VIRTUAL)
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
        engine.device_ready_queues[0].push(NodeTask(base, Ran(), InputBuffer()))
        wait_until(lambda: bool(trace.of("skip")))
    assert trace.of("skip")[0].detail == "nobody waits for its backward any more"
    assert not ran
    x = _leaf(1.0, device="vcpu:0")
    (x * 3).sum().backward()  # the worker goes on
    assert x.grad.tolist() == [3.0]


@pytest.mark.row("B39", engine=OUTSIDE, fallbacks=VIRTUAL)
def test_idle_workers_take_no_time(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        _two_devices(x).backward()
        return x.grad.tolist()

    assert mode.run(step) == pytest.approx([3.2585841], rel=1e-5)
    for index in range(vcpu.device_count()):
        vcpu.synchronize(index)
    # kernels' own workers spin for a moment, and other tests' threads end: somewhere there are quiet 300 ms
    assert any(_seconds_used_in(0.3) < 0.05 for _ in range(20))
    assert all(queue.empty() for queue in engine.device_ready_queues)
    assert all(thread.is_alive() for thread in engine.device_threads.threads)


def _seconds_used_in(pause: float) -> float:
    start = time.process_time()
    time.sleep(pause)
    return time.process_time() - start


@pytest.mark.row("C23", engine=HOOKED)
@cpu_and("vcpu:0")
def test_an_error_keeps_nothing_alive(mode: Mode, device: str) -> None:
    if device == "cpu":
        mode.states(no_launch=NOTHING_HELD)
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
        wait_until(lambda: task() is None)
        if not mode.is_compiled:  # a compiled function remembers its arguments' tensors for a while
            wait_until(lambda: leaf() is None)
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
        queue = current_graph_task().cpu_ready_queue
        wait_until(lambda: sleeps_on(queue))
        signal.pthread_kill(main, signal.SIGINT)
        assert go_on.wait(30)

    y.register_hook(hook)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            y.sum().backward()
    finally:
        signal.signal(signal.SIGINT, before)
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
    wait_until(lambda: node() is None)


def test_one_thread_does_everything_where_the_caller_wants_it() -> None:
    x = _leaf(0.5, 2.0)
    with engine.trace() as trace, jitgrad.autograd.set_multithreading_enabled(False):
        _two_devices(x).backward()
    assert {e.thread for e in trace.of("exec")} == {threading.current_thread().name}
    assert x.grad.tolist() == pytest.approx([2.5263038, 6.9729090], rel=1e-5)
