"""``backward`` and ``grad``: arguments, results, errors, nested calls; against PyTorch."""

from __future__ import annotations

import threading

import pytest
from parity import J, attempt, const, leaf, same

from jitgrad.runtime.engine.graph.current import current_graph_task


@pytest.mark.row("A19", "C1")
def test_scalar_chain_matches_torch():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        y = leaf(lib, 2.0)
        z = ((x * y).exp() * x).sum()
        z.backward()
        return x.grad, y.grad

    same(program)


@pytest.mark.row("A16")
def test_no_gradient_for_what_does_not_require_it():
    def program(lib):
        x, c = leaf(lib, [1.0, 2.0]), const(lib, [3.0, 4.0])
        (x * c).sum().backward()
        return x.grad, c.grad

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


@pytest.mark.row("A5", "A18")
def test_second_output_only():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0, 4.0])
        _, b = x.chunk(2)
        (b * 3).sum().backward()
        return x.grad

    same(program)


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
