"""``autograd.Function`` against PyTorch: the same programs, eagerly and in a compiled step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from custom_functions import Program, declares, function, saves, second_backward
from modes import Mode
from parity import J as _J
from parity import assert_same, const, leaf, plain, same, torch

import jitgrad
from jitgrad.autograd import Function, gradcheck, gradgradcheck
from jitgrad.autograd.function import InplaceFunction


def _class_attributes(lib: Any) -> Any:
    class Scale(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, k: float, name: str) -> Any:
            ctx.k, ctx.name = k, name
            ctx.save_for_backward(x, None)
            return x * k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.k, None, None, None  # superfluous None is fine

    x = leaf(lib, [1.0, 2.0])
    y = Scale.apply(x, 3.0, "mine")
    node = y.grad_fn
    seen = [
        type(node).__name__,
        node.k,
        node.name,
        repr(node).split(" object")[0].split(".")[-1].strip("<"),
        node.needs_input_grad,
        node.metadata,
        node.saved_tensors[0] is x,
        node.saved_tensors[1],
        len(node.next_functions),
        node.next_functions[0][1],
        Scale._backward_cls._forward_cls is Scale,
        node.requires_grad,
        plain(node.apply(const(lib, [1.0, 1.0]))[0]),
    ]
    y.sum().backward()
    return [*seen, x.grad]


def _keyword_arguments(lib: Any) -> Any:
    fn = function(lib, lambda ctx, x, y=2.0: x * y, lambda ctx, g: (g, g * 2))
    x, y = leaf(lib, [1.0]), leaf(lib, [3.0])
    out = fn.apply(x, y=y)
    out.sum().backward()
    return x.grad, y.grad, out.grad_fn.needs_input_grad


def _setup_context(lib: Any) -> Any:
    seen: list[Any] = []

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, k = inputs
        seen.extend([k, output.requires_grad, lib.is_grad_enabled()])
        ctx.k = k
        ctx.save_for_backward(x, output)

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * ctx.k * y / x, None

    fn = function(lib, lambda x, k=3.0: x**k, backward, setup_context=staticmethod(setup_context))
    x = leaf(lib, [1.0, 2.0])
    (g,) = lib.autograd.grad(fn.apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    return seen, g, x.grad, fn.apply(x, k=2.0)


def _outputs_of_all_kinds(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        counts = lib.ones(2, dtype=lib.int64)
        extra = x * 5
        ctx.mark_non_differentiable(extra)
        return x * 2, "text", None, counts, extra

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend(grads)
        return grads[0] * 2

    outs = function(lib, forward, backward).apply(leaf(lib, [1.0, 2.0]))
    outs[0].sum().backward()
    return seen, outs[1:3], [x.requires_grad for x in (outs[0], outs[3], outs[4])], outs[4].grad_fn


def _undefined_gradients(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, materialize: bool) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 1, x * 2

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        seen.append((first, second))
        return second, None

    fn = function(lib, forward, backward)
    for materialize in (True, False):
        fn.apply(leaf(lib, [1.0, 2.0]), materialize)[1].sum().backward()
    return seen


def _returned_inputs(lib: Any) -> Any:
    x, free = leaf(lib, [1.0, 2.0]), const(lib, [1.0, 2.0])
    fn = function(lib, lambda ctx, x: x, lambda ctx, g: g * 3)
    y, z = fn.apply(x), fn.apply(free)
    with lib.no_grad():
        w = fn.apply(x)
    y.sum().backward()
    facts = [y is x, y._is_view(), y._base is x, z is free, z._is_view(), z.requires_grad, w.requires_grad, w is x]
    return facts, x.grad, y.grad_fn.next_functions[0][1]


def _one_output_twice(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append((a, b))
        return a + b * 2

    x = leaf(lib, [1.0])
    a, b = function(lib, forward, backward).apply(x)
    (a + b * 10).sum().backward()
    return a is b, a.output_nr, seen, x.grad


def _saved_of_all_kinds(lib: Any) -> Any:
    x = leaf(lib, [0.5, 1.0]) * 1
    y = function(lib, saves("x", "middle", "out", "none")).apply(x)
    saved = y.grad_fn.saved_tensors
    histories = [saved[0].grad_fn is x.grad_fn, saved[1].requires_grad, saved[2].grad_fn is y.grad_fn]
    return histories, saved[2] is y, saved[3], saved[:3]


def _double_backward(picks: str) -> Program:
    """The derivative of exp(2x) from its input or from its output; differentiated twice."""

    def program(lib: Any) -> Any:
        def backward(ctx: Any, g: Any) -> Any:
            (saved,) = ctx.saved_tensors
            return g * 2 * ((saved * 2).exp() if picks == "x" else saved)

        x = leaf(lib, [0.1, 0.2])
        y = function(lib, saves(picks), backward).apply(x)
        (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = lib.autograd.grad(second.sum(), x)
        return first, second, third

    return program


def _writes(lib: Any) -> Any:
    """In place: on a tensor, on a view, and used for the second derivative."""

    def forward(ctx: Any, x: Any) -> Any:
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    fn = function(lib, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    results = []
    for pick in (lambda t: t, lambda t: t[:2], lambda t: t[1:3].view(2, 1)):
        z = leaf(lib, [0.1, 0.2, 0.3])
        base = z * 1
        view = pick(base)
        out = fn.apply(view)
        (g,) = lib.autograd.grad((base * base).sum(), z, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), z)
        results += [out is view, view._version, out._is_view(), base, g, h]
    return results


def _dirty_without_gradient(lib: Any) -> Any:
    x = const(lib, [1.0, 2.0])
    (out,) = function(lib, declares(mark_dirty=("x",), returns=("x",), writes=True)).apply(x)
    return out is x, x, x._version, out.requires_grad


def _foreign_leaf(lib: Any) -> Any:
    inner = leaf(lib, [5.0])
    x = leaf(lib, [1.0])
    y = function(lib, lambda ctx, x: inner, lambda ctx, g: g * 7).apply(x)
    y.sum().backward()
    return y is inner, inner.is_leaf, x.grad


def _gradients_are_cast_and_summed(lib: Any) -> Any:
    results = []
    for make in (lambda: lib.ones(2), lambda: lib.ones(5, 2), lambda: lib.ones(2, dtype=lib.int64), lambda: None):
        x = leaf(lib, [1.0, 2.0])
        function(lib, lambda ctx, x: x * 2, lambda ctx, g, make=make: make()).apply(x).sum().backward()
        results.append(x.grad)
    return results


def _hooks(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.register_hook(lambda grad_inputs, grad_outputs: seen.append(("forward's", *grad_inputs, *grad_outputs)))
        return x * 2

    x = leaf(lib, [1.0])
    y = function(lib, forward, lambda ctx, g: g * 2).apply(x)
    y.register_hook(lambda g: seen.append(("tensor", g)))
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0] + 1,))
    y.sum().backward()
    return seen, x.grad


def _errors_leave_nothing_behind(lib: Any) -> Any:
    def fails(ctx: Any, *args: Any) -> Any:
        raise ZeroDivisionError("no")

    x = leaf(lib, [1.0])
    results = []
    for fn in (function(lib, fails), function(lib, lambda ctx, x: x * 2, fails)):
        try:
            fn.apply(x).sum().backward()
        except ZeroDivisionError as error:
            results.append(str(error))
        results.append(lib.is_grad_enabled())
    return results, x.grad


def _boxed(lib: Any) -> Any:
    seen: list[Any] = []

    def backward(ctx: Any, grads: Any) -> Any:
        seen.append(type(grads).__name__)
        return grads.pop() * 2

    x = leaf(lib, [1.0])
    function(lib, lambda ctx, x: x * 2, backward, boxed_grads_call=True).apply(x).sum().backward()
    return seen, x.grad


def _no_graph(lib: Any) -> Any:
    x = leaf(lib, [1.0])
    kept: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        kept.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    fn = function(lib, forward)
    with lib.no_grad():
        y = fn.apply(x)
    z = fn.apply(3.0 if lib is None else const(lib, [1.0]))
    in_list = function(lib, lambda ctx, xs: xs[0] * 2).apply([x])
    return (
        [y.requires_grad, z.requires_grad, in_list.requires_grad],
        [(ctx.needs_input_grad, ctx.saved_tensors, ctx.to_save) for ctx in kept],
    )


BEHAVIOURS: dict[str, Program] = {
    "attributes of the node": _class_attributes,
    "keyword arguments": _keyword_arguments,
    "setup_context": _setup_context,
    "outputs of all kinds": _outputs_of_all_kinds,
    "undefined gradients": _undefined_gradients,
    "returned inputs": _returned_inputs,
    "one output twice": _one_output_twice,
    "saved of all kinds": _saved_of_all_kinds,
    "double backward from the input": _double_backward("x"),
    "double backward from the output": _double_backward("out"),
    "writes in place": _writes,
    "dirty without gradient": _dirty_without_gradient,
    "foreign leaf": _foreign_leaf,
    "gradients are cast and summed": _gradients_are_cast_and_summed,
    "hooks": _hooks,
    "errors leave nothing behind": _errors_leave_nothing_behind,
    "boxed gradients": _boxed,
    "no graph": _no_graph,
    "second backward without saved tensors": lambda lib: second_backward(saves(), lambda ctx, g: g)(lib),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_same_as_pytorch(name: str) -> None:
    same(BEHAVIOURS[name])


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_same_in_a_compiled_step(name: str, mode: Mode) -> None:
    torch.set_grad_enabled(True)
    expected = plain(BEHAVIOURS[name](torch))
    assert_same(plain(mode.run(lambda: BEHAVIOURS[name](_J), is_steady=False)), expected)


@pytest.mark.parametrize("picks", ["x", "out"])
def test_gradcheck(picks: str) -> None:
    def backward(ctx: Any, g: Any) -> Any:
        (saved,) = ctx.saved_tensors
        return g * 2 * (saved if picks == "out" else (saved * 2).exp())

    fn = function(_J, saves(picks), backward)
    assert gradcheck(fn.apply, (leaf(_J, [0.1, 0.2]),))
    assert gradgradcheck(fn.apply, (leaf(_J, [0.1, 0.2]),))


def test_old_classes() -> None:
    class Old(InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Old(inplace=True).inplace
    assert issubclass(Old, Function)
    assert Old.apply(leaf(_J, [1.0])).grad_fn.name() == "OldBackward"


@pytest.mark.parametrize("name", ["next_functions", "saved_tensors", "hooks"])
def test_names_that_belong_to_the_node_cannot_be_taken(name: str) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        setattr(ctx, name, ())
        return x * 2

    with pytest.raises(AttributeError, match=name):
        function(_J, forward).apply(leaf(_J, [1.0]))


def test_the_example_of_the_documents() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S)
    assert example is not None
    names: dict[str, Any] = {"jitgrad": jitgrad, "x": leaf(_J, [0.5])}
    exec(compile(example.group(1), "functions.md", "exec"), names)
    names["y"].sum().backward()
    assert_same(plain(names["x"].grad), plain(names["y"]))
