"""Hooks of tensors, leaves and nodes: when they are called, in which order, and what they may change."""

from __future__ import annotations

from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, HOOKED_LEAF, NOTHING_HELD, Mode

import jitgrad
from jitgrad.autograd import grad, graph


def _leaf(*values: float):
    return jitgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


@pytest.mark.row("D12", engine=HOOKED)
def test_a_hook_replaces_the_gradient_and_none_keeps_it(mode: Mode) -> None:
    """foo(v J2) J1: the hook comes between the two operations."""

    def step(x):
        seen = []
        y = x * 3  # J1 = 3
        y.register_hook(lambda g: g * g)
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * y).sum().backward()  # v J2 = 2 y = 6 x
        return seen, x.grad

    seen, x_grad = mode.run(step, lambda: (_leaf(),))
    assert seen == [[36.0, 144.0]]
    assert x_grad.tolist() == [108.0, 432.0]


@pytest.mark.row("D12", "C27", engine=HOOKED)
def test_the_documented_order(mode: Mode) -> None:
    """PyTorch's "Backward Hooks execution": tensor hooks, retain_grad, node pre-hooks, the node, node post-hooks."""

    def step(x):
        calls = []

        def note(name, factor=None):
            return lambda g: (calls.append(name), None if factor is None else g * factor)[1]

        h = x * 2
        node, accumulator = h.grad_fn, h.grad_fn.next_functions[0][0]
        node.register_prehook(lambda gs: calls.append("node pre"))
        node.register_hook(lambda gi, go: calls.append("node post"))
        h.register_hook(note("tensor 1"))
        h.retain_grad()
        h.register_hook(note("tensor 2", 10))
        accumulator.register_prehook(lambda gs: calls.append("leaf node pre"))
        accumulator.register_hook(lambda gi, go: calls.append("leaf node post"))
        x.register_post_accumulate_grad_hook(lambda t: calls.append("post accumulate"))
        x.register_hook(note("leaf tensor"))
        h.sum().backward()
        return calls, h.grad, x.grad

    calls, h_grad, x_grad = mode.run(step, lambda: (_leaf(),))
    assert calls == [
        "tensor 1",
        "tensor 2",
        "node pre",
        "node post",
        "leaf tensor",
        "leaf node pre",
        "post accumulate",
        "leaf node post",
    ]
    assert h_grad.tolist() == [10.0, 10.0]  # what retain_grad keeps is the result of all hooks
    assert x_grad.tolist() == [20.0, 20.0]


@pytest.mark.row("C27", engine=HOOKED)
def test_node_hooks_see_gradients_of_both_sides_and_replace_them(mode: Mode) -> None:
    def step(x):
        seen = []
        z = x * jitgrad.tensor([3.0, 4.0])
        z.grad_fn.register_prehook(lambda go: (seen.append(go[0].tolist()), (go[0] * 2,))[1])
        z.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), gi[1], go[0].tolist())))
        z.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, None))
        z.sum().backward()
        return seen, x.grad

    seen, x_grad = mode.run(step, lambda: (_leaf(),))
    assert seen == [[1.0, 1.0], ([6.0, 8.0], None, [2.0, 2.0])]
    assert x_grad.tolist() == [60.0, 80.0]


@pytest.mark.row("B41", engine=HOOKED)
def test_pre_hooks_run_before_saved_values_are_released(mode: Mode) -> None:
    def step(x):
        y = x.exp()
        node, seen = y.grad_fn, []
        node.register_prehook(lambda gs: seen.append(node._saved_result.tolist()))
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            node._saved_result  # noqa: B018 - looking raises
        return seen

    ((first, second),) = mode.run(step, lambda: (_leaf(0.0, 1.0),))
    assert (first, round(second, 5)) == (1.0, 2.71828)


@pytest.mark.row("B32", engine=ARGUMENTS)
def test_a_captured_gradient_has_passed_all_hooks(mode: Mode) -> None:
    """h2(h1(g)), and no node of the leaf's own runs."""

    def step(x):
        called = []
        x.register_hook(lambda g: g + 1)
        x.register_hook(lambda g: g * 10)
        x.register_post_accumulate_grad_hook(lambda t: called.append("accumulated"))
        (captured,) = grad((x * x).sum(), x)
        return captured, x.grad, called

    captured, x_grad, called = mode.run(step, lambda: (_leaf(),))
    assert captured.tolist() == [30.0, 50.0]
    assert x_grad is None
    assert called == []


@pytest.mark.row("C13", engine=ARGUMENTS)
def test_backward_into_a_non_leaf_retains_its_gradient(mode: Mode) -> None:
    def step(x):
        h = x * 2
        (h * h).sum().backward(inputs=[h])
        return h.grad, x.grad, h.retains_grad

    h_grad, x_grad, retains = mode.run(step, lambda: (_leaf(),))
    assert h_grad.tolist() == [4.0, 8.0]
    assert x_grad is None
    assert retains


