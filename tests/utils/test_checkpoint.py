"""Checkpoints: the gradients of the function itself, recomputed; in both variants, nested, and against PyTorch."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from modes import HOOKED, OUTSIDE, Mode

import jitgrad
from jitgrad import nn
from jitgrad.autograd import Function, grad
from jitgrad.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

VARIANTS = [pytest.param(True, id="reentrant"), pytest.param(False, id="not reentrant")]
both = pytest.mark.parametrize("use_reentrant", VARIANTS)


def _leaf(*values: float) -> Any:
    return jitgrad.tensor(list(values), dtype=jitgrad.float64, requires_grad=True)


class _Counted:
    """A function that counts how often it runs, and how often to the end."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.begun = self.ended = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.begun += 1
        result = self.function(*args, **kwargs)
        self.ended += 1
        return result


def _three_steps(x: Any, w: Any) -> Any:
    return ((x * w).sin() * x).exp()


def _expected(x: list[float], w: list[float]) -> tuple[Any, Any]:
    a, b = np.array(x), np.array(w)
    out = np.exp(np.sin(a * b) * a)
    return out * (np.cos(a * b) * b * a + np.sin(a * b)), out * np.cos(a * b) * a * a


@both
def test_gradients(mode: Mode, use_reentrant: bool) -> None:
    def step(x: Any, w: Any) -> Any:
        counted = _Counted(_three_steps)
        y = checkpoint(counted, x, w, use_reentrant=use_reentrant)
        before = counted.begun
        (y * y.detach()).sum().backward()
        return x.grad, w.grad, before, counted.begun, y

    x, w = [0.1, 0.5], [1.0, 2.0]
    gx, gw, before, runs, y = mode.run(step, lambda: (_leaf(*x), _leaf(*w)))
    assert (before, runs) == (1, 2)
    expected = _expected(x, w)
    np.testing.assert_allclose(gx.numpy(), expected[0] * y.detach().numpy())
    np.testing.assert_allclose(gw.numpy(), expected[1] * y.detach().numpy())


@both
def test_several_outputs_and_other_arguments(mode: Mode, use_reentrant: bool) -> None:
    def function(x: Any, power: int, name: str) -> Any:
        assert name == "name"
        return x**power, None, x * 2

    def step(x: Any) -> Any:
        a, nothing, b = checkpoint(function, x, 3, "name", use_reentrant=use_reentrant)
        (a * b).sum().backward()
        return nothing, x.grad.tolist()

    assert mode.run(step, lambda: (_leaf(1.0, 2.0),)) == (None, [8.0, 64.0])


@both
def test_parameters_that_the_function_finds_itself(mode: Mode, use_reentrant: bool) -> None:
    def step(x: Any, layer: nn.Linear) -> Any:
        checkpoint(layer, x, use_reentrant=use_reentrant).sum().backward()
        return layer.weight.grad.tolist(), layer.bias.grad.tolist()

    def make() -> tuple[Any, ...]:
        return _leaf(1.0, 2.0).reshape(1, 2).float(), nn.Linear(2, 3)

    assert mode.run(step, make) == ([[1.0, 2.0]] * 3, [1.0] * 3)


@both
def test_random_numbers_are_drawn_again(mode: Mode, use_reentrant: bool) -> None:
    def noisy(x: Any) -> Any:
        return x * jitgrad.rand(3, dtype=jitgrad.float64)

    def step(x: Any) -> Any:
        jitgrad.manual_seed(5)
        y = checkpoint(noisy, x, use_reentrant=use_reentrant)
        after_forward = jitgrad.rand(2)
        y.sum().backward()
        after_backward = jitgrad.rand(2)
        jitgrad.manual_seed(5)
        plain = [jitgrad.rand(3, dtype=jitgrad.float64), jitgrad.rand(2), jitgrad.rand(2)]
        return y.detach(), x.grad, after_forward, after_backward, plain

    y, gradient, after_forward, after_backward, plain = mode.run(step, lambda: (_leaf(1.0, 1.0, 1.0),))
    np.testing.assert_array_equal(gradient.numpy(), y.numpy())
    np.testing.assert_array_equal(y.numpy(), plain[0].numpy())
    np.testing.assert_array_equal(after_forward.numpy(), plain[1].numpy())
    np.testing.assert_array_equal(after_backward.numpy(), plain[2].numpy())


@both
def test_random_numbers_may_differ_if_asked(use_reentrant: bool) -> None:
    jitgrad.manual_seed(5)
    x = _leaf(1.0, 1.0, 1.0)
    y = checkpoint(
        lambda x: x * jitgrad.rand(3, dtype=jitgrad.float64), x, use_reentrant=use_reentrant, preserve_rng_state=False
    )
    y.sum().backward()
    assert x.grad.tolist() != y.tolist()


