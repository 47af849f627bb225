"""Hooks of tensors and nodes: order, replacement, removal, errors."""

from __future__ import annotations

import pickle
import sys

import pytest
from parity import J, attempt, const, leaf, same

from jitgrad.runtime.engine.graph.hooks import register_post_accumulate_grad_hook


def post_accumulate(lib, tensor, hook):
    if lib is J:
        return register_post_accumulate_grad_hook(tensor, hook)
    return tensor.register_post_accumulate_grad_hook(hook)


@pytest.mark.row("D12", "C27")
def test_order_of_all_hooks():
    def program(lib):
        calls = []

        def note(name, result=None):
            def hook(*args):
                calls.append(name)
                return result(*args) if result else None

            return hook

        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        accumulator = h.grad_fn.next_functions[0][0]
        h.grad_fn.register_prehook(note("node pre"))
        h.grad_fn.register_hook(note("node post"))
        h.retain_grad()
        h.register_hook(note("tensor 1", lambda g: g * 10))
        h.register_hook(note("tensor 2"))
        post_accumulate(lib, x, note("post accumulate"))
        x.register_hook(note("leaf tensor"))
        accumulator.register_hook(note("leaf node post"))
        accumulator.register_prehook(note("leaf node pre"))
        (h * 3).sum().backward()
        return calls, h.grad, x.grad

    same(program)


@pytest.mark.row("D12")
def test_a_hook_may_replace_the_gradient():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x.exp()
        seen = []
        h.register_hook(lambda g: seen.append(g.clone()))
        h.register_hook(lambda g: g * 2)
        h.register_hook(lambda g: seen.append(g.clone()))
        (h * h).sum().backward()
        return x.grad, seen

    same(program)


def test_hooks_on_leaves_accumulate_what_they_return():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        handle = x.register_hook(lambda g: g * 5)
        (x * 2).sum().backward()
        handle.remove()
        handle.remove()
        (x * 2).sum().backward()
        with x.register_hook(lambda g: g * 100):
            (x * 2).sum().backward()
        (x * 2).sum().backward()
        return x.grad

    same(program)


def test_a_hook_registered_before_and_one_after_the_graph():
    def program(lib):
        x = leaf(lib, [1.0])
        calls = []
        x.register_hook(lambda g: calls.append(1))
        y = x * 2
        x.register_hook(lambda g: calls.append(2))
        y.sum().backward()
        return calls, x.grad

    same(program)


def test_capture_sees_tensor_hooks():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        x.register_hook(lambda g: g + 1)
        h.register_hook(lambda g: g * 3)
        return lib.autograd.grad((h * h).sum(), [x, h])

    same(program)


def test_retain_grad():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        before = h.retains_grad, x.retains_grad
        h.retain_grad()
        h.retain_grad()
        x.retain_grad()
        y = (h * h).sum()
        y.backward(retain_graph=True)
        first = h.grad.clone()
        y.backward()
        return before, h.retains_grad, first, h.grad, attempt(lambda: const(lib, [1.0]).retain_grad())

    same(program)


@pytest.mark.row("C27")
def test_node_hooks_see_and_replace():
    def program(lib):
        x, y = leaf(lib, [1.0, 2.0]), const(lib, [3.0, 4.0])
        seen = []
        z = x * y
        z.grad_fn.register_prehook(lambda gos: (gos[0] * 2,))
        z.grad_fn.register_hook(lambda gis, gos: seen.append((len(gis), gis[1] is None, gos[0].clone())))
        z.grad_fn.register_hook(lambda gis, gos: (gis[0] * 10, None))
        z.sum().backward()
        return x.grad, seen

    same(program)


def test_hook_errors():
    def program(lib):
        def run(register):
            x = leaf(lib, [1.0, 2.0])
            h = x * 2
            register(x, h)
            h.sum().backward()
            return x.grad

        return [
            attempt(lambda: run(lambda x, h: h.register_hook(lambda g: 3))),
            attempt(lambda: run(lambda x, h: h.register_hook(lambda g: lib.ones(5)))),
            attempt(lambda: run(lambda x, h: h.grad_fn.register_prehook(lambda g: (None, None)))),
            attempt(lambda: run(lambda x, h: post_accumulate(lib, h, lambda t: None))),
            attempt(lambda: run(lambda x, h: const(lib, [1.0]).register_hook(print))),
        ]

    same(program)