@pytest.mark.row("A4", engine=HOOKED)
def test_what_a_variable_consists_of(mode: Mode) -> None:
    def step(x):
        calls = []
        x.register_hook(lambda g: calls.append(g.tolist()))
        data = x.data
        shares = data.data_ptr() == x.data_ptr()
        y = x * 2
        before = x.grad
        y.sum().backward()
        return x.grad_fn, y.grad_fn.name(), data.requires_grad, shares, before, x.grad, calls

    grad_fn, name, data_requires_grad, shares, before, x_grad, calls = mode.run(step, lambda: (_leaf(),))
    assert grad_fn is None
    assert name == "MulBackward0"
    assert data_requires_grad is False
    assert shares
    assert before is None
    assert x_grad.tolist() == [2.0, 2.0]
    assert calls == [[2.0, 2.0]]


@pytest.mark.row("E3", engine=HOOKED)
def test_a_leaf_calls_its_hooks_then_accumulates_and_leads_nowhere(mode: Mode) -> None:
    def step(x):
        calls = []
        x.register_hook(lambda g: (calls.append(x.grad is None), g * 5)[1])
        accumulator = (x * 1).grad_fn.next_functions[0][0]
        for _ in range(2):
            (x * 2).sum().backward()
        return calls, x.grad, accumulator.next_functions, accumulator.variable is x

    calls, x_grad, next_functions, is_x = mode.run(step, lambda: (_leaf(),))
    assert calls == [True, False]
    assert x_grad.tolist() == [20.0, 20.0]
    assert next_functions == ()
    assert is_x


def test_hooks_stay_with_the_value_they_were_registered_on(mode: Mode) -> None:
    """After an in-place operation the old hooks see the gradient of the old value; retain_grad moves on."""

    def step(x):
        log = []
        h = x * 2
        h.register_hook(lambda g: log.append(("before", g.tolist())))
        h.retain_grad()
        h.mul_(3)
        h.register_hook(lambda g: log.append(("after", g.tolist())))
        h.sum().backward()
        return log, h.grad

    log, h_grad = mode.run(step, lambda: (_leaf(),))
    assert log == [("after", [1.0, 1.0]), ("before", [3.0, 3.0])]
    assert h_grad.tolist() == [1.0, 1.0]


def test_hooks_registered_before_and_after_a_write(mode: Mode) -> None:
    def step(x):
        log = []
        h = x * x
        h.register_hook(lambda g: (log.append(("before", g.tolist())), g * 2)[1])
        h.mul_(3)
        h.register_hook(lambda g: (log.append(("after", g.tolist())), g * 5)[1])
        h.sum().backward()
        return log, x.grad

    log, x_grad = mode.run(step, lambda: (_leaf(),))
    assert log == [("after", [1.0, 1.0]), ("before", [15.0, 15.0])]
    assert x_grad.tolist() == [60.0, 120.0]


def test_a_hook_removed_before_its_turn_is_called_once_more_in_this_round(mode: Mode) -> None:
    """The round has begun when the first hook is called: removals and additions count from the next backward on."""

    def step(x):
        log, handles = [], []
        h = x * 2

        def first(g):
            log.append(1)
            handles[1].remove()
            handles[0].remove()
            h.register_hook(lambda g: log.append("new"))

        handles += [h.register_hook(first), h.register_hook(lambda g: log.append(2))]
        y = (h * h).sum()
        y.backward(retain_graph=True)
        log.append("|")
        y.backward()
        return log

    assert mode.run(step, lambda: (_leaf(),)) == [1, 2, "|", "new"]


def test_a_hook_that_raises_stops_the_backward_and_nothing_else(mode: Mode) -> None:
    def step(x):
        h = x * 2
        handle = h.register_hook(lambda g: 1 / 0)
        y = (h * h).sum()
        with pytest.raises(ZeroDivisionError):
            y.backward(retain_graph=True)
        assert x.grad is None
        handle.remove()
        y.backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)).tolist() == [8.0, 16.0]


@pytest.mark.parametrize(
    "hook, kind, message",
    [
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: jitgrad.ones(5), RuntimeError, "has changed the size of value"),
        (lambda g: g.double(), RuntimeError, "has changed the type of value"),
    ],
)
def test_what_a_tensor_hook_may_not_return(mode: Mode, hook, kind, message) -> None:
    def step(x):
        h = x * 2
        h.register_hook(hook)
        with pytest.raises(kind, match=message):
            h.sum().backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)) is None


@pytest.mark.parametrize(
    "result, kind, message",
    [
        (lambda g: g, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda g: (g,), RuntimeError, r"incorrect number of values \(got 1, but expected 2\)"),
        (lambda g: (g, g), RuntimeError, "can't replace a None gradient with a non-None value"),
    ],
)
def test_what_a_node_hook_may_not_return(mode: Mode, result, kind, message) -> None:
    def step(x):
        h = x * 2
        h.grad_fn.register_hook(lambda gi, go: result(go[0]))
        with pytest.raises(kind, match=message):
            h.sum().backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)) is None