@both
def test_the_memory_is_free_between_forward_and_backward(mode: Mode, use_reentrant: bool) -> None:
    """The intermediate values of the checkpointed part do not outlive it; those of the plain one do."""

    def storages_alive(run: Callable[..., Any], x: Any) -> int:
        kept: list[weakref.ref[Any]] = []

        def function(x: Any) -> Any:
            for _ in range(4):
                x = x.sin().exp()
                kept.append(weakref.ref(x))
            return x.sum()

        loss = run(function, x)
        loss.item()  # a trace gives memory to what is alive now
        first_run = kept[:4]
        alive = sum(r() is not None for r in first_run[:-1])
        loss.backward()
        return alive

    def step(x: Any) -> Any:
        checked = storages_alive(lambda f, x: checkpoint(f, x, use_reentrant=use_reentrant), x)
        first, x.grad = x.grad, None
        storages_alive(lambda f, x: f(x), x)
        return checked, first, x.grad

    checked, first, second = mode.run(step, lambda: (_leaf(0.3, 0.6),))
    assert checked == 0
    np.testing.assert_allclose(first.numpy(), second.numpy())


def test_what_is_saved_is_freed() -> None:
    """The tensors that Nodes save, not only the user's handles: their storages are gone after forward."""
    from_plain, from_checkpoint = [_saved_bytes(is_checkpointed) for is_checkpointed in (False, True)]
    assert (from_plain, from_checkpoint) == (8 * 8 * 1000, 0)


