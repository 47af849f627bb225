"""Writes under several version counters, and replaced data, in and around compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import events


def parameters() -> tuple[Any, Any]:
    p = jg.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
    return p, jg.tensor([[1.0, 2.0], [3.0, 4.0]])


def _through_a_view(p: Any, x: Any) -> Any:
    y = x @ p.t()
    y.sum().item()  # a segment ends here
    p.data.mul_(3.0)
    return y


def _after_the_value_is_dropped(p: Any, x: Any) -> Any:
    a = p * 2
    d = a.data
    y = a.sin()
    del a
    d.mul_(3.0)
    return y


def _a_saved_data_handle(p: Any, x: Any) -> Any:
    d = x.data
    y = p * d
    x.mul_(2.0)
    return y


def _a_view_of_data(p: Any, x: Any) -> Any:
    y = p * p
    p.data[0].view(-1)[1:].add_(5.0)
    return y


def _replaced(p: Any, x: Any) -> Any:
    a = p * 1
    y = a * a
    a.data = x.data
    return y


def _replaced_after_a_write(p: Any, x: Any) -> Any:
    a = p.expand(2, 2, 2)
    y = jg.maximum(a, x)
    p.data.sub_(0.1)
    a.data = x.data
    return y


def _seen_again_after_recording_stopped(p: Any, x: Any) -> Any:
    y = x @ p
    jg.autograd.functional.jacobian(lambda t: t * t, x[0])
    p.data.mul_(0.5)
    return y


def _noticed_and_unnoticed(p: Any, x: Any) -> Any:
    a = p * 1
    y = a * a
    a.data.mul_(2.0)
    z = a * a
    with jg.no_grad():
        a.add_(1.0)
    return z.detach() + y


CASES = [f for name, f in list(globals().items()) if name[0] == "_" != name[1] and callable(f)]


@pytest.mark.parametrize("backward", ["inside", "outside", "twice"])
@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
def test_a_backward_uses_what_is_in_memory(make: Callable[..., Any], backward: str) -> None:
    def step(p: Any, x: Any) -> Any:
        y = make(p, x)
        if backward != "outside":
            y.sum().backward(retain_graph=backward == "twice")
        return y

    def run(step: Any) -> Any:
        seen = []
        for _ in range(3):
            p, x = parameters()
            try:
                y = step(p, x)
                if backward != "inside":
                    y.sum().backward()
            except RuntimeError as error:
                seen.append(type(error).__name__)
            seen.append(agreement.observe([p, x]))
        return seen

    agreement.assert_same(run(jg.compile(step)), run(step))


def test_writes_after_the_backward_are_recorded() -> None:
    def step(p: Any, x: Any) -> None:
        loss = (x @ p).square().sum()
        p.grad = None
        loss.backward()
        p.data.add_(p.grad.data, alpha=-0.01)

    function, (p, x) = jg.compile(step), parameters()
    for _ in range(3):
        with events.count("segments") as segments, events.count("fallbacks") as fallbacks:
            function(p, x)
        assert (segments(), fallbacks()) == (1, 0)


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_parameter_whose_data_is_replaced_before_its_backward(mode: Mode, is_outside: bool) -> None:
    def step(p: Any, x: Any) -> Any:
        y = p * p
        if not is_outside:
            p.data = x.data
        return y

    def run() -> Any:
        p, x = parameters()
        y = function(p, x)
        if is_outside:
            p.data = x.data
        y.sum().backward()
        return p.grad

    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 1):
        np.testing.assert_array_equal(run().numpy(), [[2.0, 4.0], [6.0, 8.0]])


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_saved_value_that_is_detached_in_place(mode: Mode, is_outside: bool) -> None:
    def step(p: Any, x: Any) -> Any:
        a = p * 2
        y = a * a
        if not is_outside:
            a.detach_()
        return a, y

    def run() -> None:
        a, y = function(*parameters())
        if is_outside:
            a.detach_()
        with pytest.raises(RuntimeError, match="detached in-place"):
            y.sum().backward()

    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 1):
        run()


def test_a_value_that_was_not_saved_may_be_detached(mode: Mode) -> None:
    def step() -> Any:
        p, _ = parameters()
        a = p * 2
        y = a.exp()
        a.detach_()
        y.sum().backward()
        return p.grad, a.requires_grad

    grad, requires_grad = mode.run(step)
    np.testing.assert_allclose(grad.numpy(), 2 * np.exp(2 * parameters()[0].detach().numpy()), rtol=1e-6)
    assert not requires_grad


def test_a_view_made_without_grad_requires_it_with_grad(mode: Mode) -> None:
    def step() -> Any:
        p, _ = parameters()
        with jg.no_grad():
            v = p[0]
            assert not (v * 2).requires_grad
        y = v * 3
        y.sum().backward()
        return y.requires_grad, v, p

    requires_grad, view, base = mode.run(step)
    assert requires_grad and view.requires_grad and view.is_leaf
    assert view.grad is None and base.grad is None  # as in PyTorch, it goes nowhere
    (view * 2).sum().backward()
    assert view.grad is None


def test_a_saved_view_notices_a_write_after_the_call(mode: Mode) -> None:
    function = mode.wrap(lambda p, x: x @ p.t())
    for _ in range(3):
        p, x = parameters()
        x.requires_grad_()
        y = function(p, x)
        with jg.no_grad():
            p.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_view_made_without_grad_that_is_told_to_require_it(mode: Mode) -> None:
    def step() -> Any:
        p, _ = parameters()
        with jg.no_grad():
            v = p[0]
        v.requires_grad_()
        (v * 3).sum().backward()
        return v.grad, p.grad

    of_view, of_base = mode.run(step)
    assert of_view.tolist() == [3.0, 3.0] and of_base is None


def test_a_dropped_no_grad_view_of_a_parameter_leaves_its_update_recorded() -> None:
    """A checkpointed layer transposes its weight in no_grad mode; nobody holds that view when the optimizer writes."""
    p, x = parameters()
    optimizer = jg.optim.SGD([p], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        with jg.no_grad():
            scale = (x @ p.t()).sum()
        (x @ p.t() * scale).sum().backward()
        optimizer.step()

    function = jg.compile(step)
    for _ in range(4):
        with events.count("segments") as segments, events.count("fallbacks") as fallbacks:
            function()
        assert (segments(), fallbacks()) == (1, 0)


@pytest.mark.parametrize("make", ["exp", "tanh", "sigmoid", "softmax", "double"])
def test_data_replaced_between_a_gradient_with_a_graph_and_its_use(mode: Mode, make: str) -> None:
    """An operation that used the tensor sees its new data; one that used what a Node has saved of its result does not.

    PyTorch saves a tensor itself where it is an operand, and an alias of it where it is a Node's own result.
    """
    torch = pytest.importorskip("torch")

    def step(lib: Any) -> Any:
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64, requires_grad=True)
        y = {
            "exp": lambda: x.exp(),
            "tanh": lambda: x.tanh(),
            "sigmoid": lambda: (x * x).sigmoid(),
            "softmax": lambda: x.softmax(0),
            "double": lambda: x * 2,
        }[make]()
        gradients = lib.autograd.grad((y.sin() * x).sum(), [x, y], create_graph=True)
        y.data = y.data * 3
        seconds = [lib.autograd.grad((g * g).sum(), x, create_graph=True)[0] for g in gradients]
        thirds = [lib.autograd.grad((g * g).sum(), x, retain_graph=True)[0] for g in seconds]
        return [g.tolist() for g in (*seconds, *thirds)]

    for got, want in zip(mode.run(lambda: step(jg)), step(torch), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("data_writes", [0, 1, 2])
@pytest.mark.parametrize("reads", [False, True])
def test_a_second_write_that_a_later_call_records_is_one_write(data_writes: int, reads: bool, mode: Mode) -> None:
    """Writes through ``.data`` give the storage another id; what a call records behind hits writes to the same one."""

    def step(p: Any, q: Any) -> Any:
        for _ in range(data_writes):
            p.data.mul_(0.5)
        v = p * 3
        if reads:
            v.sum().item()
        with jg.no_grad():
            p.mul_(v)
            p.add_(v, alpha=0.1)  # the second call's gradients are added up: what follows is recorded again
        (v.sin() * q.sum()).sum().backward()
        return v

    def four_calls(call: Callable[..., Any]) -> list[Any]:
        p, q = jg.linspace(0.1, 0.2, 16).reshape(4, 4).requires_grad_(), jg.ones(4, 4).requires_grad_()
        return [(call(p, q).tolist(), p.tolist(), p.grad.tolist()) for _ in range(4)]

    for got, want in zip(four_calls(mode.wrap(step)), four_calls(step), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_a_tensor_with_other_data_leads_to_outlives_a_saving_hook_that_reads(
    is_replaced: bool, mode: Mode
) -> None:
    """A segment's end lets go of storages that nothing leads to: the tensor leads to a mask."""

    def step(x: Any, p: Any) -> Any:
        y = jg.where(x > 0, x, 0.5)
        if is_replaced:
            y.data = x.data
        for _ in range(4):
            with jg.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), jg.from_numpy):
                p = p.sin()
        out = 1 - y
        return [out, *jg.autograd.grad((out * out).sum(), x)]

    def four_calls(call: Callable[..., Any]) -> list[Any]:
        x = jg.tensor([-1.0, 2.0, -3.0], requires_grad=True)
        return [t.tolist() for _ in range(4) for t in call(x, jg.ones(3, requires_grad=True))]

    assert four_calls(mode.wrap(step)) == four_calls(step)


