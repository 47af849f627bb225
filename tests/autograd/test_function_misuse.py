"""Mistakes in custom Functions: both libraries refuse them, in the same words, or warn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from custom_functions import Program, declares, function, once, outcome, saves, second_backward
from modes import Mode
from parity import J as _J
from parity import leaf, torch


def _backward_returns(make: Any, forward: Any = lambda ctx, x: x * 2) -> Program:
    return lambda lib: function(lib, forward, lambda ctx, g: make(lib, g)).apply(leaf(lib, [1.0, 2.0])).sum().backward()


def _two_inputs(make: Any) -> Program:
    def program(lib: Any) -> Any:
        fn = function(lib, lambda ctx, x, y: x * 2, lambda ctx, g: make(lib, g))
        return fn.apply(leaf(lib, [1.0, 2.0]), 3.0).sum().backward()

    return program


def _applied(forward: Any, **attributes: Any) -> Program:
    return lambda lib: function(lib, forward, **attributes).apply(leaf(lib, [1.0, 2.0]) * 1)


def _written_later(which: str) -> Program:
    def program(lib: Any) -> Any:
        x = leaf(lib, [1.0, 2.0]) * 1
        y = function(lib, saves(which), lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        loss = y.sum()
        (x if which == "x" else y).add_(1)
        loss.backward()

    return program


def _differentiated_twice(lib: Any) -> Any:
    x, seed = leaf(lib, [1.0, 2.0]), leaf(lib, [1.0, 1.0])
    y = function(lib, saves("out"), once(lib, lambda ctx, g: g * ctx.saved_tensors[0])).apply(x)
    (g,) = lib.autograd.grad(y, x, seed, create_graph=True)
    g.sum().backward()


def _written_output(forward: Any, write: Callable[[Any, Any], None]) -> Program:
    def program(lib: Any) -> Any:
        x = leaf(lib, [1.0, 2.0]) * 1
        write(x, function(lib, forward).apply(x))

    return program


def _setup_saves_returned_input(lib: Any) -> Any:
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    return function(lib, lambda x: x, setup_context=staticmethod(setup_context)).apply(leaf(lib, [1.0]))


def _vjp_and_backward(lib: Any) -> Any:
    function(lib, lambda ctx, x: x * 2, vjp=staticmethod(lambda ctx, g: g)).apply(leaf(lib, [1.0])).sum().backward()


def _reads_saved_twice(lib: Any) -> Any:
    fn = function(lib, saves("x"), clear_saved_tensors_on_access=True)
    node = fn.apply(leaf(lib, [1.0])).grad_fn
    return node.saved_tensors, node.saved_tensors


MISUSES: dict[str, Program] = {
    "no forward": lambda lib: type("F", (lib.autograd.Function,), {}).apply(leaf(lib, [1.0])),
    "no backward": lambda lib: type("F", (lib.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    .apply(leaf(lib, [1.0]))
    .sum()
    .backward(),
    "backward and vjp": _vjp_and_backward,
    "called": lambda lib: lib.autograd.Function.__call__(None, 3),
    "too many gradients": _backward_returns(lambda lib, g: (g, g)),
    "too few gradients": _two_inputs(lambda lib, g: (g,)),
    "a gradient for a number": _two_inputs(lambda lib, g: (g, g)),
    "a number as gradient": _backward_returns(lambda lib, g: 3.0),
    "a list of gradients": _backward_returns(lambda lib, g: [g]),
    "a gradient of another shape": _backward_returns(lambda lib, g: lib.ones(3)),
    "a gradient too small": _backward_returns(lambda lib, g: lib.ones(1)),
    "saved number": _applied(declares(save_for_backward=("x", "3"))),
    "saved tuple": _applied(declares(save_for_backward=("pair",))),
    "saved for jvp: a number": _applied(declares(save_for_forward=("3",))),
    "dirty, not returned": _applied(declares(mark_dirty=("x",), writes=True)),
    "dirty leaf": lambda lib: function(lib, declares(mark_dirty=("x",), returns=("x",))).apply(leaf(lib, [1.0])),
    "dirty view of a leaf": lambda lib: function(lib, declares(mark_dirty=("x",), returns=("x",), writes=True)).apply(
        leaf(lib, [1.0, 2.0])[:1]
    ),
    "dirty view, two outputs": lambda lib: function(
        lib, declares(mark_dirty=("x",), returns=("x", "y"), writes=True)
    ).apply((leaf(lib, [1.0, 2.0]) * 1)[:1]),
    "graph freed": second_backward(saves("out"), lambda ctx, g: g * ctx.saved_tensors[0]),
    "graph freed, nothing saved": second_backward(saves(), lambda ctx, g: (ctx.saved_tensors, g)[1]),
    "differentiated twice": _differentiated_twice,
    "saved for setup_context and returned": _setup_saves_returned_input,
    "saved tensors read twice": _reads_saved_twice,
    "boxed gradients returned": lambda lib: function(lib, lambda ctx, x: x * 2, boxed_grads_call=True)
    .apply(leaf(lib, [1.0]))
    .sum()
    .backward(),
    "returned input is written": _written_output(lambda ctx, x: x, lambda x, y: y.add_(1)),
    "source of a returned input is written": _written_output(lambda ctx, x: x, lambda x, y: (x.add_(1), y.grad_fn)),
    "returned view is written": _written_output(lambda ctx, x: x.view(2, 1), lambda x, y: y.add_(1)),
    "one of two returned views is written": _written_output(lambda ctx, x: (x, x), lambda x, y: y[0].add_(1)),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_refused_in_pytorch_s_words(name: str) -> None:
    expected, got = outcome(MISUSES[name], torch), outcome(MISUSES[name], _J)
    assert isinstance(expected, str), f"PyTorch accepts it: {expected}"
    assert got == expected


@pytest.mark.parametrize("which", ["x", "out"])
def test_overwritten_saved_tensor(which: str) -> None:
    expected, got = outcome(_written_later(which), torch), outcome(_written_later(which), _J)
    assert got.replace("jitgrad.", "torch.").split("[")[0] == expected.split("[")[0]
    assert "is at version 1; expected version 0 instead" in got


@pytest.mark.parametrize("declaration", ["mark_dirty", "mark_non_differentiable"])
def test_declared_what_is_no_tensor(declaration: str) -> None:
    program = _applied(declares(**{declaration: ("3",)}))
    # PyTorch's text ends in a type name that it prints as nothing
    expected = outcome(program, torch)
    assert expected.startswith("RuntimeError: mark_")
    assert outcome(program, _J).startswith(expected)


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_in_a_compiled_step(name: str, mode: Mode) -> None:
    assert mode.run(lambda: outcome(MISUSES[name], _J), is_steady=False) == outcome(MISUSES[name], torch)


WARNINGS: dict[str, tuple[Program, type[Warning]]] = {
    "an instance": (lambda lib: type("F", (lib.autograd.Function,), {})(), DeprecationWarning),
    "dirty, no input": (
        _applied(lambda ctx, x: (y := x * 2, ctx.mark_dirty(y))[0]),
        UserWarning,
    ),
    "shared storage": (
        _applied(lambda ctx, x: (x * 2, ctx.mark_shared_storage())[0]),
        FutureWarning,
    ),
    "saved_variables": (lambda lib: _applied(lambda ctx, x: x * 2)(lib).grad_fn.saved_variables, DeprecationWarning),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name: str) -> None:
    program, category = WARNINGS[name]
    with pytest.warns(category) as expected:
        program(torch)
    with pytest.warns(category) as got:
        program(_J)
    text = str(expected[0].message).split(" (Triggered")[0]
    assert str(got[0].message).replace("__main__.", "") == text
    assert got[0].filename == __file__ or name in ("dirty, no input", "saved_variables", "shared storage")