def _saved_bytes(is_checkpointed: bool) -> int:
    """What the Nodes of a chain of eight exponentials keep alive."""
    def function(x: Any) -> Any:
        for _ in range(8):
            x = x.exp()
        return x.sum()

    x = jitgrad.zeros(1000, dtype=jitgrad.float64, requires_grad=True)
    loss = checkpoint(function, x, use_reentrant=False) if is_checkpointed else function(x)
    total, stack, done = 0, [loss.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in done:
            continue
        done.add(node)
        stack.extend(n for n, _ in node.next_functions)
        for saved in getattr(node, "saved", None) or ():
            tensor = getattr(saved, "tensor", None)
            if tensor is not None and tensor._storage is not None:
                total += tensor._aval.nbytes
    return total


@both
@pytest.mark.filterwarnings("ignore:None of the inputs")  # the inner reentrant one runs inside the outer's no_grad
def test_nested(mode: Mode, use_reentrant: bool) -> None:
    def inner(x: Any) -> Any:
        return x.sin().exp()

    def outer(x: Any) -> Any:
        return checkpoint(inner, x * 2, use_reentrant=use_reentrant).cos()

    def step(x: Any) -> Any:
        checkpoint(outer, x, use_reentrant=use_reentrant).sum().backward()
        checked, x.grad = x.grad, None
        inner(x * 2).cos().sum().backward()
        return checked, x.grad

    checked, plain = mode.run(step, lambda: (_leaf(0.3, 0.6),))
    np.testing.assert_allclose(checked.numpy(), plain.numpy())


def test_grad_and_inputs_and_higher_derivatives(mode: Mode) -> None:
    def step(x: Any, w: Any) -> Any:
        y = checkpoint(_three_steps, x, w, use_reentrant=False).sum()
        (first,) = grad(y, x, create_graph=True)
        (second,) = grad(first.sum(), x, retain_graph=True)
        y.backward(inputs=[w])
        plain = _three_steps(x, w).sum()
        (plain_first,) = grad(plain, x, create_graph=True)
        (plain_second,) = grad(plain_first.sum(), x)
        return first, plain_first, second, plain_second, x.grad, w.grad

    first, plain_first, second, plain_second, x_grad, w_grad = mode.run(step, lambda: (_leaf(0.1, 0.5), _leaf(1, 2)))
    np.testing.assert_allclose(first.detach().numpy(), plain_first.detach().numpy())
    np.testing.assert_allclose(second.numpy(), plain_second.numpy())
    assert x_grad is None
    np.testing.assert_allclose(w_grad.numpy(), _expected([0.1, 0.5], [1.0, 2.0])[1])


@pytest.mark.row("B40", engine=(OUTSIDE, HOOKED))
def test_reentrant_checkpoint_refuses_chosen_inputs(mode: Mode) -> None:
    def step(x: Any) -> Any:
        messages = []
        for ask in (lambda y: grad(y, x), lambda y: y.backward(inputs=[x])):
            with pytest.raises(RuntimeError) as caught:
                ask(checkpoint(lambda x: x * x, x, use_reentrant=True).sum())
            messages.append(str(caught.value))
        checkpoint(lambda x: x * x, x, use_reentrant=True).sum().backward()
        return messages, x.grad.tolist()

    messages, gradient = mode.run(step, lambda: (_leaf(1.0, 2.0),))
    assert messages == [
        "When use_reentrant=True, jitgrad.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
        "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() "
        "without passing the `inputs` argument."
    ] * 2
    assert gradient == [2.0, 4.0]


def test_backward_twice_recomputes_twice(mode: Mode) -> None:
    def step(x: Any) -> Any:
        counted = _Counted(lambda x: x.exp().sin())
        y = checkpoint(counted, x, use_reentrant=False).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            y.backward()
        return counted.begun, x.grad

    runs, gradient = mode.run(step, lambda: (_leaf(0.5),))
    assert runs == 3
    np.testing.assert_allclose(gradient.numpy(), 2 * np.cos(np.exp(0.5)) * np.exp(0.5))


@pytest.mark.parametrize(("early_stop", "ends"), [(True, 1), (False, 2)])
def test_the_second_run_stops_early(mode: Mode, early_stop: bool, ends: int) -> None:
    def step(x: Any) -> Any:
        results = []
        for overridden in (False, True):
            counted = _Counted(lambda x: x.exp() + 1)
            with set_checkpoint_early_stop(early_stop) if overridden else contextlib.nullcontext():
                y = checkpoint(counted, x, use_reentrant=False, early_stop=early_stop or overridden)
            y.sum().backward()
            results.append((counted.begun, counted.ended))
        return results

    assert mode.run(step, lambda: (_leaf(0.5),)) == [(2, ends)] * 2


def test_backward_inside_the_checkpointed_function(mode: Mode) -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        z = y.cos()
        (gx,) = grad(z.sum(), x, create_graph=False)
        return x.cos() * gx

    def step(x: Any) -> Any:
        checkpoint(function, x, use_reentrant=False).sum().backward()
        checked, x.grad = x.grad, None
        function(x).sum().backward()
        return checked, x.grad

    checked, plain = mode.run(step, lambda: (_leaf(0.3, 0.6),))
    np.testing.assert_allclose(checked.numpy(), plain.numpy())


def test_custom_function_inside(mode: Mode) -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    def step(x: Any) -> Any:
        checkpoint(lambda x: Exp.apply(x.sin()) * x, x, use_reentrant=False).sum().backward()
        return x.grad

    gradient = mode.run(step, lambda: (_leaf(0.3),))
    np.testing.assert_allclose(gradient.numpy(), np.exp(np.sin(0.3)) * (1 + 0.3 * np.cos(0.3)))


def test_contexts(mode: Mode) -> None:
    def step(x: Any) -> Any:
        entered: list[str] = []

        @contextlib.contextmanager
        def note(name: str) -> Iterator[None]:
            entered.append(name)
            yield
            entered.append(f"end of {name}")

        y = checkpoint(
            lambda x: x.exp() + 1, x, use_reentrant=False, context_fn=lambda: (note("first"), note("second")),
            early_stop=False,
        )  # fmt: skip
        entered.append("backward")
        y.sum().backward()
        return entered

    expected = ["first", "end of first", "backward", "second", "end of second"]
    assert mode.run(step, lambda: (_leaf(0.5),)) == expected


def test_no_grad(mode: Mode) -> None:
    def step(x: Any) -> Any:
        with jitgrad.no_grad():
            y = checkpoint(lambda x: x * 2, x, use_reentrant=False)
        return y.requires_grad, y.tolist()

    assert mode.run(step, lambda: (_leaf(0.5),)) == (False, [1.0])


@both
def test_sequential(mode: Mode, use_reentrant: bool) -> None:
    def step(x: Any, model: nn.Sequential) -> Any:
        y = checkpoint_sequential(model, 2, x, use_reentrant=use_reentrant)
        y.sum().backward()
        checked = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        return checked, [p.grad for p in model.parameters()]

    def make() -> tuple[Any, ...]:
        jitgrad.manual_seed(0)
        layers = [nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1)]
        return jitgrad.ones(3, 4, requires_grad=True), nn.Sequential(*layers)

    checked, plain = mode.run(step, make)
    for got, expected in zip(checked, plain, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)