def _subtracted(p: Any, q: Any) -> Any:
    p.data -= 0.1 * p.grad


def _added_to(p: Any, q: Any) -> Any:
    p.data.add_(p.grad, alpha=-0.1)


def _by_two_aliases(p: Any, q: Any) -> Any:
    p.data.mul_(0.9)
    p.data.add_(q.detach())


def _by_one_alias_and_used(p: Any, q: Any) -> Any:
    d = p.data
    d.mul_(0.9)
    d.sub_(0.1)
    return (p * q).sum(), d * 2


def _while_an_alias_is_held(p: Any, q: Any) -> Any:
    d, e = p.data, p.data
    d.add_(1.0)
    return e * 1, p * 1


def _while_a_view_is_held(p: Any, q: Any) -> Any:
    t = p.t()
    p.data.add_(1.0)
    return t * 1


def _by_itself(p: Any, q: Any) -> Any:
    p.data.add_(p)
    p.data.mul_(p.data)


def _by_what_requires_grad(p: Any, q: Any) -> Any:
    p.data.copy_(q)
    d = p.data
    d.mul_(q)
    return d


def _averaged(p: Any, q: Any) -> Any:
    q.data.copy_(0.25 * p.data + 0.75 * q.data)


def _gradient_zeroed(p: Any, q: Any) -> Any:
    p.grad.data.zero_()
    (p * q).sum().backward()
    p.grad.data.mul_(2.0)
    return p.grad


