"""Hooks of saved tensors: what is packed and unpacked, when, and what they may not do."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad.autograd import Function, grad
from jitgrad.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    increment_version,
    save_on_cpu,
    saved_tensors_hooks,
)


def _leaf(*values: float):
    return jitgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def test_every_saved_tensor_is_packed_and_unpacked(mode: Mode) -> None:
    def step(x, w):
        log = []

        def pack(t):
            log.append(("pack", t.tolist(), t.requires_grad, t.is_leaf))
            return t.tolist()

        def unpack(values):
            log.append(("unpack", values))
            return jitgrad.tensor(values)

        with saved_tensors_hooks(pack, unpack):
            y = (x * w).tanh().sum()
        log.append("backward")
        y.backward()
        return log, x.grad, w.grad

    log, x_grad, w_grad = mode.run(step, lambda: (_leaf(0.0, 0.0), _leaf(3.0, 4.0)))
    assert sorted(log[:3], key=str) == [
        ("pack", [0.0, 0.0], True, False),
        ("pack", [0.0, 0.0], True, True),
        ("pack", [3.0, 4.0], True, True),
    ]
    assert log[3] == "backward"
    assert sorted(log[4:]) == [("unpack", [0.0, 0.0]), ("unpack", [0.0, 0.0]), ("unpack", [3.0, 4.0])]
    assert x_grad.tolist() == [3.0, 4.0]
    assert w_grad.tolist() == [0.0, 0.0]


def test_gradients_come_from_what_is_unpacked(mode: Mode) -> None:
    def step(x):
        with saved_tensors_hooks(lambda t: t * 10, lambda t: t):
            y = (x * x).sum()
        y.backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)).tolist() == [20.0, 40.0]


def test_only_the_innermost_pair_counts_and_only_inside(mode: Mode) -> None:
    def step(x):
        log = []

        def hooks(name):
            return saved_tensors_hooks(lambda t: (log.append(name), t)[1], lambda t: t)

        with hooks("outer"):
            with hooks("inner"):
                a = x.exp()
            b = x.exp()
        c = x.exp()
        (a + b + c).sum().backward()
        return log

    assert mode.run(step, lambda: (_leaf(),)) == ["inner", "outer"]


def test_a_step_called_inside_the_hooks(mode: Mode) -> None:
    function = mode.wrap(lambda x: (x * x).exp().sum())
    for _ in range(3):
        packed: list[int] = []
        x = _leaf(0.0, 1.0)
        with saved_tensors_hooks(lambda t, packed=packed: (packed.append(1), t.detach())[1], lambda t: t * 2):
            y = function(x)
        assert len(packed) == 3
        y.backward()
        assert [round(v, 3) for v in x.grad.tolist()] == [0.0, 21.746]  # 2 * 2 x * 2 exp(x^2): each is read doubled
        x.grad = None
        function(x).backward()
        assert len(packed) == 3


def test_double_backward_through_packed_values(mode: Mode) -> None:
    def step(x):
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = (x * x * x).sum()
        (first,) = grad(y, x, create_graph=True)
        (second,) = grad(first.sum(), x)
        return first, second

    first, second = mode.run(step, lambda: (_leaf(),))
    assert first.tolist() == [3.0, 12.0]
    assert second.tolist() == [6.0, 12.0]


def test_double_backward_through_packed_outputs(mode: Mode) -> None:
    def step(x):
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = x.exp()
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad((first * first).sum(), x)
        return y, second, y.grad_fn

    y, second, _ = mode.run(step, lambda: (_leaf(0.0, 1.0),))
    assert second.tolist() == pytest.approx([2 * v * v for v in y.tolist()], rel=1e-5)


def test_custom_functions_save_through_the_hooks(mode: Mode) -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            out = x * x
            ctx.save_for_backward(x, out, None)
            return out

        @staticmethod
        def backward(ctx, g):
            x, out, nothing = ctx.saved_tensors
            assert nothing is None
            assert out.requires_grad
            return g * 2 * x

    def step(x):
        packed = []
        with saved_tensors_hooks(lambda t: (packed.append(t.tolist()), t * 3)[1], lambda t: t):
            y = Square.apply(x)
        y.sum().backward()
        return packed, x.grad

    packed, x_grad = mode.run(step, lambda: (_leaf(),))
    assert packed == [[1.0, 2.0], [1.0, 4.0]]
    assert x_grad.tolist() == [6.0, 12.0]


def test_writes_after_packing_are_not_noticed(mode: Mode) -> None:
    def step(x):
        h = x * 1
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = (h * h).sum()
        with jitgrad.no_grad():
            h.mul_(7)
        y.backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "pack, unpack, kind, message",
    [
        (lambda t: t.detach().mul_(2), lambda t: t, RuntimeError, "pack hook is modifying its input in place"),
        (lambda t: 1 / 0, lambda t: t, ZeroDivisionError, "division"),
        (lambda t: t, lambda t: None, TypeError, "unpack_hook expected to be a Tensor but got result of type NoneType"),
        (lambda t: t, lambda t: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_misuse(mode: Mode, pack, unpack, kind, message) -> None:
    def step(x):
        with pytest.raises(kind, match=message):
            with saved_tensors_hooks(pack, unpack):
                y = (x * x).sum()
            y.backward()
        first = x.grad
        (x * x).sum().backward()  # the next one works
        return first, x.grad, x.detach()

    first, x_grad, x = mode.run(step, lambda: (_leaf(),))
    assert first is None
    assert x_grad.tolist() == (2 * x).tolist()


def test_hooks_of_one_saved_tensor(mode: Mode) -> None:
    def step(x):
        y = x.exp()
        raw = y.grad_fn._raw_saved_result
        raw.register_hooks(lambda t: t * 2, lambda t: t)
        with pytest.raises(RuntimeError, match="whose hooks have already been set"):
            raw.register_hooks(lambda t: t, lambda t: t)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after it has been freed"):
            raw.register_hooks(lambda t: t, lambda t: t)
        return y, x.grad

    y, x_grad = mode.run(step, lambda: (_leaf(0.0, 1.0),))
    assert x_grad.tolist() == pytest.approx([2 * v for v in y.tolist()])


def test_hooks_can_be_forbidden(mode: Mode) -> None:
    def step():
        hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
        with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"), hooks:
            raise AssertionError
        with hooks, pytest.raises(RuntimeError, match="nor here"), disable_saved_tensors_hooks("nor here"):
            raise AssertionError
        return True

    assert mode.run(step)


def test_saved_tensors_on_the_cpu(mode: Mode) -> None:
    def step(x):
        with save_on_cpu(pin_memory=True):
            h = x * 1
            y = (h * h).sum()
        with jitgrad.no_grad():
            h.zero_()  # what was saved is a copy
        y.backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(),)).tolist() == [2.0, 4.0]


def test_saved_tensors_come_back_to_their_device() -> None:
    x = jitgrad.tensor([1.0, 2.0], device="vcpu:0", requires_grad=True)
    with save_on_cpu():
        y = (x * x).sum()
    y.backward()
    assert x.grad.device == x.device
    assert x.grad.tolist() == [2.0, 4.0]


def test_mutation_of_saved_tensors(mode: Mode) -> None:
    """The example of PyTorch's documentation, and a view."""

    def step(a):
        with allow_mutation_on_saved_tensors() as context:
            b = a.clone()
            out = (b**2).sum()
            b.sin_()
            b[0] = 7.0
            copies = len(context.cloned)
            out.backward()
            with pytest.raises(RuntimeError, match="cannot be nested"), allow_mutation_on_saved_tensors():
                raise AssertionError
            outside = (a.exp() * 1).sum()
        with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
            outside.backward()
        return a.grad, copies

    a_grad, copies = mode.run(step, lambda: (_leaf(),))
    assert a_grad.tolist() == [2.0, 4.0]
    assert copies == 1