def test_post_accumulate_hooks_may_clear_the_gradient():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        seen = []

        def step(p):
            seen.append(p.grad.clone())
            p.grad = None

        post_accumulate(lib, x, step)
        for _ in range(2):
            (x * x).sum().backward()
        return seen, x.grad

    same(program)


def test_node_called_by_hand():
    x = leaf(J, [1.0, 2.0])
    y = x * x
    grads = y.grad_fn(const(J, [1.0, 1.0]))
    assert [g.tolist() for g in grads] == [[1.0, 2.0], [1.0, 2.0]]


def test_double_backward_through_hooks():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * x
        h.register_hook(lambda g: g * g)
        (g,) = lib.autograd.grad((h * h).sum(), x, create_graph=True)
        (gg,) = lib.autograd.grad(g.sum(), x)
        return g, gg

    same(program)


def _hooks_of_a_view_that_is_written(lib, log):
    x = leaf(lib, [1.0, 2.0])
    x.register_hook(lambda g: log.append(("leaf", g)))
    h = x * 1
    h.register_hook(lambda g: log.append(("base", g)))
    v = h[0]
    v.register_hook(lambda g: log.append(("view", g)))
    v.retain_grad()
    v.mul_(5)
    (h.sum() + v).backward()
    return v.grad, x.grad


def _hooks_of_a_view_whose_base_is_written(lib, log):
    x = leaf(lib, [1.0, 2.0])
    h = x * 1
    v = h[0]
    v.register_hook(lambda g: log.append(("view", g)))
    v.retain_grad()
    h.mul_(5)
    (h.sum() + v).backward()
    return v.grad, x.grad


def _hooks_removed_after_the_write(lib, log):
    x = leaf(lib, [1.0, 2.0])
    h = x * 2
    handle = h.register_hook(lambda g: log.append("before"))
    h.mul_(3)
    handle.remove()
    h.sum().backward()
    return x.grad


def _hooks_of_a_leaf_that_stops_requiring_grad(lib, log):
    x = leaf(lib, [1.0, 2.0])
    x.register_hook(lambda g: log.append(g))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).sum().backward()
    with lib.no_grad():
        x.mul_(2)
    (x * 2).sum().backward()
    return x.grad


def _hooks_of_one_output_of_several(lib, log):
    x = leaf(lib, [1.0, 2.0])
    a, b = lib.unbind(x)
    a.register_hook(lambda g: log.append(("a", g)))
    b.register_hook(lambda g: log.append(("b", g)))
    b.retain_grad()
    a.backward()
    return b.grad, x.grad


def _node_hooks_changed_while_running(lib, log):
    x = leaf(lib, [1.0, 2.0])
    h = x * 2
    node, handles = h.grad_fn, []

    def first(grad_inputs, grad_outputs):
        log.append(1)
        handles[0].remove()
        node.register_hook(lambda a, b: log.append("new"))

    handles += [node.register_hook(first), node.register_hook(lambda a, b: log.append(2))]
    y = (h * h).sum()
    y.backward(retain_graph=True)
    log.append("|")
    y.backward()
    return x.grad


def _capture_of_a_node_that_also_runs(lib, log):
    x = leaf(lib, [1.0, 2.0])
    h = x * 2
    h.register_hook(lambda g: (log.append("h"), g * 3)[1])
    h.retain_grad()
    h.grad_fn.register_prehook(lambda gs: log.append("node pre"))
    x.register_hook(lambda g: (log.append("x"), g + 1)[1])
    post_accumulate(lib, x, lambda t: log.append("post accumulate"))
    return lib.autograd.grad((h * h).sum(), [x, h]), h.grad, x.grad


