"""One backward call: its arguments, its graph task, results, captures, callbacks, streams and errors."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, OUTSIDE, UNRECORDABLE, VIRTUAL, Mode, cpu_and
from threads import LONGEST_WAIT_S, Gate, run_threads, wait_for_devices, wait_until

import jitgrad
from jitgrad import vcpu
from jitgrad.autograd import Variable, engine, graph
from jitgrad.runtime.devices.stream import current_stream
from jitgrad.runtime.engine.graph.current import NO_DEVICE, current, current_graph_task, current_node
from jitgrad.runtime.engine.graph.join import set_history
from jitgrad.runtime.engine.graph.node import GraphRoot
from jitgrad.runtime.engine.run.dist_engine import DistAutogradContext, DistEngine, RecvRpcBackward, SendRpcBackward
from jitgrad.runtime.engine.run.future import Future
from jitgrad.runtime.engine.run.graph_task import GraphTask, compute_dependencies
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.runtime.engine.run.ready_queue import ReadyQueue

pytestmark = pytest.mark.usefixtures("idle_devices")


def _leaf(*values: float, device: Any = None) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True, device=device)


@pytest.mark.row("B1")
def test_execute_by_its_names(mode: Mode) -> None:
    def step() -> Any:
        x, w = _leaf(2.0), _leaf(5.0)
        y = x * x * w
        edges = [graph.get_gradient_edge(t) for t in (w, x)]
        grads = engine.execute(
            roots=[graph.get_gradient_edge(y)],
            inputs=[jitgrad.ones(1)],
            keep_graph=False,
            create_graph=False,
            accumulate_grad=False,
            outputs=edges,
        )
        return [g.tolist() for g in grads], x.grad, w.grad

    assert mode.run(step) == ([[4.0], [20.0]], None, None)


@pytest.mark.row("B1")
def test_run_backward_of_variable(mode: Mode) -> None:
    def step() -> Any:
        x, w, other = _leaf(2.0), _leaf(5.0), _leaf(1.0)
        y, one = x * x * w, jitgrad.ones(1)
        run = Variable._execution_engine.run_backward
        grads = run((y,), (one,), True, False, (w, x, w), allow_unreachable=True, accumulate_grad=False)
        missing = run((y,), (one,), True, False, (other, x), allow_unreachable=True)
        nothing = run((y,), (one,), True, False, (x,), allow_unreachable=True, accumulate_grad=True)
        into_all = run((y, y), (one, one), False, False, allow_unreachable=True, accumulate_grad=True)
        results = [g.tolist() for g in grads], missing[0], missing[1].tolist(), nothing, into_all
        return results, x.grad.tolist(), w.grad.tolist()

    results, x_grad, w_grad = mode.run(step)
    assert results == ([[4.0], [20.0], [4.0]], None, [20.0], None, None)
    assert (x_grad, w_grad) == ([60.0], [8.0])


@pytest.mark.row("B1", "C1")
def test_every_backward_comes_down_to_run_backward(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit of a compiled step runs no engine; every other call passes here, with the arguments of the documents."""
    door = Variable._execution_engine
    calls: list[Any] = []
    run = door.run_backward

    def spy(tensors: Any, grad_tensors: Any, *rest: Any, **options: Any) -> Any:
        calls.append((len(tensors), [jitgrad.is_tensor(g) for g in grad_tensors], *rest[:2], len(rest[2]), options))
        return run(tensors, grad_tensors, *rest, **options)

    monkeypatch.setattr(door, "run_backward", spy)
    allowed = iter((None, False, True))  # another one at each call: a call of grad() that is known is a hit

    def step() -> Any:
        calls.clear()
        x = _leaf(2.0)
        y = x * x
        jitgrad.autograd.backward([y, y], [jitgrad.ones(1)] * 2, retain_graph=True)
        jitgrad.autograd.grad(y, x, retain_graph=True, allow_unused=next(allowed))
        y.backward(jitgrad.ones(1), inputs=[x])
        return x.grad.tolist(), calls[:]

    into_grad = {"allow_unreachable": True, "accumulate_grad": True}
    grad, seen = mode.run(step)
    assert grad == [12.0]
    assert [call[:5] for call in seen] == [
        (2, [True, True], True, False, 0), (1, [False], True, False, 1), (1, [True], False, False, 1)
    ]  # fmt: skip
    assert seen[0][5] == into_grad