def test_versions_can_be_raised_by_hand(mode: Mode) -> None:
    def step(x):
        h = x * 1
        y = (h * h).sum()
        increment_version([h])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
        with pytest.raises(RuntimeError, match="increment_version expect"):
            increment_version(3)
        return h._version

    assert mode.run(step, lambda: (_leaf(),)) == 1


def test_hooks_belong_to_the_thread() -> None:
    packed = []
    with saved_tensors_hooks(lambda t: (packed.append(1), t)[1], lambda t: t):
        thread = threading.Thread(target=lambda: _leaf().exp())
        thread.start()
        thread.join()
    assert packed == []


def test_packed_values_are_freed_with_the_graph() -> None:
    class Held:
        def __init__(self, t):
            self.t = t.detach()

    alive: list[int] = []

    def pack(t):
        held = Held(t)
        alive.append(1)
        weakref.finalize(held, alive.pop)
        return held

    gc.disable()
    try:
        with saved_tensors_hooks(pack, lambda held: held.t):
            y = (_leaf() * _leaf()).exp().sum()
        assert len(alive) == 3
        y.backward()
        assert alive == []
    finally:
        gc.enable()


def test_a_pack_hook_that_raises_prevents_the_write(mode: Mode) -> None:
    """And one that does not sees the value from before the write."""

    def refuse(t):
        raise ValueError("not this one")

    def step(x, y):
        z, seen = x * 1, []
        with saved_tensors_hooks(refuse, lambda t: t), pytest.raises(ValueError, match="not this one"):
            z.mul_(y)
        after_refusal = z.tolist(), z.grad_fn.name()
        with saved_tensors_hooks(lambda t: (seen.append((z.tolist(), t.tolist())), t)[1], lambda t: t):
            z.mul_(y)
            z[0].mul_(y[1])
        z.sum().backward()
        return after_refusal, seen, z.tolist(), x.grad.tolist(), y.grad.tolist()

    def leaves():
        return jitgrad.tensor([1.0, 2.0], requires_grad=True), jitgrad.tensor([3.0, 4.0], requires_grad=True)

    refused, seen, z, x_grad, y_grad = mode.run(step, leaves)
    assert refused == ([1.0, 2.0], "MulBackward0")
    assert ([1.0, 2.0], [1.0, 2.0]) in seen
    assert ([1.0, 2.0], [3.0, 4.0]) in seen
    assert [now for now, _ in seen] == [[1.0, 2.0]] * 2 + [[3.0, 8.0]] * 2
    assert (z, x_grad, y_grad) == ([12.0, 8.0], [12.0, 4.0], [4.0, 5.0])


def test_transforms_inside_the_hooks(mode: Mode) -> None:
    """A level stands on whatever handles operations: here on the recorder that makes Nodes at once."""
    packed: list[tuple[int, ...]] = []

    def pack(t: Any) -> Any:
        packed.append(tuple(t.shape))
        return t

    def step(x: Any) -> Any:
        packed.clear()
        with saved_tensors_hooks(pack, lambda t: t):
            y = jitgrad.func.vmap(lambda a: a * a)(x).sum()
            _, tangent = jitgrad.func.jvp(lambda a: (a * a).sum(), (x,), (x,))
        y.backward()
        return x.grad, tangent, list(packed)

    grad, tangent, shapes = mode.run(step, lambda: (jitgrad.ones(3, 2, requires_grad=True),))
    assert grad.tolist() == [[2, 2]] * 3
    assert float(tangent) == 12
    assert shapes[:2] == [(3, 2), (3, 2)]