class _Fickle:
    """A function that is another one the second time."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        self.functions = list(functions)

    def __call__(self, x: Any) -> Any:
        return self.functions.pop(0)(x)


FICKLE = {
    "more": (
        lambda: _Fickle(lambda x: x.exp() + 1, lambda x: x.exp().sin().exp()),
        "trying to save more tensors during recomputation than during the original forward pass",
    ),
    "fewer": (
        lambda: _Fickle(lambda x: x.exp().sin(), lambda x: x.exp() + 1),
        "A different number of tensors was saved during the original forward and recomputation.\n"
        "Number of tensors saved during forward: 2\nNumber of tensors saved during recomputation: 1.",
    ),
    "others": (
        lambda: _Fickle(lambda x: x.exp(), lambda x: x.float().exp()),
        "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
        "tensor at position 0:\nsaved metadata: {'shape': torch.Size([1]), 'dtype': jitgrad.float64",
    ),
}


@pytest.mark.parametrize("kind", FICKLE)
def test_a_function_that_does_not_repeat_itself(mode: Mode, kind: str) -> None:
    make, message = FICKLE[kind]

    def step(x: Any) -> Any:
        y = checkpoint(make(), x, use_reentrant=False, early_stop=False)
        with pytest.raises(CheckpointError) as caught:
            y.sum().backward()
        (x * x).sum().backward()  # the next one works
        return str(caught.value), x.grad.tolist()

    text, gradient = mode.run(step, lambda: (_leaf(0.5),), is_steady=False)
    assert text.startswith(f"jitgrad.utils.checkpoint: {message}")
    assert "debug=True" in text
    assert gradient == [1.0]


def test_debug_says_where(mode: Mode) -> None:
    def step(x: Any) -> Any:
        texts = []
        for debug, override in ((True, None), (False, True)):
            with set_checkpoint_debug_enabled(override):
                y = checkpoint(FICKLE["fewer"][0](), x, use_reentrant=False, early_stop=False, debug=debug)
            with pytest.raises(CheckpointError) as caught:
                y.sum().backward()
            texts.append(str(caught.value))
        return texts

    for text in mode.run(step, lambda: (_leaf(0.5),), is_steady=False):
        assert "Tensors saved by the original forward:\n  0: float64[1]" in text
        assert "Tensors saved by the recomputation:\n  0: float64[1]" in text
        assert "test_checkpoint.py" in text


def test_determinism_check_can_be_left_out() -> None:
    x = _leaf(0.5)
    y = checkpoint(FICKLE["others"][0](), x, use_reentrant=False, determinism_check="none")
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(0.5), rtol=1e-6)


def test_saved_tensors_can_be_unpacked_once() -> None:
    class ReadsTwice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    y = checkpoint(lambda x: ReadsTwice.apply(x * 2), _leaf(0.5), use_reentrant=False)
    with pytest.raises(CheckpointError, match="was already unpacked once"):
        y.sum().backward()


def test_wrong_arguments() -> None:
    x = _leaf(1.0)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        assert checkpoint(lambda x: x * 2, x).grad_fn.name() == "CheckpointFunctionBackward"
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x * 2, x.detach(), use_reentrant=True)
    with pytest.raises(ValueError, match=r"^Unexpected keyword arguments: a,b$"):
        checkpoint(lambda x: x, x, use_reentrant=True, a=1, b=2)
    with pytest.raises(ValueError, match="`context_fn` or `debug` is only supported when use_reentrant=False"):
        checkpoint(lambda x: x, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lambda x: x, x, use_reentrant=False, determinism_check="all")
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True, this checkpoint"):
        checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward()


@both
def test_errors_of_the_function(mode: Mode, use_reentrant: bool) -> None:
    def step(x: Any) -> Any:
        def fails(_: Any) -> Any:
            raise LookupError("first")

        texts = []
        with pytest.raises(LookupError) as caught:
            checkpoint(fails, x, use_reentrant=use_reentrant)
        texts.append(str(caught.value))
        y = checkpoint(_Fickle(lambda x: x.exp(), fails), x, use_reentrant=use_reentrant)
        with pytest.raises(LookupError) as caught:
            y.sum().backward()
        texts.append(str(caught.value))
        checkpoint(lambda x: x * x, x, use_reentrant=use_reentrant).sum().backward()
        return texts, x.grad.tolist()

    assert mode.run(step, lambda: (_leaf(1.0),)) == (["first", "first"], [2.0])


def test_an_overwritten_argument_is_noticed(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        z = checkpoint(lambda y: y.exp(), y, use_reentrant=False)
        y.add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            z.sum().backward()
        return x.grad

    assert mode.run(step, lambda: (_leaf(1.0),)) is None


@both
def test_the_graph_is_freed(mode: Mode, use_reentrant: bool) -> None:
    alive: list[weakref.ref[Any]] = []

    def step(x: Any) -> Any:
        y = checkpoint(lambda x: x.exp().sin(), x * 2, use_reentrant=use_reentrant).sum()
        alive.append(weakref.ref(y.grad_fn.next_functions[0][0]))
        return y

    gc.collect()
    gc.disable()
    try:
        y = mode.run(step, lambda: (_leaf(1.0),))
        y.backward()
        del y
        assert [r() for r in alive if r() is not None] == []
    finally:
        gc.enable()