def _capture_of_a_node_that_does_not_run(lib, log):
    x = leaf(lib, [1.0, 2.0])
    h = x * 2
    h.register_hook(lambda g: (log.append("h"), g * 3)[1])
    h.grad_fn.register_prehook(lambda gs: log.append("node pre"))
    return lib.autograd.grad((h * h).sum(), [h])


def _wrong_results(lib, log):
    def run(register):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        register(x, h)
        h.sum().backward()
        return x.grad

    registrations = [
        lambda x, h: h.register_hook(lambda g: g.float()),
        lambda x, h: h.register_hook(lambda g: False),
        lambda x, h: h.register_hook(3),
        lambda x, h: h.grad_fn.register_prehook(lambda gs: gs[0]),
        lambda x, h: h.grad_fn.register_prehook(lambda gs: [gs[0]]),
        lambda x, h: h.grad_fn.register_prehook(lambda gs: (None,)),
        lambda x, h: h.grad_fn.register_hook(lambda gi, go: (gi[0],)),
        lambda x, h: h.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0])),
        lambda x, h: h.grad_fn.register_hook(lambda gi, go: (None, None)),
        lambda x, h: h.grad_fn.register_hook(lambda gi, go: "ab"),
        lambda x, h: post_accumulate(lib, x, lambda t: 3),
        lambda x, h: post_accumulate(lib, x, lambda t: t * 2),
    ]
    results = [attempt(lambda register=register: run(register)) for register in registrations]
    log += [str(r).replace("jitgrad.", "torch.") for r in results if isinstance(r, Exception)]
    return results


def _gradients_that_cannot_be(lib, log):
    """Hooks of a Node see none of positions, nor of what the Node keeps for its backward."""
    package = sys.modules["jitgrad" if lib is J else "torch"]
    functions = package.nn.functional
    operations = [
        lambda x: x.max(1)[0],
        lambda x: x.sort(1)[0],
        lambda x: x.topk(2)[0],
        lambda x: x.median(1)[0],
        lambda x: x.kthvalue(2, 1)[0],
        lambda x: x.cummax(1)[0],
        lambda x: functions.nll_loss(x, package.tensor([0, 2])),
        lambda x: functions.layer_norm(x, (3,)),
        lambda x: x.chunk(2, 1)[1],
    ]
    gradients = []
    for operation in operations:
        x = leaf(lib, [[0.3, -1.0, 2.0], [1.5, 0.2, -0.7]])
        y = operation(x * 2)
        log.append(len(y.grad_fn._input_metadata))
        y.grad_fn.register_prehook(lambda g: log.append(len(g)))
        y.grad_fn.register_hook(lambda inputs, outputs: log.append((len(inputs), len(outputs))))
        y.sum().backward()
        gradients.append(x.grad)
    return gradients


PROGRAMS = [
    _gradients_that_cannot_be,
    _hooks_of_a_view_that_is_written,
    _hooks_of_a_view_whose_base_is_written,
    _hooks_removed_after_the_write,
    _hooks_of_a_leaf_that_stops_requiring_grad,
    _hooks_of_one_output_of_several,
    _node_hooks_changed_while_running,
    _capture_of_a_node_that_also_runs,
    _capture_of_a_node_that_does_not_run,
    _wrong_results,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_and_their_order(program):
    def run(lib):
        log = []
        return program(lib, log), log

    same(run)


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_and_their_order_in_a_compiled_step(program, mode):
    def run(lib):
        def step():
            log = []
            return program(lib, log), log

        return step() if lib is not J else mode.run(step, is_steady=False)

    same(run)


def test_handles_are_pickled_with_their_hooks_and_alone():
    x = leaf(J, [1.0])
    handle = x.register_hook(print)
    alone = pickle.loads(pickle.dumps(handle))
    assert alone.id == handle.id
    alone.remove()
    with_hooks, hooks = pickle.loads(pickle.dumps((handle, x._hooks)))
    assert hooks == {handle.id: print}
    with_hooks.remove()
    assert hooks == {}
    assert x._hooks == {handle.id: print}
    later = x.register_hook(print)
    assert later.id > handle.id
