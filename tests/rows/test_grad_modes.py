"""Grad modes: what joins the graph, and what tensors made in inference mode may not do."""

from __future__ import annotations

import threading

import pytest
from modes import HOOKED, OUTSIDE, Mode

import jitgrad
from jitgrad import nn, optim


def _leaf(*values: float):
    return jitgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


@pytest.mark.row("D10", no_launch="It looks at modes, and reads no value.")
def test_no_grad_adds_no_node_and_is_left_after_an_exception(mode: Mode) -> None:
    def step(x):
        @jitgrad.no_grad()
        def decorated(x):
            return x * 2

        with jitgrad.no_grad():
            inside = x * 2
            with jitgrad.enable_grad():
                again = x * 2
        with pytest.raises(KeyError), jitgrad.no_grad():
            raise KeyError
        outside = x * 2
        made = [inside, again, outside, decorated(x)]
        return [y.requires_grad for y in made], [y.grad_fn is not None for y in made], jitgrad.is_grad_enabled()

    flags, nodes, enabled = mode.run(step, lambda: (_leaf(),))
    assert flags == nodes == [False, True, True, False]
    assert enabled


def test_where_a_block_ends_is_part_of_the_graph() -> None:
    """The same operations, the second of them behind the block or in it: another graph, whichever came first."""

    def step(x, is_inside):
        with jitgrad.no_grad():
            first = x * 2
            if is_inside:
                second = x * 3
        if not is_inside:
            second = x * 3
        return first.requires_grad, second.requires_grad

    for order in ([False, True], [True, False]):
        compiled = jitgrad.compile(step)
        for is_inside in order * 3:
            assert compiled(_leaf(), is_inside) == (False, not is_inside)


@pytest.mark.row("D11")
def test_a_parameter_update_without_grad_records_nothing(mode: Mode) -> None:
    def step(w):
        (w * w).sum().backward()
        with jitgrad.no_grad():
            w -= 0.5 * w.grad
        return w, w.grad_fn, w.is_leaf, w.requires_grad

    w, grad_fn, is_leaf, requires_grad = mode.run(step, lambda: (_leaf(),))
    assert w.tolist() == [0.0, 0.0]
    assert grad_fn is None
    assert is_leaf
    assert requires_grad


@pytest.mark.row("D11")
def test_the_uses_of_no_grad(mode: Mode) -> None:
    """Initialisation, an optimizer's step, an index found by comparison, an accuracy: none joins the graph."""

    def step(layer, optimizer, x, target):
        nn.init.constant_(layer.weight, 0.5)
        logits = layer(x)
        nn.functional.cross_entropy(logits, target).backward()
        optimizer.step()
        with jitgrad.no_grad():
            accuracy = (logits.argmax(1) == target).float().mean()
        return layer.weight, accuracy

    def make():
        layer = nn.Linear(2, 2, bias=False)
        return layer, optim.SGD(layer.parameters(), 1.0), jitgrad.ones(3, 2), jitgrad.tensor([0, 0, 1])

    weight, accuracy = mode.run(step, make)
    assert weight.grad_fn is None
    assert weight.is_leaf
    assert not accuracy.requires_grad
    assert round(accuracy.item(), 4) == 0.6667


ONE_TENSOR = {
    "detach": lambda x: x.detach(),
    "no_grad": lambda x: _without_grad(x),
    "hook": lambda x: _zeroed(x),
}


def _without_grad(x):
    with jitgrad.no_grad():
        return x.view_as(x)


def _zeroed(x):
    y = x.view_as(x)
    y.register_hook(lambda grad: jitgrad.zeros_like(grad))
    return y


def _f(x, y):
    z = x * y
    return z, z * 3


FUNCTIONS = {
    "no_grad": jitgrad.no_grad()(_f),
    "detach": lambda x, y: _f(x.detach(), y.detach()),
    "hook": lambda x, y: _f(_zeroed(x), _zeroed(y)),
}


@pytest.mark.row("D13")
@pytest.mark.parametrize("name", ONE_TENSOR)
def test_three_ways_to_stop_a_gradient(mode: Mode, name: str) -> None:
    """The gradient of x comes only through the other paths; where w gets none, None counts as zeros."""
    mode.states(engine={"detach": (), "no_grad": OUTSIDE, "hook": HOOKED}[name])

    def step(x, w):
        y = ONE_TENSOR[name](x * w)
        (y * y + y * x).sum().backward()
        return x.grad, w.grad

    x_grad, w_grad = mode.run(step, lambda: (_leaf(), _leaf(3.0, 4.0)))
    assert x_grad.tolist() == [3.0, 8.0]
    assert w_grad is None or w_grad.tolist() == [0.0, 0.0]


@pytest.mark.row("D13")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_ways_to_stop_the_gradients_of_a_function(mode: Mode, name: str) -> None:
    mode.states(engine=HOOKED if name == "hook" else ())

    def step(x, y):
        z, w = FUNCTIONS[name](x, y)
        (z * x + w * y).sum().backward()
        return z, w, x.grad, y.grad

    z, w, x_grad, y_grad = mode.run(step, lambda: (_leaf(1.0, 2.0), _leaf(3.0, 4.0)))
    assert (z.tolist(), w.tolist()) == ([3.0, 8.0], [9.0, 24.0])
    assert (x_grad.tolist(), y_grad.tolist()) == ([3.0, 8.0], [9.0, 24.0])


