"""The engine: order, dependencies, exec_info, captures, errors, reentrant calls."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from parity import J, attempt, const, leaf, same

from jitgrad.autograd import engine, graph
from jitgrad.runtime.engine.accumulate_grad import accumulator_of, gradient_edge
from jitgrad.runtime.engine.edge import INVALID_EDGE
from jitgrad.runtime.engine.graph_task import (
    ExecInfo,
    GraphTask,
    compute_dependencies,
    compute_min_topological_nr,
    current_graph_task,
    current_node,
)
from jitgrad.runtime.engine.node import GraphRoot, Node
from jitgrad.runtime.engine.ready_queue import ReadyQueue
from jitgrad.runtime.engine.reentrant_pool import MAX_DEPTH


@pytest.mark.row("A19", "C1")
def test_scalar_chain_matches_torch():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        y = leaf(lib, 2.0)
        z = ((x * y).exp() * x).sum()
        z.backward()
        return x.grad, y.grad

    same(program)


@pytest.mark.row("A13", "A14", "A15", "B42", "E4")
def test_diamond_sums_and_runs_each_node_once():
    def program(lib):
        x = leaf(lib, [0.5, -1.5])
        h = x * 2
        a, b, c = h.sin(), h * h, h
        loss = (a * b + c + h).sum()
        calls = []
        h.register_hook(lambda g: calls.append(g.clone()))
        loss.backward()
        return x.grad, len(calls), calls[0]

    same(program)


@pytest.mark.row("A13", "B14")
def test_dependencies_count_edges():
    x = leaf(J, [3.0])
    y = x * x
    deps = compute_dependencies(y.grad_fn, 0)
    assert deps == {accumulator_of(x): 2}


@pytest.mark.row("B14")
def test_a_removed_dependency_is_reported():
    x = leaf(J, [3.0])
    y = (x * 2).exp()
    node = y.grad_fn

    class Meddler:
        def __call__(self, grads):
            current_graph_task().dependencies.clear()

    node.register_prehook(Meddler())
    with pytest.raises(RuntimeError, match="dependency not found for MulBackward0"):
        y.backward()


@pytest.mark.row("A16")
def test_no_gradient_for_what_does_not_require_it():
    def program(lib):
        x, c = leaf(lib, [1.0, 2.0]), const(lib, [3.0, 4.0])
        (x * c).sum().backward()
        return x.grad, c.grad

    same(program)


@pytest.mark.row("A17", "B46")
def test_shared_gradients_are_not_corrupted():
    def program(lib):
        a, b = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        seed = const(lib, [1.0, 10.0])
        (a + b).backward(seed)
        (a + b).backward(seed)
        (a + b * 2 + a).backward(seed)
        return a.grad, b.grad, seed

    same(program)


@pytest.mark.row("A17", "B46")
def test_a_view_of_the_seed_is_not_written():
    def program(lib):
        a, b = leaf(lib, [1.0, 2.0, 3.0, 4.0]), leaf(lib, [[1.0, 2.0], [3.0, 4.0]])
        seed = lib.ones(4, dtype=lib.float64)
        z = (a + b.reshape(4)) * 1
        z.backward(seed)
        first = a.grad.clone(), b.grad.clone()
        (a * 5).sum().backward()
        (b * 7).sum().backward()
        return first, a.grad, b.grad, seed

    same(program)


@pytest.mark.row("B46")
def test_a_gradient_kept_by_a_hook_stays_as_it_was():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        kept = []
        y = x * 3
        y.register_hook(kept.append)
        for _ in range(3):
            (y * 2 + y + y * y).sum().backward(retain_graph=True)
        return x.grad, kept

    same(program)


@pytest.mark.row("C14")
def test_the_same_grad_object_is_accumulated_into():
    x = leaf(J, [1.0, 2.0])
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert x.grad.tolist() == [5.0, 5.0]
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first


@pytest.mark.row("B13", "C19")
def test_second_backward_raises_unless_kept():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        y = (x * x).exp().sum()
        y.backward(retain_graph=True)
        y.backward()
        error = attempt(y.backward)
        return x.grad, error, "second time" in str(error)

    same(program)


@pytest.mark.row("C19")
def test_saved_values_by_name():
    def program(lib):
        x, y = leaf(lib, [1.0, 2.0]), const(lib, [3.0, 4.0])
        product, power = x * y, x.exp()
        nodes = product.grad_fn, power.grad_fn
        before = nodes[0]._saved_other, nodes[1]._saved_result, nodes[1]._saved_result.grad_fn is nodes[1]
        (product + power).sum().backward()
        missing = attempt(lambda: nodes[0]._saved_nothing)
        return before, attempt(lambda: nodes[0]._saved_other), attempt(lambda: nodes[1]._saved_result), missing

    same(program)


@pytest.mark.row("C3")
def test_create_graph_alone_keeps_the_graph():
    def program(lib):
        w = leaf(lib, 1.0)
        y = w * w * w
        (g,) = lib.autograd.grad(y, w, create_graph=True)
        (gg,) = lib.autograd.grad(g, w, create_graph=True)
        (ggg,) = lib.autograd.grad(gg, w)
        y.backward()
        return g, gg, ggg, w.grad

    assert same(program)[1] == 6.0


@pytest.mark.row("C5", "B26", "B27")
def test_backward_into_a_subset():
    def program(lib):
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        fired = []
        other = y * 2
        other.register_hook(lambda g: fired.append(1))
        ((x * 3).exp() * other.sum()).sum().backward(inputs=[x])
        return x.grad, y.grad, len(fired)

    same(program)


@pytest.mark.row("C2", "C4", "C6", "C11", "A19")
def test_argument_errors_match_torch():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        unused = leaf(lib, [1.0])
        c = const(lib, [1.0])
        y = (x * x).sum()
        tries = [
            lambda: (x * 2).backward(),
            lambda: y.backward(inputs=[]),
            lambda: c.backward(),
            lambda: lib.autograd.backward([y, y], [const(lib, 1.0)]),
            lambda: (x * 2).backward(const(lib, [1.0])),
            lambda: lib.autograd.grad(y, unused),
            lambda: lib.autograd.grad(y, unused, allow_unused=True),
            lambda: lib.autograd.grad(y, c),
            lambda: lib.autograd.grad(y, [x, unused], allow_unused=False, materialize_grads=True),
            lambda: lib.autograd.grad(y, [x, unused], materialize_grads=True),
            lambda: lib.autograd.backward([y, c]),
        ]
        results = []
        for attempt_one in tries:
            y = (x * x).sum()
            results.append(attempt(attempt_one))
        keys = "implicitly", "cannot be empty", "does not require grad", "and 1 gradients", "Mismatch in", "Set allow"
        return results, [[key for key in keys if key in str(r)] for r in results if isinstance(r, Exception)]

    same(program)


@pytest.mark.row("C6", "B31")
def test_grad_returns_in_order_of_inputs_and_leaves_grad_alone():
    def program(lib):
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        z = (x * y * y).sum()
        grads = lib.autograd.grad(z, [y, x, y])
        return grads, x.grad, y.grad

    same(program)


@pytest.mark.row("B29")
def test_an_input_on_the_path_to_another():
    def program(lib):
        x = leaf(lib, 1.0)
        h = x * 2
        return lib.autograd.grad(h * 3, [h, x])

    assert same(program) == [3.0, 6.0]


@pytest.mark.row("C13")
def test_inputs_may_be_non_leaves():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        (h * h).sum().backward(inputs=[h])
        return h.grad, x.grad

    same(program)


@pytest.mark.row("B25", "B26")
def test_exec_info_is_empty_for_plain_backward_only():
    seen = []
    x = leaf(J, [1.0])
    y = x * 2
    y.grad_fn.register_prehook(lambda g: seen.append(dict(current_graph_task().exec_info)))
    y.backward(retain_graph=True)
    J.autograd.grad(y, x)
    assert seen[0] == {}
    info = seen[1]
    assert info[y.grad_fn].needed
    assert not info[accumulator_of(x)].needed
    assert info[accumulator_of(x)].should_execute()


@pytest.mark.row("B27")
def test_a_captured_leaf_is_not_run():
    x = leaf(J, [1.0])
    y = x * 2
    ran = []
    accumulator_of(x).register_prehook(lambda g: ran.append("run"))
    assert J.autograd.grad(y, x, retain_graph=True)[0].tolist() == [2.0]
    assert ran == []
    y.backward(inputs=[x])
    assert ran == ["run"]


@pytest.mark.row("B30")
def test_nodes_below_every_input_are_not_looked_at():
    x = leaf(J, [1.0])
    below = x * 2
    h = below * 3
    y = h * 4
    edge = gradient_edge(h)
    minimum = compute_min_topological_nr([edge])
    assert minimum == h.grad_fn.topological_nr == 2
    deps = compute_dependencies(y.grad_fn, minimum)
    assert set(deps) == {h.grad_fn, below.grad_fn}
    seen = []
    y.grad_fn.register_prehook(lambda g: seen.append(set(current_graph_task().exec_info)))
    J.autograd.grad(y, h)
    assert seen == [{y.grad_fn, h.grad_fn}]


@pytest.mark.row("B28", "B10")
def test_a_chain_of_100_000_nodes():
    x = leaf(J, [1.0])
    y = x
    one = const(J, [0.0])
    for _ in range(100_000):
        y = y + one
    node = y.grad_fn
    start = time.perf_counter()
    y.backward(retain_graph=True)
    elapsed = time.perf_counter() - start
    assert x.grad.tolist() == [1.0]
    assert J.autograd.grad(y, x)[0].tolist() == [1.0]
    assert node.topological_nr == 100_000
    assert elapsed < 4.0  # the goal is 2 s; the tests may share the machine
    del y, node


def test_a_deep_graph_is_freed_on_a_small_stack():
    def build_and_free():
        x = leaf(J, [1.0])
        y = x
        for _ in range(50_000):
            y = y.exp() * 1.0
        del y

    previous = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=build_and_free)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(previous)


@pytest.mark.row("A6", "A11")
def test_graphs_are_freed_without_the_collector():
    import gc
    import weakref

    gc.disable()
    try:
        x = leaf(J, [1.0])
        y = (x * 2).exp().tanh()
        nodes = [weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0]), weakref.ref(accumulator_of(x))]
        assert all(n() is not None for n in nodes)
        del y
        assert all(n() is None for n in nodes)
    finally:
        gc.enable()


@pytest.mark.row("B10", "C9")
def test_numbers_of_nodes():
    x = leaf(J, [1.0])
    a = x * 2
    b = a * x
    assert b.grad_fn.sequence_nr > a.grad_fn.sequence_nr
    assert accumulator_of(x).sequence_nr == 2**64 - 1
    assert (accumulator_of(x).topological_nr, a.grad_fn.topological_nr, b.grad_fn.topological_nr) == (0, 1, 2)
    assert b.grad_fn.name() == "MulBackward0"
    assert [n.name() for n, _ in b.grad_fn.next_functions] == ["MulBackward0", "AccumulateGrad"]
    assert b.grad_fn.metadata == {}
    b.grad_fn.metadata["note"] = 1
    assert b.grad_fn.metadata == {"note": 1}


@pytest.mark.row("A6", "C10")
def test_edges_of_leaves_and_results():
    x = leaf(J, [1.0])
    assert gradient_edge(const(J, [1.0])) == INVALID_EDGE
    node, nr = graph.get_gradient_edge(x)
    assert node is accumulator_of(x)
    assert node.variable is x
    assert nr == 0
    y = x * x
    assert gradient_edge(y) == (y.grad_fn, 0)
    assert y.grad_fn.next_functions == ((node, 0), (node, 0))
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(const(J, [1.0]))


@pytest.mark.row("A5", "A18")
def test_second_output_only():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0, 4.0])
        _, b = x.chunk(2)
        (b * 3).sum().backward()
        return x.grad

    same(program)


@pytest.mark.row("B1")
def test_execute_by_its_names():
    x = leaf(J, [2.0])
    y = x * x
    edge = gradient_edge(x)
    got = engine.execute(
        roots=[gradient_edge(y)],
        inputs=[const(J, [1.0])],
        keep_graph=False,
        create_graph=False,
        accumulate_grad=False,
        outputs=[edge],
    )
    assert got[0].tolist() == [4.0]
    assert x.grad is None


@pytest.mark.row("B8", "B12", "B20")
def test_several_roots_share_a_graph_root():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        a, b = (h * h).sum(), h.sum()
        lib.autograd.backward([a, b, a], [None, const(lib, 3.0), None])
        return x.grad

    same(program)
    root = GraphRoot((), (1, 2))
    assert root.apply([]) == (1, 2)


@pytest.mark.row("B12", "B17", "C26")
def test_state_inside_and_after():
    x = leaf(J, [1.0])
    y = x * 2
    seen = []

    def look(grads):
        task = current_graph_task()
        seen.append((current_node(), task.outstanding_tasks, task.reentrant_depth, J.is_grad_enabled()))

    y.grad_fn.register_prehook(look)
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert seen == [(y.grad_fn, 1, 0, False), (y.grad_fn, 1, 0, True)]
    assert current_node() is None
    assert current_graph_task() is None
    assert J.is_grad_enabled()


@pytest.mark.row("B54")
def test_ready_queue_order():
    queue = ReadyQueue()
    outer = GraphTask(False, False, queue, 0)
    inner = GraphTask(False, False, queue, 1)
    nodes = [Node() for _ in range(4)]
    for task, node in ((outer, nodes[0]), (inner, nodes[1]), (outer, nodes[3]), (inner, nodes[2])):
        queue.push(task, node, [])
    order = [queue.pop()[4] for _ in range(4)]
    assert order == [nodes[2], nodes[1], nodes[3], nodes[0]]
    assert (outer.outstanding_tasks, inner.outstanding_tasks, len(queue)) == (2, 2, 0)


@pytest.mark.row("B20", "C21")
def test_reentrant_backward_runs_inline():
    depths, threads = [], []

    def nested(level):
        def hook(g):
            depths.append(current_graph_task().reentrant_depth)
            threads.append(threading.get_ident())
            if level:
                inner = leaf(J, [1.0])
                with J.enable_grad():
                    h = inner * 2
                    h.register_hook(nested(level - 1))
                    loss = (h * 3).sum()
                loss.backward()
                assert inner.grad.tolist() == [12.0]
            return g * 2

        return hook

    x = leaf(J, [1.0])
    y = x * 5
    y.register_hook(nested(3))
    (y * 1).sum().backward()
    assert current_graph_task() is None
    assert depths == [0, 1, 2, 3]
    assert set(threads) == {threading.get_ident()}
    assert x.grad.tolist() == [10.0]


@pytest.mark.row("C22", "B5", "B20")
def test_reentrant_depth_200():
    seen = []

    def nested(level):
        def hook(g):
            seen.append((current_graph_task().reentrant_depth, threading.get_ident()))
            if level:
                inner = leaf(J, [1.0])
                with J.enable_grad():
                    h = inner * 2
                    h.register_hook(nested(level - 1))
                    loss = h.sum()
                loss.backward()
                return g + inner.grad * 0

        return hook

    x = leaf(J, [1.0])
    y = x * 2
    y.register_hook(nested(200))
    y.sum().backward()
    assert x.grad.tolist() == [2.0]
    assert [depth for depth, _ in seen] == list(range(201))
    threads = [thread for _, thread in seen]
    assert set(threads[:MAX_DEPTH]) == {threading.get_ident()}
    assert threads[MAX_DEPTH] != threads[MAX_DEPTH - 1]
    assert len(set(threads)) == 4


@pytest.mark.row("C22", "C23")
def test_an_error_comes_up_through_all_levels():
    def nested(level):
        def hook(g):
            if not level:
                raise KeyError("deep")
            with J.enable_grad():
                h = leaf(J, [1.0]) * 2
                h.register_hook(nested(level - 1))
                loss = h.sum()
            loss.backward()

        return hook

    y = leaf(J, [1.0]) * 2
    y.register_hook(nested(100))
    with pytest.raises(KeyError, match="deep"):
        y.sum().backward()
    assert current_graph_task() is None


@pytest.mark.row("C23", "C24")
def test_errors_reach_the_caller_and_leave_the_engine_usable():
    class Boom(Exception):
        pass

    def raise_boom(g):
        raise Boom("text")

    x = leaf(J, [1.0])
    y = x * 2
    handle = y.register_hook(raise_boom)
    with pytest.raises(Boom, match=r"^text$"):
        (y * y).sum().backward()
    handle.remove()
    assert current_graph_task() is None
    assert J.is_grad_enabled()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


@pytest.mark.row("C23")
def test_an_inner_error_can_be_handled_by_the_hook():
    x, other = leaf(J, [1.0]), leaf(J, [1.0])
    y = x * 2
    bad = other * 3
    bad.register_hook(lambda g: 1 / 0)

    def hook(g):
        with J.enable_grad():
            loss = (bad * 2 + bad).sum()
        with pytest.raises(ZeroDivisionError):
            loss.backward()
        return g * 10

    y.register_hook(hook)
    (y + x).sum().backward()
    assert x.grad.tolist() == [21.0]
    assert other.grad is None


@pytest.mark.row("B4")
def test_final_callbacks():
    x = leaf(J, [1.0])
    y = x * 2
    seen = []

    def late():
        seen.append(("late", x.grad.tolist()))

    def callback():
        seen.append(("first", x.grad.tolist()))
        engine.queue_callback(late)

    y.register_hook(lambda g: engine.queue_callback(callback))
    y.sum().backward()
    assert seen == [("first", [2.0]), ("late", [2.0])]
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(late)


@pytest.mark.row("B11")
def test_two_threads_two_backwards():
    x = leaf(J, [1.0, 2.0])
    results = []

    def work(k):
        for _ in range(50):
            (g,) = J.autograd.grad((x * k).exp().sum(), x)
            results.append((k, g.tolist()))

    workers = [threading.Thread(target=work, args=(k,)) for k in (1.0, 2.0)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({(k, tuple(g)) for k, g in results}) == 2
    assert len(results) == 100


@pytest.mark.row("C14")
def test_threads_accumulate_into_one_leaf():
    x = leaf(J, [0.0])
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work():
        for _ in range(100):
            (x * 1).sum().backward()

    try:
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(old)
    assert x.grad.tolist() == [400.0]


@pytest.mark.row("C15")
def test_wrong_gradients_are_refused_or_fitted():
    class Bad(Node):
        __slots__ = ("result",)

        def apply(self, grad_outputs):
            return self.result

    x = leaf(J, [1.0, 2.0])

    def run(result):
        y = x * 1
        out = y.detach().clone()
        node = Bad((gradient_edge(y),), (y._aval,))
        node.result = result
        out._requires_grad, out._grad_fn = True, node
        x.grad = None
        out.backward(const(J, [1.0, 1.0]))
        return x.grad

    with pytest.raises(RuntimeError, match=r"Function Bad returned an invalid gradient at index 0 - got \[3\]"):
        run((const(J, [1.0, 1.0, 1.0]),))
    with pytest.raises(RuntimeError, match="invalid number of gradients"):
        run(())
    assert run((const(J, [[1.0, 2.0], [3.0, 4.0]]),)).tolist() == [4.0, 6.0]
    cast = run((J.tensor([1.5, 2.5], dtype=J.float32),))
    assert cast.dtype is J.float64
    assert cast.tolist() == [1.5, 2.5]


@pytest.mark.row("C15")
def test_broadcasts_are_summed():
    def program(lib):
        a, b, c = leaf(lib, [[1.0], [2.0]]), leaf(lib, [1.0, 2.0, 3.0]), leaf(lib, 2.0)
        ((a * b + c) * b).sum().backward()
        return a.grad, b.grad, c.grad

    same(program)


@pytest.mark.row("C7")
def test_batched_grads_are_stacked_single_ones():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        y = x * x
        return lib.autograd.grad(y, x, const(lib, [[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 1.0]]), is_grads_batched=True)

    same(program)


@pytest.mark.row("C1")
def test_autograd_backward_is_the_same():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        lib.autograd.backward(x * x, const(lib, [1.0, 2.0]), inputs=x)
        y = leaf(lib, [1.0, 2.0])
        (y * y).backward(const(lib, [1.0, 2.0]))
        return x.grad, y.grad

    same(program)


def test_backward_of_a_leaf():
    def program(lib):
        x = leaf(lib, 2.0)
        x.backward()
        x.backward()
        return x.grad, lib.autograd.grad(x, x)

    same(program)


def test_exec_info_is_a_small_object():
    assert not ExecInfo().should_execute()
    assert ExecInfo(needed=True).should_execute()