def _set_to_itself(p: Any, q: Any) -> Any:
    d = p.data
    d += 1
    p.data = d
    p.data = p.data
    return p * 2


def _set_to_a_part(p: Any, q: Any) -> Any:
    d = p.data
    d += 1
    p.data = d[:1]
    return p * 2


def _after_a_read(p: Any, q: Any) -> Any:
    p.data.mul_(0.5)
    p.sum().item()
    p.data.mul_(0.5)


IDIOMS = [f for name, f in list(globals().items()) if name[0] == "_" != name[1] and callable(f) and f not in CASES]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda f: f.__name__)
def test_updates_by_data_are_what_they_are_eagerly(idiom: Callable[..., Any], held: bool) -> None:
    """Six calls; ``held``: from the fourth on somebody outside looks at the same memory."""

    def step(p: Any, q: Any, x: Any) -> Any:
        p.grad = None
        (x @ p.t() + p * q).square().sum().backward()
        return idiom(p, q)

    def run(step: Any) -> Any:
        p, x = parameters()
        q = (p * 2 + 1).detach().requires_grad_()
        seen, outside = [], []
        for nr in range(6):
            if held and nr >= 3:
                outside = [p.data, p.detach(), x[0]]
            result = step(p, q, x)
            results = result if isinstance(result, tuple) else () if result is None else (result,)
            seen.append(agreement.observe([p, q, x, p.grad, q.grad, *outside, *results]))
            q.grad = None
        return seen

    agreement.assert_same(run(jg.compile(step)), run(step))


@pytest.mark.parametrize("update", [_subtracted, _added_to, _by_two_aliases, _averaged], ids=lambda f: f.__name__)
def test_updates_by_data_end_no_segment(update: Callable[..., Any]) -> None:
    def step(p: Any, q: Any, x: Any) -> None:
        p.grad = None
        (x @ p).square().sum().backward()
        update(p, q)

    p, x = parameters()
    function, q = jg.compile(step), x.clone().requires_grad_()
    for _ in range(4):
        with events.count("segments") as segments, events.count("fallbacks") as fallbacks:
            function(p, q, x)
        assert (segments(), fallbacks()) == (1, 0)