@pytest.mark.row("D10", no_launch="It looks at modes, and reads no value.")
def test_generators_carry_the_mode_and_their_consumers_do_not(mode: Mode) -> None:
    def step(x):
        log = []

        @jitgrad.no_grad()
        def generate():
            try:
                sent = yield (x * 2).requires_grad
                log.append((sent, jitgrad.is_grad_enabled()))
                try:
                    yield
                except ValueError:
                    log.append(jitgrad.is_grad_enabled())
                yield
            finally:
                log.append(jitgrad.is_grad_enabled())

        generator = generate()
        log.append(next(generator))
        log.append((x * 2).requires_grad)
        generator.send("sent")
        generator.throw(ValueError())
        generator.close()
        log.append(jitgrad.is_grad_enabled())
        return log

    assert mode.run(step, lambda: (_leaf(),)) == [False, True, ("sent", False), False, False, True]


def test_classes_and_coroutines_as_pytorch_has_them() -> None:
    class Model:
        def __init__(self):
            self.enabled = jitgrad.is_grad_enabled()

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        decorated = jitgrad.no_grad()(Model)
    assert decorated().enabled is False

    @jitgrad.no_grad()
    async def coroutine():
        return jitgrad.is_grad_enabled()

    # the mode is left before the coroutine runs
    with pytest.raises(StopIteration) as stop:
        coroutine().send(None)
    assert stop.value.value is True
    with pytest.raises(TypeError, match="must be bool, not int"):
        jitgrad.set_grad_enabled(1)
    assert repr(jitgrad.set_grad_enabled(True)) == "jitgrad.set_grad_enabled(mode=True)"


def test_what_is_made_in_inference_mode(mode: Mode) -> None:
    def step(x):
        with jitgrad.inference_mode():
            y = x * 2
            view, made, old_view = y[0], jitgrad.ones(2), x.view(2)
            made.add_(1)
            inside = jitgrad.is_inference_mode_enabled(), (x * x).requires_grad
            with jitgrad.enable_grad():
                inside += (jitgrad.is_grad_enabled(), (x * x).requires_grad)
            with jitgrad.inference_mode(False):
                inside += (jitgrad.is_grad_enabled(), (x * x).requires_grad)
        after = x * 3
        return [t.is_inference() for t in (y, view, made, old_view, after, y.detach(), y.clone())], inside, made

    flags, inside, made = mode.run(step, lambda: (_leaf(),))
    assert flags == [True, True, True, False, False, True, False]
    assert inside == (True, False, True, False, True, True)
    assert made.tolist() == [2.0, 2.0]


def test_a_step_called_in_inference_mode(mode: Mode) -> None:
    function = mode.wrap(lambda x: x * 2)
    x = _leaf()
    for _ in range(3):
        assert not function(x).is_inference()
        with jitgrad.inference_mode():
            y = function(x)
        assert y.is_inference()
        assert not y.requires_grad


def test_what_inference_tensors_may_not_do(mode: Mode) -> None:
    def step(x, a):
        refused = "Inplace update to inference tensor outside InferenceMode"
        with pytest.raises(RuntimeError, match=refused):
            a.add_(1)
        with pytest.raises(RuntimeError, match=refused), jitgrad.no_grad():
            a[0] = 1.0
        with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
            a.requires_grad_()
        with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
            a._version  # noqa: B018 - looking raises
        with jitgrad.inference_mode():
            a.add_(1)
        return x + a, a * a

    def make():
        with jitgrad.inference_mode():
            a = jitgrad.ones(2)
        return _leaf(), a

    total, square = mode.run(step, make)
    assert total.requires_grad
    assert total.tolist() == [3.0, 4.0]
    assert not square.is_inference()
    assert square.tolist() == [4.0, 4.0]


def _inference_ones():
    with jitgrad.inference_mode():
        return jitgrad.ones(2)


def test_inference_tensors_cannot_be_saved_for_backward(mode: Mode) -> None:
    def step(x, a, w):
        for saves in (lambda: x * a, lambda: a * x, lambda: x * a[0], lambda: x * a.detach(), lambda: (x * 1).mul_(a)):
            with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
                saves()
        with jitgrad.inference_mode():
            inside = w * 2
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            inside * x
        with jitgrad.no_grad():
            assert not (x * a).is_inference()
        y = (x + a) * a.clone()
        y.sum().backward()
        return y.tolist(), x.grad.tolist(), w.tolist()

    found = mode.run(step, lambda: (_leaf(), _inference_ones(), _leaf().detach()))
    assert found[:2] == ([2.0, 3.0], [1.0, 1.0])


@pytest.mark.parametrize("is_first_allowed", [True, False])
def test_a_step_that_gets_an_inference_tensor_now_and_then(mode: Mode, is_first_allowed: bool) -> None:
    step = mode.wrap(lambda x, a: x * a)
    for is_allowed in (is_first_allowed, not is_first_allowed) * 3:
        a = jitgrad.ones(2) if is_allowed else _inference_ones()
        if is_allowed:
            assert step(_leaf(), a).tolist() == [1.0, 2.0]
        else:
            with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
                step(_leaf(), a)


def test_multithreading_is_switched_per_thread() -> None:
    from jitgrad.state import state

    seen = []
    with jitgrad.autograd.set_multithreading_enabled(False):
        seen.append(state.multithreading_enabled)
        thread = threading.Thread(target=lambda: seen.append(state.multithreading_enabled))
        thread.start()
        thread.join()
    seen.append(state.multithreading_enabled)
    jitgrad.autograd.set_multithreading_enabled(False)
    seen.append(state.multithreading_enabled)
    jitgrad.autograd.set_multithreading_enabled(True)
    assert seen == [False, True, True, False]