def test_a_hook_may_call_backward(mode: Mode) -> None:
    def step(x):
        h = x * 2

        def hook(g):
            y = _leaf()
            with jitgrad.enable_grad():
                (y * y).sum().backward()
            return g * y.grad

        h.register_hook(hook)
        h.sum().backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)).tolist() == [4.0, 8.0]


def test_hooks_with_create_graph_are_differentiated(mode: Mode) -> None:
    def step(x):
        h = x * x
        h.register_hook(lambda g: g * g)
        (first,) = grad((h * h).sum(), x, create_graph=True)  # (2 x^2)^2 * 2 x = 8 x^5
        # the hook is on the second path to x too: (16 x^3)^2 through h, plus 8 x^4 by the last factor
        (second,) = grad(first.sum(), x)
        return first, second

    first, second = mode.run(step, lambda: (_leaf(),))
    assert first.tolist() == [8.0, 256.0]
    assert second.tolist() == [520.0, 65664.0]


def test_a_hook_on_several_gradients(mode: Mode) -> None:
    """The example of PyTorch's documentation."""

    def step():
        log = []
        a, b, c, d = (_leaf(2.0, 3.0) for _ in range(4))
        e, f = a * b, b * c
        handle = graph.register_multi_grad_hook((a, b, c, d, e), lambda gs: log.append([g is not None for g in gs]))
        first = graph.register_multi_grad_hook((a, b), lambda g: log.append(g.tolist()), mode="any")
        loss = (e * f).sum()
        loss.backward(retain_graph=True)
        loss.backward(inputs=(a,), retain_graph=True)
        with handle, first:
            grad(loss, e, retain_graph=True)
        loss.backward()
        return log

    log = mode.run(step)
    flags = [entry for entry in log if isinstance(entry[0], bool)]
    assert flags == [[True, True, True, False, True], [True, False, False, False, True], [False] * 4 + [True]]
    assert len(log) == 5


def test_a_hook_on_several_gradients_does_not_wait_for_what_is_not_in_the_graph(mode: Mode) -> None:
    def step(x, unused):
        log, y = [], unused * 1
        graph.register_multi_grad_hook((unused, x), lambda grads: log.append([g is not None for g in grads]))
        result = grad((x * x).sum(), [unused, x], allow_unused=True)
        return log, result[0], y

    log, of_unused, _ = mode.run(step, lambda: (_leaf(), _leaf()))
    assert log == [[False, True]]
    assert of_unused is None


def test_misuse_of_a_hook_on_several_gradients() -> None:
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got x"):
        graph.register_multi_grad_hook([_leaf()], print, mode="x")
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        graph.register_multi_grad_hook([jitgrad.ones(1)], print)


def test_hooks_come_and_go_between_calls(mode: Mode) -> None:
    """After warm-up a new hook is called at the next call, and a removed one is not."""
    x = _leaf()

    def step(x):
        x.grad = None
        (x * x).sum().backward()
        return x.grad

    function = mode.wrap(step)
    for _ in range(3):
        assert function(x).tolist() == [2.0, 4.0]
    for _ in range(2):
        calls: list[list[float]] = []
        handle = x.register_hook(lambda g, calls=calls: (calls.append(g.tolist()), g * 3)[1])
        for count in (1, 2, 3):
            assert function(x).tolist() == [6.0, 12.0]
            assert len(calls) == count
        handle.remove()
        for _ in range(2):
            assert function(x).tolist() == [2.0, 4.0]
        assert len(calls) == 3


@pytest.mark.row("C27", engine=HOOKED_LEAF)
def test_post_hooks_see_what_the_node_was_given(mode: Mode) -> None:
    """The accumulator empties its list, so that nobody else holds the gradient: its hook sees it all the same."""

    def step(x: Any) -> Any:
        seen = []
        y = x * 2
        node = jitgrad.autograd.graph.get_gradient_edge(x).node
        node.register_hook(lambda grad_inputs, grad_outputs: seen.append((grad_inputs, grad_outputs[0].tolist())))
        y.sum().backward()
        return seen, x.grad

    seen, grad = mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),))
    assert seen == [((), [2.0, 2.0])]
    assert grad.tolist() == [2.0, 2.0]


@pytest.mark.row("B17", engine=HOOKED)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_changes_the_grad_mode_changes_it_for_itself(mode: Mode, create_graph: bool) -> None:
    if not create_graph:
        mode.states(no_launch=NOTHING_HELD)
    def step(x: Any) -> Any:
        seen = []
        h = x * 2
        y = h * h
        h.register_hook(lambda grad: seen.append(jitgrad.is_grad_enabled()))

        def switch(grad: Any) -> None:
            jitgrad.set_grad_enabled(not create_graph)

        y.register_hook(switch)
        grad(y.sum(), x, create_graph=create_graph)
        return seen, jitgrad.is_grad_enabled()

    found = mode.run(step, lambda: (jitgrad.ones(2, requires_grad=True),), is_steady=False)
    assert found == ([create_graph], True)