@pytest.mark.row("B1", engine=(UNRECORDABLE, HOOKED))
def test_run_backward_checks_its_arguments(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(2.0, 3.0)
        y, one, unused = (x * 2).sum(), jitgrad.tensor(1.0), _leaf(1.0)
        run = Variable._execution_engine.run_backward
        calls: list[tuple[Any, ...]] = [
            (y, (one,), True, False, (x,)),
            ((y,), one, True, False, (x,)),
            ((y, y), (one,), True, False, (x,)),
            ((one,), (one,), True, False, (x,)),
            ((y,), (None,), True, False, (x,)),
            ((1,), (one,), True, False, (x,)),
            ((y,), (3,), True, False, (x,)),
            ((y,), (one,), True, False, (3,)),
            ((y,), (one,), True, False, x),
            ((y,), (one,), True, False),
            ((y,), (one,), True, False, (unused,)),
            ((x * 2,), (jitgrad.ones(3),), True, False, (x,)),
        ]
        messages = []
        for arguments in calls:
            with pytest.raises(RuntimeError) as error:
                run(*arguments)
            messages.append(str(error.value))
        return messages

    messages = mode.run(step)
    assert messages[:10] == [
        "tensors argument is expected to be a tuple, but got Tensor",
        "grad_tensors argument is expected to be a tuple, but got Tensor",
        "got 2 tensors and 1 gradients",
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "element 0 of gradients tuple is None, but the corresponding Tensor requires grad",
        "element 0 of tensors tuple is neither a Tensor nor a GradientEdge",
        "element 0 of gradients tuple is not a Tensor or None",
        "all inputs have to be Tensors or GradientEdges, but got int",
        "inputs to run_backward must be a tuple",
        "grad requires non-empty inputs.",
    ]
    assert "appears to not have been used in the graph" in messages[10]
    assert "shape" in messages[11]


def test_variable_is_every_tensor() -> None:
    x = _leaf(1.0)
    assert isinstance(x, Variable)
    assert not isinstance(1.0, Variable)
    assert Variable(x, requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        Variable._execution_engine.queue_callback(lambda: None)


@pytest.mark.row("B4", engine=HOOKED)
def test_callbacks_run_once_at_the_end(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        y = x * 2
        seen: list[Any] = []

        def late() -> None:
            seen.append(("late", x.grad.tolist(), current_node()))

        def callback() -> None:
            seen.append(("first", x.grad.tolist(), current_node()))
            Variable._execution_engine.queue_callback(late)

        y.register_hook(lambda g: engine.queue_callback(callback))
        y.sum().backward()
        with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
            engine.queue_callback(late)
        return seen

    assert mode.run(step) == [("first", [2.0], None), ("late", [2.0], None)]


@pytest.mark.row("B4", engine=HOOKED)
def test_a_callback_s_error_is_the_caller_s(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        y = x * 2

        def callback() -> None:
            raise LookupError("in a callback")

        handle = y.register_hook(lambda g: engine.queue_callback(callback))
        with pytest.raises(LookupError, match=r"^in a callback$"):
            y.sum().backward(retain_graph=True)
        first = x.grad.tolist()
        handle.remove()
        y.sum().backward()
        return first, x.grad.tolist()

    assert mode.run(step) == ([2.0], [4.0])


@pytest.mark.row("B4", "B24", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_a_callback_on_a_device_runs_once_whoever_finishes(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, device="vcpu:0")
        y = x * 2
        seen: list[Any] = []
        y.register_hook(lambda g: engine.queue_callback(lambda: seen.append(x.grad.tolist())))
        y.sum().backward()
        return seen

    assert mode.run(step) == [[2.0]]


@pytest.mark.row("B11", engine=HOOKED)
def test_two_calls_at_once_share_no_state(mode: Mode) -> None:
    meet = threading.Barrier(2)

    def step() -> Any:
        x = _leaf(1.0)
        y = x * 2
        tasks: list[GraphTask] = []

        def look(grad: Any) -> None:
            meet.wait(LONGEST_WAIT_S)
            tasks.append(current_graph_task())

        y.register_hook(look)
        (y.sin() * y).sum().backward()
        return tasks[0], x.grad.tolist()

    (a, grad_a), (b, grad_b) = run_threads(lambda i: mode.run(step, is_steady=False), 2)
    assert a is not b
    assert a.id != b.id
    assert a.dependencies is not b.dependencies
    assert a.cpu_ready_queue is not b.cpu_ready_queue
    assert a.future_result is not b.future_result
    assert grad_a == grad_b == pytest.approx([0.1540074], rel=1e-5)


@pytest.mark.row("B19", engine=HOOKED)
def test_the_caller_belongs_to_a_device_only_while_it_runs(mode: Mode) -> None:
    def step() -> Any:
        y = _leaf(1.0) * 2
        seen: list[int] = []
        y.register_hook(lambda g: seen.append(current.worker_device))
        before = current.worker_device
        y.sum().backward()
        return before, seen, current.worker_device

    assert mode.run(step) == (NO_DEVICE, [-1], NO_DEVICE)


class _Failing:
    """A graph task made by hand whose first node fails while a second one waits in the queue."""

    def __init__(self, exit_on_error: bool) -> None:
        x = _leaf(1.0)
        a, b = x.sin(), x.exp()
        self.ran: list[str] = []
        self.left: list[int] = []
        self.task = engine.new_graph_task(False, False, exit_on_error)
        b.grad_fn.register_prehook(self.fail)
        a.grad_fn.register_prehook(lambda grads: self.ran.append("a"))
        self.root = GraphRoot((graph.get_gradient_edge(a), graph.get_gradient_edge(b)), (jitgrad.ones(1),) * 2)
        self.task.dependencies = compute_dependencies(self.root, 0)

    def fail(self, grads: Any) -> None:
        raise LookupError("first")

    def run(self) -> Any:
        with engine.trace() as trace:
            engine.execute_with_graph_task(self.task, self.root, InputBuffer())
        return trace


@pytest.mark.row("B21", "C24", eager_only="Only a graph task that is made by hand has exit_on_error.")
@pytest.mark.parametrize("exit_on_error", [True, False])
def test_exit_on_error(exit_on_error: bool) -> None:
    failing = _Failing(exit_on_error)
    trace = failing.run()
    task = failing.task
    assert task.has_error
    assert task.completed()
    with pytest.raises(LookupError, match=r"^first$"):
        task.future_result.value()
    assert failing.ran == []
    kinds = [(e.kind, e.name) for e in trace.of("exec", "error", "skip")]
    done = [("exec", "GraphRoot"), ("exec", "ExpBackward0"), ("error", "ExpBackward0")]
    # queued work is left where it is, or drains first: nothing of it runs
    assert kinds == (done if exit_on_error else [*done, ("skip", "SinBackward0")])
    assert task.outstanding_tasks == (1 if exit_on_error else 0)
    assert task.cpu_ready_queue.empty()


@pytest.mark.row("B21", "B33", engine=ARGUMENTS)
@cpu_and("vcpu:0")
def test_the_distributed_engine_exits_at_the_first_error(mode: Mode, device: str) -> None:
    """Its caller does not wait for what is queued: of a plain backward, it is skipped first."""

    def step() -> Any:
        x = _leaf(1.0, device=device)
        a, b = x.sin(), x.exp()
        tasks: list[GraphTask] = []

        def fail(grads: Any) -> None:
            tasks.append(current_graph_task())
            raise LookupError("first")

        b.grad_fn.register_prehook(fail)
        edges, ones = [graph.get_gradient_edge(t) for t in (a, b)], [jitgrad.ones(1, device=device)] * 2
        context = DistAutogradContext()
        with engine.trace() as trace, pytest.raises(LookupError, match=r"^first$"):
            DistEngine().execute(context, edges, ones)
        with engine.trace() as plain, pytest.raises(LookupError, match=r"^first$"):
            jitgrad.autograd.backward([a, b], ones)
        wait_until(lambda: plain.of("skip"))  # the worker may say so after the caller has its error
        outcomes = [(task.exit_on_error, task.has_error, task.completed()) for task in tasks]
        return outcomes, trace.names("skip"), plain.names("skip"), context.get_gradients()

    outcomes, dist_skipped, plain_skipped, gradients = mode.run(step)
    assert outcomes == [(True, True, True), (False, True, True)]
    assert plain_skipped == ["SinBackward0"]
    if device == "cpu":
        assert dist_skipped == []
    assert gradients == {}


@pytest.mark.row("B22", engine=HOOKED)
def test_whoever_waits_for_the_result_gets_it(mode: Mode) -> None:
    def step(fails: bool) -> Any:
        x = _leaf(2.0)
        y = x * 3
        got: list[Any] = []
        waiters: list[threading.Thread] = []

        def wait_for(future: Future) -> None:
            future.wait()
            try:
                got.append(list(future.value()))
            except LookupError as error:
                got.append(str(error))

        def hook(grad: Any) -> None:
            future = current_graph_task().future_result
            assert not future.completed()
            waiters.append(threading.Thread(target=wait_for, args=(future,)))
            waiters[0].start()
            if fails:
                raise LookupError("no result")

        y.register_hook(hook)
        try:
            jitgrad.autograd.grad(y.sum(), x)
        except LookupError as error:
            got.append(str(error))
        waiters[0].join(LONGEST_WAIT_S)
        return [item if isinstance(item, str) else [g.tolist() for g in item] for item in got]

    assert mode.run(lambda: step(True)) == ["no result", "no result"]
    assert mode.run(lambda: step(False)) == [[[3.0]]]


@pytest.mark.row("B22", eager_only="A future by itself has nothing to do with what is computed.")
def test_a_future_is_set_once() -> None:
    future = Future()
    with pytest.raises(RuntimeError, match="not completed"):
        future.value()
    assert not future.wait(0.001)
    future.mark_completed([1])
    with pytest.raises(RuntimeError, match="completed already"):
        future.mark_completed([2])
    with pytest.raises(RuntimeError, match="completed already"):
        future.set_error(ValueError())
    future.set_error_if_needed(ValueError())
    assert (future.value(), future.has_error(), future.wait()) == ([1], False, True)


@pytest.mark.row("B23", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_the_caller_s_stream_waits_for_the_streams_of_leaves(mode: Mode) -> None:
    def step() -> Any:
        side = vcpu.Stream("vcpu:0")
        x = _leaf(2.0, 3.0, device="vcpu:0")
        with vcpu.stream(side):
            y = (x * 3).sum()  # the leaf meets the graph on this stream
        with engine.trace() as trace:
            y.backward()
        caller = current_stream(jitgrad.device("vcpu:0"))
        waits = [event.detail for event in trace.of("sync")]
        # the nodes run where their forward ran, once the seed is made
        first = waits[0] == f"{side} waits for {caller}"
        return first, f"{caller} waits for the leaves of {side}" in waits, caller is side, x.grad.tolist()

    assert mode.run(step) == (True, True, False, [3.0, 3.0])


@pytest.mark.row("B23", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_the_caller_s_stream_really_waits(mode: Mode) -> None:
    """The stream of a leaf is held while the backward returns: the caller's stream must not be done before it."""

    def step() -> Any:
        side = vcpu.Stream("vcpu:0")
        x = _leaf(2.0, 3.0, device="vcpu:0")
        with vcpu.stream(side):
            y = (x * 3).sum()
        caller = current_stream(jitgrad.device("vcpu:0"))
        gates: list[Gate] = []
        x.register_hook(lambda g: gates.append(Gate(side)))
        y.backward()
        is_held = not caller.query()
        gates[0].open()
        vcpu.synchronize(0)
        return is_held, caller.query(), x.grad.tolist()

    assert mode.run(step) == (True, True, [3.0, 3.0])


@pytest.mark.row("B8", engine=ARGUMENTS, fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_the_root_s_stream_is_that_of_the_call(mode: Mode) -> None:
    def step() -> Any:
        side = vcpu.Stream("vcpu:0")
        x = _leaf(2.0, device="vcpu:0")
        a, b = x * 2, x * 3
        with vcpu.stream(side), engine.trace() as trace:
            jitgrad.autograd.backward([a, b], [jitgrad.ones(1, device="vcpu:0")] * 2)
        root = trace.of("exec")[0].node
        return root.stream() is side, root.name(), x.grad.tolist()

    assert mode.run(step) == (True, "GraphRoot", [5.0])


@pytest.mark.row("B24", eager_only="Two threads finish one graph task, which no graph can be made to do.")
def test_two_finishers_post_process_once_before_the_result_is_there() -> None:
    task = GraphTask(False, False, 0, ReadyQueue())
    task.captured_vars = [7]
    calls: list[bool] = []
    inside, go_on = threading.Event(), threading.Event()

    def callback() -> None:
        calls.append(task.future_result.completed())
        inside.set()
        assert go_on.wait(LONGEST_WAIT_S)

    task.final_callbacks.append(callback)
    threads = [threading.Thread(target=task.mark_as_completed_and_run_post_processing) for _ in range(2)]
    threads[0].start()
    assert inside.wait(LONGEST_WAIT_S)
    threads[1].start()
    threads[1].join(0.05)
    assert threads[1].is_alive()  # it waits for the first, so that the result is there when it returns
    assert not task.future_result.completed()
    go_on.set()
    for thread in threads:
        thread.join(LONGEST_WAIT_S)
    assert calls == [False]
    assert task.future_result.value() == [7]


@pytest.mark.row("B24", eager_only="It puts into not_ready by hand what no graph leaves there.")
def test_gradients_that_wait_at_the_end_are_an_error() -> None:
    task = GraphTask(False, False, 0, ReadyQueue())
    task.not_ready[GraphRoot((), ())] = []  # type: ignore[assignment]
    task.mark_as_completed_and_run_post_processing()
    with pytest.raises(RuntimeError, match="could not compute gradients for some functions"):
        task.future_result.value()


@pytest.mark.row("B34", engine=HOOKED)
def test_captures_are_handed_over_at_the_end(mode: Mode) -> None:
    def step() -> Any:
        x, w = _leaf(2.0), _leaf(3.0)
        h = x * 2
        tasks: list[GraphTask] = []
        during: list[Any] = []

        def look(grad: Any) -> None:
            task = current_graph_task()
            tasks.append(task)
            during.extend((len(task.captured_vars), task.captured_vars[0], task.future_result.completed()))

        h.register_hook(look)
        grads = jitgrad.autograd.grad((h * w).sum(), [x, w])
        return during, tasks[0].captured_vars, tasks[0].future_result.completed(), [g.tolist() for g in grads]

    assert mode.run(step) == ([2, None, False], [], True, [[6.0], [4.0]])


@pytest.mark.row("C14", engine=HOOKED)
def test_hooks_come_before_the_sum_and_the_sum_is_in_place(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0, 2.0)
        order: list[Any] = []
        (x * 1).sum().backward()
        first = x.grad
        node = graph.get_gradient_edge(x).node

        def hook(grad: Any) -> Any:
            order.append(("hook", x.grad.tolist()))
            return grad * 10

        x.register_hook(hook)
        x.register_post_accumulate_grad_hook(lambda leaf: order.append(("after", leaf.grad.tolist())))
        (x * 3).sum().backward()
        is_same = x.grad is first
        with jitgrad.no_grad():
            result = node(jitgrad.ones(2))
        return order, is_same and x.grad is first, list(result), x.grad.tolist()

    order, is_same, result, grad = mode.run(step)
    assert order[:2] == [("hook", [1.0, 1.0]), ("after", [31.0, 31.0])]
    assert is_same
    assert result == []
    assert grad == [32.0, 32.0]


class _Lock:
    """Stands for a lock, and tells what there was to see when it was taken and when it was given back."""

    def __init__(self, look: Any) -> None:
        self._lock, self._look, self.seen = threading.Lock(), look, []

    def __enter__(self) -> None:
        self._lock.acquire()
        self.seen.append(self._look())

    def __exit__(self, *_: Any) -> None:
        self.seen.append(self._look())
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()


@pytest.mark.row("C14", engine=HOOKED)
def test_the_sum_is_made_under_the_accumulator_s_lock(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        node = graph.get_gradient_edge(x).node
        lock = node._lock = _Lock(lambda: x.grad is not None)
        seen = []
        x.register_hook(lambda grad: seen.append(lock.locked()))  # a hook may do anything: the lock must be free
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(lock.locked()))
        (x * 3).sum().backward()
        return lock.seen, seen, x.grad.tolist()

    assert mode.run(step) == ([False, True], [False, False], [3.0])


class _Captured(list[Any]):
    """The results of ``grad()``, which tell whether the graph task's mutex was held when each was stored."""

    def __init__(self, task: GraphTask) -> None:
        super().__init__(task.captured_vars)
        self._mutex, self.was_locked = task.mutex, []

    def __setitem__(self, index: Any, value: Any) -> None:
        self.was_locked.append(self._mutex.locked())
        super().__setitem__(index, value)


@pytest.mark.row("B34", engine=HOOKED)
def test_captures_are_stored_under_the_mutex(mode: Mode) -> None:
    def step() -> Any:
        x, w = _leaf(2.0), _leaf(3.0)
        h = x * 2
        tasks: list[GraphTask] = []

        def look(grad: Any) -> None:
            task = current_graph_task()
            task.captured_vars = _Captured(task)
            tasks.append(task.captured_vars)

        h.register_hook(look)
        grads = jitgrad.autograd.grad((h * w).sum(), [x, w])
        return tasks[0].was_locked, [g.tolist() for g in grads]

    was_locked, grads = mode.run(step)
    assert was_locked == [True] * len(was_locked)
    assert was_locked
    assert grads == [[6.0], [4.0]]


@pytest.mark.row("C14")
@pytest.mark.parametrize("count", [0, 2])
def test_an_accumulator_takes_one_gradient(mode: Mode, count: int) -> None:
    mode.states(no_launch="" if count else "Nothing is computed.")

    def step() -> Any:
        x = _leaf(1.0)
        node = graph.get_gradient_edge(x).node
        with pytest.raises(RuntimeError) as error:
            node(*[jitgrad.ones(1)] * count)
        return str(error.value), x.grad

    assert mode.run(step) == (f"AccumulateGrad: expected 1 arguments (got {count})", None)


@pytest.mark.row("C14")
@cpu_and("vcpu:1")
def test_threads_accumulate_into_one_leaf(mode: Mode, device: str) -> None:
    x = _leaf(0.0, device=device)

    def work(i: int) -> None:
        for _ in range(20):
            (x * 1).sum().backward()

    run_threads(work, 4)
    assert x.grad.tolist() == [80.0]

    def step(leaf: Any) -> Any:
        for _ in range(3):
            (leaf * 2).sum().backward()
        return leaf.grad.tolist()

    assert mode.run(step, lambda: (_leaf(1.0, device=device),)) == [6.0]


@pytest.mark.row("C24", engine=(HOOKED, ARGUMENTS))
@cpu_and("vcpu:0")
def test_no_node_runs_after_an_error(mode: Mode, device: str) -> None:
    def step() -> Any:
        x = _leaf(1.0, device=device)
        a, b, c = x.sin(), x.exp(), x.cos()

        def fail(grad: Any) -> None:
            raise LookupError("text")

        handle = c.register_hook(fail)
        loss = (a * b + b * c).sum()
        with engine.trace() as trace, pytest.raises(LookupError, match=r"^text$"):
            loss.backward(retain_graph=True)
        kinds = [event.kind for event in trace]
        after = kinds[kinds.index("error") + 1 :]
        handle.remove()
        loss.backward()
        return kinds.count("error"), "exec" in after, x.grad is not None, current_graph_task(), current_node()

    assert mode.run(step) == (1, False, True, None, None)


@pytest.mark.row("C24", engine=ARGUMENTS)
@cpu_and("vcpu:0")
def test_what_waits_in_a_queue_does_not_run_after_an_error(mode: Mode, device: str) -> None:
    """Nobody traces: the events of a trace are made where the node would run."""

    def step() -> Any:
        x = _leaf(1.0, device=device)
        a, b = x.sin(), x.exp()
        ran: list[str] = []

        def fail(grads: Any) -> None:
            raise LookupError("first")

        b.grad_fn.register_prehook(fail)
        a.grad_fn.register_prehook(lambda grads: ran.append("a"))
        with pytest.raises(LookupError):
            jitgrad.autograd.backward([a, b], [jitgrad.ones(1, device=device)] * 2)
        if device != "cpu":
            wait_for_devices()
        return ran, x.grad

    assert mode.run(step) == ([], None)


@pytest.mark.row("C23", "C24", engine=(OUTSIDE, ARGUMENTS), fallbacks=VIRTUAL)
def test_the_first_error_of_two_devices_wins(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(1.0)
        a, b = x.to("vcpu:0") * 2, x.to("vcpu:1") * 3
        both_run = threading.Barrier(2)

        def fail_first(grad: Any) -> None:
            both_run.wait(LONGEST_WAIT_S)
            raise KeyError("first")

        def fail_second(grad: Any) -> None:
            both_run.wait(LONGEST_WAIT_S)
            wait_until(lambda: current_graph_task().has_error)
            raise ValueError("second")

        handles = [a.register_hook(fail_first), b.register_hook(fail_second)]
        loss = (a.cpu() + b.cpu()).sum()
        with pytest.raises(KeyError, match="first"):
            loss.backward(retain_graph=True)
        for handle in handles:
            handle.remove()
        loss.backward()
        return x.grad.tolist()

    assert mode.run(step) == [5.0]


@pytest.mark.row("C26", engine=HOOKED)
@cpu_and("vcpu:0")
def test_the_current_node_is_readable_in_hooks(mode: Mode, device: str) -> None:
    def step() -> Any:
        x = _leaf(1.0, device=device)
        y = x * 2
        seen: list[Any] = []
        y.register_hook(lambda g: seen.append((current_node().name(), current_graph_task() is not None)))
        x.register_post_accumulate_grad_hook(lambda t: seen.append((current_node().name(), True)))
        y.sum().backward()
        return seen, current_node(), current_graph_task()

    assert mode.run(step) == ([("MulBackward0", True), ("torch::autograd::AccumulateGrad", True)], None, None)


@pytest.mark.row("B33", "B32")
@cpu_and("vcpu:0", engine=())
def test_gradients_can_go_to_a_context_instead(mode: Mode, device: str) -> None:
    def step() -> Any:
        x, w = _leaf(2.0, device=device), _leaf(3.0, device=device)
        order: list[str] = []
        context, one = DistAutogradContext(), jitgrad.ones(1, device=device)
        y = x * w + x
        leaf = graph.get_gradient_edge(x).node
        leaf.register_prehook(lambda grads: order.append("pre"))
        leaf.register_hook(lambda inputs, grads: order.append("post"))
        DistEngine().execute(context, [graph.get_gradient_edge(y)], [one], keep_graph=True)
        DistEngine().execute(context, [graph.get_gradient_edge(y)], [one])
        grads = context.get_gradients()
        return grads[x].tolist(), grads[w].tolist(), x.grad, w.grad, order

    assert mode.run(step) == ([8.0], [4.0], None, None, ["pre", "post"] * 2)


@pytest.mark.row("B33")
def test_a_backward_crosses_to_another_graph(mode: Mode) -> None:
    def step() -> Any:
        x, w = _leaf(2.0), _leaf(3.0)
        here, there = DistAutogradContext(), DistAutogradContext()
        sent = x * 5
        send = SendRpcBackward([graph.get_gradient_edge(sent)])
        received = sent.detach().clone()
        recv = RecvRpcBackward([received._aval], lambda grads: DistEngine().execute_send_function(here, send, grads))
        set_history(received, recv, 0)
        loss = (received * w).sum()
        DistEngine().execute(there, [graph.get_gradient_edge(loss)], [jitgrad.tensor(1.0)])
        mine, theirs = here.get_gradients(), there.get_gradients()
        return mine[x].tolist(), theirs[w].tolist(), x.grad, w.grad

    assert mode.run(step) == ([15.0], [10.0], None, None)


@pytest.mark.row("B33")
def test_a_context_gets_what_pre_hooks_return(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(2.0)
        context = DistAutogradContext()
        y = x * 3
        leaf = graph.get_gradient_edge(x).node
        leaf.register_prehook(lambda grads: (grads[0] * 10,))
        DistEngine().execute(context, [graph.get_gradient_edge(y)], [jitgrad.ones(1)])
        return context.get_gradients()[x].tolist(), x.grad

    assert mode.run(step) == ([30.0], None)


@pytest.mark.row("B32", "B33")
def test_capture_hooks_run_one_after_the_other(mode: Mode) -> None:
    def step() -> Any:
        x = _leaf(2.0)
        y = x * 3
        task = engine.new_graph_task(False, False)
        task.dependencies = compute_dependencies(y.grad_fn, 0)
        leaf = graph.get_gradient_edge(x)
        task.init_to_execute(y.grad_fn, [leaf], accumulate_grad=False)
        ((capture,),) = [task.exec_info[leaf.node].captures]
        capture.hooks.extend([lambda g: g + 1, lambda g: g * 10])
        (grad,) = engine.execute_with_graph_task(task, y.grad_fn, InputBuffer([jitgrad.ones(1)])).value()
        return grad.tolist(), x.grad

    assert mode.run(step) == ([40.0], None)
